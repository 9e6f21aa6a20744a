//! Following the logs of a program while it runs.
//!
//! A log is followed as far as it has been written; an edge that leads out of another log makes
//! that one be followed first (as in `atomsan_recording::order`). What a record means is looked at
//! only where transactions begin and end: outside of all regions, and where a region's function
//! is left. In between, records are copied.

use crate::first::First;
use crate::live::Live;
use crate::stream::{Make, Streaming};
use crate::transactions::{Calls, Transactions};
use atomsan_engines::checker::Checker;
use atomsan_engines::demotion::Demotion;
use atomsan_engines::doublechecker::runs::StaticInfo;
use atomsan_engines::doublechecker::{self, DoubleChecker};
use atomsan_engines::engine::Stat;
use atomsan_engines::regions::{Boundary, Regions};
use atomsan_recording::cells::Cells;
use atomsan_recording::file::{Counters, Piece, Record};
use atomsan_recording::format::{Kind, header};
use atomsan_recording::symbols::Symbols;
use atomsan_recording::{Recording, Translator};
use atomsan_trace::{FunctionId, Names, Spec, StackId};
use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;
use std::io;
use std::path::Path;
use std::time::Instant;

/// How many records are followed before somebody may look at what was found, more or less.
const AT_ONCE: u64 = 1 << 20;

/// What can be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whose functions are regions.
    pub recording: atomsan_recording::Options,
    /// Which functions are expected to be atomic.
    pub spec: Spec,
    /// How many bytes of logs may be kept.
    pub memory: usize,
    /// How many transactions a component may have before everything is forgotten.
    pub component_limit: usize,
    /// Whether this is a first run: the logs have nothing but edges, and components are not checked
    /// but told ([`Follower::static_info`]).
    pub first_run: bool,
    /// Whether everything that was read is kept, for [`Follower::recording`].
    pub keep_all: bool,
    /// Whether functions that were found not to be atomic are taken as such from then on, so that
    /// what they contain is checked by itself.
    pub demote: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            recording: atomsan_recording::Options::default(),
            spec: Spec::default(),
            memory: 256 << 20,
            component_limit: 256,
            first_run: false,
            keep_all: false,
            demote: true,
        }
    }
}

/// What was seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// What the runtime counted.
    pub counters: Counters,
    /// Records that were read.
    pub records: u64,
    /// Records that were forgotten because they did not fit into the budget.
    pub forgotten: u64,
}

/// Where a thread is.
#[derive(Debug, Default)]
struct Thread {
    calls: Calls,
    /// The region that is open, if one is: how many calls were open when it began, those of its
    /// function included, and whether it is inlined into the last of them.
    region: Option<Open>,
    /// How many of the calls have been looked at; those inside of a region are not.
    known: usize,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    depth: usize,
    inlined: bool,
    function: FunctionId,
}

/// All that was read of a slot, for the tests.
#[derive(Debug, Default)]
struct Kept {
    pieces: Vec<(usize, u64, Vec<u64>)>,
    /// How far each slot has been read.
    ends: Vec<u64>,
}

impl Kept {
    fn keep(&mut self, slot: usize, start: u64, words: &[u64]) {
        if self.ends.len() <= slot {
            self.ends.resize(slot + 1, 0);
        }
        if self.ends[slot] <= start {
            self.ends[slot] = start + 8 * words.len() as u64;
            self.pieces.push((slot, start, words.to_vec()));
        }
    }
}

/// The check of a program that is running.
pub struct Follower {
    options: Options,
    live: Live,
    maps: String,
    translator: Option<Translator>,
    pub(crate) checker: Checker,
    regions: Regions,
    threads: Vec<Thread>,
    transactions: Transactions,
    /// Granules that more than one thread has touched.
    shared: HashSet<u64, FxBuildHasher>,
    kept: Kept,
    records: u64,
    first: Option<First>,
    pub(crate) demotion: Demotion,
    /// If other engines check than the one for components: all events, as they come.
    pub(crate) streaming: Option<Streaming>,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower")
            .field("records", &self.records)
            .finish_non_exhaustive()
    }
}

fn engine() -> Vec<Box<dyn atomsan_engines::Engine>> {
    vec![Box::new(DoubleChecker::new(
        doublechecker::Options::default(),
    ))]
}

impl Follower {
    /// Follows the recording in a file; `None` if there is nothing in it yet.
    pub fn open(path: &Path, options: Options) -> io::Result<Option<Follower>> {
        let Some(live) = Live::open(path)? else {
            return Ok(None);
        };
        Ok(Some(Follower {
            checker: Checker::new(Names::new(options.spec.clone()), engine(), false),
            transactions: Transactions::default(),
            first: options.first_run.then(First::default),
            options,
            live,
            maps: String::new(),
            translator: None,
            regions: Regions::default(),
            threads: Vec::new(),
            shared: HashSet::default(),
            kept: Kept::default(),
            records: 0,
            demotion: Demotion::default(),
            streaming: None,
        }))
    }

    /// Gives all events to engines that `make` makes, instead of components to one.
    #[must_use]
    pub fn with_engines(mut self, make: Make) -> Follower {
        let names = Names::new(self.options.spec.clone());
        self.checker = Checker::new(names, make(), false);
        self.streaming = Some(Streaming::new(make));
        self
    }

    /// Whether all events are given to engines.
    pub fn is_streaming(&self) -> bool {
        self.streaming.is_some()
    }

    /// What was found before the check started over, because there were too many variables; each
    /// is given once.
    pub fn take_chapters(&mut self) -> Vec<Checker> {
        let streaming = self.streaming.as_mut();
        streaming.map_or_else(Vec::new, Streaming::take_chapters)
    }

    /// Functions that were found not to be atomic are taken as such from now on.
    pub(crate) fn demote(&mut self) {
        if !self.options.demote {
            return;
        }
        let (streaming, translator) = (&self.streaming, &self.translator);
        self.demotion.demote(&mut self.checker, |function| {
            let stream = streaming.as_ref().and_then(Streaming::stream);
            match (stream, translator) {
                (Some(stream), _) => stream.has_callees(function),
                (None, Some(translator)) => translator.has_callees(function),
                (None, None) => false,
            }
        });
    }

    /// Follows all logs as far as they are written now; whether there was anything.
    pub fn advance(&mut self) -> io::Result<bool> {
        if let Some(first) = &mut self.first {
            return first.advance(&mut self.live, &self.options);
        }
        let start = self.records;
        self.see_threads()?;
        let slots = self.threads.len();
        // Chunks have positions in the order in which they were handed out, so what is furthest
        // behind is about the oldest. A log that is followed far ahead of the others would keep
        // alive what they will end.
        while let Some(slot) = (1..slots)
            .filter(|&slot| self.live.has_more(slot))
            .min_by_key(|&slot| self.live.position(slot))
            .filter(|_| self.records - start < AT_ONCE)
        {
            let before = self.live.position(slot);
            self.follow(slot)?;
            if self.live.position(slot) == before {
                break;
            }
        }
        let news = self.records > start;
        if self.streaming.is_some() {
            self.stream_on(Instant::now());
        } else if !news {
            self.check();
        }
        Ok(news)
    }

    /// Looks which threads there are, and how far they are.
    fn see_threads(&mut self) -> io::Result<()> {
        self.live.look()?;
        let slots = self.live.slots();
        self.transactions.resize(slots);
        if self.threads.len() < slots {
            self.threads.resize_with(slots, Thread::default);
        }
        Ok(())
    }

    /// Checks and drops what has become enough.
    fn tidy(&mut self) {
        let most = self.options.memory / 8;
        let heavy = self.transactions.is_heavy(most);
        if heavy || self.transactions.is_due() {
            self.check();
        }
        if heavy && self.transactions.tidy(most) {
            let words = self.cut();
            self.transactions.counts.forgotten += words as u64 / 2;
        }
    }

    /// The program has ended, and so do all transactions that are open.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Some(first) = &mut self.first {
            return first.finish(&mut self.live, &self.options);
        }
        while self.advance()? {}
        if self.streaming.is_some() {
            self.finish_stream();
            return Ok(());
        }
        for slot in 1..self.threads.len() {
            self.transactions.close(slot);
        }
        self.check();
        Ok(())
    }

    /// Follows a log, and others as far as its edges ask for.
    fn follow(&mut self, slot: usize) -> io::Result<()> {
        let mut following = vec![(slot, u64::MAX)];
        while let Some(&(slot, until)) = following.last() {
            match self.run(slot, until)? {
                None => {
                    following.pop();
                    // A log that ends before an edge out of it was damaged.
                    let short = until != u64::MAX && self.live.position(slot) < until;
                    if let Some(&(waits, _)) = following.last().filter(|_| short) {
                        self.skip(waits)?;
                    }
                }
                Some((from, position)) => {
                    let circle = following.iter().any(|&(slot, _)| slot == from);
                    if from < self.threads.len() {
                        self.live.look_at(from)?;
                    } else {
                        // It has started since.
                        self.see_threads()?;
                    }
                    if circle || from >= self.threads.len() {
                        // No edge of the runtime is like that.
                        self.skip(slot)?;
                    } else {
                        following.push((from, position));
                    }
                }
            }
        }
        Ok(())
    }

    /// Passes over an edge that cannot be followed.
    fn skip(&mut self, slot: usize) -> io::Result<()> {
        let (words, at, _) = self.live.take(slot)?;
        let after = (at + Kind::Edge.words()).min(words.len());
        self.live.put(slot, words, after);
        Ok(())
    }

    /// Runs through a log until a position, or through what is at hand of it; or until another one
    /// has to be followed to a position.
    fn run(&mut self, slot: usize, until: u64) -> io::Result<Option<(usize, u64)>> {
        loop {
            let (words, mut at, start) = self.live.take(slot)?;
            if at >= words.len() {
                self.live.put(slot, words, at);
                return Ok(None);
            }
            let started = match &self.streaming {
                Some(streaming) => streaming.stream().is_some(),
                None => self.translator.is_some(),
            };
            if !started {
                self.maps = self.live.maps()?;
                let symbols = Symbols::of_maps(std::iter::once(&*self.maps));
                let options = self.options.recording.clone();
                if let Some(streaming) = &mut self.streaming {
                    streaming.start(symbols, options, self.options.memory);
                } else {
                    self.translator = Some(Translator::new(symbols, Cells::default(), options));
                }
            }
            if self.options.keep_all && at == 0 {
                self.kept.keep(slot, start, &words);
            }
            let mut waits = None;
            while let Some(record) = Record::parse(&words[at..], start + 8 * at as u64) {
                if record.position >= until {
                    self.live.put(slot, words, at);
                    return Ok(None);
                }
                let len = record.kind.words();
                if record.kind == Kind::Edge {
                    let (from, position) = (record.second as usize, record.subject);
                    if self.live.position(from) < position {
                        waits = Some((from, position));
                        break;
                    }
                    if self.streaming.is_none() {
                        self.transactions
                            .edge(slot, record.position, from, position);
                    }
                }
                match &mut self.streaming {
                    Some(streaming) => {
                        self.records += 1;
                        streaming.push(slot, &record);
                    }
                    None => self.record(slot, &record, &words[at..at + len]),
                }
                at += len;
            }
            if waits.is_none() {
                at = words.len();
            }
            self.live.put(slot, words, at);
            match self.streaming {
                Some(_) => self.stream_what_is_due(),
                None => self.tidy(),
            }
            if waits.is_some() || until == u64::MAX {
                return Ok(waits);
            }
        }
    }

    /// Follows one record.
    #[inline]
    fn record(&mut self, slot: usize, record: &Record, words: &[u64]) {
        self.records += 1;
        let thread = &mut self.threads[slot];
        let depth = thread.calls.frames.len();
        // Whether nothing but the end of the region's function can end the region.
        let inside = thread
            .region
            .is_some_and(|open| !open.inlined || depth > open.depth);
        match record.kind {
            Kind::Enter => {
                if !inside {
                    self.look(slot, record);
                    self.threads[slot].known = depth + 1;
                }
                self.keep(slot, record, words);
                let frame = (record.subject, record.second);
                self.threads[slot].calls.frames.push(frame);
            }
            Kind::Exit => {
                thread.calls.frames.pop();
                let known = thread.known >= depth;
                thread.known = thread.known.min(depth.saturating_sub(1));
                self.keep(slot, record, words);
                if known {
                    self.look(slot, record);
                }
            }
            Kind::Wait | Kind::Arrive => {
                self.keep(slot, record, words);
                if let Some(open) = self.threads[slot].region {
                    self.end(slot);
                    self.begin(slot, record, Some(open));
                }
            }
            Kind::ThreadStart | Kind::Continue => {
                self.end(slot);
                let [low, size] = record.extra;
                self.threads[slot] = Thread {
                    calls: Calls {
                        thread: [record.subject, low, size],
                        frames: Vec::new(),
                    },
                    region: None,
                    known: 0,
                };
                self.look(slot, record);
                self.begin(slot, record, None);
                self.keep(slot, record, words);
            }
            Kind::Unnamed => {
                let unnamed = record.subject.min(1 << 20) as usize;
                let frames = &mut self.threads[slot].calls.frames;
                frames.resize(depth + unnamed, (0, 0));
                self.threads[slot].known = depth + unnamed;
                self.look(slot, record);
            }
            Kind::Begin => {
                self.look(slot, record);
                self.keep(slot, record, words);
            }
            Kind::Fork => {
                if let Some(translator) = &mut self.translator {
                    let calls = thread.calls.frames.iter().rev().map(|frame| frame.0);
                    let calls = std::iter::once(record.pc()).chain(calls);
                    let (child, site) = translator.fork(record.subject, calls);
                    self.checker.define(&mut translator.take());
                    self.checker.spawn(child, site, StackId::EMPTY);
                }
                self.keep(slot, record, words);
            }
            Kind::ThreadName => {
                if let Some(translator) = &mut self.translator {
                    translator.name_thread(record);
                    for (thread, name) in translator.take_renamed() {
                        self.checker.rename_thread(thread, &name);
                    }
                }
            }
            Kind::End => {
                self.keep(slot, record, words);
                self.look(slot, record);
            }
            _ => {
                if !inside {
                    self.outside(slot, record);
                }
                self.keep(slot, record, words);
            }
        }
    }

    #[inline]
    fn keep(&mut self, slot: usize, record: &Record, words: &[u64]) {
        if self.transactions.keeps(slot) {
            let calls = &self.threads[slot].calls;
            self.transactions.keep(slot, record.position, words, calls);
        }
    }

    /// Something that is not inside of a function that is a region: it may be inlined into one
    /// that is none.
    fn outside(&mut self, slot: usize, record: &Record) {
        let Some(range) = record.range() else {
            return;
        };
        if matches!(record.kind, Kind::Alloc | Kind::Free) {
            return;
        }
        if record.is_taken() {
            let granules = (range.start & !7..range.end).step_by(8);
            self.shared.extend(granules.take(1 << 10));
        } else if !self.shared.contains(&(range.start & !7)) {
            return;
        }
        let inlined = self
            .translator
            .as_mut()
            .is_some_and(|translator| translator.is_inlined(slot, record.pc()));
        if inlined {
            self.look(slot, record);
        }
    }

    /// Looks at a record that may begin or end a region; what it begins starts with it.
    fn look(&mut self, slot: usize, record: &Record) {
        let Some(translator) = &mut self.translator else {
            return;
        };
        translator.scan(slot, record);
        let mut batch = translator.take();
        self.checker.define(&mut batch);
        // The function that was called, if it is the user's; then it is the last event.
        let called = (record.kind == Kind::Enter)
            .then(|| translator.called(slot))
            .flatten();
        for (at, event) in batch.events.iter().enumerate() {
            match self.regions.step(0, event, self.checker.names()) {
                Boundary::Begin(function) => {
                    self.end(slot);
                    let inlined = called != Some(function) || at + 1 != batch.events.len();
                    let depth = self.threads[slot].calls.frames.len() + usize::from(!inlined);
                    let open = Open {
                        depth,
                        inlined,
                        function,
                    };
                    self.begin(slot, record, Some(open));
                }
                Boundary::End => {
                    self.end(slot);
                    self.begin(slot, record, None);
                }
                _ => {}
            }
        }
    }

    fn begin(&mut self, slot: usize, record: &Record, open: Option<Open>) {
        self.threads[slot].region = open;
        let start = match record.kind {
            // They belong to what they end.
            Kind::Exit | Kind::Wait | Kind::Arrive | Kind::End => {
                record.position + 8 * record.kind.words() as u64
            }
            _ => record.position,
        };
        let region = open.map(|open| open.function);
        self.transactions.open(slot, start, region);
    }

    /// Ends the open transaction of a slot.
    fn end(&mut self, slot: usize) {
        self.transactions.close(slot);
    }

    /// Checks the components that there are, if they are new.
    fn check(&mut self) {
        let (mut words, mut largest) = (0, 0);
        for component in self.transactions.components() {
            let recording = Recording::of_pieces(self.transactions.logs(&component), "");
            words += recording.len() / 8;
            let Some(translator) = &mut self.translator else {
                return;
            };
            let open = self.transactions.open_in(&component);
            let mut batch = translator.replay(&recording, &open);
            self.checker.renew(engine());
            self.checker.batch(&mut batch);
            self.checker.finish();
            largest = largest.max(component.len());
        }
        if largest > self.options.component_limit {
            self.cut();
        }
        self.transactions.checked(words);
        self.demote();
    }

    /// Forgets everything that was before now; how many words it were.
    fn cut(&mut self) -> usize {
        let live = &self.live;
        self.transactions.cut(|slot| live.position(slot))
    }

    /// What a first run tells the second.
    pub fn static_info(&self) -> StaticInfo {
        let first = self.first.as_ref();
        first.map(|first| first.found.clone()).unwrap_or_default()
    }

    /// What has been found so far.
    pub fn checker(&self) -> &Checker {
        &self.checker
    }

    /// What has been seen so far.
    pub fn summary(&self) -> Summary {
        let counter = |offset| self.live.counter(offset);
        Summary {
            counters: Counters {
                pid: counter(header::PID),
                threads: counter(header::THREADS),
                dropped: counter(header::DROPPED),
                unseen_threads: counter(header::UNSEEN_THREADS),
                interrupted: counter(header::INTERRUPTED),
                window: counter(header::SHADOW),
                exited: counter(header::EXITED) != 0,
            },
            records: self
                .first
                .as_ref()
                .map_or(self.records, |first| first.edges),
            forgotten: self.transactions.counts.forgotten,
        }
    }

    /// What was counted.
    pub fn stats(&self) -> Vec<Stat> {
        let stat = |name, value| Stat { name, value };
        if let Some(first) = &self.first {
            return vec![
                stat("IDG edges", first.edges),
                stat("ICD SCCs", first.components),
                stat("waits of the program", self.live.counter(header::WAITS)),
            ];
        }
        let counts = &self.transactions.counts;
        if self.streaming.is_some() {
            let engines = self.checker.runs().iter();
            return engines.flat_map(|run| run.engine.stats()).collect();
        }
        vec![
            stat("records", self.records),
            stat("regular transactions", counts.transactions),
            stat("IDG edges", counts.edges),
            stat("ICD SCCs", counts.components),
            stat("PCD events", self.checker.events()),
            stat("waits of the program", self.live.counter(header::WAITS)),
        ]
    }

    /// All that was read, with [`Options::keep_all`]: the recording that would have been made.
    pub fn recording(&self) -> Recording {
        let pieces = self.kept.pieces.iter();
        Recording::of_pieces(
            pieces.map(|(slot, position, words)| Piece {
                slot: *slot,
                position: *position,
                previous: 0,
                snapshot: &[],
                words,
            }),
            &self.maps,
        )
    }

    /// The memory map of the process.
    pub fn maps(&self) -> &str {
        self.first.as_ref().map_or(&self.maps, First::maps)
    }
}
