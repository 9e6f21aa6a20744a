//! Random executions that forget random chunks, and what may be said of them, by definition.

use super::Order;
use crate::file::{Piece, Recording};
use crate::format::{CHUNK_UNIT, Kind, first_word};

/// Numbers that look random (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }
}

/// How many events of each slot are before something.
type Clock = Vec<usize>;

fn join(clock: &mut Clock, other: &Clock) {
    for (mine, other) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(*other);
    }
}

struct Event {
    slot: usize,
    /// Which of its slot's events it is.
    index: usize,
    /// What is before it.
    clock: Clock,
    /// Its edges: other slots, and how many of their events are before it by these.
    edges: Vec<(usize, usize)>,
    forgotten: bool,
}

impl Event {
    fn is_before(&self, other: &Event) -> bool {
        match self.slot == other.slot {
            true => self.index < other.index,
            false => self.index < other.clock[self.slot],
        }
    }
}

#[derive(Default)]
struct Chunk {
    slot: usize,
    position: u64,
    previous: u64,
    snapshot: Vec<u64>,
    words: Vec<u64>,
    events: Vec<usize>,
    forgotten: bool,
}

impl Chunk {
    fn end(&self) -> u64 {
        self.position + 8 * self.words.len() as u64
    }
}

/// An execution, as the runtime writes it down.
#[derive(Default)]
struct Execution {
    events: Vec<Event>,
    chunks: Vec<Chunk>,
    /// The last chunk of each slot.
    last: Vec<Option<usize>>,
    clocks: Vec<Clock>,
    /// The positions that each slot is after, without the edges of others.
    known: Vec<Vec<u64>>,
}

impl Execution {
    fn new(random: &mut Random, slots: usize, steps: usize) -> Execution {
        let mut execution = Execution {
            last: vec![None; slots],
            clocks: vec![vec![0; slots]; slots],
            known: vec![vec![0; slots]; slots],
            ..Execution::default()
        };
        let (meet, next) = (2 + random.below(6), 2 + random.below(6));
        for _ in 0..steps {
            let slot = random.below(slots);
            let mut from = Vec::new();
            while random.below(meet) == 0 {
                from.push(random.below(slots));
            }
            execution.step(slot, &from, random.below(next) == 0);
        }
        let often = 2 + random.below(4);
        for (index, chunk) in execution.chunks.iter_mut().enumerate() {
            let is_last = execution.last[chunk.slot] == Some(index);
            chunk.forgotten = !is_last && random.below(often) == 0;
            for &event in &chunk.events {
                execution.events[event].forgotten = chunk.forgotten;
            }
        }
        execution
    }

    /// A slot writes something, after what others have written so far; maybe into another chunk.
    fn step(&mut self, slot: usize, from: &[usize], next: bool) {
        if next || self.last[slot].is_none() {
            let before = self.last[slot].map(|chunk| self.chunks[chunk].position);
            let mut chunk = Chunk {
                slot,
                position: ((self.chunks.len() + 1) * CHUNK_UNIT) as u64,
                previous: before.unwrap_or(0),
                ..Chunk::default()
            };
            if before.is_some() {
                chunk.snapshot = vec![first_word(Kind::Continue, 0, slot as u64), 0, 0, 0];
                let known = self.known[slot].iter().enumerate();
                for (other, &position) in known.filter(|&(_, &position)| position > 0) {
                    let edge = [first_word(Kind::Edge, 0, position), other as u64];
                    chunk.snapshot.extend(edge);
                }
            }
            self.last[slot] = Some(self.chunks.len());
            self.chunks.push(chunk);
        }
        let mut edges = Vec::new();
        for &other in from.iter().filter(|&&other| other != slot) {
            let Some(chunk) = self.last[other] else {
                continue;
            };
            let position = self.chunks[chunk].end();
            if self.known[slot][other] >= position {
                continue;
            }
            self.known[slot][other] = position;
            let clock = self.clocks[other].clone();
            join(&mut self.clocks[slot], &clock);
            edges.push((other, clock[other]));
            let words = &mut self.chunks[self.last[slot].unwrap()].words;
            words.extend([first_word(Kind::Edge, 0, position), other as u64]);
        }
        let number = self.events.len();
        let chunk = &mut self.chunks[self.last[slot].unwrap()];
        let words = [first_word(Kind::Write, 4, number as u64), 0];
        chunk.words.extend(words);
        chunk.events.push(number);
        let clock = self.clocks[slot].clone();
        let index = clock[slot];
        self.events.push(Event {
            slot,
            index,
            clock,
            edges,
            forgotten: false,
        });
        self.clocks[slot][slot] += 1;
    }

    fn recording(&self) -> Recording {
        let chunks = self.chunks.iter().filter(|chunk| !chunk.forgotten);
        let pieces = chunks.map(|chunk| Piece {
            slot: chunk.slot,
            position: chunk.position,
            previous: chunk.previous,
            snapshot: &chunk.snapshot,
            words: &chunk.words,
        });
        let mut recording = Recording::of_pieces(pieces, "");
        recording.forget_rest();
        recording
    }

    /// Looks whether what is said of it is right, if so many gaps times logs are passed one by one.
    fn check(&self, work: usize) -> Counts {
        let recording = self.recording();
        let mut order = Order::with_limit(&recording, work);
        let slots = self.clocks.len();
        let mut counts = Counts::default();
        // What is said to be before each slot, and before each event that has come.
        let mut said: Vec<Clock> = vec![vec![0; slots]; slots];
        let mut said_of: Vec<Option<Clock>> = vec![None; self.events.len()];
        let mut come: Vec<usize> = Vec::new();
        while let Some((slot, record)) = order.next() {
            if order.is_cut() {
                let all = said.iter().fold(vec![0; slots], |mut all, clock| {
                    join(&mut all, clock);
                    all
                });
                said.fill(all);
            }
            if record.kind != Kind::Write {
                continue;
            }
            let number = record.subject as usize;
            let event = &self.events[number];
            assert!(!event.forgotten && event.slot == slot && said_of[number].is_none());
            for &(from, count) in &event.edges {
                let sources = self.events[..number].iter().enumerate();
                let source = sources
                    .filter(|(_, event)| event.slot == from && event.index < count)
                    .rfind(|(_, event)| !event.forgotten);
                if let Some(clock) = source.and_then(|(source, _)| said_of[source].clone()) {
                    join(&mut said[slot], &clock);
                }
            }
            said[slot][slot] = event.index + 1;
            said_of[number] = Some(said[slot].clone());
            if order.is_doubtful() {
                let forgotten = || self.events.iter().filter(|event| event.forgotten);
                let is_between = forgotten().any(|other| other.is_before(event))
                    && forgotten().any(|other| event.is_before(other));
                assert!(
                    is_between || work == 0,
                    "{number} is not between what is forgotten"
                );
                counts.doubtful += 1;
                continue;
            }
            counts.certain += 1;
            for &other in &come {
                let other = &self.events[other];
                assert!(!event.is_before(other), "{number} came too late");
                assert!(
                    !other.is_before(event) || said[slot][other.slot] > other.index,
                    "nobody says what is before {number}"
                );
            }
            come.push(number);
        }
        for (event, said) in self.events.iter().zip(said_of) {
            assert_eq!(event.forgotten, said.is_none());
            counts.forgotten += usize::from(event.forgotten);
        }
        counts
    }
}

#[derive(Default)]
struct Counts {
    certain: usize,
    doubtful: usize,
    forgotten: usize,
}

/// What is said of many executions, if so many gaps times logs are passed one by one.
fn check_all(count: u64, work: usize) -> Counts {
    let mut all = Counts::default();
    for seed in 0..count {
        let mut random = Random(seed);
        let slots = 2 + random.below(5);
        let steps = 4 + random.below(8 + (64 * seed / count) as usize);
        let counts = Execution::new(&mut random, slots, steps).check(work);
        all.certain += counts.certain;
        all.doubtful += counts.doubtful;
        all.forgotten += counts.forgotten;
    }
    all
}

// Each kind must be there, or nothing is tested.

#[test]
fn what_counts_is_in_order_and_the_rest_is_between_gaps() {
    let all = check_all(400_000, super::WORK);
    assert!(all.doubtful > 50_000 && all.certain > 50 * all.doubtful);
    assert!(all.forgotten > 1_000_000);
}

#[test]
fn if_there_are_too_many_gaps_what_counts_is_in_order() {
    let all = check_all(100_000, 0);
    assert!(all.doubtful > 100_000 && all.certain > 100_000 && all.forgotten > 100_000);
}
