//! `atomsan merge`: what several commands wrote, as if one had.
//!
//! | content | becomes |
//! |---|---|
//! | documents of `--json`, `--save` | one document: counts added, one finding for one mistake |
//! | first runs of DoubleChecker | what any of them found |
//! | yields of Silver | all of them |
//! | baselines | all that is accepted in any of them |

use crate::baseline::{self, Baseline};
use crate::exit::{Exit, UsageError};
use crate::output::Output;
use crate::products;
use anyhow::Context as _;
use atomsan_engines::cooperability::yields::Yields;
use atomsan_engines::doublechecker::runs::StaticInfo;
use atomsan_report::{Document, unite};
use std::fmt;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  atomsan merge shard-*.json -o all.json       documents of --json or --save
  atomsan merge run-*.first -o all.first       first runs of doublechecker
  atomsan report all.json";

/// Merge the results of shards and of several runs
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Files of one kind; it is recognised by content
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What a file can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Documents,
    FirstRun,
    Yields,
    Baseline,
}

impl Kind {
    /// By its first line that says something.
    fn of(text: &str) -> Option<Kind> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let first = lines.next()?;
        let says = |start: &str| first.starts_with(start);
        match () {
            () if says("{") => Some(Kind::Documents),
            () if says("# atomsan doublechecker first run") => Some(Kind::FirstRun),
            () if says(baseline::START) => Some(Kind::Baseline),
            // Comments may stand before it.
            () if [first]
                .into_iter()
                .chain(lines)
                .any(|line| line.starts_with("atomsan yields")) =>
            {
                Some(Kind::Yields)
            }
            () => None,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Documents => "a document",
            Kind::FirstRun => "a first run of doublechecker",
            Kind::Yields => "a file of yields",
            Kind::Baseline => "a baseline",
        })
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut files = Vec::new();
    for path in &args.files {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let kind = Kind::of(&text).ok_or_else(|| {
            UsageError(format!(
                "{}: this cannot be merged; expected documents (--json, --save), first runs of \
                 doublechecker, yields or baselines",
                path.display()
            ))
        })?;
        files.push((path.as_path(), kind, text));
    }
    let (first, kind, _) = &files[0];
    if let Some((other, another, _)) = files.iter().find(|(_, another, _)| another != kind) {
        return Err(UsageError(format!(
            "{} is {kind} and {} is {another}: only files of one kind can be merged",
            first.display(),
            other.display()
        ))
        .into());
    }
    let text = merged(*kind, &files)?;
    Output::open(args.output.as_deref())?.write(|out| out.write_all(text.as_bytes()))?;
    Ok(Exit::Clean)
}

fn merged(kind: Kind, files: &[(&Path, Kind, String)]) -> anyhow::Result<String> {
    let files = files.iter().map(|(path, _, text)| (*path, text.as_str()));
    Ok(match kind {
        Kind::Documents => {
            let mut documents = Vec::new();
            for (path, text) in files {
                documents.extend(read(path, text)?);
            }
            format!("{}\n", unite(documents, products::unite).to_line())
        }
        Kind::FirstRun => {
            let mut all = StaticInfo::default();
            for (path, text) in files {
                all.unite(StaticInfo::parse(path, text)?);
            }
            all.to_string()
        }
        Kind::Yields => {
            let mut all = Yields::default();
            for (path, text) in files {
                all.merge(&Yields::parse(path, text)?);
            }
            all.to_string()
        }
        Kind::Baseline => {
            let mut all = Baseline::default();
            for (path, text) in files {
                all.extend(Baseline::parse(path, text).map_err(UsageError)?);
            }
            all.to_string()
        }
    })
}

/// The documents in a file; there is at least one.
pub(crate) fn read(path: &Path, text: &str) -> anyhow::Result<Vec<Document>> {
    let documents =
        Document::read_all(text).with_context(|| format!("cannot read {}", path.display()))?;
    if documents.is_empty() {
        anyhow::bail!("{} is empty", path.display());
    }
    Ok(documents)
}
