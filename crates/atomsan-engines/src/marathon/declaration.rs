//! The file that declares atomic sets and units of work.
//!
//! One declaration a line; blank lines and lines that start with `#` do not count. Words are
//! separated by white space:
//!
//! ```text
//! set NAME: PATTERN…               these variables are one atomic set
//! set NAME per object: PATTERN…    one atomic set for each object that has such variables
//! out PATTERN…                     these variables are in no atomic set
//! unit PATTERN… on NAME…           these functions and labelled regions are units of work on the
//!                                  sets; `*` stands for all sets
//! unitfor PATTERN… on NAME…        the same for sets that are passed in
//! owned PATTERN…                   an object stored into such a variable is a part of the set
//!                                  the variable is in
//! ```
//!
//! A pattern is a glob over the whole name, as in a specification ([`Pattern`]). If several `set`
//! and `out` lines match a variable, the last one decides; a variable that no line matches is in
//! no set, and its accesses are not looked at.
//!
//! Traces do not say on which object a method was called. So a `unit` on sets *per object* is a
//! unit of work on one object of each: the first one of that set that is accessed while it runs.
//! A `unitfor` is a unit of work on every object of the set that is accessed while it runs.
//! On other sets the two mean the same. Neither says anything about the callers.
//!
//! A file without `unit` and `unitfor` lines leaves the units to the specification: every region
//! that is expected to be atomic is a unit of work on every set.

use atomsan_trace::spec::Pattern;
use std::path::Path;

/// How far a function is a unit of work on the sets of one declaration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) enum Cover {
    /// Not at all.
    #[default]
    None,
    /// On the set of the object it was called on.
    Receiver,
    /// On each that is accessed while it runs.
    Any,
}

#[derive(Clone, Debug)]
pub(super) struct DeclaredSet {
    pub(super) name: Box<str>,
    pub(super) per_object: bool,
}

#[derive(Clone, Debug)]
struct UnitRule {
    patterns: Vec<Pattern>,
    passed_in: bool,
    /// `None` for all.
    sets: Option<Vec<usize>>,
}

/// What a file declares.
#[derive(Clone, Debug, Default)]
pub struct Declaration {
    sets: Vec<DeclaredSet>,
    /// The set of a variable that matches, or none.
    vars: Vec<(Pattern, Option<usize>)>,
    units: Vec<UnitRule>,
    owned: Vec<Pattern>,
}

/// A line that is not a declaration.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}: {reason}")]
pub struct DeclarationError {
    file: String,
    line: usize,
    reason: String,
}

impl Declaration {
    /// Parses the text of a declaration file; `file` is for error messages.
    pub fn parse(file: &Path, text: &str) -> Result<Declaration, DeclarationError> {
        let lines: Vec<(usize, Vec<&str>)> = (text.lines().enumerate())
            .map(|(number, line)| (number + 1, line.split_whitespace().collect::<Vec<_>>()))
            .filter(|(_, words)| words.first().is_some_and(|word| !word.starts_with('#')))
            .collect();
        let at = |line| {
            move |reason| DeclarationError {
                file: file.display().to_string(),
                line,
                reason,
            }
        };
        let mut declaration = Declaration::default();
        // Sets first, so that units may name sets of later lines.
        for (number, words) in lines.iter().filter(|(_, words)| words[0] == "set") {
            declaration.declare_set(&words[1..]).map_err(at(*number))?;
        }
        let mut next_set = 0;
        for (number, words) in lines {
            let (keyword, rest) = (words[0], &words[1..]);
            match keyword {
                "set" => {
                    let patterns = rest.iter().skip_while(|word| !word.ends_with(':')).skip(1);
                    declaration.members(patterns, Some(next_set))
                }
                "out" => declaration.members(rest.iter(), None),
                "unit" | "unitfor" => declaration.unit(rest, keyword == "unitfor"),
                "owned" => patterns(rest.iter()).map(|owned| declaration.owned.extend(owned)),
                _ => Err(format!(
                    "`{keyword}` declares nothing; expected `set`, `out`, `unit`, `unitfor` or `owned`"
                )),
            }
            .map_err(at(number))?;
            next_set += usize::from(keyword == "set");
        }
        Ok(declaration)
    }

    fn declare_set(&mut self, words: &[&str]) -> Result<(), String> {
        let (name, per_object) = match *words {
            [name, ..] if name.len() > 1 && name.ends_with(':') => (&name[..name.len() - 1], false),
            [name, "per", "object:", ..] => (name, true),
            _ => {
                return Err(
                    "expected `set NAME: PATTERN…` or `set NAME per object: PATTERN…`".into(),
                );
            }
        };
        if name == "*" {
            return Err("a set cannot be named `*`, which stands for all sets".into());
        }
        if self.find(name).is_some() {
            return Err(format!("the set `{name}` is declared twice"));
        }
        self.sets.push(DeclaredSet {
            name: name.into(),
            per_object,
        });
        Ok(())
    }

    fn members<'a>(
        &mut self,
        words: impl Iterator<Item = &'a &'a str>,
        set: Option<usize>,
    ) -> Result<(), String> {
        let patterns = patterns(words)?;
        self.vars
            .extend(patterns.into_iter().map(|pattern| (pattern, set)));
        Ok(())
    }

    fn unit(&mut self, words: &[&str], passed_in: bool) -> Result<(), String> {
        let expected = || "expected `unit PATTERN… on NAME…`".to_owned();
        let on = words
            .iter()
            .position(|&word| word == "on")
            .ok_or_else(expected)?;
        let (names, sets) = (&words[..on], &words[on + 1..]);
        if sets.is_empty() {
            return Err(expected());
        }
        let all = sets.contains(&"*");
        let find = |&name: &&str| {
            self.find(name)
                .ok_or_else(|| format!("no set is named `{name}`"))
        };
        let named = sets.iter().filter(|&&name| name != "*");
        let named = named.map(find).collect::<Result<Vec<_>, _>>()?;
        self.units.push(UnitRule {
            patterns: patterns(names.iter())?,
            passed_in,
            sets: (!all).then_some(named),
        });
        Ok(())
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.sets.iter().position(|set| &*set.name == name)
    }

    pub(super) fn sets(&self) -> &[DeclaredSet] {
        &self.sets
    }

    /// The set that a variable is declared to be in, as an index into [`Declaration::sets`].
    pub(super) fn set_of(&self, var: &str) -> Option<usize> {
        let mut rules = self.vars.iter().rev();
        rules.find(|(pattern, _)| pattern.matches(var))?.1
    }

    /// Whether what is stored into a variable is a part of its set.
    pub(super) fn owns(&self, var: &str) -> bool {
        self.owned.iter().any(|pattern| pattern.matches(var))
    }

    /// Whether the file says what the units are.
    pub(super) fn has_units(&self) -> bool {
        !self.units.is_empty()
    }

    /// How far a function is a unit of work on each of the sets.
    pub(super) fn covers(&self, function: &str) -> Vec<Cover> {
        let mut covers = vec![Cover::None; self.sets.len()];
        for rule in &self.units {
            if !rule
                .patterns
                .iter()
                .any(|pattern| pattern.matches(function))
            {
                continue;
            }
            for (set, cover) in covers.iter_mut().enumerate() {
                if rule.sets.as_ref().is_none_or(|sets| sets.contains(&set)) {
                    let receiver = self.sets[set].per_object && !rule.passed_in;
                    *cover = (*cover).max(if receiver {
                        Cover::Receiver
                    } else {
                        Cover::Any
                    });
                }
            }
        }
        covers
    }
}

fn patterns<'a>(words: impl Iterator<Item = &'a &'a str>) -> Result<Vec<Pattern>, String> {
    let patterns = words
        .map(|word| Pattern::parse(word))
        .collect::<Result<Vec<_>, _>>()?;
    if patterns.is_empty() {
        return Err("expected at least one pattern".into());
    }
    Ok(patterns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Declaration, DeclarationError> {
        Declaration::parse(Path::new("bank.sets"), text)
    }

    #[test]
    fn the_last_line_that_matches_a_variable_decides() {
        let bank = parse(
            "# Fig. 1\nset money: *.checking *.savings\n\nset all: *\nset money2: *.sav*\nout *.id",
        )
        .unwrap();
        assert_eq!(bank.set_of("Account.checking"), Some(1));
        assert_eq!(bank.set_of("Account.savings"), Some(2));
        assert_eq!(bank.set_of("Account.id"), None);
        assert!(!bank.has_units());
    }

    #[test]
    fn a_variable_that_no_line_matches_is_in_no_set() {
        assert_eq!(parse("set a: x").unwrap().set_of("y"), None);
    }

    #[test]
    fn units_cover_the_sets_they_name() {
        let text =
            "unit A.* on a b\nunitfor A.all on b\nunit main on *\nset a: x\nset b per object: y";
        let declared = parse(text).unwrap();
        assert!(declared.has_units() && declared.sets()[1].per_object);
        assert_eq!(declared.covers("A.one"), [Cover::Any, Cover::Receiver]);
        assert_eq!(declared.covers("A.all"), [Cover::Any, Cover::Any]);
        assert_eq!(declared.covers("main"), [Cover::Any, Cover::Receiver]);
        assert_eq!(declared.covers("B.one"), [Cover::None, Cover::None]);
    }

    #[test]
    fn owned_variables_are_matched_by_name() {
        let declared = parse("owned HashSet.map *.next").unwrap();
        assert!(declared.owns("HashSet.map") && declared.owns("@3.Node.next"));
        assert!(!declared.owns("HashSet.size"));
    }

    #[test]
    fn a_line_that_is_no_declaration_says_where_and_why() {
        let message = |text| parse(text).unwrap_err().to_string();
        assert!(message("set a: x\nsets b: y").starts_with("bank.sets:2: `sets` declares nothing"));
        assert_eq!(
            message("\nset a: x\nset a: y"),
            "bank.sets:3: the set `a` is declared twice"
        );
        assert!(message("set a per thread: x").starts_with("bank.sets:1: expected `set NAME"));
        assert!(message("set : x").starts_with("bank.sets:1: expected `set NAME"));
        assert_eq!(
            message("set a:"),
            "bank.sets:1: expected at least one pattern"
        );
        assert_eq!(
            message("set a: x\nunit f on b"),
            "bank.sets:2: no set is named `b`"
        );
        assert!(message("unit f").starts_with("bank.sets:1: expected `unit"));
        assert!(message("set a: x\nunit on a").ends_with(":2: expected at least one pattern"));
        assert!(message("set a: bad[").starts_with("bank.sets:1: "));
        assert!(message("set *: x").starts_with("bank.sets:1: a set cannot be named"));
    }
}
