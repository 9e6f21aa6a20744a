//! In which format results are written, and where.

use crate::exit::UsageError;
use crate::output::Output;
use atomsan_report::{Document, Report, Sources, html, junit, sarif, terminal};
use std::path::PathBuf;

/// The formats, and the file.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(id = "render")]
pub(crate) struct Flags {
    /// One JSON object for each trace or process, a line each
    #[arg(long, group = "rendering")]
    pub(crate) json: bool,

    /// SARIF 2.1.0, for code hosts and editors
    #[arg(long, group = "rendering")]
    pub(crate) sarif: bool,

    /// One page for a browser, complete in one file
    #[arg(long, group = "rendering")]
    pub(crate) html: bool,

    /// JUnit's XML, for CI servers: a failed test case for each finding
    #[arg(long, group = "rendering")]
    pub(crate) junit: bool,

    /// Write the result to a file; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

impl Flags {
    /// Whether the result is for a person at a terminal.
    pub(crate) fn is_text(&self) -> bool {
        !(self.json || self.sarif || self.html || self.junit)
    }

    /// Where standard output belongs to the program that is run, a whole file needs a name.
    pub(crate) fn refuse_without_file(&self) -> Result<(), UsageError> {
        let flags = [
            (self.sarif, "--sarif"),
            (self.html, "--html"),
            (self.junit, "--junit"),
        ];
        match flags.iter().find(|(given, _)| *given) {
            Some((_, flag)) if self.output.is_none() => Err(UsageError(format!(
                "{flag} needs a file here, because the program's output is its own: {flag} -o FILE"
            ))),
            _ => Ok(()),
        }
    }
}

/// Writes documents in the format that was asked for, if it is not text.
pub(crate) fn documents(
    out: &mut Output,
    flags: &Flags,
    documents: &[Document],
) -> anyhow::Result<()> {
    let sources = sources(documents);
    let text = if flags.json {
        let lines = documents.iter().map(|one| one.to_line() + "\n");
        lines.collect()
    } else if flags.sarif {
        sarif::render(documents, &sources)
    } else if flags.html {
        html::render(documents, &sources)
    } else {
        junit::render(documents, &sources)
    };
    out.write(|out| out.write_all(text.as_bytes()))
}

/// Writes findings for a person.
pub(crate) fn findings<'a>(
    out: &mut Output,
    reports: impl IntoIterator<Item = &'a Report>,
    of: &[Document],
) -> anyhow::Result<()> {
    let sources = sources(of);
    let options = terminal::Options {
        width: out.width(),
        sources: &sources,
    };
    let mut reports = reports.into_iter();
    reports.try_for_each(|report| out.write(|out| terminal::write(out, report, &options)))
}

/// Files by their names from here, and what the documents remember of them.
pub(crate) fn sources(documents: &[Document]) -> Sources {
    let mut sources = std::env::current_dir().map_or_else(|_| Sources::default(), Sources::under);
    documents.iter().for_each(|one| sources.remember(one));
    sources
}
