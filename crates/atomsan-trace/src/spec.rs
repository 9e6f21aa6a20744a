//! Which functions are expected to be atomic.
//!
//! A specification is a text file, one pattern a line: `pattern` includes, `!pattern` excludes,
//! a line that starts with `#` is a comment. A pattern is a glob over the whole function name (`*` and `?` match any
//! characters, also `/` and `.`); the last line that matches decides. Where no line matches, the
//! answer is *no* if the file includes anything, and the default otherwise.
//!
//! The default is that every function is atomic except entry points: a function that is the
//! bottom-most frame of its thread (`main`, a thread's `run`).

use globset::{GlobBuilder, GlobMatcher};
use std::collections::HashSet;
use std::fmt;
use std::path::Path;

/// A glob over a whole name: `*` and `?` match any characters, also `/` and `.`.
#[derive(Clone, Debug)]
pub struct Pattern(GlobMatcher);

impl Pattern {
    /// Parses a pattern; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        let glob = GlobBuilder::new(text)
            .literal_separator(false)
            .backslash_escape(true)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Pattern(glob.compile_matcher()))
    }

    /// The pattern that matches this name only.
    pub fn exactly(name: &str) -> String {
        // It escapes by brackets, and not what escapes here.
        globset::escape(name).replace('\\', "\\\\")
    }

    /// Whether the whole name matches.
    pub fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

/// Whether a function is a region that should be atomic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Atomic {
    /// Unless it is the bottom-most frame of its thread.
    #[default]
    UnlessEntry,
    /// Always.
    Yes,
    /// Never.
    No,
}

/// A list of patterns that decides for each function whether it should be atomic.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    rules: Vec<(Pattern, bool)>,
    includes: bool,
    demoted: HashSet<String>,
}

/// A line of a specification that is not a pattern.
#[derive(Debug, thiserror::Error)]
#[error(
    "{file}:{line}: {reason}; expected a function name pattern such as `Account.*` or `!*.run`"
)]
pub struct SpecError {
    file: String,
    line: usize,
    reason: String,
}

impl Spec {
    /// Parses the text of a specification; `file` is for error messages.
    pub fn parse(file: &Path, text: &str) -> Result<Spec, SpecError> {
        let mut spec = Spec::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (pattern, include) = match line.strip_prefix('!') {
                Some(rest) => (rest.trim(), false),
                None => (line, true),
            };
            let error = |reason| SpecError {
                file: file.display().to_string(),
                line: number + 1,
                reason,
            };
            if pattern.is_empty() {
                return Err(error("`!` without a pattern".into()));
            }
            spec.add(Pattern::parse(pattern).map_err(error)?, include);
        }
        Ok(spec)
    }

    /// Adds a rule: the functions that match should be atomic, or should not. It goes before all
    /// that were added earlier.
    pub fn add(&mut self, pattern: Pattern, atomic: bool) {
        self.rules.push((pattern, atomic));
        self.includes |= atomic;
    }

    /// Whatever the rules say, the function with this name is not atomic. Whether that is new.
    pub fn demote(&mut self, name: &str) -> bool {
        self.demoted.insert(name.to_owned())
    }

    /// How many functions are not atomic, whatever the rules say.
    pub fn demotions(&self) -> usize {
        self.demoted.len()
    }

    /// What the specification says of the function with this name.
    pub fn decide(&self, name: &str) -> Atomic {
        if self.demoted.contains(name) {
            return Atomic::No;
        }
        match self
            .rules
            .iter()
            .rev()
            .find(|(pattern, _)| pattern.matches(name))
        {
            Some((_, true)) => Atomic::Yes,
            Some((_, false)) => Atomic::No,
            None if self.includes => Atomic::No,
            None => Atomic::UnlessEntry,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.glob().glob())
    }
}

/// As [`Spec::parse`] reads it.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (pattern, atomic) in &self.rules {
            writeln!(f, "{}{pattern}", if *atomic { "" } else { "!" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(text: &str, name: &str) -> Atomic {
        Spec::parse(Path::new("spec"), text).unwrap().decide(name)
    }

    #[test]
    fn without_rules_all_but_entry_points() {
        assert_eq!(decide("", "Lift.doMoving"), Atomic::UnlessEntry);
        assert_eq!(decide("# only a comment\n\n", "f"), Atomic::UnlessEntry);
    }

    #[test]
    fn includes_make_the_rest_non_atomic() {
        assert_eq!(decide("Lift.*", "Lift.doMoving"), Atomic::Yes);
        assert_eq!(decide("Lift.*", "Controls.claimUp"), Atomic::No);
    }

    #[test]
    fn excludes_alone_keep_the_default() {
        assert_eq!(decide("!*.run", "Lift.run"), Atomic::No);
        assert_eq!(decide("!*.run", "Lift.doMoving"), Atomic::UnlessEntry);
    }

    #[test]
    fn the_last_matching_line_decides() {
        let text = "*\n!Lift.*\nLift.doIdle";
        assert_eq!(decide(text, "Lift.doIdle"), Atomic::Yes);
        assert_eq!(decide(text, "Lift.run"), Atomic::No);
        assert_eq!(decide(text, "Other"), Atomic::Yes);
    }

    #[test]
    fn what_is_demoted_is_not_atomic_whatever_the_rules_say() {
        let mut spec = Spec::parse(Path::new("spec"), "Lift.*").unwrap();
        assert!(spec.demote("Lift.run") && !spec.demote("Lift.run"));
        assert_eq!(spec.decide("Lift.run"), Atomic::No);
        assert_eq!(spec.decide("Lift.runs"), Atomic::Yes);
    }

    #[test]
    fn globs_cross_separators() {
        assert_eq!(decide("elevator/*()V", "elevator/Lift.run()V"), Atomic::Yes);
    }

    #[test]
    fn what_is_shown_is_read() {
        let text = "*\n!Lift.*\nLift.doIdle\n";
        let spec = Spec::parse(Path::new("spec"), text).unwrap();
        assert_eq!(spec.to_string(), text);
    }

    #[test]
    fn a_name_as_a_pattern() {
        for name in [
            "<[T] as Sum>::of",
            "a::{closure#0}",
            "f(char*, int?)",
            "a\\b",
        ] {
            let pattern = format!("!{}", Pattern::exactly(name));
            assert_eq!(decide(&pattern, name), Atomic::No, "{pattern}");
            assert_eq!(decide(&pattern, "f(charx, inty)"), Atomic::UnlessEntry);
        }
    }

    #[test]
    fn a_bad_pattern_says_where() {
        let error = Spec::parse(Path::new("a.spec"), "ok\nbad[").unwrap_err();
        assert!(error.to_string().starts_with("a.spec:2: "), "{error}");
    }
}
