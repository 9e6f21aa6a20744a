//! Writing RAPID's text format.

use crate::random;
use crate::support::{read, write};
use atomsan_trace::names::Var;
use atomsan_trace::{Batch, Definition, Event, Format, LockId, Op, SiteId, ThreadId, VarId};
use proptest::prelude::*;
use std::collections::HashMap;

/// The AeroDrome paper's second figure, and a real program's spelling.
#[test]
fn text_comes_back_as_it_was() {
    let text = "T0|fork(T1)|1\nT1|begin(0)|10\nT1|begin|10\nT1|acq(L)|11\nT1|r(x)|12\n\
                T1|rel(L)|13\nT2|begin(0)|20\nT1|end|7\nT2|w(@03.Table.forks_\\[Z)|70000\n\
                T2|end(0)|27\nT1|end(0)|17\nT1|end|18\nT0|join(T1)|0\n";
    let (atrace, _) = read(text).write(Format::Atrace);
    let (again, written) = read(&atrace).write(Format::Std);
    assert_eq!(String::from_utf8(again).unwrap(), text);
    assert_eq!(written.events, 13);
    assert_eq!(written.left_out, []);
}

#[test]
fn what_cannot_be_said_is_counted() {
    let ops = [
        Op::Wait(LockId(0)),
        Op::Read(VarId(0)),
        Op::Wait(LockId(0)),
        Op::AtomicLoad(VarId(0)),
        Op::Yield,
    ];
    let events = ops.map(|op| Event {
        thread: ThreadId(0),
        site: SiteId::UNKNOWN,
        op,
    });
    let batch = Batch {
        definitions: vec![],
        events: events.to_vec(),
    };
    let (bytes, written) = write(&[batch], Format::Std);
    assert_eq!(bytes, b"thread#0|r(var#0)|0\n");
    assert_eq!(written.events, 1);
    assert_eq!(
        written.left_out,
        [("atomic load", 1), ("wait", 2), ("yield", 1)]
    );
}

#[test]
fn names_stay_different() {
    let var = |name: &str| {
        Definition::Var(Var {
            name: name.into(),
            ..Var::default()
        })
    };
    let names = ["x", "x", "a b", "a|b", "", "x#1", "a\\x20b"];
    let events = (0..7).map(|i| Event {
        thread: ThreadId(0),
        site: SiteId(0),
        op: Op::Read(VarId(i)),
    });
    let mut definitions = vec![Definition::Thread("main thread".into())];
    definitions.extend(names.map(var));
    let batch = Batch {
        definitions,
        events: events.collect(),
    };
    let (bytes, _) = write(&[batch], Format::Std);
    assert_eq!(
        String::from_utf8(bytes)
            .unwrap()
            .replace("main\\x20thread|r(", "")
            .replace(")|0", ""),
        "x\nx#1\na\\x20b\na\\x7cb\nvar#4\nx#1#5\na\\x20b#6\n"
    );
}

#[test]
fn rr_is_not_written() {
    let error = atomsan_trace::write::Writer::new(Format::Rr, Default::default(), Vec::new());
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("write std or atrace")
    );
}

/// The eight operations the format has.
fn plain(op: Op) -> bool {
    matches!(
        op,
        Op::Read(_)
            | Op::Write(_)
            | Op::Acquire(_)
            | Op::Release(_)
            | Op::Fork(_)
            | Op::Join(_)
            | Op::Begin(_)
            | Op::End
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    /// Whatever the names, the text has the same events, and what was different stays different.
    #[test]
    fn what_is_written_is_what_is_read(mut batches in random::batches()) {
        // A name is announced in front of its first use, or never.
        let names = batches.iter_mut().flat_map(|b| std::mem::take(&mut b.definitions)).collect();
        batches.insert(0, Batch { definitions: names, events: vec![] });
        let (text, written) = write(&batches, Format::Std);
        let whole = read(&text);
        prop_assert!(whole.error.is_none(), "{}", whole.message());
        let all: Vec<_> = batches.iter().flat_map(|b| &b.events).collect();
        let kept: Vec<_> = all.iter().filter(|e| plain(e.op)).collect();
        let left_out: u64 = written.left_out.iter().map(|&(_, count)| count).sum();
        prop_assert_eq!(written.events + left_out, all.len() as u64);
        prop_assert_eq!(whole.events.len(), kept.len());
        let (mut threads, mut vars, mut locks) = (HashMap::new(), HashMap::new(), HashMap::new());
        for (was, is) in kept.iter().zip(&whole.events) {
            prop_assert_eq!(*threads.entry(was.thread).or_insert(is.thread), is.thread);
            prop_assert_eq!(std::mem::discriminant(&was.op), std::mem::discriminant(&is.op));
            match (was.op, is.op) {
                (Op::Fork(a), Op::Fork(b)) | (Op::Join(a), Op::Join(b)) => {
                    prop_assert_eq!(*threads.entry(a).or_insert(b), b);
                }
                _ => {}
            }
            if let (Some(a), Some(b)) = (was.op.var(), is.op.var()) {
                prop_assert_eq!(*vars.entry(a).or_insert(b), b);
            }
            if let (Some(a), Some(b)) = (was.op.lock(), is.op.lock()) {
                prop_assert_eq!(*locks.entry(a).or_insert(b), b);
            }
        }
        prop_assert_eq!(threads.len(), whole.names.threads().len());
        prop_assert_eq!(vars.len(), whole.names.vars().len());
        prop_assert_eq!(locks.len(), whole.names.locks().len());

        // Once it is text, it comes back as it was.
        let (atrace, _) = whole.write(Format::Atrace);
        let (again, _) = read(&atrace).write(Format::Std);
        prop_assert_eq!(String::from_utf8(again), String::from_utf8(text));
    }
}
