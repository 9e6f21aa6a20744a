//! Recordings written by hand, of programs whose functions have names.

use super::{Origin, Translator};
use crate::Options;
use crate::cells::Cells;
use crate::file::tests::Builder;
use crate::file::{Piece, Recording};
use crate::format::{ADDED, GUARD, Kind, first_word, second_word};
use crate::order::Order;
use crate::symbols::Symbols;
use atomsan_trace::names::Definition;
use atomsan_trace::{LockId, Op, ThreadId, VarId};

/// The operations of one thread that a recording becomes, calls left out; each record is a kind, a
/// subject and a program counter.
fn operations(places: &[(u64, &str, &[&str])], records: &[(Kind, u64, u64)]) -> Vec<Op> {
    let words = |&(kind, subject, pc)| vec![first_word(kind, 0, subject), second_word(0, pc)];
    let records: Vec<_> = records.iter().map(words).collect();
    operations_of(places, &records)
}

/// The same of records as they are. Another thread looks at what they are about.
fn operations_of(places: &[(u64, &str, &[&str])], records: &[Vec<u64>]) -> Vec<Op> {
    let mut builder = Builder::default();
    builder.push(0, &[first_word(Kind::ThreadStart, 0, 1), 0, 0, 0]);
    builder.push(1, &[first_word(Kind::ThreadStart, 0, 2), 0, 0, 0]);
    let look = [
        first_word(Kind::AtomicLoad, 8, 0x1000),
        second_word(0, 1),
        0,
    ];
    builder.push(1, &look);
    for record in records {
        builder.push(0, record);
    }
    let recording = builder.build();
    let (symbols, cells) = (Symbols::of_places(places), Cells::new(&recording));
    let mut translator = Translator::new(symbols, cells, Options::default());
    for (slot, record) in Order::new(&recording) {
        translator.record(slot, &record);
    }
    let events = translator.take().events;
    let operations = events.iter().filter(|event| event.thread == ThreadId(0));
    let operations = operations.map(|event| event.op);
    operations
        .filter(|op| !matches!(op, Op::Enter(_) | Op::Exit(_)))
        .collect()
}

/// Rust's standard library comes precompiled, and only the contended half of its locks is seen: whoever
/// starts two threads at once may see one of them take a lock that it never lets go of.
#[test]
fn what_is_locked_in_precompiled_code() {
    const LOCK: &str = "std::sys::sync::mutex::futex::Mutex::lock";
    let places: [(u64, &str, &[&str]); 7] = [
        (1, "/home/user/main.rs", &["user::main"]),
        (
            2,
            "/rustc/mutex.rs",
            &["std::sync::poison::mutex::Mutex<T>::lock"],
        ),
        (
            3,
            "/rustc/mutex.rs",
            &[LOCK, "std::sync::poison::mutex::Mutex<T>::lock"],
        ),
        (
            4,
            "/rustc/mutex.rs",
            &[
                LOCK,
                "std::sys::pal::unix::stack_overflow::imp::make_handler",
            ],
        ),
        (
            5,
            "/rustc/condvar.rs",
            &["std::sync::barrier::Barrier::wait"],
        ),
        (
            6,
            "/rustc/thread.rs",
            &["std::thread::Builder::spawn_unchecked_"],
        ),
        (7, "/rustc/runtime.rs", &["tokio::runtime::run"]),
    ];
    let enter = |call, code| (Kind::Enter, call, code);
    let locked = |pc| (Kind::Acquire, 0x1000, pc);
    let is_locked = |records: &[(Kind, u64, u64)]| {
        let operations = operations(&places, records);
        operations
            .iter()
            .any(|op| matches!(op, Op::Acquire(_) | Op::Woken(_)))
    };
    assert!(!is_locked(&[locked(4)]), "before anything of the program's");
    assert!(
        !is_locked(&[enter(9, 1), locked(4)]),
        "called by the program"
    );
    assert!(
        is_locked(&[enter(9, 1), enter(1, 2), locked(3)]),
        "compiled with the program"
    );
    assert!(
        is_locked(&[enter(9, 1), locked(1)]),
        "by the program itself"
    );
    // A thread of the runtime of some package, in which nothing is the user's.
    let runtime = [enter(9, 6), enter(6, 7), enter(7, 2), locked(3)];
    assert!(!is_locked(&runtime), "inside of what has no meaning");
    let waits = [
        enter(9, 1),
        (Kind::Wait, 0x1000, 5),
        (Kind::Woken, 0x1000, 5),
    ];
    assert!(!is_locked(&waits), "waiting");
    assert_eq!(operations(&places, &waits), [Op::Yield]);
}

/// Who waits lets go of a lock that it holds, and has it again; one that is not known to be held was taken
/// where nothing is seen.
#[test]
fn a_lock_that_is_given_up_while_waiting() {
    let places: [(u64, &str, &[&str]); 1] = [(1, "/home/user/main.c", &["take"])];
    let waits = [
        (Kind::Enter, 9, 1),
        (Kind::Wait, 0x1000, 1),
        (Kind::Woken, 0x1000, 1),
    ];
    assert_eq!(operations(&places, &waits), [Op::Yield]);
    let mut held = waits.to_vec();
    held.insert(1, (Kind::Acquire, 0x1000, 1));
    let lock = LockId(0);
    let all = [Op::Acquire(lock), Op::Wait(lock), Op::Woken(lock)];
    assert_eq!(operations(&places, &held), all);
}

/// A reader of a lock that spins adds itself, finds a writer and takes itself back, when the writer may
/// have let go.
#[test]
fn a_reader_that_takes_itself_back() {
    let places: [(u64, &str, &[&str]); 1] = [(
        1,
        "/home/user/.cargo/registry/src/spin/rwlock.rs",
        &["spin::rwlock::RwLock"],
    )];
    let change = |before: u64, after: u64| {
        let first = first_word(Kind::AtomicRmw, 8, 0x1000);
        vec![first, second_word(ADDED, 1), before, after]
    };
    let attempts = [change(1, 5), change(4, 0)];
    assert_eq!(operations_of(&places, &attempts), []);
    let reads = [&attempts[..], &[change(0, 4), change(4, 0)]].concat();
    let lock = LockId(0);
    let read = [Op::AcquireShared(lock), Op::ReleaseShared(lock)];
    assert_eq!(operations_of(&places, &reads), read);
}

/// What is forgotten is a barrier of all threads, and what is between two parts of it is not spoken of, but for what does
/// not depend on its place.
#[test]
fn what_is_forgotten_is_a_barrier() {
    let mut builder = Builder::default();
    let word = |kind, subject| [first_word(kind, 8, subject), second_word(0, 1)];
    builder.push(0, &[first_word(Kind::ThreadStart, 0, 1), 0, 0, 0]);
    builder.push(0, &word(Kind::Acquire, 0x2000));
    builder.push(0, &word(Kind::Write, 0x1000));
    // After a part of what the other has forgotten, and before another part.
    builder.push(0, &[first_word(Kind::Edge, 0, 8), 1]);
    builder.push(0, &word(Kind::Acquire, 0x3000));
    builder.push(0, &word(Kind::Write, 0x1000));
    builder.push(0, &word(Kind::Yield, 0));
    let known = builder.end(0);
    builder.push(0, &word(Kind::Write, 0x1000));
    builder.push(0, &word(Kind::Release, 0x3000));
    // So is a third one.
    builder.push(2, &[first_word(Kind::ThreadStart, 0, 3), 0, 0, 0]);
    builder.push(2, &[first_word(Kind::Edge, 0, 8), 1]);
    builder.push(2, &word(Kind::Write, 0x1000));
    builder.push(0, &[first_word(Kind::Edge, 0, builder.end(2)), 2]);
    builder.push(1, &[first_word(Kind::Continue, 0, 2), 0, 0, 0]);
    builder.push(1, &[first_word(Kind::Edge, 0, known), 0]);
    builder.push(1, &[first_word(Kind::Edge, 0, builder.end(2)), 2]);
    builder.gap(1);
    builder.push(1, &word(Kind::Read, 0x1000));
    let recording = builder.build();
    let places: [(u64, &str, &[&str]); 1] = [(1, "/home/user/main.rs", &["user::main"])];
    let (symbols, cells) = (Symbols::of_places(&places), Cells::new(&recording));
    let mut translator = Translator::new(symbols, cells, Options::default());
    let mut order = Order::new(&recording);
    while let Some((slot, record)) = order.next() {
        translator.record_of(&order, slot, &record);
    }
    let events = translator.take().events;
    let said: Vec<_> = events
        .iter()
        .map(|event| (event.thread.0, event.op))
        .collect();
    let [lock, barrier, other] = [0, 1, 2].map(LockId);
    let x = VarId(0);
    let expected = [
        (1, Op::Acquire(lock)),
        (1, Op::Write(x)),
        // What the others have done comes before the third thread, or so it seems, until that one is needed.
        (0, Op::Arrive(barrier)),
        (1, Op::Arrive(barrier)),
        (0, Op::Leave(barrier)),
        (1, Op::Leave(barrier)),
        (1, Op::Release(lock)),
        (1, Op::Yield),
        (2, Op::Leave(barrier)),
        (1, Op::Acquire(lock)),
        (1, Op::Acquire(other)),
        (1, Op::Write(x)),
        (1, Op::Release(other)),
        (2, Op::Read(x)),
    ];
    assert_eq!(said, expected);
}

/// Of a thread that is in an initialiser, a part is replayed that has not seen it begin: what it does there is left out
/// all the same, until it is over.
#[test]
fn a_part_that_is_in_an_initialiser() {
    const SETS: &str =
        "std::__future_base::_State_baseV2::_M_set_result(std::function<int ()>, bool)";
    let places: [(u64, &str, &[&str]); 4] = [
        (1, "/home/user/main.c", &["main"]),
        (2, "/home/user/main.c", &["make"]),
        (3, "/usr/include/c++/12/future", &[SETS]),
        (4, "/usr/include/c++/12/mutex", &["std::call_once"]),
    ];
    let word = |kind, subject, pc| [first_word(kind, 8, subject), second_word(0, pc)];
    let store = |value| [&word(Kind::AtomicStore, 0x1000, 2)[..], &[value]].concat();
    let writes = |snapshot: &[&[u64]], records: &[&[u64]]| -> Vec<Op> {
        let start = [first_word(Kind::Continue, 0, 1), 0, 0, 0];
        let (snapshot, words) = ([&start[..], &snapshot.concat()].concat(), records.concat());
        let other = [first_word(Kind::Continue, 0, 2), 0, 0, 0];
        let other_words = [store(8), store(9)].concat();
        let piece = |slot, snapshot, words, position| Piece {
            slot,
            position,
            previous: 0,
            snapshot,
            words,
        };
        let pieces = [
            piece(0, &snapshot, &words, 0x1000),
            piece(1, &other, &other_words, 0x2000),
        ];
        let recording = Recording::of_pieces(pieces, "");
        let symbols = Symbols::of_places(&places);
        let mut translator = Translator::new(symbols, Cells::default(), Options::default());
        let events = translator.replay(&recording).events;
        let first = events.iter().filter(|event| event.thread == ThreadId(0));
        let operations = first.map(|event| event.op);
        operations
            .filter(|op| matches!(op, Op::AtomicStore(_)))
            .collect()
    };
    let (main, make) = (word(Kind::Enter, 9, 1), word(Kind::Enter, 1, 2));
    let initialising = [first_word(Kind::Initialising, 0, 0x2000), second_word(0, 1)];
    let (one, twice) = (store(1), [store(1), store(2)].concat());
    assert_eq!(writes(&[&main, &make], &[&twice]).len(), 2);
    assert_eq!(writes(&[&main, &initialising, &make], &[&twice]), []);
    let is_over = [first_word(Kind::Release, 0, 0x2000), second_word(GUARD, 1)];
    let leaves = word(Kind::Exit, 0, 0);
    let records: [&[u64]; 4] = [&one, &leaves, &is_over, &one];
    assert_eq!(writes(&[&main, &initialising, &make], &records).len(), 1);
    // An exception leaves the function that has begun it.
    let records: [&[u64]; 4] = [&one, &leaves, &leaves, &one];
    assert_eq!(writes(&[&main, &initialising, &make], &records).len(), 1);
    // Another one is over.
    let other = [first_word(Kind::Release, 0, 0x3000), second_word(GUARD, 1)];
    assert_eq!(
        writes(&[&main, &initialising], &[&other, &make, &twice]),
        []
    );
    // A future keeps its result by such a guard, and what its task does is checked like anything else.
    let (sets, once) = (word(Kind::Enter, 9, 3), word(Kind::Enter, 3, 4));
    let keeping = |kind, detail| [first_word(kind, 0, 0x2000), second_word(detail, 4)];
    let task = word(Kind::Enter, 4, 2);
    let kept = keeping(Kind::Initialising, 0);
    assert_eq!(writes(&[&sets, &once, &kept, &task], &[&twice]).len(), 2);
    let kept = keeping(Kind::Acquire, GUARD);
    assert_eq!(writes(&[&sets, &once], &[&kept, &task, &twice]).len(), 2);
    // It may initialise something.
    let made = [first_word(Kind::Acquire, 0, 0x3000), second_word(GUARD, 2)];
    let records: [&[u64]; 4] = [&kept, &task, &made, &twice];
    assert_eq!(writes(&[&sets, &once], &records), []);
}

/// What a part defines is named later, by where it was then; what comes from elsewhere, by its origin.
#[test]
fn names_are_made_when_they_are_wanted() {
    let places: [(u64, &str, &[&str]); 2] = [
        (1, "/home/user/main.c", &["main"]),
        (2, "/home/user/main.c", &["make"]),
    ];
    let word = |kind, subject, pc| [first_word(kind, 8, subject), second_word(0, pc)];
    let store = |address| [&word(Kind::AtomicStore, address, 2)[..], &[1]].concat();
    let alloc = |address| [&word(Kind::Alloc, address, 2)[..], &[16]].concat();
    let thread = |number, low| [first_word(Kind::Continue, 0, number), 0, low, 0x100];
    let (block, local, elsewhere, lock) = (0x1000, 0x7010, 0x5008, 0x1008);
    let symbols = Symbols::of_places(&places);
    let mut translator = Translator::new(symbols, Cells::default(), Options::default());
    let mut replay = |one: &[&[u64]], position| {
        let entered = [first_word(Kind::Enter, 0, 9), second_word(0x100 / 16, 1)];
        let snapshots = [thread(1, 0x7000), thread(2, 0x8000)];
        let snapshots = snapshots.map(|thread| [&thread[..], &entered].concat());
        let (words, others) = (one.concat(), [store(block), store(local), store(elsewhere)]);
        let others = others.concat();
        let pieces = [(&snapshots[0], &words), (&snapshots[1], &others)];
        let pieces = pieces.into_iter().zip(0..);
        let pieces = pieces.map(|((snapshot, words), slot)| Piece {
            slot,
            position: position + 0x1000 * slot as u64,
            previous: 0,
            snapshot,
            words,
        });
        let recording = Recording::of_pieces(pieces, "");
        let batch = translator.replay(&recording);
        let mut names = batch.definitions.iter().filter_map(|one| match one {
            Definition::Var(var) => Some(&var.name),
            Definition::Lock(lock) => Some(lock),
            _ => None,
        });
        assert!(names.all(|name| name.is_empty()));
        let ops = batch.events.into_iter().map(|event| event.op);
        ops.collect::<Vec<Op>>()
    };
    let (acquire, release) = (word(Kind::Acquire, lock, 2), word(Kind::Release, lock, 2));
    let made = [alloc(block), acquire.to_vec(), release.to_vec()].concat();
    let first = replay(&[&made, &store(block), &store(local)], 0x10000);
    let second = replay(&[&store(block), &store(elsewhere)], 0x20000);
    let both = || [&first[..], &second].concat().into_iter();
    let mut named = translator.name(both());
    assert_eq!(named.unknown(), [elsewhere]);
    let origin = Origin {
        snapshot: [&thread(1, 0x7000)[..], &word(Kind::Enter, 9, 1)].concat(),
        record: alloc(0x5000),
    };
    translator.name_again(&mut named, &[origin]);
    let mut vars: Vec<&str> = named.vars.iter().map(|(_, var)| &*var.name).collect();
    vars.sort_unstable();
    // What is allocated is new: there are two at one address.
    vars.dedup();
    let expected = [
        "field +0 of the 16 bytes allocated at main.c:2",
        "field +8 of the 16 bytes allocated at main.c:2",
        "local +16 of main (main.c:1)",
    ];
    assert_eq!(vars, expected);
    let locks: Vec<&str> = named.locks.iter().map(|(_, name)| &**name).collect();
    assert_eq!(locks, ["lock +8 of the 16 bytes allocated at main.c:2"]);
    // Each is named once.
    let again = translator.name(both());
    assert!(again.vars.is_empty() && again.locks.is_empty() && again.unknown().is_empty());
}
