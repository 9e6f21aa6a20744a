//! The lines of source files, for snippets.
//!
//! They are read when something is shown, from the files that findings name; a document can keep a
//! copy ([`Excerpt`]), which goes first, for the files may have changed since. A finding comes from
//! a trace and a trace may come from anybody, so only regular files that have the name of a source
//! file are read, and not much of them.

use crate::json::Document;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Lines of a file, as they were when it was checked.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Excerpt {
    /// The file, as findings name it.
    pub file: String,
    /// Some of its lines, by number.
    pub lines: BTreeMap<u32, String>,
}

/// The lines of one file that are known.
pub type Lines = BTreeMap<u32, String>;

/// Where lines come from.
#[derive(Debug, Default)]
pub struct Sources {
    /// The directory that names are relative to; `None` reads no files at all.
    base: Option<PathBuf>,
    known: RefCell<HashMap<String, Rc<Lines>>>,
}

const MOST_BYTES: u64 = 8 << 20;
/// Nobody reads longer ones, and a generated file may have one of megabytes.
const MOST_CHARACTERS: usize = 400;
const ENDINGS: &[&str] = &[
    "rs", "c", "h", "cc", "cpp", "cxx", "c++", "hh", "hpp", "hxx", "ipp", "inl", "tcc", "java",
    "kt", "scala", "go", "swift", "zig", "d", "m", "mm",
];

impl Sources {
    /// Reads files; relative names are relative to `base`, and names below it are shown without it.
    pub fn under(base: impl Into<PathBuf>) -> Sources {
        Sources {
            base: Some(base.into()),
            known: RefCell::default(),
        }
    }

    /// Uses the copies that a document has.
    pub fn remember(&mut self, document: &Document) {
        for excerpt in &document.sources {
            let mut known = self.known.borrow_mut();
            let lines = known.entry(excerpt.file.clone()).or_default();
            let all = Rc::make_mut(lines);
            all.extend(excerpt.lines.iter().map(|(&n, line)| (n, line.clone())));
        }
    }

    /// The lines of a file; none if there is no such file, or it cannot be read.
    pub fn lines(&self, file: &str) -> Rc<Lines> {
        let mut known = self.known.borrow_mut();
        let lines = known
            .entry(file.to_owned())
            .or_insert_with(|| Rc::new(self.read(file).unwrap_or_default()));
        Rc::clone(lines)
    }

    fn read(&self, file: &str) -> Option<Lines> {
        let ending = Path::new(file).extension()?.to_str()?.to_ascii_lowercase();
        if !ENDINGS.contains(&ending.as_str()) {
            return None;
        }
        let path = self.base.as_ref()?.join(file);
        let about = path.metadata().ok()?;
        if !about.is_file() || about.len() > MOST_BYTES {
            return None;
        }
        let bytes = std::fs::read(path).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        Some((1..).zip(text.lines().map(tidy)).collect())
    }

    /// How a file is called where space is short: without the directory that we are in.
    pub fn name(&self, file: &str) -> String {
        let base = self.base.as_deref().unwrap_or(Path::new(""));
        match Path::new(file).strip_prefix(base) {
            Ok(rest) if !base.as_os_str().is_empty() => rest.display().to_string(),
            _ => file.to_owned(),
        }
    }
}

/// Without what would move the cursor, and not longer than anybody reads.
fn tidy(line: &str) -> String {
    let line = line.trim_end();
    let clean = |c: char| match c {
        '\t' => c,
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    let mut tidied: String = line.chars().take(MOST_CHARACTERS).map(clean).collect();
    if tidied.len() < line.len() && line.chars().nth(MOST_CHARACTERS).is_some() {
        tidied.push('…');
    }
    tidied
}

/// Whether a file belongs to a toolchain or a library rather than to the user.
pub fn is_library(file: &str) -> bool {
    const INSIDE: &[&str] = &["/.cargo/registry/", "/.cargo/git/", "/rustlib/", "/vendor/"];
    const UNDER: &[&str] = &["/rustc/", "/usr/include/", "/usr/lib/", "/lib/", "/build/"];
    INSIDE.iter().any(|part| file.contains(part)) || UNDER.iter().any(|at| file.starts_with(at))
}

/// The line on which a function begins: the nearest one above `line` that has its name in front of
/// a parenthesis and is indented less.
pub fn heading(lines: &Lines, function: &str, line: u32) -> Option<u32> {
    const FAR: usize = 300;
    let name = bare_name(function);
    let indent = |text: &str| text.len() - text.trim_start().len();
    let inner = indent(lines.get(&line)?);
    let above = lines.range(..line).rev().take(FAR);
    let is_heading = |text: &str| {
        let mut places = text.match_indices(name);
        let called = places.any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = text[at + name.len()..].chars().next();
            before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != '.')
                && after.is_some_and(|c| matches!(c, '(' | '<' | ' '))
        });
        let comment = ["//", "/*", "*", "#"]
            .iter()
            .any(|mark| text.trim_start().starts_with(mark));
        called && !comment && indent(text) < inner && !text.trim_end().ends_with(';')
    };
    let found = (above.into_iter()).find(|(_, text)| !name.is_empty() && is_heading(text));
    found.map(|(&number, _)| number)
}

/// `withdraw` for `bank::Account::withdraw::{{closure}}`, `Account::withdraw(int)` and
/// `bank/Account.withdraw(I)Z`; `push` for `alloc::vec::Vec<T,A>::push`.
pub(crate) fn bare_name(function: &str) -> &str {
    let (mut depth, mut start, mut found) = (0usize, 0, "");
    let mut before = ':';
    let mut part = |range: std::ops::Range<usize>| {
        let part = function[range].split('<').next().unwrap_or("");
        if !part.is_empty() && !part.starts_with(['{', '(']) {
            found = part;
        }
    };
    for (at, c) in function.char_indices() {
        match c {
            '<' | '{' => depth += 1,
            '(' if depth > 0 || at == start => depth += 1,
            // Arrows of function types are no brackets.
            '>' if matches!(before, '-' | '=') => {}
            '>' | '}' | ')' => depth = depth.saturating_sub(1),
            '(' => {
                part(start..at);
                return found;
            }
            ':' | '.' | '/' if depth == 0 => {
                part(start..at);
                start = at + 1;
            }
            _ => {}
        }
        before = c;
    }
    part(start..function.len());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_by_their_bare_names() {
        for (function, name) in [
            ("bank::Account::withdraw::{{closure}}", "withdraw"),
            ("Account::withdraw(int)", "withdraw"),
            ("bank/Account.withdraw(I)Z", "withdraw"),
            ("withdraw", "withdraw"),
            ("alloc::vec::Vec<T,A>::push", "push"),
            ("<alloc::vec::Vec<T> as core::ops::Deref>::deref", "deref"),
            (
                "std::vector<int, std::allocator<int> >::push_back(int const&)",
                "push_back",
            ),
            ("(anonymous namespace)::forget(int)", "forget"),
            ("call<fn(int) -> int>::{closure#0}", "call"),
            ("<F as bank::Run<bank::main::{{closure}}>>::run", "run"),
            ("sort::<u32>", "sort"),
            ("", ""),
        ] {
            assert_eq!(bare_name(function), name);
        }
    }

    #[test]
    fn the_heading_is_above_and_indented_less() {
        let text =
            "fn add() {\n//! add (so)\n    other(add());\n    if x {\n        y();\n    }\n}";
        let lines: Lines = (1..).zip(text.lines().map(str::to_owned)).collect();
        assert_eq!(heading(&lines, "m::add", 5), Some(1));
        assert_eq!(heading(&lines, "m::sub", 5), None);
        assert_eq!(heading(&lines, "", 5), None);
    }

    #[test]
    fn odd_lines_are_tidied() {
        assert_eq!(tidy("\tx = 1;\r"), "\tx = 1;");
        assert_eq!(tidy("a\u{1b}[2Jb"), "a\u{fffd}[2Jb");
        assert_eq!(tidy(&"é".repeat(1000)).chars().count(), MOST_CHARACTERS + 1);
    }

    #[test]
    fn only_source_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text);
        write("bank.rs", b"one\r\ntwo \xff\r\n").unwrap();
        write("secret", b"one\n").unwrap();
        let sources = Sources::under(folder.path());
        let whole = folder.path().join("bank.rs").display().to_string();
        for name in ["bank.rs", &whole] {
            assert_eq!(sources.lines(name)[&2], "two \u{fffd}");
            assert_eq!(sources.name(name), "bank.rs");
        }
        assert!(sources.lines("secret").is_empty());
        assert!(sources.lines("/dev/zero").is_empty());
        assert!(Sources::default().lines(&whole).is_empty());
    }
}
