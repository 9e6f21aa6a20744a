//! Names of functions and files, each made once.
//!
//! A program asks for many places in few functions, and at each place for all functions that are inlined there. To
//! demangle a name takes longer than to find it in the debug information, and frames that share a name need it once.

use crate::written::written;
use gimli::DwLang;
use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;
use std::rc::Rc;

/// Names that have been read.
#[derive(Clone, Default)]
pub(crate) struct Names {
    /// How functions are [written], by their names in the file, for each language.
    functions: HashMap<Option<DwLang>, Written, FxBuildHasher>,
    files: HashSet<Rc<str>, FxBuildHasher>,
}

type Written = HashMap<String, Rc<str>, FxBuildHasher>;

impl Names {
    /// How a function is written that has this name in the file; the language is not known of what is only in the table
    /// of symbols.
    pub(crate) fn function(&mut self, name: &str, language: Option<DwLang>) -> Rc<str> {
        let names = self.functions.entry(language).or_default();
        let known = names.entry_ref(name).or_insert_with(|| {
            let name = addr2line::demangle_auto(name.into(), language);
            written(&name).into()
        });
        Rc::clone(known)
    }

    /// A file.
    pub(crate) fn file(&mut self, name: &str) -> Rc<str> {
        Rc::clone(self.files.get_or_insert_with(name, |name| name.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_once_for_each_language() {
        let mut names = Names::default();
        let mangled = "_ZN4bank7Account8withdraw17h0123456789abcdefE";
        let rust = names.function(mangled, Some(gimli::DW_LANG_Rust));
        assert_eq!(&*rust, "bank::Account::withdraw");
        assert_eq!(&*names.function(mangled, Some(gimli::DW_LANG_C)), mangled);
        let again = names.function(mangled, Some(gimli::DW_LANG_Rust));
        assert!(Rc::ptr_eq(&rust, &again));
        assert_eq!(&*names.function(mangled, None), "bank::Account::withdraw");
        let file = names.file("src/bank.rs");
        assert!(Rc::ptr_eq(&file, &names.file("src/bank.rs")));
        assert_eq!(&*file, "src/bank.rs");
    }
}
