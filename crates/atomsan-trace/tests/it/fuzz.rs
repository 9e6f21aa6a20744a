//! Readers survive everything: bytes, and files that were valid before something happened.

use crate::atrace::file_of;
use crate::random::{self, Mutation};
use crate::support::{read_with, write};
use atomsan_trace::read::{Position, ReadOptions};
use atomsan_trace::{Batch, Format};
use proptest::collection::vec;
use proptest::prelude::*;
use std::io::Write;

/// Reads bytes as what they seem to be and as something else, strictly and leniently; what comes
/// out is checked as far as it can be.
fn survive(bytes: &[u8]) -> Result<(), TestCaseError> {
    let another = Format::ALL[bytes.len() % 3];
    for format in [None, Some(another)] {
        let strict = read_with(
            bytes,
            &ReadOptions {
                format,
                lenient: false,
            },
        );
        let lenient = read_with(
            bytes,
            &ReadOptions {
                format,
                lenient: true,
            },
        );
        for whole in [&strict, &lenient] {
            if let Some(error) = &whole.error {
                prop_assert!(!error.message.contains("stopped unexpectedly"), "{}", error);
                if let Position::Line(line) = error.position {
                    prop_assert!(line >= 1 && line <= whole.summary.bytes + 1);
                }
            }
        }
        prop_assert_eq!(strict.summary.skipped, 0, "strict skips nothing");
        prop_assert!(strict.events.len() <= lenient.events.len());
        prop_assert_eq!(&strict.events[..], &lenient.events[..strict.events.len()]);
        if strict.error.is_none() {
            prop_assert_eq!(&strict.events, &lenient.events);
            prop_assert_eq!(lenient.summary.skipped, 0, "nothing is wrong");
        }
    }
    Ok(())
}

const LOG: &str = "\
@  Enter(0,A.main([Ljava/lang/String;)V) from null
@   ARd(0,@03[0])  Final  A.java:140:123
@   Start(0,1)
@   Acquire(1,@0F)
@    VWr(1,null.A.stop_Z)  Shared  A.java:7:8
@   Exit(1,A.run()V)
@   Join(0,1)
";

fn valid() -> impl Strategy<Value = Vec<u8>> {
    let std = random::batches().prop_map(|b: Vec<Batch>| write(&b, Format::Std).0);
    let atrace = random::batches().prop_map(|b: Vec<Batch>| write(&b, Format::Atrace).0);
    prop_oneof![std, atrace, Just(LOG.as_bytes().to_vec())]
}

fn compressed(bytes: Vec<u8>, how: u8) -> Vec<u8> {
    match how {
        0 => zstd::encode_all(&bytes[..], 1).unwrap(),
        1 => {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(&bytes).unwrap();
            encoder.finish().unwrap()
        }
        _ => bytes,
    }
}

fn apply(mut bytes: Vec<u8>, mutations: &[Mutation]) -> Vec<u8> {
    for mutation in mutations {
        mutation.apply(&mut bytes);
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn arbitrary_bytes(bytes in vec(any::<u8>(), 0..300), head in 0..4_u8) {
        let magic: &[u8] = match head {
            0 => b"",
            1 => b"\x89ATRACE\x01",
            2 => b"\x1f\x8b\x08\x00",
            _ => b"\x28\xb5\x2f\xfd",
        };
        survive(&[magic, &bytes].concat())?;
    }

    #[test]
    fn damaged_files(file in valid(), mutations in random::mutations(), how in 0..6_u8) {
        survive(&compressed(apply(file.clone(), &mutations), how))?;
        survive(&apply(compressed(file, how), &mutations))?;
    }

    /// A checksum does not make a chunk's contents sensible.
    #[test]
    fn nonsense_with_a_valid_checksum(payload in vec(any::<u8>(), 0..200), events in 0..50_u32) {
        // Counts of up to 127 names that were never there.
        let lost: Vec<_> = payload.iter().map(|byte| byte & 0x7f).collect();
        survive(&file_of(&lost, events.min(lost.len() as u32)))?;
        let counts = [&[0, 0, 0, 0, 0, 0][..], &payload].concat();
        survive(&file_of(&counts, events.min(counts.len() as u32)))?;
        let events_only = [&[0, 0, 0, 0, 0, 0, 0][..], &payload].concat();
        survive(&file_of(&events_only, events.min(events_only.len() as u32)))?;
    }
}

/// Lengths that lie do not make the reader allocate or loop.
#[test]
fn declared_lengths_are_not_believed() {
    for lie in [
        // A name of 2^32 - 1 bytes, that many definitions, a site of that many frames.
        &[0, 0, 0, 0, 0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f][..],
        &[0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0, 0, 0, 0, 0, 0, 1, 5, 0xff, 0xff, 0xff, 0xff, 0x0f],
        // As many names lost.
        &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0, 0, 0],
    ] {
        for lenient in [false, true] {
            let options = ReadOptions {
                format: None,
                lenient,
            };
            let whole = read_with(&file_of(lie, 0), &options);
            assert_eq!(whole.error.is_none(), lenient);
            assert!(whole.definitions.is_empty());
            assert_eq!(whole.summary.skipped, u64::from(lenient));
        }
    }
}
