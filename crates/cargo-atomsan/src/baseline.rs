//! The baseline: findings that were there when checking began, so that only new ones count.
//!
//! A text file, one finding a line, sorted by what a person reads, so that a change of it is a
//! small difference:
//!
//! ```text
//! # atomsan baseline 1
//! 3f6a09c2d1b7e845 lost-update bank::Account::withdraw (src/bank.rs)
//! ```
//!
//! The fingerprints decide; what follows them is for people. A finding has several, with commas between
//! them, if it was seen in several ways; each of them is enough. Lines that start with `#` are
//! comments, except that the first one says which format it is.

use atomsan_report::Report;
use std::fmt;
use std::path::Path;

/// How every version begins.
pub(crate) const START: &str = "# atomsan baseline";
const HEADER: &str = "# atomsan baseline 1";

/// Accepted findings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Baseline {
    entries: Vec<Entry>,
}

/// One finding: its fingerprints, the clearest first, and what it is, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    prints: Vec<String>,
    words: String,
}

impl Entry {
    fn is_any_of<'a>(&self, mut prints: impl Iterator<Item = &'a str>) -> bool {
        prints.any(|print| self.prints.iter().any(|own| own == print))
    }
}

impl Baseline {
    /// Reads what was written; the error says where it is wrong.
    pub(crate) fn parse(file: &Path, text: &str) -> Result<Baseline, String> {
        let error = |line: usize, reason: &str| {
            let file = file.display();
            Err(format!(
                "{file}:{line}: {reason}; write it again with --write-baseline"
            ))
        };
        let mut lines = text.lines().enumerate();
        match lines.next() {
            Some((_, HEADER)) => {}
            Some((_, other)) if other.starts_with(START) => {
                return error(1, "a baseline of another version of atomsan");
            }
            _ => return error(1, "this is not a baseline"),
        }
        let mut baseline = Baseline::default();
        for (number, line) in lines {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (prints, words) = line.split_once(' ').unwrap_or((line, ""));
            let prints: Vec<String> = prints.split(',').map(str::to_owned).collect();
            let right = |print: &String| {
                print.len() == 16 && print.bytes().all(|byte| byte.is_ascii_hexdigit())
            };
            if !prints.iter().all(right) {
                return error(number + 1, "the line does not begin with a fingerprint");
            }
            let words = words.to_owned();
            baseline.insert(Entry { prints, words });
        }
        Ok(baseline)
    }

    pub(crate) fn contains(&self, report: &Report) -> bool {
        (self.entries.iter()).any(|entry| entry.is_any_of(report.prints()))
    }

    /// Adds a finding, or what is new of one that is known.
    fn insert(&mut self, new: Entry) {
        let known = |entry: &&mut Entry| entry.is_any_of(new.prints.iter().map(String::as_str));
        match self.entries.iter_mut().find(known) {
            Some(entry) => {
                for print in new.prints {
                    if !entry.prints.contains(&print) {
                        entry.prints.push(print);
                    }
                }
            }
            None => self.entries.push(new),
        }
    }

    pub(crate) fn add(&mut self, report: &Report) {
        let culprit = &report.culprit;
        let function = culprit.function.as_deref().unwrap_or("?");
        let mut words = format!("{} {function}", report.anomaly);
        if let Some(file) = &culprit.file {
            // The end of the path: where the checkout is differs between people.
            let parts: Vec<&str> = file.rsplit('/').take(2).collect();
            let file: Vec<&str> = parts.into_iter().rev().collect();
            words.push_str(&format!(" ({})", file.join("/")));
        }
        let words = words.replace(['\n', '\r'], " ");
        let prints = report.prints().map(str::to_owned).collect();
        self.insert(Entry { prints, words });
    }

    /// Adds all of another one.
    pub(crate) fn extend(&mut self, other: Baseline) {
        other
            .entries
            .into_iter()
            .for_each(|entry| self.insert(entry));
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// What this one has and the other one has not, in words.
    pub(crate) fn missing_in<'a>(&'a self, other: &Baseline) -> Vec<&'a str> {
        let missing = |entry: &&Entry| {
            let prints = || entry.prints.iter().map(String::as_str);
            !(other.entries.iter()).any(|other| other.is_any_of(prints()))
        };
        let missing = self.entries.iter().filter(missing);
        missing.map(|entry| entry.words.as_str()).collect()
    }
}

impl fmt::Display for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<_> = self.entries.iter().collect();
        lines.sort_by_key(|entry| {
            // By function, then by anomaly.
            let words = entry.words.as_str();
            let (anomaly, place) = words.split_once(' ').unwrap_or((words, ""));
            (place, anomaly, &entry.prints)
        });
        writeln!(f, "{HEADER}")?;
        for Entry { prints, words } in lines {
            let line = format!("{} {words}", prints.join(","));
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Baseline, String> {
        Baseline::parse(Path::new("a.txt"), text)
    }

    #[test]
    fn what_is_written_is_read_and_sorted() {
        let text = "# atomsan baseline 1\n\
                    00000000000000bb cycle alpha (src/a.rs)\n\
                    00000000000000cc lost-update alpha (src/a.rs)\n\
                    00000000000000aa lost-update beta (src/a.rs)\n\
                    00000000000000dd\n";
        let baseline = parse(text).unwrap();
        let written = baseline.to_string();
        assert_eq!(parse(&written).unwrap().to_string(), written);
        let order: Vec<&str> = written.lines().skip(1).map(|line| &line[14..16]).collect();
        assert_eq!(order, ["dd", "bb", "cc", "aa"]);
        assert_eq!(parse("# atomsan baseline 1\n").unwrap().len(), 0);
    }

    #[test]
    fn one_fingerprint_of_several_is_enough() {
        let line = |prints: &str| format!("# atomsan baseline 1\n{prints} cycle f\n");
        let known = parse(&line("00000000000000aa,00000000000000bb")).unwrap();
        let seen = parse(&line("00000000000000bb,00000000000000cc")).unwrap();
        let other = parse(&line("00000000000000cc")).unwrap();
        assert!(known.missing_in(&seen).is_empty());
        assert_eq!(known.missing_in(&other), ["cycle f"]);
        let mut all = known;
        all.extend(seen);
        assert_eq!(all.len(), 1);
        assert!(other.missing_in(&all).is_empty());
    }

    #[test]
    fn errors_say_where() {
        for (text, starts) in [
            ("", "a.txt:1: this is not a baseline"),
            ("{}", "a.txt:1: this is not a baseline"),
            (
                "# atomsan baseline 2\n",
                "a.txt:1: a baseline of another version",
            ),
            (
                "# atomsan baseline 1\n\nxyz f",
                "a.txt:3: the line does not begin",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(starts), "{error}");
        }
    }
}
