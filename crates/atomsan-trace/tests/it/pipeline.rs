//! Compression, truncation and the threads.

use crate::support::{lenient, read, read_with};
use atomsan_trace::input::Source;
use atomsan_trace::read::{self, ReadOptions};
use atomsan_trace::{Format, Names, Op};
use std::io::Write;

fn text(lines: usize) -> String {
    (0..lines)
        .map(|i| format!("T{}|w(@{:X}.f)|{}\n", i % 5, i * 7919 % 4096, i % 300))
        .collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

#[test]
fn compression_is_found_by_content() {
    let text = text(50_000);
    let plain = read(&text).lines();
    assert_eq!(plain.len(), 50_000);
    for compressed in [gzip(text.as_bytes()), zstd(text.as_bytes())] {
        assert!(compressed.len() < text.len() / 2);
        let whole = read(&compressed);
        assert!(whole.error.is_none(), "{}", whole.message());
        assert_eq!(whole.lines(), plain);
        assert_eq!(whole.summary.bytes, text.len() as u64);
    }
}

#[test]
fn concatenated_parts_are_one_stream() {
    let (one, two) = ("a|r(x)|1\na|r(", "x)|2\n");
    for part in [gzip, zstd] {
        let mut both = part(one.as_bytes());
        both.extend(part(two.as_bytes()));
        assert_eq!(read(&both).lines(), ["a read(x) :1:0", "a read(x) :2:0"]);
    }
}

#[test]
fn compressed_text_that_is_cut_off_is_read_to_there_and_is_an_error() {
    let text = text(100_000);
    let plain = read(&text).lines();
    for compressed in [gzip(text.as_bytes()), zstd(text.as_bytes())] {
        let cut = &compressed[..compressed.len() * 2 / 3];
        let strict = read(cut);
        let message = strict.message();
        assert!(
            message
                .contains("the compressed data is cut off here; use what is there with --lenient"),
            "{message}"
        );
        let n = strict.events.len();
        assert!(n > 10_000 && n < 100_000, "{n}");
        assert!(message.starts_with(&format!("t:{}: ", n + 1)), "{message}");
        assert_eq!(strict.lines(), plain[..n]);

        let lenient = lenient(cut, Format::Std);
        assert!(lenient.error.is_none());
        assert_eq!(lenient.events.len(), n);
        let truncated = lenient.summary.truncated.expect("the summary says so");
        let line = n + 1;
        assert_eq!(
            truncated,
            format!("the compressed data is cut off here (line {line})")
        );
    }
}

#[test]
fn compressed_data_that_is_damaged_is_an_error() {
    let text = text(100_000);
    for mut compressed in [gzip(text.as_bytes()), zstd(text.as_bytes())] {
        let middle = compressed.len() / 2;
        for byte in &mut compressed[middle..middle + 64] {
            *byte = !*byte;
        }
        assert!(read(&compressed).error.is_some());
    }
}

/// Damage in front of everything that tells the format: an error that says where and what to do,
/// and forgiven if asked to.
fn check_damage_in_front(damaged: &[u8], what: &str) {
    let strict = read(damaged);
    let message = strict.message();
    assert!(message.starts_with("t:1: "), "{message}");
    assert!(message.contains(what), "{message}");
    assert!(
        message.ends_with("; use what is there with --lenient"),
        "{message}"
    );
    let options = ReadOptions {
        format: None,
        lenient: true,
    };
    let lenient = read_with(damaged, &options);
    assert!(lenient.error.is_none(), "{}", lenient.message());
    assert!(lenient.events.is_empty());
    let truncated = lenient.summary.truncated.expect("the summary says so");
    assert!(truncated.contains(what), "{truncated}");
}

#[test]
fn a_cut_in_the_very_beginning_is_an_error() {
    for compressed in [gzip(text(1000).as_bytes()), zstd(text(1000).as_bytes())] {
        check_damage_in_front(&compressed[..6], "cut off");
    }
}

#[test]
fn a_cut_in_the_first_line_is_an_error() {
    let text = format!("T|r({})|1\n", "x".repeat(200_000));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    encoder.write_all(text.as_bytes()).unwrap();
    let stored = encoder.finish().unwrap();
    check_damage_in_front(&stored[..50_000], "cut off");
}

#[test]
fn a_first_block_that_is_damaged_is_an_error() {
    let mut compressed = zstd(text(1000).as_bytes());
    // The type of the first block becomes the one that is reserved.
    let header = 4 + 1 + 1;
    for byte in &mut compressed[header..header + 8] {
        *byte = 0xff;
    }
    check_damage_in_front(&compressed, "cannot read on");
}

#[test]
fn a_file_that_is_not_there() {
    let source = Source::path("/does/not/exist");
    let error = read::open(&source, &ReadOptions::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("/does/not/exist: cannot open: "),
        "{error}"
    );
    let error = read::open(&Source::path("/"), &ReadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("directory"), "{error}");
}

#[test]
fn progress_reaches_the_end() {
    let compressed = zstd(text(50_000).as_bytes());
    let source = Source::bytes("t", compressed.clone());
    let mut trace = read::open(&source, &ReadOptions::default()).unwrap();
    while trace.next().unwrap().is_some() {
        let (done, total) = trace.progress();
        assert!(done <= total.unwrap());
    }
    let length = compressed.len() as u64;
    assert_eq!(trace.progress(), (length, Some(length)));
}

/// Whatever an event refers to has been defined by its batch or one before.
#[test]
fn names_are_defined_in_front_of_their_use() {
    let text: String = (0..60_000)
        .map(|i| match i % 7 {
            0 => format!("T{}|acq(l{})|{}\n", i / 900, i / 80, i / 3),
            1 => format!("T{}|begin(f{})|{}\n", i / 900, i / 70, i / 3),
            _ => format!("T{}|w(@{:X}.f)|{}\n", i / 900, i / 2, i / 3),
        })
        .collect();
    let (atrace, _) = read(&text).write(Format::Atrace);
    for bytes in [text.into_bytes(), atrace] {
        let mut names = Names::default();
        let source = Source::bytes("t", bytes);
        let mut trace = read::open(&source, &ReadOptions::default()).unwrap();
        let mut batches = 0;
        while let Some(batch) = trace.next().unwrap() {
            batches += 1;
            for definition in batch.definitions.drain(..) {
                names.define(definition);
            }
            for event in &batch.events {
                assert!(event.thread.index() < names.threads().len());
                assert!(names.site(event.site).is_some());
                match event.op {
                    Op::Write(x) => assert!(
                        names
                            .var(x)
                            .is_some_and(|x| { x.object.unwrap().index() < names.objects().len() })
                    ),
                    Op::Acquire(l) => assert!(l.index() < names.locks().len()),
                    Op::Begin(f) => assert!(names.function(f).is_some()),
                    other => panic!("{other:?}"),
                }
            }
        }
        assert!(batches > 5, "{batches}");
    }
}

/// Bytes come in small pieces from a pipe; what has come is delivered before waiting for more.
#[cfg(unix)]
#[test]
fn a_live_trace_is_delivered_as_it_comes() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("live.std");
    let made = std::process::Command::new("mkfifo")
        .arg(&fifo)
        .status()
        .unwrap();
    assert!(made.success());
    let writer = std::thread::spawn({
        let fifo = fifo.clone();
        move || std::fs::OpenOptions::new().write(true).open(fifo).unwrap()
    });
    let (first_read, wait) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let source = Source::path(&fifo);
        let mut trace = read::open(&source, &ReadOptions::default()).unwrap();
        let mut events = 0;
        while let Some(batch) = trace.next().unwrap() {
            events += batch.events.len();
            first_read.send(events).unwrap();
        }
        assert_eq!(trace.progress().1, None, "nobody knows how long a pipe is");
        events
    });
    let mut pipe = writer.join().unwrap();
    pipe.write_all(b"T|r(x)|1\nT|w(").unwrap();
    assert_eq!(wait.recv().unwrap(), 1);
    pipe.write_all(b"x)|2\n").unwrap();
    assert_eq!(wait.recv().unwrap(), 2);
    drop(pipe);
    assert_eq!(reader.join().unwrap(), 2);
}
