//! Where `convert` and `gen` write a trace, and in which format.
//!
//! The name decides unless flags do: `.std` or `.atrace`, then `.gz` or `.zst`. Standard output
//! gets plain text unless told otherwise.

use crate::exit::UsageError;
use crate::output;
use anyhow::Context as _;
use atomsan_trace::input::Compression;
use atomsan_trace::numbers::grouped;
use atomsan_trace::write::Writer;
use atomsan_trace::{Batch, Format};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The flags that say how to write.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Flags {
    /// The format to write; by the file's name if not given
    #[arg(long, value_name = "FORMAT", value_parser = parse_written_format)]
    to: Option<Format>,

    /// The compression to write; by the file's name if not given
    #[arg(long, value_name = "HOW")]
    compress: Option<CompressionArg>,
}

fn parse_written_format(name: &str) -> Result<Format, String> {
    match name.parse()? {
        Format::Rr => Err("traces are not written as rr; expected std or atrace".to_owned()),
        format => Ok(format),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum CompressionArg {
    None,
    Gzip,
    Zstd,
}

/// A trace that is being written.
pub(crate) struct Destination {
    writer: Writer<Box<dyn Write>>,
    name: String,
    closed: bool,
}

impl Destination {
    /// `-` or nothing is standard output.
    pub(crate) fn open(path: Option<&Path>, flags: &Flags) -> anyhow::Result<Destination> {
        let path = path.filter(|path| *path != Path::new("-"));
        let (format, compression) = by_name(path);
        let format = flags
            .to
            .or(format)
            .or(path.is_none().then_some(Format::Std));
        let format = format.ok_or_else(|| {
            UsageError(format!(
                "the name {} does not say which format to write; give it the ending .std or \
                 .atrace, or use --to",
                path.unwrap_or(Path::new("-")).display()
            ))
        })?;
        let compression = match flags.compress {
            Some(CompressionArg::None) => Compression::None,
            Some(CompressionArg::Gzip) => Compression::Gzip,
            Some(CompressionArg::Zstd) => Compression::Zstd,
            None => compression,
        };
        let (out, name): (Box<dyn Write>, String) = match path {
            Some(path) => {
                let file = File::create(path)
                    .with_context(|| format!("cannot write to {}", path.display()))?;
                (Box::new(BufWriter::new(file)), path.display().to_string())
            }
            None => (
                Box::new(BufWriter::new(io::stdout())),
                "<stdout>".to_owned(),
            ),
        };
        let writer = Writer::new(format, compression, out)
            .with_context(|| format!("cannot write to {name}"))?;
        Ok(Destination {
            writer,
            name,
            closed: false,
        })
    }

    /// Appends; `false` if nobody reads any more.
    pub(crate) fn write(&mut self, batch: &Batch) -> anyhow::Result<bool> {
        let written = self.writer.write(batch);
        self.closed = unless_broken_pipe(written, &self.name)?.is_none();
        Ok(!self.closed)
    }

    /// Ends the trace, and says what it could not hold.
    pub(crate) fn finish(self) -> anyhow::Result<u64> {
        if self.closed {
            return Ok(0);
        }
        let Some((_, written)) = unless_broken_pipe(self.writer.finish(), &self.name)? else {
            return Ok(0);
        };
        for (what, count) in &written.left_out {
            output::warn(&format!(
                "{}: {} {what} events were left out: the format has no word for them",
                self.name,
                grouped(*count)
            ));
        }
        Ok(written.events)
    }
}

fn unless_broken_pipe<T>(result: io::Result<T>, name: &str) -> anyhow::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(None),
        result => result
            .map(Some)
            .with_context(|| format!("cannot write to {name}")),
    }
}

/// What a file's name says about how to write it.
fn by_name(path: Option<&Path>) -> (Option<Format>, Compression) {
    let mut path: PathBuf = path.unwrap_or(Path::new("")).to_owned();
    let compression = match path.extension().and_then(|ending| ending.to_str()) {
        Some("gz") => Compression::Gzip,
        Some("zst") => Compression::Zstd,
        _ => Compression::None,
    };
    if compression != Compression::None {
        path.set_extension("");
    }
    let format = match path.extension().and_then(|ending| ending.to_str()) {
        Some("std") => Some(Format::Std),
        Some("atrace") => Some(Format::Atrace),
        _ => None,
    };
    (format, compression)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_how_to_write() {
        for (name, format, compression) in [
            ("a.std", Some(Format::Std), Compression::None),
            ("a.std.gz", Some(Format::Std), Compression::Gzip),
            (
                "dir.d/a.atrace.zst",
                Some(Format::Atrace),
                Compression::Zstd,
            ),
            ("a.txt", None, Compression::None),
            ("a.zst", None, Compression::Zstd),
        ] {
            assert_eq!(
                by_name(Some(Path::new(name))),
                (format, compression),
                "{name}"
            );
        }
    }
}
