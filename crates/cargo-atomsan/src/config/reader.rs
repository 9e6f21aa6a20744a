//! Typed access to parsed TOML; whatever does not fit becomes a problem with its place.

use super::problems::Problems;
use atomsan_trace::spec::Pattern;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and where it stands.
pub(crate) type Value<'i> = Spanned<DeValue<'i>>;

/// Reads values of one file.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) problems: Problems<'a>,
}

impl Reader<'_> {
    fn expected(&mut self, what: &str, value: &Value<'_>) {
        let found = value.get_ref().type_str();
        let message = format!("expected {what}, found {found}");
        self.problems.add(value.span(), message, None);
    }

    /// A table has only these keys; `message` goes before one that it must not have.
    pub(crate) fn keys(&mut self, table: &DeTable<'_>, known: &[&str], message: &str) {
        for (key, _) in table.iter() {
            let word = key.get_ref();
            if !known.contains(&&**word) {
                let message = format!("{message} `{word}`");
                self.problems.unknown(key.span(), message, word, known);
            }
        }
    }

    /// A string.
    pub(crate) fn string(&mut self, value: &Value<'_>) -> Option<String> {
        match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            _ => {
                self.expected("a string", value);
                None
            }
        }
    }

    /// A string or a whole number, as text.
    pub(crate) fn word(&mut self, value: &Value<'_>) -> Option<String> {
        match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(number) => {
                match u64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => Some(number.to_string()),
                    Err(_) => {
                        let message = format!("{number} is too big, or less than 0");
                        self.problems.add(value.span(), message, None);
                        None
                    }
                }
            }
            _ => {
                self.expected("a string or a number", value);
                None
            }
        }
    }

    /// A string, or several, with their places.
    pub(crate) fn strings(&mut self, value: &Value<'_>) -> Vec<(String, Range<usize>)> {
        let values = match value.get_ref() {
            DeValue::Array(values) => values.iter().collect(),
            _ => vec![value],
        };
        let mut strings = Vec::new();
        for value in values {
            if let Some(text) = self.string(value) {
                strings.push((text, value.span()));
            }
        }
        strings
    }

    /// A pattern of names.
    pub(crate) fn pattern(&mut self, text: &str, span: Range<usize>) -> Option<Pattern> {
        if text.is_empty() {
            self.problems
                .add(span, "an empty pattern matches nothing", None);
            return None;
        }
        match Pattern::parse(text) {
            Ok(pattern) => Some(pattern),
            Err(reason) => {
                self.problems.add(span, reason, None);
                None
            }
        }
    }

    /// `[name]`.
    pub(crate) fn table<'v, 'i>(
        &mut self,
        name: &str,
        value: &'v Value<'i>,
    ) -> Option<&'v DeTable<'i>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.expected(&format!("a table `[{name}]`"), value);
        }
        table
    }

    /// `[[name]]`, any number of them, with their places.
    pub(crate) fn tables<'v, 'i>(
        &mut self,
        name: &str,
        value: &'v Value<'i>,
    ) -> Vec<(&'v DeTable<'i>, Range<usize>)> {
        let Some(values) = value.get_ref().as_array() else {
            self.expected(&format!("tables `[[{name}]]`"), value);
            return Vec::new();
        };
        let mut tables = Vec::new();
        for value in values.iter() {
            match value.get_ref().as_table() {
                Some(table) => tables.push((table, value.span())),
                None => self.expected(&format!("a table `[[{name}]]`"), value),
            }
        }
        tables
    }
}
