//! Our own format.

use crate::random;
use crate::support::{lenient, read, write};
use atomsan_trace::names::{Frame, Site, Var};
use atomsan_trace::write::AtraceWriter;
use atomsan_trace::{
    Batch, Definition, Event, Format, FunctionId, LockId, ObjectId, Op, SiteId, ThreadId, VarId,
};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn what_is_written_is_what_is_read(batches in random::batches()) {
        let (bytes, written) = write(&batches, Format::Atrace);
        let whole = read(&bytes);
        prop_assert!(whole.error.is_none(), "{:?}", whole.error);
        prop_assert_eq!(&whole.summary.truncated, &None);
        prop_assert_eq!(written.events, whole.summary.events);
        prop_assert_eq!(whole.summary.bytes, bytes.len() as u64);
        let events: Vec<_> = batches.iter().flat_map(|b| &b.events).copied().collect();
        let definitions: Vec<_> = batches.iter().flat_map(|b| &b.definitions).cloned().collect();
        prop_assert_eq!(whole.events, events);
        prop_assert_eq!(whole.definitions, definitions);
    }
}

/// A trace of three chunks of a few events, each with names of its own, and where the chunks end.
fn three_chunks() -> (Vec<u8>, Vec<usize>, Vec<Batch>) {
    let batches: Vec<_> = (0..3_u32)
        .map(|i| Batch {
            definitions: vec![
                Definition::Thread(format!("T{i}").into()),
                Definition::Var(Var {
                    name: format!("x{i}").into(),
                    ..Var::default()
                }),
                Definition::Site(Site::default()),
            ],
            events: (0..5)
                .map(|n| Event {
                    thread: ThreadId(n % (i + 1)),
                    site: SiteId(n % (i + 2)),
                    op: Op::Write(VarId(n % (i + 1))),
                })
                .collect(),
        })
        .collect();
    let mut writer = AtraceWriter::new(Vec::new()).unwrap();
    let mut ends = Vec::new();
    for batch in &batches {
        writer.write(batch).unwrap();
        writer.flush().unwrap();
        ends.push(writer.get_ref().len());
    }
    (writer.finish().unwrap(), ends, batches)
}

#[test]
fn a_trace_that_is_cut_off_is_used_up_to_its_last_whole_chunk() {
    let (bytes, ends, batches) = three_chunks();
    for cut in 1..bytes.len() {
        let whole = read(&bytes[..cut]);
        assert!(whole.error.is_none(), "{cut}: {:?}", whole.error);
        let chunks = ends.iter().filter(|&&end| end <= cut).count();
        let events: Vec<_> = batches[..chunks].iter().flat_map(|b| &b.events).collect();
        assert_eq!(whole.events.iter().collect::<Vec<_>>(), events, "{cut}");
        let truncated = whole.summary.truncated.expect("the summary says so");
        let chunk = chunks + 1;
        assert!(
            truncated.starts_with(&format!(
                "it is cut off within or after chunk {chunk}, at byte "
            )),
            "{truncated}"
        );
    }
    assert_eq!(read(&bytes).summary.truncated, None);
}

#[test]
fn no_changed_byte_goes_unnoticed() {
    let (bytes, ends, batches) = three_chunks();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x41;
        let strict = read(&damaged);
        let message = strict.message();
        let chunks = ends.iter().filter(|&&end| end <= at).count();
        let events: Vec<_> = batches[..chunks].iter().flat_map(|b| &b.events).collect();
        assert_eq!(strict.events.iter().collect::<Vec<_>>(), events, "{at}");
        if at < 8 {
            continue;
        }
        let start = [8, ends[0], ends[1], ends[2]][chunks];
        assert!(
            message.starts_with(&format!(
                "t: at byte {start}: expected a whole chunk, found "
            )),
            "{message}"
        );
        assert!(
            message.ends_with("; skip damaged chunks with --lenient"),
            "{message}"
        );

        let lenient = lenient(&damaged, Format::Atrace);
        assert!(lenient.error.is_none(), "{at}: {:?}", lenient.error);
        assert_eq!(lenient.summary.skipped, 1, "{at}: {:?}", lenient.summary);
        let kept = |i: &usize| *i != chunks;
        let events: Vec<_> = (0..3)
            .filter(kept)
            .flat_map(|i| &batches[i].events)
            .collect();
        assert_eq!(lenient.events.iter().collect::<Vec<_>>(), events, "{at}");
        // The names of the other chunks keep their ids.
        for i in (0..3).filter(kept) {
            assert_eq!(lenient.names.thread(ThreadId(i as u32)), format!("T{i}"));
            assert_eq!(lenient.names.var_name(VarId(i as u32)), format!("x{i}"));
        }
        assert_eq!(lenient.summary.truncated.is_some(), chunks == 3, "{at}");
    }
}

#[test]
fn a_chunk_that_is_missing_is_noticed() {
    let (bytes, ends, _) = three_chunks();
    let mut missing = bytes[..ends[0]].to_vec();
    missing.extend_from_slice(&bytes[ends[1]..]);
    assert!(
        read(&missing)
            .message()
            .contains("in a chunk that is missing")
    );
    let whole = lenient(&missing, Format::Atrace);
    assert_eq!(whole.events.len(), 10);
    assert_eq!(whole.names.thread(ThreadId(1)), "thread#1");
    assert_eq!(whole.names.thread(ThreadId(2)), "T2");

    let mut repeated = bytes[..ends[1]].to_vec();
    repeated.extend_from_slice(&bytes[ends[0]..]);
    assert!(
        read(&repeated)
            .message()
            .contains("does not follow the one before")
    );

    let mut longer = bytes.clone();
    longer.push(0);
    assert!(
        read(&longer)
            .message()
            .contains("bytes behind the last chunk")
    );
}

#[test]
fn another_version_is_said_to_be_one() {
    let (mut bytes, _, _) = three_chunks();
    bytes[7] = 9;
    assert_eq!(
        read(&bytes).message(),
        "t: at byte 0: this is version 9 of the format and atomsan reads version 1; use the \
         atomsan that wrote it, or a newer one"
    );
    assert!(
        lenient("T|r(x)|1", Format::Atrace)
            .message()
            .contains("not a binary trace")
    );
}

#[test]
fn long_traces_have_many_chunks() {
    let mut text = String::new();
    for i in 0..150_000 {
        text.push_str(&format!(
            "T{}|w(x{})|{}\n",
            i / 1000 % 7,
            i % 40_000,
            i % 1000
        ));
    }
    let (bytes, _) = read(&text).write(Format::Atrace);
    assert!(bytes.len() < text.len() / 5, "{}", bytes.len());
    let markers = bytes.windows(4).filter(|w| w == b"\xC5HNK").count();
    assert!(markers > 4, "{markers}");
    let (again, _) = read(&bytes).write(Format::Std);
    assert!(again == text.as_bytes());
}

#[test]
fn a_name_that_fits_nowhere_is_refused() {
    let mut writer = AtraceWriter::new(Vec::new()).unwrap();
    let batch = |length: usize| Batch {
        definitions: vec![Definition::Lock("l".repeat(length).into())],
        events: vec![],
    };
    writer.write(&batch(1 << 20)).unwrap();
    writer.write(&batch(3 << 20)).unwrap_err();
    writer.write(&batch(2_000_000)).unwrap();
    let whole = read(writer.finish().unwrap());
    assert!(whole.error.is_none());
    assert_eq!(whole.names.locks().len(), 2);
    assert_eq!(whole.names.locks()[1].len(), 2_000_000);
}

/// A file with one chunk of this payload, by the letter of the documentation.
pub fn file_of(payload: &[u8], events: u32) -> Vec<u8> {
    let xxh3 = xxhash_rust::xxh3::xxh3_64;
    let mut file = b"\x89ATRACE\x01".to_vec();
    for (storage, payload, events) in [
        (0_u32, payload, events),
        (2, &u64::from(events).to_le_bytes()[..], 0),
    ] {
        let mut header = vec![0xC5, 0x48, 0x4E, 0x4B];
        let length = payload.len() as u32;
        for number in [storage, length, length, events] {
            header.extend(number.to_le_bytes());
        }
        header.extend(xxh3(payload).to_le_bytes());
        let own = xxh3(&header) as u32;
        header.extend(own.to_le_bytes());
        file.extend(header);
        file.extend(payload);
    }
    file
}

#[test]
fn the_layout_is_as_documented() {
    let payload = [
        // Nothing before; seven definitions.
        &[0, 0, 0, 0, 0, 0, 7][..],
        b"\x00\x02T0",
        b"\x00\x02T1",
        b"\x01\x01x\x00\x01",
        b"\x04\x01o",
        // A variable of object 0, not volatile.
        b"\x01\x01y\x01\x00",
        b"\x03\x01f",
        // A site in function 0, `a.c:300:2`.
        b"\x05\x01\x01\x03a.c\xac\x02\x02",
        // Site 1: a difference of +1. Nothing else differs from 0.
        &[0x40 | 10, 2],
        // Thread 1, whose last site is 0; after site 0 came site 1.
        &[0x20 | 21, 1],
        // Back to thread 0: after site 1 comes site 0, first of all. Variable 1, object 0.
        &[0x20 | 0x80 | 24, 0, 2, 0],
        // The same again, at site 1.
        &[0x40 | 0x80 | 24, 2, 2, 0],
    ]
    .concat();
    let whole = read(file_of(&payload, 4));
    assert!(whole.error.is_none(), "{}", whole.message());
    let event = |thread, site, op| Event {
        thread: ThreadId(thread),
        site: SiteId(site),
        op,
    };
    let store = Op::RefStore {
        into: VarId(1),
        object: ObjectId(0),
    };
    assert_eq!(
        whole.events,
        [
            event(0, 1, Op::AtomicLoad(VarId(0))),
            event(1, 1, Op::Yield),
            event(0, 0, store),
            event(0, 1, store),
        ]
    );
    assert!(whole.names.var(VarId(0)).unwrap().volatile);
    let field = whole.names.var(VarId(1)).unwrap();
    assert_eq!((field.object, field.volatile), (Some(ObjectId(0)), false));
    let frame = whole.names.site(SiteId(1)).unwrap().frame().unwrap();
    assert_eq!((&*frame.file, frame.line, frame.column), ("a.c", 300, 2));
}

/// Engines have tables as long as the ids are large, so none may be larger than what is defined.
#[test]
fn an_id_that_was_never_defined_is_damage() {
    let with = |definitions: Vec<Definition>, event: Event| {
        let definitions = [random::one_of_each(), definitions].concat();
        let events = vec![event];
        let batch = Batch {
            definitions,
            events,
        };
        read(write(&[batch], Format::Atrace).0)
    };
    let event = |thread, site, op| Event {
        thread: ThreadId(thread),
        site: SiteId(site),
        op,
    };
    assert!(with(vec![], event(0, 1, Op::Yield)).error.is_none());
    let store = |into, object| Op::RefStore {
        into: VarId(into),
        object: ObjectId(object),
    };
    for event in [
        event(1, 0, Op::Yield),
        event(u32::MAX, 0, Op::End),
        event(0, 2, Op::Yield),
        event(0, 0, Op::AtomicRmw(VarId(1))),
        event(0, 0, Op::Woken(LockId(u32::MAX))),
        event(0, 0, Op::Exit(FunctionId(1))),
        event(0, 0, Op::Join(ThreadId(1))),
        event(0, 0, Op::Free(ObjectId(1))),
        event(0, 0, store(1, 0)),
        event(0, 0, store(0, 1)),
    ] {
        let said = with(vec![], event);
        assert!(
            said.message().contains("names are not defined"),
            "{event:?}"
        );
        assert!(said.events.is_empty());
    }
    let var = Var {
        object: Some(ObjectId(1)),
        ..Var::default()
    };
    let frame = Frame {
        function: Some(FunctionId(1)),
        ..Frame::default()
    };
    for definition in [
        Definition::Var(var),
        Definition::Site(Site {
            frames: vec![frame],
            ..Site::default()
        }),
    ] {
        let said = with(vec![definition], event(0, 0, Op::Yield));
        assert!(said.message().contains("refers to one that is not"));
    }
}
