//! `atomsan stats`: what is in a trace, the counts that a paper's table has.

use crate::exit::Exit;
use crate::format_arg::FormatArg;
use crate::output::Output;
use crate::progress::Progress;
use anyhow::Context as _;
use atomsan_engines::regions::{Boundary, Regions};
use atomsan_trace::input::Source;
use atomsan_trace::numbers::grouped;
use atomsan_trace::read::{self, ReadOptions};
use atomsan_trace::{Event, Names, Op};
use std::path::PathBuf;

/// Show what is in a trace
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  atomsan stats --json trace.std.zst | jq .transactions")]
pub(crate) struct Args {
    /// Traces, plain or compressed; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The traces' format; `auto` finds out by content
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    format: FormatArg,

    /// Skip what cannot be read instead of stopping
    #[arg(long)]
    lenient: bool,

    /// One JSON object for each trace, a line each
    #[arg(long)]
    json: bool,
}

/// The counts, in the order they are shown.
#[derive(Default)]
struct Counts {
    events: u64,
    reads: u64,
    writes: u64,
    atomics: u64,
    acquires: u64,
    releases: u64,
    waits: u64,
    notifies: u64,
    forks: u64,
    joins: u64,
    barriers: u64,
    yields: u64,
    calls: u64,
    allocations: u64,
    frees: u64,
    references: u64,
    regions: u64,
    transactions: u64,
    inside: u64,
    outside: u64,
}

impl Counts {
    fn count(&mut self, event: &Event, boundary: Boundary) {
        self.events += 1;
        let counter = match event.op {
            Op::Read(_) => &mut self.reads,
            Op::Write(_) => &mut self.writes,
            Op::AtomicLoad(_) | Op::AtomicStore(_) | Op::AtomicRmw(_) | Op::AtomicRmwFailed(_) => {
                &mut self.atomics
            }
            Op::Acquire(_) | Op::AcquireShared(_) | Op::Woken(_) => &mut self.acquires,
            Op::Release(_) | Op::ReleaseShared(_) => &mut self.releases,
            Op::Wait(_) => &mut self.waits,
            Op::Notify(_) => &mut self.notifies,
            Op::Fork(_) => &mut self.forks,
            Op::Join(_) => &mut self.joins,
            Op::Arrive(_) => &mut self.barriers,
            Op::Leave(_) | Op::End | Op::Exit(_) => &mut 0,
            Op::Yield => &mut self.yields,
            Op::Enter(_) => &mut self.calls,
            Op::Begin(_) => &mut self.regions,
            Op::Alloc(_) => &mut self.allocations,
            Op::Free(_) => &mut self.frees,
            Op::RefStore { .. } => &mut self.references,
        };
        *counter += 1;
        self.transactions += u64::from(matches!(boundary, Boundary::Begin(_)));
        if event.op.var().is_some() {
            match boundary {
                Boundary::Outside => self.outside += 1,
                _ => self.inside += 1,
            }
        }
    }

    fn rows(&self, names: &Names) -> Vec<(&'static str, u64)> {
        vec![
            ("events", self.events),
            ("threads", names.threads().len() as u64),
            ("locks", names.locks().len() as u64),
            ("variables", names.vars().len() as u64),
            ("objects", names.objects().len() as u64),
            ("functions", names.functions().len() as u64),
            ("sites", names.sites().len() as u64 - 1),
            ("transactions", self.transactions),
            ("accesses in transactions", self.inside),
            ("accesses outside", self.outside),
            ("reads", self.reads),
            ("writes", self.writes),
            ("atomic operations", self.atomics),
            ("acquires", self.acquires),
            ("releases", self.releases),
            ("waits", self.waits),
            ("notifies", self.notifies),
            ("forks", self.forks),
            ("joins", self.joins),
            ("barrier arrivals", self.barriers),
            ("yields", self.yields),
            ("regions begun", self.regions),
            ("function calls", self.calls),
            ("allocations", self.allocations),
            ("frees", self.frees),
            ("reference stores", self.references),
        ]
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut out = Output::open(None)?;
    for path in &args.files {
        let source = Source::path(path);
        let options = ReadOptions {
            format: args.format.into(),
            lenient: args.lenient,
        };
        let mut trace = read::open(&source, &options)?;
        let mut names = Names::default();
        let mut regions = Regions::default();
        let mut counts = Counts::default();
        let mut progress = Progress::new(source.name());
        while let Some(batch) = trace.next()? {
            for definition in batch.definitions.drain(..) {
                names.define(definition);
            }
            for event in &batch.events {
                let boundary = regions.step(counts.events, event, &names);
                counts.count(event, boundary);
            }
            let (done, total) = trace.progress();
            progress.update(counts.events, done, total);
        }
        drop(progress);
        let rows = counts.rows(&names);
        if args.json {
            let mut object = serde_json::Map::new();
            object.insert("file".into(), source.name().into());
            object.extend(
                rows.iter()
                    .map(|(name, value)| (name.replace(' ', "_"), (*value).into())),
            );
            let text = serde_json::to_string(&object).context("cannot write JSON")?;
            out.write(|out| writeln!(out, "{text}"))?;
            continue;
        }
        let format = trace.format();
        out.write(|out| writeln!(out, "{} ({format})", source.name()))?;
        for (name, value) in rows.iter().filter(|(_, value)| *value > 0) {
            let value = grouped(*value);
            out.write(|out| writeln!(out, "  {value:>15}  {name}"))?;
        }
    }
    Ok(Exit::Clean)
}
