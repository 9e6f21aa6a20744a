//! What the programmer says about functions, variables and lines (Atomizer, section 4).
//!
//! The paper writes annotations into the source. A trace comes without source, so here they are a
//! table: one annotation a line, a keyword and a pattern. A line that starts with `#` is a comment.
//!
//! ```text
//! atomic         StringBuffer.append*     # check this function, whatever the specification says
//! assume_atomic  Log.write                # one atomic step to its callers; not looked into
//! assume_mover   Statistics.*             # no step at all to its callers; not looked into
//! assume_guarded Queue.*                  # never races, whatever the locksets say
//! no_warn        Cache.java:17            # neither locksets nor reduction on this line
//! ```
//!
//! A pattern is a glob over the whole name (of a function, of a variable, `file:line`), as in a
//! specification. The last annotation of a kind that matches decides.

use atomsan_trace::{FunctionId, Names, SiteId, VarId};
use globset::{GlobBuilder, GlobMatcher};
use std::path::Path;

/// What is said about a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfFunction {
    /// Check that it is atomic.
    Atomic,
    /// Take it for one atomic step.
    AssumeAtomic,
    /// Take it for a both-mover.
    AssumeMover,
}

/// All annotations of a program.
#[derive(Clone, Debug, Default)]
pub struct Annotations {
    functions: Vec<(GlobMatcher, OfFunction)>,
    guarded: Vec<GlobMatcher>,
    no_warn: Vec<GlobMatcher>,
}

/// A line that is not an annotation.
#[derive(Debug, thiserror::Error)]
#[error(
    "{file}:{line}: {reason}; expected one of `atomic`, `assume_atomic`, `assume_mover`, \
     `assume_guarded`, `no_warn`, and a pattern"
)]
pub struct AnnotationError {
    file: String,
    line: usize,
    reason: String,
}

impl Annotations {
    /// Parses a table of annotations; `file` is for error messages.
    pub fn parse(file: &Path, text: &str) -> Result<Annotations, AnnotationError> {
        let mut annotations = Annotations::default();
        for (number, line) in text.lines().enumerate() {
            annotations
                .add_line(line)
                .map_err(|reason| AnnotationError {
                    file: file.display().to_string(),
                    line: number + 1,
                    reason,
                })?;
        }
        Ok(annotations)
    }

    fn add_line(&mut self, line: &str) -> Result<(), String> {
        let line = line.split(" #").next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let Some((keyword, pattern)) = line.split_once(char::is_whitespace) else {
            return Err(format!("`{line}` without a pattern"));
        };
        let glob = GlobBuilder::new(pattern.trim())
            .literal_separator(false)
            .backslash_escape(true)
            .build()
            .map_err(|error| error.to_string())?
            .compile_matcher();
        match keyword {
            "atomic" => self.functions.push((glob, OfFunction::Atomic)),
            "assume_atomic" => self.functions.push((glob, OfFunction::AssumeAtomic)),
            "assume_mover" => self.functions.push((glob, OfFunction::AssumeMover)),
            "assume_guarded" => self.guarded.push(glob),
            "no_warn" => self.no_warn.push(glob),
            other => return Err(format!("`{other}` is no annotation")),
        }
        Ok(())
    }

    fn of_function(&self, function: FunctionId, names: &Names) -> Option<OfFunction> {
        let name = names.function_name(function);
        let rule = self.functions.iter().rev();
        Some(rule.clone().find(|(glob, _)| glob.is_match(&*name))?.1)
    }

    fn is_guarded(&self, var: VarId, names: &Names) -> bool {
        let name = names.var_name(var);
        self.guarded.iter().any(|glob| glob.is_match(&*name))
    }

    fn is_no_warn(&self, site: SiteId, names: &Names) -> bool {
        let Some(frame) = names.site(site).and_then(|site| site.frame()) else {
            return false;
        };
        let place = format!("{}:{}", frame.file, frame.line);
        self.no_warn.iter().any(|glob| glob.is_match(&place))
    }
}

/// Annotations, each name matched once.
#[derive(Debug, Default)]
pub(super) struct Annotated {
    annotations: Annotations,
    functions: Vec<Option<Option<OfFunction>>>,
    guarded: Vec<Option<bool>>,
    no_warn: Vec<Option<bool>>,
}

impl Annotated {
    pub(super) fn new(annotations: Annotations) -> Self {
        Annotated {
            annotations,
            ..Annotated::default()
        }
    }

    pub(super) fn function(&mut self, function: FunctionId, names: &Names) -> Option<OfFunction> {
        if self.annotations.functions.is_empty() {
            return None;
        }
        *crate::dense::slot(&mut self.functions, function.index())
            .get_or_insert_with(|| self.annotations.of_function(function, names))
    }

    #[inline]
    pub(super) fn guarded(&mut self, var: VarId, names: &Names) -> bool {
        !self.annotations.guarded.is_empty()
            && *crate::dense::slot(&mut self.guarded, var.index())
                .get_or_insert_with(|| self.annotations.is_guarded(var, names))
    }

    #[inline]
    pub(super) fn no_warn(&mut self, site: SiteId, names: &Names) -> bool {
        !self.annotations.no_warn.is_empty()
            && *crate::dense::slot(&mut self.no_warn, site.index())
                .get_or_insert_with(|| self.annotations.is_no_warn(site, names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_line_says_where_and_what() {
        for (text, reason) in [
            ("atomic f\nassume_anything g", "`assume_anything` is no"),
            ("\natomic", "`atomic` without a pattern"),
            ("# fine\nno_warn a[", "a.notes:2: "),
        ] {
            let error = Annotations::parse(Path::new("a.notes"), text).unwrap_err();
            let error = error.to_string();
            assert!(error.starts_with("a.notes:2: "), "{error}");
            assert!(error.contains(reason), "{error}");
        }
    }
}
