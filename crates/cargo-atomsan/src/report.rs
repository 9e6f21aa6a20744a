//! `atomsan report`: what was found, again, in any format, without running the program.

use crate::accept;
use crate::exit::{Exit, UsageError};
use crate::output::{self, Output};
use crate::render;
use crate::{browser, merge, products};
use anyhow::Context as _;
use atomsan_report::{AcceptedBy, Document, Rank, unite};
use atomsan_trace::numbers::grouped;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  cargo atomsan report                     the last run in this workspace, for a person
  cargo atomsan report --html --open
  cargo atomsan report --sarif -o atomsan.sarif
  atomsan report                           the last `atomsan run`
  atomsan report shard-1.json shard-2.json

Exit status: 0, whatever was found; the run itself has told.";

/// Show the last run again, or what was saved
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Documents of `--save` or `--json`; without one, the last run
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Show findings of low rank, too
    #[arg(long)]
    all: bool,

    /// Show the page in a browser
    #[arg(long, requires = "html")]
    open: bool,

    #[command(flatten)]
    render: render::Flags,
}

/// `last` is where the last run is kept.
pub(crate) fn run(args: &Args, last: &Path) -> anyhow::Result<Exit> {
    let mut documents = Vec::new();
    if args.files.is_empty() {
        let text = std::fs::read_to_string(last).map_err(|error| {
            UsageError(format!(
                "there is no last run in {}: {error}; run something first, or name a file",
                last.display()
            ))
        })?;
        documents.extend(merge::read(last, &text)?);
    }
    for path in &args.files {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        documents.extend(merge::read(path, &text)?);
    }
    for document in &mut documents {
        let shown = |rank: Rank| args.all || rank > Rank::Low;
        document.findings.retain(|report| shown(report.rank));
    }
    if args.render.is_text() {
        let mut out = Output::open(args.render.output.as_deref())?;
        text(&mut out, &unite(documents, products::unite))?;
        return Ok(Exit::Clean);
    }
    // A browser needs a file.
    let page = last.with_extension("html");
    let output = match &args.render.output {
        None if args.open => Some(page.as_path()),
        output => output.as_deref(),
    };
    let mut out = Output::open(output)?;
    render::documents(&mut out, &args.render, &documents)?;
    drop(out);
    if let Some(path) = output.filter(|_| args.open) {
        browser::open(path);
    }
    Ok(Exit::Clean)
}

fn text(out: &mut Output, document: &Document) -> anyhow::Result<()> {
    let documents = std::slice::from_ref(document);
    render::findings(out, accept::counting(document), documents)?;
    let found = accept::counting(document).count() as u64;
    let merged = document.merged.clone().unwrap_or_default();
    let summary = format!(
        "atomsan: {} in {} of {} in {}",
        match found {
            0 => "nothing found".to_owned(),
            found => output::counted(found, "finding"),
        },
        output::counted(document.events, "event"),
        output::counted(merged.threads, "thread"),
        match merged.processes {
            1 => "1 process".to_owned(),
            n => format!("{} processes", grouped(n)),
        },
    );
    out.write(|out| writeln!(out, "{summary}"))?;
    for (by, what) in [
        (AcceptedBy::Suppression, "suppressed"),
        (AcceptedBy::Baseline, "in the baseline"),
    ] {
        let marks = document
            .findings
            .iter()
            .filter_map(|report| report.accepted.as_ref());
        let count = marks.filter(|mark| mark.by == by).count();
        if count > 0 {
            out.write(|out| writeln!(out, "atomsan: not counted: {count} {what}"))?;
        }
    }
    for warning in &document.warnings {
        out.write(|out| writeln!(out, "atomsan: {warning}"))?;
    }
    Ok(())
}
