//! What is wrong with a file that a person wrote: where, the line itself, and what was meant.

use crate::output;
use std::fmt;
use std::ops::Range;
use std::path::Path;

/// Collects what is wrong, so that one run tells everything.
#[derive(Debug)]
pub(crate) struct Problems<'a> {
    file: &'a Path,
    text: &'a str,
    found: Vec<String>,
}

impl<'a> Problems<'a> {
    pub(crate) fn new(file: &'a Path, text: &'a str) -> Problems<'a> {
        Problems {
            file,
            text,
            found: Vec::new(),
        }
    }

    /// The line, from 1, that a position is in.
    pub(crate) fn line(&self, position: usize) -> usize {
        self.text[..position].matches('\n').count() + 1
    }

    /// Something is wrong with a part of the text; `help` stands beside it.
    pub(crate) fn add(
        &mut self,
        span: Range<usize>,
        message: impl fmt::Display,
        help: Option<String>,
    ) {
        let start = span.start.min(self.text.len());
        let line_start = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let rest = &self.text[line_start..];
        let shown = rest.lines().next().unwrap_or("");
        let number = self.line(start);
        let column = self.text[line_start..start].chars().count();
        let end = span.end.clamp(start, line_start + shown.len());
        let marked = self
            .text
            .get(start..end)
            .map_or(1, |text| text.chars().count());
        let margin = " ".repeat(number.to_string().len());
        self.found.push(format!(
            "{file}:{number}:{column}: {message}\n {number} | {shown}\n {margin} | {space}{carets} {help}",
            file = self.file.display(),
            column = column + 1,
            space = " ".repeat(column),
            carets = "^".repeat(marked.max(1)),
            help = help.unwrap_or_default(),
        ));
    }

    /// A word is not one of those that can stand there.
    pub(crate) fn unknown(
        &mut self,
        span: Range<usize>,
        message: impl fmt::Display,
        word: &str,
        known: &[&str],
    ) {
        let help = match nearest(word, known) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("expected one of: {}", known.join(", ")),
        };
        self.add(span, message, Some(help));
    }

    /// Nothing if nothing is wrong.
    pub(crate) fn into_result(self) -> Result<(), crate::exit::UsageError> {
        if self.found.is_empty() {
            return Ok(());
        }
        let between = format!("\n{}: ", output::error_word());
        let lines: Vec<&str> = self.found.iter().map(|one| one.trim_end()).collect();
        Err(crate::exit::UsageError(lines.join(&between)))
    }
}

/// The word that was probably meant.
fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let word = word.to_lowercase().replace('_', "-");
    let near = |known: &&str| (strsim::jaro_winkler(&word, known) * 1000.0) as u32;
    let best = known.iter().copied().max_by_key(near)?;
    (near(&best) > 800).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_shown_and_the_place_marked() {
        let text = "ä = 1\nö = [\"x\", wrong]\n";
        let at = text.find("wrong").unwrap();
        let mut problems = Problems::new(Path::new("a.toml"), text);
        problems.add(at..at + 5, "no", Some("help".into()));
        let error = problems.into_result().unwrap_err().to_string();
        assert_eq!(
            error,
            "a.toml:2:11: no\n 2 | ö = [\"x\", wrong]\n   |           ^^^^^ help"
        );
    }

    #[test]
    fn places_at_the_end_and_over_several_lines() {
        let text = "x = [\n1\n]";
        for span in [4..9, 9..9, 5..6] {
            let mut problems = Problems::new(Path::new("a.toml"), text);
            problems.add(span, "no", None);
            assert!(problems.into_result().is_err());
        }
    }

    #[test]
    fn misspelt_words() {
        let known = ["fail-on", "engines", "memory"];
        assert_eq!(nearest("fail_on", &known), Some("fail-on"));
        assert_eq!(nearest("Engine", &known), Some("engines"));
        assert_eq!(nearest("colour", &known), None);
    }
}
