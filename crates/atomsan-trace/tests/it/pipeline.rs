//! Compression, truncation and the threads.

use crate::support::{lenient, read};
use atomsan_trace::Format;
use atomsan_trace::input::Source;
use atomsan_trace::read::{self, ReadOptions};
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
        assert_eq!(truncated, "the compressed data is cut off here");
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

#[test]
fn a_cut_in_the_very_beginning_is_an_error() {
    let whole = read(&zstd(text(1000).as_bytes())[..6]);
    assert!(whole.message().contains("cut off"), "{}", whole.message());
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
