//! Yields as places in the program: what Silver inferred, and what an earlier run inferred.
//!
//! Ids mean something in one trace only, so what is kept from run to run names source places. The
//! file is text, one record a line, fields separated by tabs:
//!
//! ```text
//! atomsan yields 1
//! yield   12   Buffer.java:14:0   Buffer.dequeue   Buffer.dequeue
//! with    10   Buffer.java:8:0    Buffer.enqueue
//! with    2    Buffer.java:21:0   Buffer.clear
//! ```
//!
//! `yield`: how often, where (file, line, column; 0 is unknown), in which function, and after that
//! the atomic regions that the yield contradicts. `with`: what interfered there, and how often.
//! Blank lines and lines that start with `#` do not count. In names, a backslash is `\\`, a tab
//! `\t`, a line feed `\n`, a carriage return `\r`.

use atomsan_trace::{Names, SiteId};
use hashbrown::HashSet;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

/// A place in the source.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Place {
    /// The file; empty if unknown.
    pub file: Box<str>,
    /// The line, from 1; 0 if unknown.
    pub line: u32,
    /// The column, from 1; 0 if unknown.
    pub column: u32,
    /// The function; empty if unknown.
    pub function: Box<str>,
}

impl Place {
    /// The place of a site: its innermost frame.
    pub fn of(site: SiteId, names: &Names) -> Place {
        if let Some(frame) = names.site(site).and_then(|site| site.frame()) {
            let function = frame.function.map(|f| names.function_name(f));
            return Place {
                file: frame.file.clone(),
                line: frame.line,
                column: frame.column,
                function: function.map_or_else(Box::default, |name| name.into()),
            };
        }
        let file = match site {
            SiteId::UNKNOWN => String::new(),
            undefined => format!("site#{}", undefined.0),
        };
        Place {
            file: file.into(),
            ..Place::default()
        }
    }

    /// Whether nothing is known of it.
    pub fn is_unknown(&self) -> bool {
        *self == Place::default()
    }
}

/// Why a yield is needed at its place.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Needed {
    /// How often it was needed.
    pub count: u64,
    /// What interfered there, and how often.
    pub conflicts: BTreeMap<Place, u64>,
    /// The atomic regions that it contradicts.
    pub regions: BTreeSet<Box<str>>,
}

/// A set of yields.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Yields {
    /// The yields, in the order of files and lines.
    pub places: BTreeMap<Place, Needed>,
}

/// Two runs compared (Fig. 8: how stable is what is inferred?).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Comparison<'a> {
    /// Yields that were not inferred before.
    pub new: Vec<(&'a Place, &'a Needed)>,
    /// Yields that were inferred again.
    pub again: Vec<(&'a Place, &'a Needed)>,
    /// Yields that were inferred before, and not now.
    pub gone: Vec<(&'a Place, &'a Needed)>,
}

impl Yields {
    /// What this run has, against what was known before.
    pub fn against<'a>(&'a self, before: &'a Yields) -> Comparison<'a> {
        let (again, new) =
            (self.places.iter()).partition(|(place, _)| before.places.contains_key(*place));
        let gone = (before.places.iter()).filter(|(place, _)| !self.places.contains_key(*place));
        Comparison {
            new,
            again,
            gone: gone.collect(),
        }
    }

    /// Adds the yields of another run.
    pub fn merge(&mut self, other: &Yields) {
        for (place, needed) in &other.places {
            let mine = self.places.entry(place.clone()).or_default();
            mine.count += needed.count;
            mine.regions.extend(needed.regions.iter().cloned());
            for (conflict, count) in &needed.conflicts {
                *mine.conflicts.entry(conflict.clone()).or_default() += count;
            }
        }
    }

    /// Parses the text of a file; `file` is for error messages.
    pub fn parse(file: &Path, text: &str) -> Result<Yields, YieldsError> {
        let mut yields = Yields::default();
        let mut last: Option<Place> = None;
        let mut lines = (1..)
            .zip(text.lines())
            .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let error = |line, reason: String| YieldsError {
            file: file.display().to_string(),
            line,
            reason,
        };
        match lines.next() {
            Some((_, line)) if line.trim_end() == HEADER => {}
            Some((number, line)) => {
                let reason = format!("expected `{HEADER}`, found `{line}`");
                return Err(error(number, reason));
            }
            None => return Err(error(1, format!("expected `{HEADER}`, found nothing"))),
        }
        for (number, line) in lines {
            let record = Record::parse(line).map_err(|reason| error(number, reason))?;
            let needed = yields.places.entry(match (record.kind, &last) {
                ("yield", _) => last.insert(record.place.clone()).clone(),
                (_, Some(place)) => place.clone(),
                (_, None) => return Err(error(number, "`with` before any `yield`".into())),
            });
            let needed = needed.or_default();
            if record.kind == "yield" {
                needed.count += record.count;
                needed.regions.extend(record.regions);
            } else {
                *needed.conflicts.entry(record.place).or_default() += record.count;
            }
        }
        Ok(yields)
    }
}

const HEADER: &str = "atomsan yields 1";

/// A line of a file of yields that cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}: {reason}")]
pub struct YieldsError {
    file: String,
    line: usize,
    reason: String,
}

struct Record<'a> {
    kind: &'a str,
    count: u64,
    place: Place,
    regions: Vec<Box<str>>,
}

impl<'a> Record<'a> {
    fn parse(line: &'a str) -> Result<Record<'a>, String> {
        let mut fields = line.split('\t');
        let kind = fields.next().unwrap_or_default();
        if kind != "yield" && kind != "with" {
            return Err(format!("expected `yield` or `with`, found `{kind}`"));
        }
        let count = fields.next().unwrap_or_default();
        let (Ok(count), Some(place)) = (count.parse(), fields.next()) else {
            return Err(format!(
                "expected a count and a place after `{kind}`, separated by tabs"
            ));
        };
        let mut parts = place.rsplitn(3, ':');
        let mut number = || parts.next()?.parse::<u32>().ok();
        let (column, line) = (number(), number());
        let (Some(file), Some(line), Some(column)) = (parts.next(), line, column) else {
            return Err(format!("expected `file:line:column`, found `{place}`"));
        };
        let mut names = fields.map(unescape);
        let place = Place {
            file: unescape(file)?,
            line,
            column,
            function: names.next().transpose()?.unwrap_or_default(),
        };
        let regions = names.collect::<Result<Vec<_>, _>>()?;
        if kind == "with" && !regions.is_empty() {
            return Err("`with` has four fields".into());
        }
        Ok(Record {
            kind,
            count,
            place,
            regions,
        })
    }
}

impl fmt::Display for Yields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}")?;
        for (place, needed) in &self.places {
            write!(f, "yield\t{}\t{}", needed.count, Fields(place))?;
            for region in &needed.regions {
                write!(f, "\t{}", Escaped(region))?;
            }
            writeln!(f)?;
            for (conflict, count) in &needed.conflicts {
                writeln!(f, "with\t{count}\t{}", Fields(conflict))?;
            }
        }
        Ok(())
    }
}

/// A place as two fields.
struct Fields<'a>(&'a Place);

impl fmt::Display for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place {
            file,
            line,
            column,
            function,
        } = self.0;
        write!(
            f,
            "{}:{line}:{column}\t{}",
            Escaped(file),
            Escaped(function)
        )
    }
}

const ESCAPES: [(char, char); 4] = [('\\', '\\'), ('\t', 't'), ('\n', 'n'), ('\r', 'r')];

struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match ESCAPES.iter().find(|(plain, _)| *plain == c) {
                Some((_, letter)) => write!(f, "\\{letter}")?,
                None => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

fn unescape(text: &str) -> Result<Box<str>, String> {
    let mut result = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            result.push(c);
            continue;
        }
        let letter = chars.next();
        match ESCAPES.iter().find(|(_, l)| Some(*l) == letter) {
            Some((plain, _)) => result.push(*plain),
            None => return Err(format!("`{text}` has a backslash that escapes nothing")),
        }
    }
    Ok(result.into())
}

/// The yields that are taken to be in the program.
#[derive(Debug)]
pub(super) struct Assumed {
    places: HashSet<Place>,
    /// For each site whether it is such a place, once that is known.
    sites: Vec<Option<bool>>,
}

impl Assumed {
    pub(super) fn new(yields: &Yields) -> Self {
        Assumed {
            // A yield at an unknown place would be everywhere.
            places: (yields.places.keys().filter(|place| !place.is_unknown()))
                .cloned()
                .collect(),
            sites: Vec::new(),
        }
    }

    /// Whether there are any.
    #[inline]
    pub(super) fn any(&self) -> bool {
        !self.places.is_empty()
    }

    /// Whether there is one at this site.
    #[inline]
    pub(super) fn at(&mut self, site: SiteId, names: &Names) -> bool {
        match self.sites.get(site.index()) {
            Some(Some(known)) => *known,
            _ => self.look_up(site, names),
        }
    }

    #[cold]
    fn look_up(&mut self, site: SiteId, names: &Names) -> bool {
        if self.sites.len() <= site.index() {
            self.sites.resize(site.index() + 1, None);
        }
        let known = self.places.contains(&Place::of(site, names));
        self.sites[site.index()] = Some(known);
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(file: &str, line: u32, function: &str) -> Place {
        Place {
            file: file.into(),
            line,
            column: 0,
            function: function.into(),
        }
    }

    fn yields(places: &[(&str, u32)]) -> Yields {
        let needed = Needed {
            count: 2,
            conflicts: [(place("b:c\t.rs", 3, "g\\h"), 2)].into(),
            regions: [Box::from("region one"), Box::from("two\n")].into(),
        };
        Yields {
            places: (places.iter())
                .map(|&(file, line)| (place(file, line, ""), needed.clone()))
                .collect(),
        }
    }

    fn parse(text: &str) -> Result<Yields, String> {
        Yields::parse(Path::new("a.yields"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_written_is_read_back() {
        let all = yields(&[("a.rs", 1), ("a.rs", 2), ("C:\\d.rs", 0), ("", 0)]);
        assert_eq!(parse(&all.to_string()), Ok(all));
        assert_eq!(parse(HEADER), Ok(Yields::default()));
    }

    #[test]
    fn comments_and_blank_lines_do_not_count() {
        let text = format!("# why\n{HEADER}\n\n# what\nyield\t1\tf:2:3\n");
        let expected = Place {
            column: 3,
            ..place("f", 2, "")
        };
        assert!(parse(&text).unwrap().places.contains_key(&expected));
    }

    #[test]
    fn errors_say_where_and_what() {
        for (text, expected) in [
            ("", "a.yields:1: expected `atomsan yields 1`, found nothing"),
            (
                "hello",
                "a.yields:1: expected `atomsan yields 1`, found `hello`",
            ),
            (
                "atomsan yields 1\nyeild\t1\tf:1:1",
                "a.yields:2: expected `yield` or `with`, found `yeild`",
            ),
            (
                "atomsan yields 1\n\nyield\tmany\tf:1:1",
                "a.yields:3: expected a count and a place after `yield`, separated by tabs",
            ),
            (
                "atomsan yields 1\nyield\t1\tf:1",
                "a.yields:2: expected `file:line:column`, found `f:1`",
            ),
            (
                "atomsan yields 1\nwith\t1\tf:1:1",
                "a.yields:2: `with` before any `yield`",
            ),
            (
                "atomsan yields 1\nyield\t1\tf\\x:1:1",
                "a.yields:2: `f\\x` has a backslash that escapes nothing",
            ),
            (
                "atomsan yields 1\nyield\t1\tf:1:1\nwith\t1\tf:1:1\tg\th",
                "a.yields:3: `with` has four fields",
            ),
        ] {
            assert_eq!(parse(text), Err(expected.into()));
        }
    }

    #[test]
    fn a_run_is_compared_with_an_earlier_one() {
        let before = yields(&[("a", 1), ("a", 2)]);
        let now = yields(&[("a", 2), ("a", 3)]);
        let comparison = now.against(&before);
        let lines = |list: &[(&Place, &Needed)]| -> Vec<u32> {
            list.iter().map(|(place, _)| place.line).collect()
        };
        assert_eq!(lines(&comparison.new), [3]);
        assert_eq!(lines(&comparison.again), [2]);
        assert_eq!(lines(&comparison.gone), [1]);
        let mut all = before.clone();
        all.merge(&now);
        assert_eq!(all.places.len(), 3);
        assert_eq!(all.places[&place("a", 2, "")].count, 4);
        assert!(now.against(&all).new.is_empty());
    }
}
