use super::*;
use atomsan_recording::format::{
    CHUNK_HEADER_SIZE, CHUNK_MAGIC, CHUNK_UNIT, ChunkHeader, ENTRY_SIZE, MAGIC, SLOT_ENTRIES,
    entry, header,
};
use std::mem::offset_of;
use std::os::unix::fs::FileExt as _;

/// Follows a record.
fn follow(walk: &mut Walk, words: &[u64]) {
    walk.follow(&Record::parse(words, 8).unwrap(), words);
}

fn enter(function: u64) -> [u64; 2] {
    [first_word(Kind::Enter, 0, 0), function]
}

fn guard(kind: Kind, guard: u64) -> [u64; 2] {
    [first_word(kind, 0, guard), second_word(GUARD, 7)]
}

fn initialising(guard: u64) -> [u64; 2] {
    [first_word(Kind::Initialising, 0, guard), second_word(0, 7)]
}

#[test]
fn a_snapshot_says_what_is_being_initialised() {
    let thread = [first_word(Kind::Continue, 0, 3), 0, 0x1000, 0x100];
    let snapshot = [
        &thread[..],
        &enter(1),
        &initialising(0x10),
        &enter(2),
        &initialising(0x20),
    ];
    let mut walk = Walk::new(1, Vec::new());
    walk.start(&snapshot.concat());
    assert_eq!(walk.snapshot(), snapshot.concat());
    // Who finds something initialised is not initialising it.
    follow(&mut walk, &guard(Kind::AcquireShared, 0x30));
    follow(&mut walk, &guard(Kind::ReleaseShared, 0x30));
    assert_eq!(walk.snapshot(), snapshot.concat());
    follow(&mut walk, &guard(Kind::Release, 0x20));
    assert_eq!(walk.snapshot(), snapshot[..4].concat());
    follow(&mut walk, &guard(Kind::Acquire, 0x40));
    let now = [&snapshot[..4].concat()[..], &initialising(0x40)].concat();
    assert_eq!(walk.snapshot(), now);
    // An exception leaves it.
    follow(&mut walk, &[first_word(Kind::Exit, 0, 0), 0]);
    assert_eq!(walk.snapshot(), snapshot[..3].concat());
    follow(&mut walk, &[first_word(Kind::Transaction, 0, 9), 1]);
    assert_eq!(walk.snapshot(), thread);
}

/// A chunk of a log: the transaction that it begins in, the snapshot and the records.
#[derive(Debug)]
struct Chunk {
    clock: u64,
    snapshot: Vec<u64>,
    words: Vec<u64>,
}

/// The position of the first record of a chunk, by its number.
fn position(number: usize) -> u64 {
    8 + (2 * number * CHUNK_UNIT) as u64
}

/// A recording with these chunks, of slot 1, of which all records before a position are settled; and the chunks.
fn live(chunks: &[Chunk], settled: u64) -> (Live, VecDeque<ChunkAt>) {
    const CHUNKS: usize = 1 << 20;
    let file = tempfile::NamedTempFile::new().unwrap();
    let write = |offset: usize, words: &[u64]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        file.as_file().write_all_at(&bytes, offset as u64).unwrap();
    };
    let entry = SLOT_ENTRIES + ENTRY_SIZE;
    write(header::MAGIC, &[MAGIC]);
    write(header::HIGHEST_SLOT, &[1]);
    write(entry + entry::FIRST_CHUNK, &[CHUNKS as u64]);
    for (number, chunk) in chunks.iter().enumerate() {
        let at = CHUNKS + number * CHUNK_UNIT;
        let is_last = number + 1 == chunks.len();
        let next = if is_last { 0 } else { at + CHUNK_UNIT };
        write(at + offset_of!(ChunkHeader, magic), &[CHUNK_MAGIC.into()]);
        let snapshot = 8 * chunk.snapshot.len() as u64;
        write(at + 16, &[1 | snapshot << 32]);
        write(at + offset_of!(ChunkHeader, position), &[position(number)]);
        write(at + offset_of!(ChunkHeader, clock), &[chunk.clock]);
        write(at + offset_of!(ChunkHeader, next), &[next as u64]);
        let content = [&chunk.snapshot[..], &chunk.words].concat();
        write(at + CHUNK_HEADER_SIZE, &content);
        // The rest of it is empty.
        let rest = CHUNK_UNIT - CHUNK_HEADER_SIZE - 8 * content.len();
        write(at + CHUNK_UNIT - rest, &vec![0; rest / 8]);
    }
    let last = chunks.len() - 1;
    let end = position(last) + 8 * chunks[last].words.len() as u64;
    write(entry + entry::POSITION, &[end]);
    let mut live = Live::open(file.path()).unwrap().unwrap();
    live.look().unwrap();
    write(entry + entry::POSITION, &[settled]);
    live.look_at_clocks().unwrap();
    let mut found = VecDeque::from([live.first_chunk(1).unwrap().unwrap()]);
    while let Some(next) = live.next_chunk(&found[found.len() - 1]).unwrap() {
        found.push_back(next);
    }
    assert_eq!(found.len(), chunks.len());
    (live, found)
}

/// By definition: what is visited is what belongs to a transaction of a component, wherever in the log that is.
#[test]
fn a_walk_visits_the_transactions_of_components() {
    let transaction = |number| {
        let begin = [first_word(Kind::Transaction, 0, number), 0];
        let read = [first_word(Kind::Read, 8, 8 * number), second_word(0, 7)];
        [begin, read].concat()
    };
    let words: Vec<u64> = (1..=6).flat_map(transaction).collect();
    let chunk = Chunk {
        clock: 0,
        snapshot: Vec::new(),
        words,
    };
    let (mut live, chunks) = live(&[chunk], u64::MAX);
    let ranges = (1..=7).flat_map(|start| (start..=7).map(move |end| start..=end));
    let ranges: Vec<RangeInclusive<u64>> = ranges.collect();
    for one in &ranges {
        for other in &ranges {
            let mut both = [one.clone(), other.clone()];
            both.sort_by_key(|range| *range.start());
            let stretches = (0..).zip(both);
            let stretches = stretches.map(|(number, range)| Stretch::new(number, range));
            let mut walk = Walk::new(1, stretches.collect());
            let mut seen = Vec::new();
            let mut visited = Visited::default();
            let visit = |_: &mut Walk, record: &Record, _: &[u64]| seen.push(record.subject / 8);
            walk.through(&mut live, &chunks, &mut visited, visit)
                .unwrap();
            let is_wanted = |number: &u64| one.contains(number) || other.contains(number);
            let expected: Vec<u64> = (1..=6).filter(is_wanted).collect();
            assert_eq!(seen, expected, "{one:?}, {other:?}");
        }
    }
}

/// Numbers that look random.
fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |limit| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit
    }
}

/// What is seen of a record: its position, its transaction or a number of it, the components, and the thread.
type Seen = (u64, u64, Vec<usize>, Vec<u64>);

/// A log that looks random, and all of its records that are no beginnings of transactions.
fn log(below: &mut impl FnMut(u64) -> u64) -> (Vec<Chunk>, Vec<(Record, Seen)>) {
    let (mut chunks, mut all) = (Vec::new(), Vec::new());
    let mut thread = Walk::new(1, Vec::new());
    let mut clock = 0;
    for number in 0..1 + below(4) as usize {
        let mut words = Vec::new();
        let (from, snapshot) = (clock, thread.snapshot());
        // More than is read at a time, or a few.
        let room = [40, 7000][below(2) as usize] as usize;
        let often = 3 + below(60);
        if number == 0 {
            words.extend([first_word(Kind::ThreadStart, 0, 3), 0, 0x1000, 0x100]);
            let start = Record::parse(&words, position(0)).unwrap();
            all.push((start, (start.position, 0, Vec::new(), Vec::new())));
            thread.follow(&start, &words);
        }
        while words.len() < room {
            let depth = thread.frames.len() as u64;
            let record: &[u64] = match below(often) {
                0 => {
                    clock += 1 + below(2);
                    let left = below(depth + 1);
                    &[first_word(Kind::Transaction, 0, clock), left]
                }
                1 if depth < 6 => &enter(below(9)),
                2 if depth > 0 => &[first_word(Kind::Exit, 0, 0), 0],
                3 => &guard(Kind::Acquire, 8 * below(4)),
                4 => &guard(Kind::Release, 8 * below(4)),
                5 => &[first_word(Kind::Acquire, 0, 8), second_word(0, 7)],
                6 => &[first_word(Kind::Edge, 0, below(99)), 2],
                7 => &[first_word(Kind::AtomicRmw, 8, 8), 7, below(3), below(99)],
                8 => &[first_word(Kind::AtomicLoad, 8, 8), 7, u64::MAX],
                _ => &[first_word(Kind::Read, 8, 8 * below(99)), 7],
            };
            let at = position(number) + 8 * words.len() as u64;
            let parsed = Record::parse(record, at).unwrap();
            if parsed.kind != Kind::Transaction {
                all.push((parsed, (at, clock, Vec::new(), thread.snapshot())));
            }
            thread.follow(&parsed, record);
            words.extend(record);
        }
        chunks.push(Chunk {
            clock: from,
            snapshot,
            words,
        });
    }
    (chunks, all)
}

/// By definition, with chunks that are left out, gaps, and what is not settled: each record of a component is visited, with the thread
/// as it is there; and once more in the same way, also for some of the components only.
#[test]
fn all_of_components_is_visited_and_again() {
    for seed in 0..300 {
        let mut below = numbers(seed);
        let (written, all) = log(&mut below);
        let end = all.last().map_or(0, |(record, _)| record.position);
        let settled = [u64::MAX, below(end + 1)][below(2) as usize];
        let (mut live, chunks) = live(&written, settled);
        let last = all.last().map_or(0, |(_, seen)| seen.1);
        let mut stretches: Vec<Stretch> = (0..below(6) as usize)
            .map(|component| {
                let from = below(last + 2);
                let to = from + [below(3), below(last + 1)][below(8) as usize / 7];
                Stretch::new(component, from..=to)
            })
            .collect();
        stretches.sort_by_key(|stretch| *stretch.clocks.start());
        let expected = |is_wanted: &dyn Fn(usize) -> bool| {
            let mut expected = all.clone();
            expected.retain_mut(|(record, (_, clock, components, _))| {
                let these = stretches.iter().filter(|one| is_wanted(one.component));
                let these = these.filter(|one| one.clocks.contains(clock));
                components.extend(these.map(|one| one.component));
                let counts = record.position < settled || record.kind == Kind::Edge;
                counts && !components.is_empty()
            });
            expected.into_iter().map(|(_, seen)| seen).collect()
        };
        // Whether two are of the same transaction is all that the numbers tell.
        let same = |seen: Vec<Seen>| -> Vec<Seen> {
            let mut before = seen.first().map_or(0, |first| first.1);
            let mut number = 0;
            let numbered = seen
                .into_iter()
                .map(|(position, clock, components, thread)| {
                    number += u64::from(std::mem::replace(&mut before, clock) != clock);
                    (position, number, components, thread)
                });
            numbered.collect()
        };
        let walk = Walk::new(1, stretches.clone());
        let mut visited = Visited::with_room(1 << 20);
        let mut seen = Vec::new();
        let step = |walk: &Walk, record: &Record| {
            let components = walk.components().collect();
            (
                record.position,
                walk.transaction,
                components,
                walk.snapshot(),
            )
        };
        let mut visit = |walk: &mut Walk, record: &Record, words: &[u64]| {
            assert_eq!(words.len(), record.kind.words());
            seen.push(step(walk, record));
        };
        let whole = walk.clone();
        (walk.clone())
            .through(&mut live, &chunks, &mut visited, &mut visit)
            .unwrap();
        assert_eq!(same(seen), same(expected(&|_| true)), "{seed}");
        let odd = |component: usize| component % 2 == 1;
        for (is_wanted, mut walk) in [(&(|_| true) as &dyn Fn(usize) -> bool, whole), (&odd, walk)]
        {
            let mut seen = Vec::new();
            walk.retain(is_wanted);
            walk.again(&visited, settled, |walk, record, _| {
                seen.push(step(walk, record));
            });
            assert_eq!(same(seen), same(expected(is_wanted)), "{seed}");
        }
        assert!(visited.is_all());
    }
}

#[test]
fn guards_are_not_passed_over() {
    let lock = |kind| [first_word(kind, 0, 0x10), second_word(0, 7)];
    let load = [first_word(Kind::AtomicLoad, 8, 0x10), second_word(0, 7), 1];
    let plain = [&lock(Kind::Acquire)[..], &load, &lock(Kind::Release)].concat();
    let passed = |words: &[u64]| {
        let words: Vec<Word> = words.iter().map(|word| word.to_le_bytes()).collect();
        Walk::new(1, Vec::new()).pass(&words, 0)
    };
    assert_eq!(passed(&plain), plain.len());
    for kind in [Kind::Acquire, Kind::ReleaseShared] {
        let words = [&plain[..], &guard(kind, 0x10)].concat();
        assert_eq!(passed(&words), plain.len());
    }
}
