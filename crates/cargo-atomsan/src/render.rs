//! In which format results are written, and where.

use crate::output::Output;
use atomsan_report::{Document, Report, Sources, terminal};
use std::path::PathBuf;

/// The formats for programs, and the file.
#[derive(Debug, clap::Args)]
#[group(id = "render")]
pub(crate) struct Flags {
    /// One JSON object for each trace or process, a line each
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the result to a file; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Writes the documents for a program to read.
pub(crate) fn json(out: &mut Output, documents: &[Document]) -> anyhow::Result<()> {
    for document in documents {
        let line = document.to_line();
        out.write(|out| writeln!(out, "{line}"))?;
    }
    Ok(())
}

/// Writes findings for a person.
pub(crate) fn findings(out: &mut Output, reports: &[Report]) -> anyhow::Result<()> {
    let sources = sources();
    let options = terminal::Options {
        width: out.width(),
        sources: &sources,
    };
    reports
        .iter()
        .try_for_each(|report| out.write(|out| terminal::write(out, report, &options)))
}

/// Files by their names from here.
fn sources() -> Sources {
    std::env::current_dir().map_or_else(|_| Sources::default(), Sources::under)
}
