//! The passes over a recording.
//!
//! The first pass finds out what cannot be known when a record comes by: which variables are handed
//! over ([`crate::handover`]), which looks are repeated ([`super::looks`]), which frees are not ordered
//! after a use. The second one knows it and makes the events. Both name variables in the same order, so
//! what the first one found out by number holds in the second. [`super::stream`] does the same in a
//! window.

use super::Translator;
use crate::cells::Cells;
use crate::file::Recording;
use crate::format::Kind;
use crate::handover::{HandedOver, Survey};
use crate::order::Order;
use crate::positions::Positions;
use crate::symbols::Symbols;
use crate::whose::Options;
use atomsan_trace::Batch;
use hashbrown::HashMap;

/// An iterator over the events of a recording.
#[derive(Debug)]
pub struct Events<'a> {
    recording: &'a Recording,
    order: Order<'a>,
    translator: Translator,
}

/// What the first pass has found out.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Variables that need no check, if the cells do not know.
    pub(super) handed_over: HandedOver,
    /// Positions of looks that were repeated under a lock.
    pub(super) repeated: Positions,
    /// Positions of frees that are not ordered after a use.
    pub(super) freed_in_use: Positions,
}

/// Where a thread that has waited has its lock again, and that it had the lock before is not in the recording: it lets go
/// of it later. A semaphore is nothing to let go of.
fn relocked(recording: &Recording) -> Positions {
    let mut relocked = Positions::default();
    for slot in 0..recording.slots() {
        let mut waited: HashMap<u64, Option<u64>> = HashMap::new();
        for record in recording.log(slot) {
            let lock = record.subject;
            match record.kind {
                // Only the first thing that is known of a lock says what was before.
                Kind::Woken => drop(waited.entry(lock).or_insert(Some(record.position))),
                Kind::Release => relocked.extend(waited.insert(lock, None).flatten()),
                Kind::Acquire | Kind::Wait => drop(waited.insert(lock, None)),
                _ => {}
            }
        }
    }
    relocked
}

/// How many events a batch has, more or less.
const BATCH: usize = 4096;

impl<'a> Events<'a> {
    /// The events of a recording.
    pub fn new(recording: &'a Recording, options: Options) -> Events<'a> {
        let (symbols, cells) = (Symbols::new(recording), Cells::new(recording));
        let mut first = Translator::new(symbols, cells, options);
        first.survey(recording, |batch| batch.definitions.clear());
        first.conclude_survey();
        Events {
            recording,
            order: Order::new(recording),
            translator: first.again(),
        }
    }

    /// The same events once more. What was found out about the recording is not worked out again.
    #[must_use]
    pub fn again(self) -> Events<'a> {
        Events {
            order: Order::new(self.recording),
            translator: self.translator.again(),
            ..self
        }
    }

    /// How many bytes were accessed that are not looked at, because there were too many.
    pub fn left_out(&self) -> u64 {
        self.translator.cells.left_out()
    }
}

impl Iterator for Events<'_> {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        while self.translator.batch.events.len() < BATCH {
            let Some((slot, record)) = self.order.next() else {
                break;
            };
            self.translator.record_of(&self.order, slot, &record);
        }
        let batch = self.translator.take();
        (!batch.events.is_empty() || !batch.definitions.is_empty()).then_some(batch)
    }
}

impl Translator {
    /// The first pass over a recording: finds out what the second must know. `each` is told what every
    /// record has become.
    fn survey(&mut self, recording: &Recording, mut each: impl FnMut(&mut Batch)) {
        self.survey = Some(Survey::new(recording.slots()));
        let mut order = Order::new(recording);
        while let Some((slot, record)) = order.next() {
            if let Some(survey) = &mut self.survey {
                if order.is_cut() {
                    survey.cut();
                }
                survey.record(slot, &record, order.after(slot));
            }
            self.record_of(&order, slot, &record);
            self.batch.events.clear();
            each(&mut self.batch);
        }
    }

    fn conclude_survey(&mut self) {
        let survey = self.survey.take().unwrap_or_default();
        self.findings = self.found(&survey);
        let handed_over = std::mem::take(&mut self.findings.handed_over);
        self.cells.leave_out(handed_over);
    }

    /// What a survey has found out so far, with the looks that were repeated since the last time.
    pub(super) fn found(&mut self, survey: &Survey) -> Findings {
        let handed_over = survey.finish();
        let mut found = Findings::default();
        let repeated = std::mem::take(&mut self.repeated);
        let pure = repeated.iter().filter(|look| look.is_pure(&handed_over));
        found.repeated.extend(pure.map(|look| look.position));
        Findings {
            freed_in_use: std::mem::take(&mut self.freed_in_use),
            handed_over,
            ..found
        }
    }

    /// Translates another recording of the same process. What the threads were doing is put aside
    /// meanwhile. What it defines has no name before it is [named](Translator::name).
    pub fn replay(&mut self, recording: &Recording) -> Batch {
        let outside = std::mem::take(&mut self.threads);
        self.is_replay = true;
        self.cells = std::mem::take(&mut self.cells).again(recording);
        let spins: Vec<u64> = self.cells.atomics().spins().collect();
        self.note_spins(&spins);
        self.relocked = relocked(recording);
        self.survey(recording, |_| {});
        self.conclude_survey();
        self.threads.clear();
        for (slot, record) in Order::new(recording) {
            self.record(slot, &record);
        }
        for slot in 0..self.threads.len() {
            self.catch_up(slot);
            self.leave_all(slot);
        }
        self.threads = outside;
        self.is_replay = false;
        self.take()
    }
}
