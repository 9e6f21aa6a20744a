//! Which code of a file the toolchain has brought along, without reading much of the file.
//!
//! The standard library of Rust is compiled already, in units of its own, and has more debug information
//! than most programs. Nothing in it is the user's, and it is not instrumented; all that a program
//! asks about it is where its threads were started from. So it is told apart by the directory that the unit was
//! compiled in, for which a few pages are enough: the table of addresses (`.debug_aranges`), the
//! unit's first entry, and the entry's abbreviations.

use gimli::{DebugAbbrevOffset, LittleEndian};
use hashbrown::HashMap;
use object::{Object as _, ObjectSection as _, ReadCache, ReadRef as _};
use std::fs::File;
use std::ops::Range;
use std::path::Path;

/// Where the standard library and what it depends on were compiled.
const TOOLS: [&str; 2] = ["/rustc/", "/rust/deps/"];
/// How much of a unit is read for its first entry, of the abbreviations for them, and of a string.
const ENTRY: usize = 1 << 10;
const ABBREVIATIONS: usize = 1 << 16;
const STRING: usize = 16;

/// The addresses of the toolchain's units, in order.
#[derive(Debug, Default)]
pub(crate) struct ToolUnits {
    tools: Vec<Range<u64>>,
    /// Where the first code of each other unit is.
    others: Vec<u64>,
}

/// A file, of which only those parts are read that are asked for.
struct Parts<'a> {
    data: &'a ReadCache<File>,
    file: object::File<'a, &'a ReadCache<File>>,
}

impl ToolUnits {
    /// Those of a file; none if the file does not say.
    pub(crate) fn read(path: &Path) -> ToolUnits {
        units(path).unwrap_or_default()
    }

    /// Whether an address is in one of them.
    pub(crate) fn contains(&self, address: u64) -> bool {
        let after = self.tools.partition_point(|range| range.start <= address);
        after > 0 && self.tools[after - 1].contains(&address)
    }

    /// An address in each unit that is not the toolchain's.
    pub(crate) fn others(&self) -> &[u64] {
        &self.others
    }
}

fn units(path: &Path) -> Option<ToolUnits> {
    let data = ReadCache::new(File::open(path).ok()?);
    let parts = Parts {
        data: &data,
        file: object::File::parse(&data).ok()?,
    };
    let table = part(&parts, ".debug_aranges", 0, usize::MAX)?;
    let table = gimli::DebugAranges::new(table, LittleEndian);
    let mut units = HashMap::<usize, bool>::default();
    let (mut tools, mut others) = (Vec::new(), Vec::new());
    let mut headers = table.headers();
    while let Some(header) = headers.next().ok()? {
        let unit = header.debug_info_offset().0;
        let is_tool =
            *(units.entry(unit)).or_insert_with(|| is_tool(&parts, unit as u64).unwrap_or(false));
        let mut entries = header.entries();
        while let Some(entry) = entries.next().ok()? {
            // What the linker has removed is at 0.
            if entry.address() == 0 {
                continue;
            }
            if !is_tool {
                others.push(entry.address());
                break;
            }
            tools.push(entry.range().begin..entry.range().end);
        }
    }
    tools.sort_unstable_by_key(|range| range.start);
    Some(ToolUnits { tools, others })
}

/// Whether the unit at an offset of `.debug_info` was compiled where the toolchain was.
fn is_tool(parts: &Parts<'_>, unit: u64) -> Option<bool> {
    let mut start = part(parts, ".debug_info", unit, ENTRY)?.to_vec();
    // The unit seems to end where we stop reading. Units of more than 4 GB say their length otherwise.
    let len = u32::try_from(start.len() - 4).ok()?;
    let length = start.first_chunk_mut::<4>()?;
    if *length == [0xff; 4] {
        return None;
    }
    *length = u32::from_le_bytes(*length).min(len).to_le_bytes();
    let units = gimli::DebugInfo::new(&start, LittleEndian);
    let header = units.units().next().ok()??;
    let offset = header.debug_abbrev_offset().0 as u64;
    let abbreviations = part(parts, ".debug_abbrev", offset, ABBREVIATIONS)?;
    let abbreviations = gimli::DebugAbbrev::new(abbreviations, LittleEndian);
    let abbreviations = abbreviations.abbreviations(DebugAbbrevOffset(0)).ok()?;
    let mut entries = header.entries(&abbreviations);
    let entry = entries.next_dfs().ok()??;
    let directory = entry.attr_value(gimli::DW_AT_comp_dir)?;
    Some(match directory {
        gimli::AttributeValue::String(text) => is_tools(text.slice()),
        gimli::AttributeValue::DebugStrRef(at) => {
            is_tools(part(parts, ".debug_str", at.0 as u64, STRING)?)
        }
        gimli::AttributeValue::DebugLineStrRef(at) => {
            is_tools(part(parts, ".debug_line_str", at.0 as u64, STRING)?)
        }
        _ => false,
    })
}

fn is_tools(directory: &[u8]) -> bool {
    TOOLS
        .iter()
        .any(|tools| directory.starts_with(tools.as_bytes()))
}

/// So many bytes of a section, or what there is.
fn part<'a>(parts: &Parts<'a>, section: &str, offset: u64, len: usize) -> Option<&'a [u8]> {
    let section = parts.file.section_by_name(section)?;
    let range = section.compressed_file_range().ok()?;
    if range.format != object::CompressionFormat::None {
        return None;
    }
    let len = (range.compressed_size.checked_sub(offset)?).min(len as u64);
    parts.data.read_bytes_at(range.offset + offset, len).ok()
}
