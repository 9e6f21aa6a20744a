//! What refinement has done so far: a file of JSON lines that only ever grows.
//!
//! The first line says what is refined, each further one is a run. It is written before the next
//! run starts, so whoever is interrupted loses one run; a last line that is not complete is cut
//! off.

use crate::exit::UsageError;
use anyhow::Context as _;
use atomsan_report::Report;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

/// What is refined.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Subject {
    /// The version of this format.
    pub(super) refine: u32,
    /// What is run.
    pub(super) command: Vec<String>,
    /// The specification at the beginning.
    pub(super) spec: String,
}

/// One run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Trial {
    /// Its number, from 1.
    pub(super) run: u64,
    /// When it began, in UTC.
    pub(super) at: String,
    pub(super) seconds: f64,
    /// What the program ended with; nothing if it was killed.
    pub(super) status: Option<i32>,
    pub(super) events: u64,
    /// What is not atomic after it.
    pub(super) removed: Vec<Removed>,
}

/// A function that is not atomic, and why.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Removed {
    pub(super) function: String,
    pub(super) anomaly: String,
    pub(super) message: String,
    pub(super) engine: String,
    pub(super) status: String,
    pub(super) file: Option<String>,
    pub(super) lines: Vec<u32>,
    pub(super) fingerprint: String,
}

impl Removed {
    pub(super) fn new(function: &str, report: &Report) -> Removed {
        Removed {
            function: function.to_owned(),
            anomaly: report.anomaly.clone(),
            message: report.message.clone(),
            engine: report.engine.clone(),
            status: report.status.clone(),
            file: report.culprit.file.clone(),
            lines: report.culprit.lines.clone(),
            fingerprint: report.fingerprint.clone(),
        }
    }

    /// Why, in a few words.
    pub(super) fn why(&self) -> String {
        let lines: Vec<String> = self.lines.iter().map(u32::to_string).collect();
        let place = match (&self.file, lines.is_empty()) {
            (Some(file), false) => format!(", {file}:{}", lines.join(" and ")),
            (Some(file), true) => format!(", {file}"),
            (None, false) => format!(", location {}", lines.join(" and ")),
            (None, true) => String::new(),
        };
        format!(
            "{}, {} by {}{place}",
            self.anomaly, self.status, self.engine
        )
    }
}

/// The history, open for more.
#[derive(Debug)]
pub(super) struct History {
    pub(super) trials: Vec<Trial>,
    file: File,
}

impl History {
    pub(super) const VERSION: u32 = 1;

    /// Goes on with a file, or begins it.
    pub(super) fn open(path: &Path, subject: &Subject, restart: bool) -> anyhow::Result<History> {
        let context = || format!("cannot use the history {}", path.display());
        let text = match restart {
            true => String::new(),
            false => match std::fs::read_to_string(path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
                other => other.with_context(context)?,
            },
        };
        // A line without its end was being written.
        let mut complete = &text[..text.rfind('\n').map_or(0, |at| at + 1)];
        if complete.lines().count() < 2 {
            // Nothing came of it: the program was misspelt, perhaps.
            complete = "";
        }
        let mut lines = complete.lines();
        let mut trials = Vec::new();
        if let Some(first) = lines.next() {
            belongs(path, first, subject)?;
            for (number, line) in lines.enumerate() {
                let trial = serde_json::from_str(line).with_context(|| {
                    format!("{}:{}: this is not a run", path.display(), number + 2)
                })?;
                trials.push(trial);
            }
        }
        let mut options = OpenOptions::new();
        let file = options.create(true).write(true).truncate(false).open(path);
        let mut file = file.with_context(context)?;
        file.set_len(complete.len() as u64).with_context(context)?;
        std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).with_context(context)?;
        if complete.is_empty() {
            write_line(&mut file, subject).with_context(context)?;
        }
        Ok(History { trials, file })
    }

    pub(super) fn add(&mut self, trial: Trial) -> anyhow::Result<()> {
        write_line(&mut self.file, &trial).context("cannot write the history")?;
        self.trials.push(trial);
        Ok(())
    }

    /// All that was removed, in order.
    pub(super) fn removed(&self) -> impl Iterator<Item = (&Trial, &Removed)> {
        (self.trials.iter()).flat_map(|trial| trial.removed.iter().map(move |one| (trial, one)))
    }

    /// How many runs there were since the last one that found something.
    pub(super) fn quiet(&self) -> u64 {
        let quiet = |trial: &&Trial| trial.removed.is_empty();
        self.trials.iter().rev().take_while(quiet).count() as u64
    }
}

fn belongs(path: &Path, line: &str, subject: &Subject) -> anyhow::Result<()> {
    let file = path.display();
    let Ok(found) = serde_json::from_str::<Subject>(line) else {
        let message = format!("{file} is not a history of `refine`; name another file");
        return Err(UsageError(message).into());
    };
    let what = match () {
        () if found.refine != subject.refine => "another version of atomsan".to_owned(),
        () if found.command != subject.command => format!("`{}`", found.command.join(" ")),
        () if found.spec != subject.spec => "another specification".to_owned(),
        () => return Ok(()),
    };
    Err(UsageError(format!(
        "{file} is the history of {what}; use --restart to begin again, or another --history"
    ))
    .into())
}

fn write_line(file: &mut File, value: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_string(value)?;
    line.push('\n');
    file.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(command: &str) -> Subject {
        Subject {
            refine: History::VERSION,
            command: vec![command.to_owned()],
            spec: String::new(),
        }
    }

    fn trial(run: u64, removed: usize) -> Trial {
        let one = Removed {
            function: "f".to_owned(),
            anomaly: "lost-update".to_owned(),
            message: String::new(),
            engine: "velodrome".to_owned(),
            status: "observed".to_owned(),
            file: Some("a.c".to_owned()),
            lines: vec![3, 5],
            fingerprint: String::new(),
        };
        Trial {
            run,
            at: "2026-01-01T00:00:00Z".to_owned(),
            seconds: 0.5,
            status: Some(0),
            events: 10,
            removed: vec![one; removed],
        }
    }

    #[test]
    fn it_goes_on_where_it_was() {
        let out = tempfile::tempdir().unwrap();
        let path = out.path().join("history");
        let mut history = History::open(&path, &subject("p"), false).unwrap();
        for (run, removed) in [(1, 2), (2, 0), (3, 1), (4, 0), (5, 0)] {
            history.add(trial(run, removed)).unwrap();
        }
        // The sixth was being written.
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("{\"run\":6,\"at\":\"20");
        std::fs::write(&path, &text).unwrap();
        let mut again = History::open(&path, &subject("p"), false).unwrap();
        assert_eq!(again.trials, history.trials);
        assert_eq!((again.quiet(), again.removed().count()), (2, 3));
        again.add(trial(6, 0)).unwrap();
        let again = History::open(&path, &subject("p"), false).unwrap();
        assert_eq!((again.trials.len(), again.quiet()), (6, 3));
        let anew = History::open(&path, &subject("q"), true).unwrap();
        assert!(anew.trials.is_empty());
    }

    #[test]
    fn another_history_is_refused() {
        let out = tempfile::tempdir().unwrap();
        let path = out.path().join("history");
        let mut history = History::open(&path, &subject("q"), false).unwrap();
        assert!(history.trials.is_empty());
        // Of which nothing came.
        history = History::open(&path, &subject("p"), false).unwrap();
        history.add(trial(1, 0)).unwrap();
        let error = |subject: &Subject| {
            let error = History::open(&path, subject, false).unwrap_err();
            assert!(error.is::<UsageError>());
            error.to_string()
        };
        assert!(error(&subject("q")).contains("is the history of `p`"));
        let mut other = subject("p");
        other.spec = "f\n".to_owned();
        assert!(error(&other).contains("another specification"));
        other.refine = 2;
        assert!(error(&other).contains("another version"));
        std::fs::write(&path, "bank\nnotes\n").unwrap();
        assert!(error(&subject("p")).contains("not a history"));
    }

    #[test]
    fn reasons() {
        let mut removed = trial(1, 1).removed.remove(0);
        let why = "lost-update, observed by velodrome, a.c:3 and 5";
        assert_eq!(removed.why(), why);
        removed.file = None;
        assert!(removed.why().ends_with(", location 3 and 5"));
    }
}
