//! What the first run of two tells the second (section 3.1).
//!
//! The first run is imprecise and keeps no logs. It names the static transactions (regions, by
//! name: ids mean nothing in another run) that were in a component of the IDG, and says whether
//! any unary transaction was. The second run looks at these only. Information from several first
//! runs is united.
//!
//! The format is text, one fact a line:
//!
//! ```text
//! # atomsan doublechecker first run 1
//! unary yes
//! region Account.withdraw
//! ```
//!
//! A line that starts with `#` is a comment, except that the first line must be the one above, so
//! that another file is not taken for this one. In names, a line break is written `\n`, a carriage
//! return `\r` and a backslash `\\`. A region without a label has the empty name: `region` alone.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

const HEADER: &str = "# atomsan doublechecker first run 1";

/// Static transactions that may be involved in violations.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StaticInfo {
    /// The names of regions.
    pub regions: BTreeSet<Box<str>>,
    /// Whether unary transactions may be involved.
    pub unary: bool,
}

/// A file that is not what a first run writes.
#[derive(Debug, PartialEq, Eq)]
pub struct StaticInfoError {
    file: String,
    line: usize,
    reason: &'static str,
}

impl fmt::Display for StaticInfoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StaticInfoError { file, line, reason } = self;
        write!(
            f,
            "{file}:{line}: {reason}; expected what `--first-run` writes: `{HEADER}`, then one \
             line `unary yes` or `unary no`, then lines `region NAME`"
        )
    }
}

impl std::error::Error for StaticInfoError {}

impl StaticInfo {
    /// Reads what [`StaticInfo`]'s `Display` wrote; `file` is for error messages.
    pub fn parse(file: &Path, text: &str) -> Result<StaticInfo, StaticInfoError> {
        let error = |line, reason| StaticInfoError {
            file: file.display().to_string(),
            line,
            reason,
        };
        let mut lines = text.lines().enumerate();
        match lines.next() {
            Some((_, HEADER)) => {}
            _ => return Err(error(1, "not the result of a first run")),
        }
        let mut info = StaticInfo::default();
        let mut unary = None;
        for (number, line) in lines {
            let at = |reason| error(number + 1, reason);
            match line.split_once(' ') {
                _ if line.is_empty() || line.starts_with('#') => {}
                Some(("unary", _)) if unary.is_some() => {
                    return Err(at("`unary` for the second time"));
                }
                Some(("unary", "yes")) => unary = Some(true),
                Some(("unary", "no")) => unary = Some(false),
                Some(("unary", _)) => return Err(at("neither `unary yes` nor `unary no`")),
                None if line == "region" => {
                    info.regions.insert("".into());
                }
                Some(("region", name)) => {
                    let name = unescape(name).ok_or_else(|| at("a `\\` that escapes nothing"))?;
                    info.regions.insert(name.into());
                }
                _ => return Err(at("unknown line")),
            }
        }
        info.unary = unary
            .ok_or_else(|| error(text.lines().count(), "the file ends without a line `unary`"))?;
        Ok(info)
    }

    /// Adds what another first run found.
    pub fn unite(&mut self, other: StaticInfo) {
        self.regions.extend(other.regions);
        self.unary |= other.unary;
    }
}

impl fmt::Display for StaticInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}")?;
        writeln!(f, "unary {}", if self.unary { "yes" } else { "no" })?;
        for region in &self.regions {
            match &**region {
                "" => writeln!(f, "region")?,
                name => writeln!(f, "region {}", escape(name))?,
            }
        }
        Ok(())
    }
}

fn escape(name: &str) -> String {
    name.replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('\r', "\\r")
}

fn unescape(text: &str) -> Option<String> {
    let mut name = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        name.push(match char {
            '\\' => match chars.next()? {
                'n' => '\n',
                'r' => '\r',
                '\\' => '\\',
                _ => return None,
            },
            other => other,
        });
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<StaticInfo, String> {
        StaticInfo::parse(Path::new("a.first"), text).map_err(|error| error.to_string())
    }

    fn info(regions: &[&str], unary: bool) -> StaticInfo {
        StaticInfo {
            regions: regions.iter().map(|&name| name.into()).collect(),
            unary,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let names = [
            "",
            " ",
            "f",
            "f ",
            "Account.withdraw(int, int)",
            " a\\b\nc\r",
            "# x",
            "\\n",
        ];
        for unary in [false, true] {
            let info = info(&names, unary);
            assert_eq!(parse(&info.to_string()), Ok(info));
        }
    }

    #[test]
    fn the_format_is_what_it_is_said_to_be() {
        let text = "# atomsan doublechecker first run 1\nunary yes\nregion Account.withdraw\n";
        assert_eq!(info(&["Account.withdraw"], true).to_string(), text);
    }

    #[test]
    fn several_runs_unite() {
        let mut all = info(&["f", "g"], false);
        all.unite(info(&["g", "h"], true));
        assert_eq!(all, info(&["f", "g", "h"], true));
    }

    #[test]
    fn errors_say_where_and_what() {
        let header = HEADER;
        for (text, starts) in [
            (
                String::new(),
                "a.first:1: not the result of a first run; expected",
            ),
            ("t1|r(x)|3".into(), "a.first:1: not the result"),
            (
                format!("{header}\nregion f\n"),
                "a.first:2: the file ends without",
            ),
            (
                format!("{header}\nunary maybe"),
                "a.first:2: neither `unary yes`",
            ),
            (
                format!("{header}\nunary no\nunary no"),
                "a.first:3: `unary` for the second",
            ),
            (
                format!("{header}\nunary no\n\nregion a\\x"),
                "a.first:4: a `\\` that",
            ),
            (
                format!("{header}\nunary no\nregions f"),
                "a.first:3: unknown line",
            ),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.starts_with(starts), "{error}");
        }
    }
}
