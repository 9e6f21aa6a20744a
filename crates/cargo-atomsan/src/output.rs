//! Where results are written.
//!
//! Results go to standard output or to a file (`-o`), and messages to standard error. A reader
//! that has seen enough and closes the pipe is not an error: the rest is not written, and the
//! exit status still tells the verdict.

use anyhow::Context as _;
use atomsan_trace::numbers::grouped;
use atomsan_trace::read::Summary;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

/// When to use colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal, unless the environment says otherwise.
    Auto,
    /// Also in files and pipes.
    Always,
    /// Never.
    Never,
}

impl ColorWhen {
    pub(crate) fn apply(self) {
        match self {
            ColorWhen::Auto => anstream::ColorChoice::Auto,
            ColorWhen::Always => anstream::ColorChoice::Always,
            ColorWhen::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

/// The word in front of an error message.
pub(crate) fn error_word() -> String {
    let style = anstyle::AnsiColor::Red.on_default().bold();
    format!("{style}error{style:#}")
}

/// Says something that is worth knowing but not wrong.
pub(crate) fn warn(message: &str) {
    let style = anstyle::AnsiColor::Yellow.on_default().bold();
    anstream::eprintln!("{style}warning{style:#}: {message}");
}

/// Text results.
pub(crate) struct Output {
    stream: anstream::AutoStream<Box<dyn Write>>,
    closed: bool,
    width: usize,
}

/// How many columns a file or a pipe has.
const WIDTH: usize = 100;

/// How many columns a terminal has; neither so few that nothing fits, nor so many that nobody
/// reads a line to its end.
fn width_of(terminal: impl std::os::fd::AsFd) -> usize {
    let size = terminal_size::terminal_size_of(terminal);
    size.map_or(WIDTH, |(width, _)| usize::from(width.0).clamp(40, 140))
}

impl Output {
    /// How many columns there are.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Standard output, or a file.
    pub(crate) fn open(file: Option<&Path>) -> anyhow::Result<Output> {
        let choice = anstream::ColorChoice::global();
        let mut width = WIDTH;
        let stream = match file.filter(|path| *path != Path::new("-")) {
            Some(path) => {
                let file = File::create(path)
                    .with_context(|| format!("cannot write to {}", path.display()))?;
                let choice = match choice {
                    anstream::ColorChoice::Always => choice,
                    _ => anstream::ColorChoice::Never,
                };
                anstream::AutoStream::new(Box::new(BufWriter::new(file)) as Box<dyn Write>, choice)
            }
            None => {
                let choice = match choice {
                    anstream::ColorChoice::Auto => anstream::AutoStream::choice(&io::stdout()),
                    choice => choice,
                };
                width = width_of(io::stdout());
                let stdout = BufWriter::new(io::stdout());
                anstream::AutoStream::new(Box::new(stdout) as Box<dyn Write>, choice)
            }
        };
        Ok(Output {
            stream,
            closed: false,
            width,
        })
    }

    /// Standard error: where a program's standard output is its own.
    pub(crate) fn stderr() -> Output {
        let choice = match anstream::ColorChoice::global() {
            anstream::ColorChoice::Auto => anstream::AutoStream::choice(&io::stderr()),
            choice => choice,
        };
        let stderr = BufWriter::new(io::stderr());
        Output {
            stream: anstream::AutoStream::new(Box::new(stderr) as Box<dyn Write>, choice),
            closed: false,
            width: width_of(io::stderr()),
        }
    }

    /// Writes with `write`, unless nobody listens any more.
    pub(crate) fn write(
        &mut self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        if self.closed {
            return Ok(());
        }
        match write(&mut self.stream).and_then(|()| self.stream.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            other => other.context("cannot write the result"),
        }
    }
}

/// What was left out of a trace that was read.
pub(crate) fn trace_warnings(summary: &Summary) -> Vec<String> {
    let mut warnings = Vec::new();
    if summary.skipped > 0 {
        warnings.push(match summary.skipped {
            1 => "1 bad part was skipped:".to_owned(),
            skipped => format!("{} bad parts were skipped, such as:", grouped(skipped)),
        });
        warnings.extend(
            summary
                .messages
                .iter()
                .map(|message| format!("  {message}")),
        );
    }
    if let Some(reason) = &summary.truncated {
        warnings.push(format!("the trace is not complete: {reason}"));
    }
    warnings
}

/// Whether progress can be shown.
pub(crate) fn has_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Things with their number: 1 finding, 2 findings.
pub(crate) fn counted(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", grouped(number))
}
