//! When something happened, and what each thread knows of that: a clock for each slot of a recording.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

pub(super) type Clock = Vec<u32>;

pub(super) fn join(clock: &mut Clock, other: &[u32]) {
    if clock.len() < other.len() {
        clock.resize(other.len(), 0);
    }
    for (mine, &other) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(other);
    }
}

/// The number of a slot's thread before it starts: nobody else's.
pub(super) fn nobody(slot: usize) -> u64 {
    u64::MAX - slot as u64
}

/// What each slot knows of the time of all others.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    pub(super) clocks: Vec<Clock>,
    /// Threads that are started, or have ended, by number.
    pub(super) threads: HashMap<u64, Clock, FxBuildHasher>,
    /// The thread that each slot is the log of.
    pub(super) numbers: Vec<u64>,
    /// What it knew, when it started, of the threads that were in its slot before.
    pub(super) inherited: Vec<u32>,
    /// What everybody knows, also who starts later.
    common: Clock,
}

impl Clocks {
    pub(super) fn grow(&mut self, slots: usize) {
        for slot in self.clocks.len()..slots {
            let mut clock = vec![0; slot + 1];
            clock[slot] = 1;
            self.clocks.push(clock);
            self.numbers.push(nobody(slot));
            self.inherited.push(0);
        }
    }

    pub(super) fn now(&self, slot: usize) -> u32 {
        self.clocks[slot][slot]
    }

    pub(super) fn tick(&mut self, slot: usize) {
        self.clocks[slot][slot] += 1;
    }

    /// Whether the slot is after that time of the other.
    pub(super) fn after(&self, slot: usize, other: usize, time: u32) -> bool {
        self.clocks[slot]
            .get(other)
            .is_some_and(|&known| known >= time)
    }

    /// Everybody knows everything.
    pub(super) fn cut(&mut self) {
        for clock in &self.clocks {
            join(&mut self.common, clock);
        }
        for slot in 0..self.clocks.len() {
            join(&mut self.clocks[slot], &self.common);
            self.tick(slot);
        }
    }

    pub(super) fn fork(&mut self, slot: usize, child: u64) {
        self.threads.insert(child, self.clocks[slot].clone());
        self.tick(slot);
    }

    pub(super) fn start(&mut self, slot: usize, number: u64) {
        self.numbers[slot] = number;
        // The slot's last thread has nothing to do with this one.
        let time = self.now(slot);
        let mut clock = self.threads.get(&number).cloned().unwrap_or_default();
        join(&mut clock, &self.common);
        if clock.len() <= slot {
            clock.resize(slot + 1, 0);
        }
        self.inherited[slot] = clock[slot];
        clock[slot] = time + 1;
        self.clocks[slot] = clock;
    }

    pub(super) fn end(&mut self, slot: usize) {
        let number = self.numbers[slot];
        self.threads.insert(number, self.clocks[slot].clone());
        self.tick(slot);
    }

    pub(super) fn join(&mut self, slot: usize, child: u64) {
        if let Some(ended) = self.threads.get(&child) {
            join(&mut self.clocks[slot], ended);
        }
        if let Some(other) = self.numbers.iter().position(|&number| number == child) {
            let running = self.clocks[other].clone();
            join(&mut self.clocks[slot], &running);
            self.tick(other);
        }
    }
}
