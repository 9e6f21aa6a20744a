//! A single run: components are found by what the program says of its transactions, and only what is
//! in one is read of its logs, made into events and checked.

use crate::chunks::Chunks;
use crate::follow::{Haste, Kept, Options, engine};
use crate::links::Links;
use crate::live::Live;
use crate::origins;
use crate::parts::Part;
use crate::questions::Questions;
use atomsan_engines::checker::Checker;
use atomsan_engines::demotion::Demotion;
use atomsan_recording::cells::Cells;
use atomsan_recording::format::{CHUNK_UNIT, FEW_CHUNKS};
use atomsan_recording::{Recording, Translator};
use atomsan_trace::{Batch, Op, StackId};
use std::io;
use std::time::{Duration, Instant};

/// How many transactions must have ended before components are looked for, while there are new edges.
const PATIENCE: usize = 64;
/// How many chunks there may be, and how many for each thread, before it is a matter of memory how soon
/// they go back.
const SOME_CHUNKS: usize = 8;
const FOR_THREAD: usize = 2;
/// How long the program waits for chunks that must be kept before it gets more: whoever has not come to the end of its
/// transaction may just not have been running. If all of them wait, there is nothing to wait for.
const SHORTLY: Duration = Duration::from_millis(40);
/// How often components are checked before a function goes that was found not to be atomic.
const DEMOTION: u32 = 2;
/// How many components are read at once.
const AT_ONCE: usize = 32;
/// How many records a chunk has, about.
const RECORDS: u64 = 4096;

/// A single run, as far as it has been followed.
#[derive(Debug, Default)]
pub(crate) struct Single {
    pub(crate) questions: Questions,
    pub(crate) links: Links,
    pub(crate) chunks: Chunks,
    translator: Option<Box<Translator>>,
    demotion: Demotion,
    /// How many findings have names for what they are about.
    named: usize,
    /// Records of components.
    pub(crate) records: u64,
    /// How many chunks there were when last looked at.
    kept: usize,
    /// Since when the program has had as many chunks as it may, and none could go back.
    full: Option<Instant>,
}

impl Single {
    /// Follows the program as far as it is now. Edges are in no hurry,
    /// and many at once cost less than each by itself; but logs take memory until they are read.
    pub(crate) fn advance(
        &mut self,
        live: &mut Live,
        checker: &mut Checker,
        kept: &mut Kept,
        options: &Options,
    ) -> io::Result<Haste> {
        let answered = self.questions.answer(live, options)?;
        live.look_at_clocks()?;
        let news = self.links.advance(live)?;
        self.chunks.look(live)?;
        if self.links.is_due(PATIENCE, news) {
            self.check(live, checker, options)?;
            self.links.rest();
        }
        let (before, was) = (self.chunks.count(), self.kept);
        let crowded = before > SOME_CHUNKS + FOR_THREAD * live.slots();
        if crowded {
            self.links.sweep();
        } else {
            self.links.tidy();
        }
        if self.links.is_settled() {
            live.settle(self.links.edges)?;
        }
        let keep = |slot, position, words: &[u64]| kept.keep(slot, position, words);
        let keeps = options.keep_all;
        let most = (options.logs / CHUNK_UNIT).max(FEW_CHUNKS);
        // The program goes on while some of them are forgotten.
        if (self.chunks).advance(live, &self.links, most / 4 * 3, keep, keeps)? {
            self.links.cut();
        }
        let gave = before - self.chunks.count();
        self.kept = self.chunks.count();
        self.make_room(live, gave, most)?;
        Ok(if answered || crowded && gave > 0 {
            Haste::Now
        } else if news || before > was {
            Haste::Soon
        } else {
            Haste::Later
        })
    }

    /// Lets the program have more chunks if it has waited for some that must be kept.
    fn make_room(&mut self, live: &mut Live, gave: usize, most: usize) -> io::Result<()> {
        if gave > 0 || !live.is_short_of(self.chunks.count(), most) {
            self.full = None;
            return Ok(());
        }
        let has_waited = self.full.get_or_insert_with(Instant::now).elapsed() > SHORTLY;
        if has_waited || live.is_stuck() {
            self.full = None;
            live.allow(self.chunks.count(), most)?;
        }
        Ok(())
    }

    /// The program has ended.
    pub(crate) fn finish(
        &mut self,
        live: &mut Live,
        checker: &mut Checker,
        kept: &mut Kept,
        options: &Options,
    ) -> io::Result<()> {
        while self.advance(live, checker, kept, options)? != Haste::Later {}
        self.links.finish();
        self.check(live, checker, options)?;
        self.introduce(checker, options);
        if options.keep_all {
            let keep = |slot, position, words: &[u64]| kept.keep(slot, position, words);
            self.chunks.rest(live, keep)?;
        }
        Ok(())
    }

    /// How many records were forgotten, about.
    pub(crate) fn forgotten(&self) -> u64 {
        self.chunks.forgotten * RECORDS
    }

    /// Checks the components that are new.
    fn check(
        &mut self,
        live: &mut Live,
        checker: &mut Checker,
        options: &Options,
    ) -> io::Result<()> {
        let components = self.links.components();
        // Each chunk is read once for many of them.
        for some in components.chunks(AT_ONCE) {
            for parts in self.chunks.parts(live, some)? {
                if parts.is_empty() {
                    continue;
                }
                self.check_component(live, checker, options, parts)?;
            }
        }
        let largest = components.iter().map(Vec::len).max();
        if largest > Some(options.component_limit) {
            self.links.cut();
        }
        if options.demote && !components.is_empty() {
            self.demote(live, checker)?;
        }
        Ok(())
    }

    fn check_component(
        &mut self,
        live: &mut Live,
        checker: &mut Checker,
        options: &Options,
        parts: Vec<Part>,
    ) -> io::Result<()> {
        let recording = Recording::of_pieces(parts.iter().map(Part::piece), "");
        // A transaction that does not end is all of a program's logs: no more than one copy of them.
        drop(parts);
        self.records += recording.len() as u64 / 16;
        let translator = self.introduce(checker, options);
        let mut batch = translator.replay(&recording);
        drop(recording);
        checker.renew(engine());
        checker.batch(&mut batch);
        checker.finish();
        self.name_findings(live, checker, options)
    }

    /// Names what findings are about that are new.
    fn name_findings(
        &mut self,
        live: &mut Live,
        checker: &mut Checker,
        options: &Options,
    ) -> io::Result<()> {
        let findings = checker.runs().iter().flat_map(|run| run.findings.list());
        let news = findings.skip(self.named);
        let steps = news
            .inspect(|_| self.named += 1)
            .flat_map(|one| &one.witness);
        let ops: Vec<Op> = steps.map(|step| step.event.op).collect();
        if ops.is_empty() {
            return Ok(());
        }
        let mut named = self.introduce(checker, options).name(ops.into_iter());
        let mut unknown = named.unknown();
        if !unknown.is_empty() {
            let mut origins = origins::of_memory(live, &self.links.calls, &mut unknown)?;
            if !unknown.is_empty() {
                origins.extend(self.chunks.of_stacks(live, &unknown)?);
            }
            let translator = self.introduce(checker, options);
            translator.name_again(&mut named, &origins);
        }
        checker.define(&mut Batch {
            definitions: named.definitions,
            ..Batch::default()
        });
        checker.name(named.vars, named.locks);
        Ok(())
    }

    /// The translator, which knows all threads that there are, and so does the checker.
    fn introduce(&mut self, checker: &mut Checker, options: &Options) -> &mut Translator {
        let questions = &self.questions;
        let translator = self.translator.get_or_insert_with(|| {
            let mut translator = Translator::new(
                questions.symbols(),
                Cells::default(),
                options.recording.clone(),
            );
            // The first thread is started by nobody.
            translator.fork(0, std::iter::empty());
            checker.define(&mut translator.take());
            Box::new(translator)
        });
        for record in self.links.names.drain(..) {
            translator.name_thread(&record);
        }
        for (record, calls) in self.links.forks.drain(..) {
            let (child, site) = translator.fork(record.subject, calls.into_iter());
            checker.define(&mut translator.take());
            checker.spawn(child, site, StackId::EMPTY);
        }
        for (thread, name) in translator.take_renamed() {
            checker.rename_thread(thread, &name);
        }
        translator
    }

    /// Functions that were found not to be atomic are no regions from now on.
    fn demote(&mut self, live: &Live, checker: &mut Checker) -> io::Result<()> {
        let translator = self.translator.as_deref();
        let before = checker.names().spec().demotions();
        self.demotion.demote(checker, DEMOTION, |function| {
            translator.is_some_and(|translator| translator.has_callees(function))
        });
        if checker.names().spec().demotions() != before {
            self.questions.answer_again(live, checker.names().spec())?;
        }
        Ok(())
    }
}
