//! In which format results are written, and where.

use crate::output::Output;
use atomsan_report::Document;
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
