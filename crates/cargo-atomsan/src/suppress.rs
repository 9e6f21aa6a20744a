//! Suppressions: findings that somebody has looked at and accepts, with the reason.
//!
//! ```toml
//! [[suppress]]
//! function = "bank::audit*"
//! anomaly = "non-repeatable-read"
//! reason = "the audit is only a hint, and says so"
//! ```

use crate::config::Reader;
use crate::engines;
use atomsan_report::{CODES, Report};
use atomsan_trace::spec::Pattern;
use std::ops::Range;
use toml::de::DeTable;

/// What it applies to: everything that is given must match.
#[derive(Clone, Debug, Default)]
pub(crate) struct Suppression {
    /// The line of the file that it begins in.
    pub(crate) line: usize,
    pub(crate) reason: String,
    fingerprint: Option<String>,
    function: Option<Pattern>,
    file: Option<Pattern>,
    anomaly: Option<String>,
    engine: Option<String>,
}

const KEYS: &[&str] = &[
    "anomaly",
    "engine",
    "file",
    "fingerprint",
    "function",
    "reason",
];

impl Suppression {
    /// Whether it is about this finding.
    pub(crate) fn matches(&self, report: &Report) -> bool {
        fn holds<T>(wanted: &Option<T>, test: impl Fn(&T) -> bool) -> bool {
            wanted.as_ref().is_none_or(test)
        }
        let culprit = &report.culprit;
        let function = culprit.function.as_deref().unwrap_or("");
        let file = culprit.file.as_deref().unwrap_or("");
        holds(&self.fingerprint, |wanted| report.prints().any(|print| print == wanted))
            && holds(&self.function, |pattern| pattern.matches(function))
            && holds(&self.file, |pattern| endings(file).any(|end| pattern.matches(end)))
            && holds(&self.anomaly, |wanted| *wanted == report.anomaly)
            // What another engine has found as well is not this engine's alone.
            && holds(&self.engine, |wanted| {
                *wanted == report.engine && report.agreeing.is_empty()
            })
    }
}

/// A path, and what is left of it when directories are taken off its front: `src/a.rs` is meant
/// wherever the checkout is.
fn endings(path: &str) -> impl Iterator<Item = &str> {
    let cuts = path.match_indices('/').map(|(at, _)| at + 1);
    std::iter::once(0).chain(cuts).map(|at| &path[at..])
}

/// Reads one `[[suppress]]`.
pub(crate) fn read(
    table: &DeTable<'_>,
    span: Range<usize>,
    reader: &mut Reader<'_>,
) -> Option<Suppression> {
    reader.keys(table, KEYS, "`[[suppress]]` has no");
    let mut suppression = Suppression {
        line: reader.problems.line(span.start),
        ..Suppression::default()
    };
    let header = span.start..span.start + "[[suppress]]".len();
    for (key, value) in table.iter() {
        let key = &**key.get_ref();
        if !KEYS.contains(&key) {
            continue;
        }
        let text = reader.string(value)?;
        match key {
            "function" => suppression.function = Some(reader.pattern(&text, value.span())?),
            "file" => suppression.file = Some(reader.pattern(&text, value.span())?),
            "anomaly" => {
                if !CODES.contains(&&*text) {
                    let message = format!("there is no anomaly `{text}`");
                    reader.problems.unknown(value.span(), message, &text, CODES);
                }
                suppression.anomaly = Some(text);
            }
            "engine" => {
                let known: Vec<&str> = engines::names().collect();
                if !known.contains(&&*text) {
                    let message = format!("there is no engine `{text}`");
                    reader
                        .problems
                        .unknown(value.span(), message, &text, &known);
                }
                suppression.engine = Some(text);
            }
            "fingerprint" => {
                if text.len() != 16 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    let message = "a fingerprint has 16 hexadecimal digits";
                    reader.problems.add(value.span(), message, None);
                }
                suppression.fingerprint = Some(text);
            }
            _ => {
                if text.trim().is_empty() {
                    let message = "the reason is empty: say why this is accepted";
                    reader.problems.add(value.span(), message, None);
                }
                suppression.reason = text;
            }
        }
    }
    if !table.contains_key("reason") {
        let help = "add `reason = \"…\"`: why is it accepted?".to_owned();
        let message = "a suppression needs a reason";
        reader.problems.add(header, message, Some(help));
    } else if table.len() == 1 {
        let help = "add a function, file, anomaly, engine or fingerprint".to_owned();
        let message = "this would suppress everything";
        reader.problems.add(header, message, Some(help));
    }
    Some(suppression)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_meant_wherever_the_checkout_is() {
        let found: Vec<&str> = endings("/home/me/src/a.rs").collect();
        assert_eq!(
            found,
            [
                "/home/me/src/a.rs",
                "home/me/src/a.rs",
                "me/src/a.rs",
                "src/a.rs",
                "a.rs"
            ]
        );
    }
}
