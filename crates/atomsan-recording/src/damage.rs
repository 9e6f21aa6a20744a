//! Recordings that are cut off or damaged: whatever is in the file, reading it ends, and costs what a file of
//! that size may cost.

use crate::file::tests::Builder;
use crate::format::{CHUNK_HEADER_SIZE, CHUNK_UNIT, HEADER_SIZE, Kind, first_word, second_word};
use crate::{Events, Options, Recording};
use std::time::{Duration, Instant};

/// What three threads do: calls, locks, accesses of all kinds, memory that comes and goes.
fn sample() -> Vec<u8> {
    let mut builder = Builder::default();
    let mut push = |slot: usize, kind: Kind, size: u8, subject: u64, second: u64, more: &[u64]| {
        let words = [first_word(kind, size, subject), second];
        let words: Vec<u64> = words
            .iter()
            .chain(more)
            .copied()
            .take(kind.words())
            .collect();
        builder.push(slot, &words)
    };
    let pc = |at: u64| second_word(0, 0x40_0000 + at);
    for slot in 0..3 {
        let number = slot as u64;
        let stack = [0x7000_0000 + 0x10_0000 * number, 0x1_0000];
        let mut after = push(slot, Kind::ThreadStart, 0, number, 0, &stack);
        for turn in 0..12 {
            if slot > 0 {
                push(slot, Kind::Edge, 0, after, number - 1, &[]);
            }
            after = push(slot, Kind::Enter, 0, 0x40_0100, 0x40_0200 + turn, &[]);
            push(slot, Kind::Alloc, 0, 0x2000 + 64 * turn, pc(1), &[64]);
            push(slot, Kind::Acquire, 0, 0x1000, pc(2), &[]);
            push(slot, Kind::Read, 8, 0x1008, pc(3), &[]);
            push(slot, Kind::Write, 4, 0x1008 + 4 * (turn % 2), pc(4), &[]);
            push(slot, Kind::WriteRange, 0, 0x2000 + 64 * turn, pc(5), &[48]);
            push(slot, Kind::Release, 0, 0x1000, pc(6), &[]);
            push(slot, Kind::AtomicLoad, 4, 0x1010, pc(7), &[turn]);
            push(slot, Kind::AtomicRmw, 4, 0x1010, pc(8), &[turn, turn + 1]);
            push(slot, Kind::Free, 0, 0x2000 + 64 * turn, pc(9), &[64]);
            push(slot, Kind::Exit, 0, 0, 0, &[]);
        }
        push(slot, Kind::ThreadEnd, 0, 0, 0, &[]);
    }
    builder.bytes()
}

/// Makes events of a recording, twice. How many there are.
fn events(data: Vec<u8>) -> Option<u64> {
    let recording = Recording::parse(data)?;
    let mut events = Events::new(&recording, Options::everything());
    let count = |events: &mut Events<'_>| events.map(|batch| batch.events.len() as u64).sum();
    let first = count(&mut events);
    assert_eq!(first, count(&mut events.again()), "the same once more");
    Some(first)
}

/// The places of the file that have something in them.
fn places(data: &[u8]) -> impl Iterator<Item = usize> {
    (0..data.len()).filter(|&at| data[at] != 0)
}

#[test]
fn the_sample_is_whole() {
    assert!(events(sample()).is_some_and(|events| events > 200));
}

#[test]
fn a_byte_is_another_one() {
    let data = sample();
    let started = Instant::now();
    for (count, at) in places(&data).enumerate() {
        let mut damaged = data.clone();
        damaged[at] ^= [0xff, 1, 0x80][count % 3];
        events(damaged);
    }
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn what_is_cut_off_is_read_up_to_there() {
    let data = sample();
    let all = events(data.clone()).unwrap_or(0);
    let first = HEADER_SIZE + CHUNK_HEADER_SIZE;
    for len in (0..8).chain([HEADER_SIZE - 1, HEADER_SIZE]) {
        assert_eq!(events(data[..len].to_vec()).unwrap_or(0), 0);
    }
    for len in (first..first + 800).step_by(13) {
        let read = events(data[..len].to_vec());
        assert!(read.is_some_and(|read| read < all));
    }
    assert!(events(data[..HEADER_SIZE + CHUNK_UNIT].to_vec()).is_some_and(|read| read > 0));
}

#[test]
fn words_are_random() {
    let data = sample();
    let used: Vec<usize> = places(&data).filter(|&at| at >= HEADER_SIZE).collect();
    let mut random = 1u64;
    for _ in 0..300 {
        let mut damaged = data.clone();
        for _ in 0..20 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let at = used[random as usize % used.len()] & !7;
            // Half of them keep their kind, so that they are not the end of a log.
            let keep = 8 * usize::from(random >> 40 & 1 == 0);
            let word = random.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
            damaged[at..at + 8 - keep / 8].copy_from_slice(&word[..8 - keep / 8]);
        }
        events(damaged);
    }
}

#[test]
fn lengths_that_nobody_has_are_no_work() {
    let mut builder = Builder::default();
    for slot in 1..3 {
        for at in 0..4 {
            let first = first_word(Kind::WriteRange, 0, at << 40);
            builder.push(slot, &[first, 0, u64::MAX]);
            builder.push(slot, &[first_word(Kind::Alloc, 0, at << 40), 0, u64::MAX]);
            builder.push(slot, &[first_word(Kind::Unnamed, 0, u64::MAX), 0]);
        }
    }
    let started = Instant::now();
    let recording = builder.build();
    let cells = crate::cells::Cells::new(&recording);
    assert!(cells.left_out() > 0);
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_recording_that_is_stopped_ends() {
    let recording = Recording::parse(sample()).expect("a recording");
    let read = |recording: &Recording| recording.log(1).count();
    let all = read(&recording);
    let bytes = recording.bytes_read();
    assert!(all > 0 && bytes > 0);
    recording.stop();
    assert_eq!((read(&recording), recording.bytes_read()), (0, bytes));
    let events = Events::new(&recording, Options::everything());
    assert_eq!(events.map(|batch| batch.events.len()).sum::<usize>(), 0);
}
