//! The interface of every engine, and where findings go.

use atomsan_trace::finding::Finding;
use atomsan_trace::{Event, Names, StackId, Stacks};
use hashbrown::HashMap;
use rustc_hash::{FxBuildHasher, FxHasher};
use std::hash::{Hash, Hasher};

/// One event, with what is known about its place in the stream.
#[derive(Clone, Copy, Debug)]
pub struct Occurrence {
    /// Its position in the trace, from 0.
    pub index: u64,
    /// The calls that led there.
    pub stack: StackId,
    /// What happened.
    pub event: Event,
}

/// A figure that an engine or a trace has about itself, for `--stats`.
#[derive(Clone, PartialEq, Debug)]
pub struct Stat {
    /// What is counted, in the words of the paper's table.
    pub name: &'static str,
    /// How much.
    pub value: u64,
}

/// A checking algorithm: events in, findings out.
///
/// No sequence of events makes an engine panic; `atomsan_trace::event` defines what odd ones mean.
pub trait Engine: Send {
    /// The name a user asks for it by.
    fn name(&self) -> &'static str;

    /// Takes one event.
    fn event(&mut self, at: &Occurrence, cx: &mut Context<'_>);

    /// Takes consecutive events; one virtual call for many events.
    fn events(&mut self, occurrences: &[Occurrence], cx: &mut Context<'_>) {
        for at in occurrences {
            self.event(at, cx);
            if cx.findings.full() {
                return;
            }
        }
    }

    /// The trace has ended.
    fn finish(&mut self, _cx: &mut Context<'_>) {}

    /// What the engine infers besides findings, as the text of a file that it can read again:
    /// Silver's yields, the result of DoubleChecker's first run.
    fn product(&self, _names: &Names) -> Option<String> {
        None
    }

    /// What a reader of the verdict must know: a limit that was reached, something left out.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// What the engine counted.
    fn stats(&self) -> Vec<Stat> {
        Vec::new()
    }
}

/// What an engine may look at, and where it puts what it found.
#[derive(Debug)]
pub struct Context<'a> {
    /// The names defined so far.
    pub names: &'a Names,
    /// The stacks that occurrences refer to.
    pub stacks: &'a Stacks,
    /// Where findings go.
    pub findings: &'a mut Findings,
}

/// The findings of one engine, each static violation once.
///
/// A program repeats its mistakes millions of times, so making a [`Finding`] must not be the cost
/// of seeing one again: an engine first says which static violation it sees, and builds the
/// finding only if that is new.
#[derive(Debug, Default)]
pub struct Findings {
    list: Vec<Finding>,
    known: HashMap<u64, usize, FxBuildHasher>,
    total: u64,
    first_only: bool,
}

impl Findings {
    /// Collects until the first finding only.
    pub fn first_only() -> Self {
        Findings {
            first_only: true,
            ..Findings::default()
        }
    }

    /// Reports the static violation `key` (for instance the region and the two sites); `build`
    /// is called if it is new. Returns whether it was.
    pub fn report(&mut self, key: impl Hash, build: impl FnOnce() -> Finding) -> bool {
        let mut hasher = FxHasher::default();
        key.hash(&mut hasher);
        self.total += 1;
        match self.known.entry(hasher.finish()) {
            hashbrown::hash_map::Entry::Occupied(entry) => {
                self.list[*entry.get()].count += 1;
                false
            }
            hashbrown::hash_map::Entry::Vacant(entry) => {
                entry.insert(self.list.len());
                self.list.push(build());
                true
            }
        }
    }

    /// Whether the engine may stop.
    #[inline]
    pub fn full(&self) -> bool {
        self.first_only && !self.list.is_empty()
    }

    /// How many violations were seen, repetitions included.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The static violations, in the order they were found.
    pub fn list(&self) -> &[Finding] {
        &self.list
    }

    /// Gives the findings away.
    pub fn into_list(self) -> Vec<Finding> {
        self.list
    }
}
