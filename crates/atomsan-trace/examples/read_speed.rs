//! Reads traces as fast as it can and prints how fast that was.

use atomsan_trace::input::Source;
use atomsan_trace::read::{self, ReadOptions};
use std::time::Instant;

fn main() -> Result<(), read::ReadError> {
    for path in std::env::args().skip(1) {
        let start = Instant::now();
        let mut trace = read::open(&Source::path(&path), &ReadOptions::default())?;
        let (mut definitions, mut threads) = (0_u64, 0_u64);
        while let Some(batch) = trace.next()? {
            definitions += batch.definitions.len() as u64;
            for event in &batch.events {
                threads += u64::from(event.thread.0);
            }
        }
        std::hint::black_box(threads);
        let seconds = start.elapsed().as_secs_f64();
        let events = trace.summary().events;
        println!(
            "{path}: {events} events, {definitions} names, {seconds:.3} s, {:.1} M events/s",
            events as f64 / seconds / 1e6
        );
    }
    Ok(())
}
