//! Vectors of more than 16 bytes: clang does not announce accesses to them, and where a program may have
//! some, its user is told.
//!
//! What clang compiles by itself has none, because we ask it not to make any. What is left
//! is what the user asks for: for the whole file by the command line, which clang writes down
//! (`-mavx2`), or for single functions (`target("avx2")`, intrinsics, `vector_size(32)`), of which the
//! debug information has the types.

use crate::file::Recording;
use crate::symbols::programs;
use gimli::{AttributeValue, EndianSlice, LittleEndian, UnitOffset};
use object::{Object as _, ObjectSection as _};
use std::borrow::Cow;
use std::path::Path;

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Unit<'a> = gimli::Unit<Slice<'a>>;

/// The widest access that is announced, in bytes.
const WIDEST: u64 = 16;

/// The file names of what clang has compiled, in part at least, with vectors of more than 16 bytes.
pub fn wide_vectors(recording: &Recording) -> Vec<String> {
    let named = |path: &str| Some(Path::new(path).file_name()?.to_str()?.to_owned());
    (programs(recording).into_iter())
        .filter(|path| has_wide_vectors(Path::new(path)) == Some(true))
        .filter_map(named)
        .collect()
}

fn has_wide_vectors(path: &Path) -> Option<bool> {
    let data = std::fs::read(path).ok()?;
    let file = object::File::parse(&*data).ok()?;
    let section = |id: gimli::SectionId| {
        let section = file.section_by_name(id.name());
        let data = section.and_then(|section| section.uncompressed_data().ok());
        Ok::<Cow<'_, [u8]>, gimli::Error>(data.unwrap_or_default())
    };
    let sections = gimli::DwarfSections::load(section).ok()?;
    let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
    let mut headers = dwarf.units();
    while let Some(header) = headers.next().ok()? {
        let Ok(unit) = dwarf.unit(header) else {
            continue;
        };
        let producer = producer(&dwarf, &unit).unwrap_or_default();
        if producer.contains("clang version")
            && (asks_for_wide_vectors(&producer) || has_wide_types(&unit).unwrap_or(false))
        {
            return Some(true);
        }
    }
    Some(false)
}

/// The compiler of a unit, and its command line.
fn producer(dwarf: &gimli::Dwarf<Slice<'_>>, unit: &Unit<'_>) -> Option<String> {
    let mut entries = unit.entries();
    let first = entries.next_dfs().ok()??;
    let producer = first.attr_value(gimli::DW_AT_producer)?;
    let text = dwarf.attr_string(unit, producer).ok()?;
    Some(text.to_string_lossy().into_owned())
}

/// Whether a command line, as clang writes it down, asks for vectors of more than 16 bytes.
fn asks_for_wide_vectors(producer: &str) -> bool {
    const NARROW: [&str; 4] = ["x86-64", "x86-64-v2", "core2", "nehalem"];
    producer.split(' ').any(|flag| {
        flag.starts_with("-mavx")
            || (flag.strip_prefix("-march=")).is_some_and(|cpu| !NARROW.contains(&cpu))
    })
}

/// Whether a unit has a type of vectors of more than 16 bytes.
fn has_wide_types(unit: &Unit<'_>) -> Option<bool> {
    // Most units have none at all, which the kinds of their entries tell.
    let is_vector = |kind: &gimli::Abbreviation| {
        let mut attributes = kind.attributes().iter();
        attributes.any(|attribute| attribute.name() == gimli::DW_AT_GNU_vector)
    };
    let kinds = (1..).map_while(|code| unit.abbreviations.get(code));
    if !kinds.into_iter().any(is_vector) {
        return Some(false);
    }
    let mut entries = unit.entries();
    // The size of an element, while the entries are those of a vector.
    let mut element = None;
    while let Some(entry) = entries.next_dfs().ok()? {
        match entry.tag() {
            gimli::DW_TAG_array_type if entry.attr(gimli::DW_AT_GNU_vector).is_some() => {
                element = size(unit, entry.attr_value(gimli::DW_AT_type)?);
            }
            gimli::DW_TAG_subrange_type => {
                let count = entry.attr_value(gimli::DW_AT_count);
                let count = count.and_then(|count| count.udata_value());
                if let (Some(element), Some(count)) = (element, count)
                    && element * count > WIDEST
                {
                    return Some(true);
                }
            }
            _ => element = None,
        }
    }
    Some(false)
}

/// How many bytes a type has.
fn size(unit: &Unit<'_>, of: AttributeValue<Slice<'_>>) -> Option<u64> {
    /// More names for one type are no names for a person.
    const NAMES: usize = 16;
    let mut of = of;
    for _ in 0..NAMES {
        let AttributeValue::UnitRef(UnitOffset(offset)) = of else {
            return None;
        };
        let entry = unit.entry(UnitOffset(offset)).ok()?;
        if let Some(size) = entry.attr_value(gimli::DW_AT_byte_size) {
            return size.udata_value();
        }
        of = entry.attr_value(gimli::DW_AT_type)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_that_clang_was_asked_for() {
        let asked = |flags: &str| {
            asks_for_wide_vectors(&format!(
                "Debian clang version 14.0.6 /usr/bin/clang {flags}"
            ))
        };
        assert!(asked("-O2 -mavx2 -c a.c") && asked("-march=native") && asked("-march=x86-64-v3"));
        assert!(!asked("-O2 -march=x86-64 a.c") && !asked("-msse4.2"));
    }

    #[test]
    fn rustc_is_not_clang() {
        let program = std::env::current_exe().unwrap();
        assert_eq!(has_wide_vectors(&program), Some(false));
        assert_eq!(has_wide_vectors(Path::new("/no/such/file")), None);
    }
}
