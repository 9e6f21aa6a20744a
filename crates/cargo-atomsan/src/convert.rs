//! `atomsan convert`: from one trace format to another.

use crate::destination::{Destination, Flags};
use crate::exit::{Exit, UsageError};
use crate::format_arg::FormatArg;
use crate::output;
use crate::progress::Progress;
use atomsan_trace::input::Source;
use atomsan_trace::read::{self, ReadOptions};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  atomsan convert trace.std.zst trace.atrace
  atomsan convert --to std trace.atrace - | head

The text format std has no words for some events; how many were left out is said at the end.";

/// Convert a trace to another format
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The trace to read; `-` is standard input
    #[arg(value_name = "FROM")]
    from: PathBuf,

    /// The trace to write; `-` is standard output
    #[arg(value_name = "TO")]
    into: PathBuf,

    /// The format to read; `auto` finds out by content
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    format: FormatArg,

    /// Skip what cannot be read instead of stopping
    #[arg(long)]
    lenient: bool,

    #[command(flatten)]
    flags: Flags,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let same = (args.from.canonicalize().ok()).zip(args.into.canonicalize().ok());
    if same.is_some_and(|(from, into)| from == into) {
        return Err(UsageError("a trace cannot be converted into itself".to_owned()).into());
    }
    let options = ReadOptions {
        format: args.format.into(),
        lenient: args.lenient,
    };
    let source = Source::path(&args.from);
    let mut trace = read::open(&source, &options)?;
    let mut destination = Destination::open(Some(&args.into), &args.flags)?;
    let mut progress = Progress::new(source.name());
    let mut events = 0;
    while let Some(batch) = trace.next()? {
        events += batch.events.len() as u64;
        if !destination.write(batch)? {
            return Ok(Exit::Clean);
        }
        let (done, total) = trace.progress();
        progress.update(events, done, total);
    }
    drop(progress);
    destination.finish()?;
    for warning in output::trace_warnings(trace.summary()) {
        output::warn(&format!("{}: {warning}", source.name()));
    }
    Ok(Exit::Clean)
}
