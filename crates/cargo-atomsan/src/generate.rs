//! `atomsan gen`: random traces.

use crate::destination::{Destination, Flags};
use crate::exit::Exit;
use crate::progress::Progress;
use atomsan_trace::Batch;
use atomsan_trace::generate::{Generator, Options};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  atomsan gen --events 1000000 -o t.atrace
  atomsan gen --violations 0.01 --seed 7 | atomsan check -

Without --violations the trace is serializable by construction.";

/// Generate a random trace
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// About how many events
    #[arg(long, default_value_t = Options::default().events)]
    events: u64,

    /// How many threads
    #[arg(long, default_value_t = Options::default().threads, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: u32,

    /// How many variables
    #[arg(long, default_value_t = Options::default().vars, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    vars: u32,

    /// How many locks
    #[arg(long, default_value_t = Options::default().locks, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    locks: u32,

    /// Accesses of a transaction
    #[arg(long, default_value_t = Options::default().accesses, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    accesses: u32,

    /// The share of transactions that work on shared variables
    #[arg(long, default_value_t = Options::default().contention, value_parser = share)]
    contention: f64,

    /// The share of accesses that write
    #[arg(long, default_value_t = Options::default().writes, value_parser = share)]
    writes: f64,

    /// The share of lock sections outside of transactions
    #[arg(long, default_value_t = Options::default().unary, value_parser = share)]
    unary: f64,

    /// The share of transactions that drop their lock in the middle
    #[arg(long, default_value_t = Options::default().violations, value_parser = share)]
    violations: f64,

    /// Equal seeds give equal traces
    #[arg(long, default_value_t = Options::default().seed)]
    seed: u64,

    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    flags: Flags,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("expected a number from 0 to 1".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut generator = Generator::new(Options {
        events: args.events,
        threads: args.threads,
        vars: args.vars,
        locks: args.locks,
        accesses: args.accesses,
        contention: args.contention,
        writes: args.writes,
        unary: args.unary,
        violations: args.violations,
        seed: args.seed,
    });
    let mut destination = Destination::open(args.output.as_deref(), &args.flags)?;
    let mut progress = Progress::new("generating");
    let mut batch = Batch::default();
    let mut events = 0;
    while generator.next(&mut batch) {
        events += batch.events.len() as u64;
        if !destination.write(&batch)? {
            return Ok(Exit::Clean);
        }
        batch.definitions.clear();
        batch.events.clear();
        progress.update(events, events, Some(args.events.max(events)));
    }
    drop(progress);
    destination.finish()?;
    Ok(Exit::Clean)
}
