//! Which findings are held against the program, and which ones somebody has accepted.
//!
//! A finding is accepted by a suppression in `atomsan.toml`, with a reason, or because it is in
//! the baseline. Accepted findings stay in the documents, with a mark; they are not shown on the
//! terminal, only counted, and they do not change the exit status.

use crate::baseline::Baseline;
use crate::config::{self, Config};
use crate::exit::UsageError;
use crate::output;
use anyhow::Context as _;
use atomsan_report::{Accepted, AcceptedBy, Document, Rank, Report};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// What is accepted.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "accept")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) file: config::Args,

    /// Only findings that are not in this file count
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,

    /// Accept what is found now, and write it to a file for `--baseline`
    #[arg(long, value_name = "FILE")]
    write_baseline: Option<PathBuf>,

    /// What `atomsan.toml` says.
    #[arg(skip)]
    pub(crate) config: Config,

    /// What is in `--baseline`.
    #[arg(skip)]
    known: Baseline,
}

impl Args {
    /// Takes the configuration, and reads the baseline: before anything is run, because it may
    /// be wrong.
    pub(crate) fn load(&mut self, config: Config) -> anyhow::Result<()> {
        self.config = config;
        self.known = match &self.baseline {
            // The first one is written by a command that names it already.
            Some(path) if self.write_baseline.as_ref() == Some(path) && !path.exists() => {
                Baseline::default()
            }
            Some(path) => read(path)?,
            None => Baseline::default(),
        };
        Ok(())
    }
}

/// Decides for all findings of one command.
#[derive(Debug)]
pub(crate) struct Judge<'a> {
    args: &'a Args,
    /// For each suppression, how many findings it is about.
    used: Vec<u64>,
    /// What was found, without what is suppressed.
    found: Baseline,
    /// Fingerprints: the same mistake in several processes is one.
    suppressed: HashSet<String>,
    known: HashSet<String>,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(args: &'a Args) -> Judge<'a> {
        Judge {
            args,
            used: vec![0; args.config.suppressions.len()],
            found: Baseline::default(),
            suppressed: HashSet::new(),
            known: HashSet::new(),
        }
    }

    /// Marks what is accepted. What is not shown is not compared with the baseline, for the lowest
    /// ranks come and go.
    pub(crate) fn judge(&mut self, document: &mut Document, shown: impl Fn(&Report) -> bool) {
        let config = &self.args.config;
        for report in &mut document.findings {
            for (suppression, used) in config.suppressions.iter().zip(&mut self.used) {
                if suppression.matches(report) {
                    *used += 1;
                    report.accepted.get_or_insert_with(|| Accepted {
                        by: AcceptedBy::Suppression,
                        place: format!("{}:{}", config.path.display(), suppression.line),
                        reason: Some(suppression.reason.clone()),
                    });
                }
            }
        }
        for report in document.findings.iter_mut().filter(|report| shown(report)) {
            match report.accepted {
                Some(_) => {
                    self.suppressed.insert(report.fingerprint.clone());
                }
                None => self.compare(report),
            }
        }
    }

    fn compare(&mut self, report: &mut Report) {
        self.found.add(report);
        let known = (self.args.baseline.iter()).filter(|_| self.args.known.contains(report));
        if let Some(path) = known.chain(&self.args.write_baseline).next() {
            self.known.insert(report.fingerprint.clone());
            report.accepted = Some(Accepted {
                by: AcceptedBy::Baseline,
                place: path.display().to_string(),
                reason: None,
            });
        }
    }

    /// Writes the baseline, warns about suppressions without use, and says in lines what was
    /// accepted.
    pub(crate) fn finish(self) -> anyhow::Result<Vec<String>> {
        let mut lines = Vec::new();
        if self.suppressed.len() + self.known.len() > 0 {
            let counts = [
                (self.suppressed.len(), "suppressed"),
                (self.known.len(), "in the baseline"),
            ];
            let counts: Vec<String> = (counts.iter())
                .filter(|(count, _)| *count > 0)
                .map(|(count, what)| format!("{count} {what}"))
                .collect();
            lines.push(format!("not counted: {}", counts.join(", ")));
        }
        let gone = self.args.known.missing_in(&self.found);
        if !gone.is_empty() {
            lines.push(format!(
                "{} of {} findings in the baseline were not seen this time:",
                gone.len(),
                self.args.known.len()
            ));
            lines.extend(gone.iter().map(|words| format!("  {words}")));
        }
        let config = &self.args.config;
        for (suppression, _) in
            (config.suppressions.iter().zip(&self.used)).filter(|(_, n)| **n == 0)
        {
            output::warn(&format!(
                "{}:{}: this suppression is not used: nothing that was found matches it",
                config.path.display(),
                suppression.line
            ));
        }
        if let Some(path) = &self.args.write_baseline {
            let mut all = self.found;
            all.extend(self.args.known.clone());
            std::fs::write(path, all.to_string())
                .with_context(|| format!("cannot write to {}", path.display()))?;
            let count = output::counted(all.len() as u64, "finding");
            lines.push(format!("{}: {count} accepted", path.display()));
        }
        Ok(lines)
    }
}

/// The findings of a document that are held against the program.
pub(crate) fn counting(document: &Document) -> impl Iterator<Item = &Report> {
    (document.findings.iter()).filter(|report| report.accepted.is_none())
}

/// Whether one of them is bad enough to fail.
pub(crate) fn counts(document: &Document, least: Rank) -> bool {
    counting(document).any(|report| report.rank >= least)
}

fn read(path: &Path) -> anyhow::Result<Baseline> {
    let text = std::fs::read_to_string(path).with_context(|| {
        format!(
            "cannot read the baseline {}; --write-baseline makes one",
            path.display()
        )
    })?;
    Ok(Baseline::parse(path, &text).map_err(UsageError)?)
}
