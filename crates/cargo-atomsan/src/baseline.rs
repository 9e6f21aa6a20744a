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
//! The fingerprint decides; what follows it is for people. Lines that start with `#` are comments,
//! except that the first one says which format it is.

use atomsan_report::Report;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// How every version begins.
pub(crate) const START: &str = "# atomsan baseline";
const HEADER: &str = "# atomsan baseline 1";

/// Accepted findings: what they are, by fingerprint.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Baseline {
    entries: BTreeMap<String, String>,
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
            let (fingerprint, words) = line.split_once(' ').unwrap_or((line, ""));
            if fingerprint.len() != 16 || !fingerprint.bytes().all(|b| b.is_ascii_hexdigit()) {
                return error(number + 1, "the line does not begin with a fingerprint");
            }
            let entries = &mut baseline.entries;
            entries.insert(fingerprint.to_owned(), words.to_owned());
        }
        Ok(baseline)
    }

    pub(crate) fn contains(&self, report: &Report) -> bool {
        self.entries.contains_key(&report.fingerprint)
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
        self.entries.insert(report.fingerprint.clone(), words);
    }

    /// Adds all of another one.
    pub(crate) fn extend(&mut self, other: Baseline) {
        self.entries.extend(other.entries);
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// What this one has and the other one has not, in words.
    pub(crate) fn missing_in<'a>(&'a self, other: &Baseline) -> Vec<&'a str> {
        (self.entries.iter())
            .filter(|(fingerprint, _)| !other.entries.contains_key(*fingerprint))
            .map(|(_, words)| words.as_str())
            .collect()
    }
}

impl fmt::Display for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<_> = self.entries.iter().collect();
        lines.sort_by_key(|&(fingerprint, words)| {
            // By function, then by anomaly.
            let (anomaly, place) = words.split_once(' ').unwrap_or((words, ""));
            (place, anomaly, fingerprint)
        });
        writeln!(f, "{HEADER}")?;
        for (fingerprint, words) in lines {
            writeln!(f, "{}", format!("{fingerprint} {words}").trim_end())?;
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
        assert_eq!(parse(&written).unwrap(), baseline);
        let order: Vec<&str> = written.lines().skip(1).map(|line| &line[14..16]).collect();
        assert_eq!(order, ["dd", "bb", "cc", "aa"]);
        assert_eq!(parse("# atomsan baseline 1\n").unwrap().len(), 0);
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
