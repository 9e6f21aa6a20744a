//! What lies inside of a variable: the fields and elements that debug information knows.
//!
//! A static has a type. What is allocated has none, but who allocates it may be a function of a
//! library that is generic over what it makes room for, `Box::new::<Account>`; the type that it is
//! generic over is the one if it has the right size.
//!
//! A path is spelt as in the source, `accounts[3].balance`. Fields of a library's types are how the
//! library does it: they are passed through without a word, so the content of a `Mutex` is called
//! what the mutex is called. Where the types end (unions, enumerations, files without them), so does
//! the path.
//!
//! All variables of a file are listed in one pass over its units; the layout of a type is read when
//! it is first asked for.

mod locals;

use gimli::{AttributeValue, Operation, Reader as _, UnitOffset};
use hashbrown::{HashMap, HashSet};
use object::{CompressionFormat, Object, ObjectSection, ReadCache};
use rustc_hash::FxBuildHasher;
use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::rc::Rc;

pub(crate) use locals::Local;

type Reader = gimli::EndianRcSlice<gimli::LittleEndian>;
/// A type: the number of its unit, and where it is in that.
pub(crate) type TypeId = (u32, UnitOffset);

/// More debug information than this is not looked at.
const LIMIT: u64 = 256 << 20;
/// Types inside of types, at most.
const DEPTH: usize = 64;

/// Outermost namespaces of libraries.
const LIBRARIES: &[&str] = &[
    "std",
    "core",
    "alloc",
    "__gnu_cxx",
    "hashbrown",
    "parking_lot",
    "lock_api",
    "spin",
    "once_cell",
    "dashmap",
    "crossbeam_utils",
    "tokio",
];

/// What libraries put around what they make room for.
const WRAPPERS: [&str; 4] = ["ArcInner<", "RcInner<", "RcBox<", "_"];
/// Raw memory for a value of the type that they are generic over.
const BUFFERS: [&str; 2] = ["__aligned_buffer<", "__aligned_membuf<"];

/// The types of a file.
pub(crate) struct Types {
    dwarf: gimli::Dwarf<Reader>,
    units: Vec<gimli::Unit<Reader>>,
    /// The type of the variable at each address, in order.
    variables: Vec<(u64, TypeId)>,
    /// Structures of libraries.
    library: HashSet<TypeId, FxBuildHasher>,
    /// Which code is of which unit, in order.
    code: Vec<(Range<u64>, u32)>,
    layouts: RefCell<HashMap<TypeId, Rc<Layout>, FxBuildHasher>>,
}

/// What a type consists of.
enum Layout {
    /// Where the type is, and its fields, in order; those of a library have no names.
    Fields(UnitOffset, Vec<Field>),
    /// Elements of a type and size, in rows of these lengths, all but the outermost.
    Elements(TypeId, u64, Vec<u64>),
    /// Nothing that has a name.
    Whole,
}

struct Field {
    bytes: Range<u64>,
    name: String,
    of: TypeId,
}

/// A step into a value.
#[derive(Clone, Copy)]
enum Step<'a> {
    /// A structure.
    Into(TypeId),
    Field(&'a str),
    Element(u64),
}

impl Step<'_> {
    fn write(self, path: &mut String) {
        let _ = match self {
            Step::Into(_) => Ok(()),
            Step::Field(name) => write!(path, ".{name}"),
            Step::Element(index) => write!(path, "[{index}]"),
        };
    }
}

/// The bytes of a section, which are read to where they stay: a program is mostly debug information, and to have
/// it twice would be most of what its check takes of memory.
fn content<'a>(file: &File, section: &impl ObjectSection<'a>) -> Option<Rc<[u8]>> {
    let range = section.compressed_file_range().ok()?;
    if range.format != CompressionFormat::None {
        return Some(section.uncompressed_data().ok()?.as_ref().into());
    }
    let end = range.offset.checked_add(range.compressed_size)?;
    if end > file.metadata().ok()?.len() {
        return None;
    }
    let mut bytes: Rc<[u8]> = std::iter::repeat_n(0, range.compressed_size as usize).collect();
    file.read_exact_at(Rc::get_mut(&mut bytes)?, range.offset)
        .ok()?;
    Some(bytes)
}

impl Types {
    /// The types of a file, if it has any.
    pub(crate) fn read(path: &Path) -> Option<Types> {
        let data = File::open(path).ok()?;
        let parts = ReadCache::new(&data);
        let file = object::File::parse(&parts).ok()?;
        let info = file.section_by_name(".debug_info")?;
        if info.size() > LIMIT {
            return None;
        }
        let section = |id: gimli::SectionId| {
            let section = file.section_by_name(id.name());
            let bytes = section.and_then(|section| content(&data, &section));
            let bytes = bytes.unwrap_or_default();
            Ok::<_, gimli::Error>(Reader::new(bytes, gimli::LittleEndian))
        };
        let dwarf = gimli::Dwarf::load(section).ok()?;
        let mut types = Types {
            dwarf,
            units: Vec::new(),
            variables: Vec::new(),
            library: HashSet::default(),
            code: Vec::new(),
            layouts: RefCell::default(),
        };
        let mut headers = types.dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            if let Ok(unit) = types.dwarf.unit(header) {
                // What was read before a mistake in a unit is right.
                let _ = types.list(&unit);
                if let Ok(mut ranges) = types.dwarf.unit_ranges(&unit) {
                    while let Ok(Some(range)) = ranges.next() {
                        let number = types.units.len() as u32;
                        types.code.push((range.begin..range.end, number));
                    }
                }
                types.units.push(unit);
            }
        }
        types.code.sort_unstable_by_key(|(range, _)| range.start);
        types
            .variables
            .sort_unstable_by_key(|(address, _)| *address);
        Some(types)
    }

    /// Lists the variables of a unit, and its libraries' structures.
    fn list(&mut self, unit: &gimli::Unit<Reader>) -> gimli::Result<()> {
        let number = self.units.len() as u32;
        // The namespaces that an entry is in: the depth of each, and whether it is a library's.
        let mut spaces: Vec<(isize, bool)> = Vec::new();
        let mut entries = unit.entries_raw(None)?;
        while !entries.is_empty() {
            let (depth, offset) = (entries.next_depth(), entries.next_offset());
            let Some(abbreviation) = entries.read_abbreviation()? else {
                continue;
            };
            while spaces.pop_if(|(at, _)| *at >= depth).is_some() {}
            let inside = spaces.last().map(|(_, library)| *library);
            let attributes = abbreviation.attributes();
            match abbreviation.tag() {
                gimli::DW_TAG_namespace => {
                    let mut library = inside.unwrap_or(false);
                    for &attribute in attributes {
                        let attribute = entries.read_attribute(attribute)?;
                        if attribute.name() == gimli::DW_AT_name && inside.is_none() {
                            let name = self.dwarf.attr_string(unit, attribute.value())?;
                            library = LIBRARIES.contains(&&*name.to_string_lossy()?);
                        }
                    }
                    spaces.push((depth, library));
                }
                gimli::DW_TAG_variable => {
                    let (mut address, mut of) = (None, None);
                    for &attribute in attributes {
                        let attribute = entries.read_attribute(attribute)?;
                        match (attribute.name(), attribute.value()) {
                            (gimli::DW_AT_location, AttributeValue::Exprloc(place)) => {
                                address = self.address(unit, place)?;
                            }
                            (gimli::DW_AT_type, AttributeValue::UnitRef(at)) => of = Some(at),
                            (gimli::DW_AT_specification, AttributeValue::UnitRef(at)) => {
                                of = of.or(type_of(&unit.entry(at)?));
                            }
                            _ => {}
                        }
                    }
                    if let (Some(address), Some(of)) = (address, of) {
                        self.variables.push((address, (number, of)));
                    }
                }
                gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type => {
                    if inside == Some(true) {
                        self.library.insert((number, offset));
                    }
                    entries.skip_attributes(attributes)?;
                }
                _ => entries.skip_attributes(attributes)?,
            }
        }
        Ok(())
    }

    /// The fixed address that an expression is, if it is one.
    fn address(
        &self,
        unit: &gimli::Unit<Reader>,
        place: gimli::Expression<Reader>,
    ) -> gimli::Result<Option<u64>> {
        let mut operations = place.operations(unit.encoding());
        let address = match operations.next()? {
            Some(Operation::Address { address }) => address,
            Some(Operation::AddressIndex { index }) => self.dwarf.address(unit, index)?,
            _ => return Ok(None),
        };
        Ok(operations.next()?.is_none().then_some(address))
    }

    /// The path from the variable at an address to what is so many bytes into it; `None` if the
    /// variable has no type.
    pub(crate) fn path(&self, variable: u64, offset: u64) -> Option<String> {
        let at = (self.variables).partition_point(|(address, _)| *address < variable);
        let (_, of) = *(self.variables.get(at)).filter(|(address, _)| *address == variable)?;
        Some(self.path_in(of, offset))
    }

    /// The path to what is so many bytes into a value of a type.
    pub(crate) fn path_in(&self, of: TypeId, offset: u64) -> String {
        let mut path = String::new();
        self.descend(of, offset, |step| step.write(&mut path));
        path
    }

    /// What is so many bytes into a value of a type, as `Account::balance`; `None` if that has no
    /// name.
    pub(crate) fn member(&self, of: TypeId, offset: u64) -> Option<String> {
        let mut name: Option<String> = None;
        let mut users = false;
        let mut path = String::new();
        self.descend(of, offset, |step| {
            if let Step::Into(at) = step {
                if !users && self.library.contains(&at) {
                    let own = self.name(at);
                    let wraps = |own: &String| WRAPPERS.iter().any(|start| own.starts_with(start));
                    name = name.take().or(own.filter(|own| !wraps(own)));
                } else if !users {
                    (users, name) = (true, self.name(at));
                    path.clear();
                }
            }
            step.write(&mut path);
        });
        let name = name?;
        match path.strip_prefix('.') {
            Some(path) => Some(format!("{name}::{path}")),
            None => Some(name + &path),
        }
    }

    fn name(&self, of: TypeId) -> Option<String> {
        let unit = &self.units[of.0 as usize];
        let name = unit.entry(of.1).ok()?.attr_value(gimli::DW_AT_name)?;
        let name = self.dwarf.attr_string(unit, name).ok()?;
        Some(name.to_string_lossy().ok()?.into_owned())
    }

    /// Goes from a value of a type to what is so many bytes into it.
    fn descend(&self, mut of: TypeId, mut offset: u64, mut each: impl FnMut(Step<'_>)) {
        for _ in 0..DEPTH {
            match &*self.layout(of) {
                Layout::Fields(at, fields) => {
                    each(Step::Into((of.0, *at)));
                    let found = fields.iter().find(|field| field.bytes.contains(&offset));
                    let Some(field) = found else {
                        return;
                    };
                    if !field.name.is_empty() {
                        each(Step::Field(&field.name));
                    }
                    offset -= field.bytes.start;
                    of = field.of;
                }
                Layout::Elements(element, size, rows) => {
                    let mut index = offset / size;
                    for row in rows {
                        each(Step::Element(index / row));
                        index %= row;
                    }
                    each(Step::Element(index));
                    offset %= size;
                    of = *element;
                }
                Layout::Whole => return,
            }
        }
    }

    /// The unit that the code at an address is of.
    fn unit_of(&self, address: u64) -> Option<u32> {
        let after = (self.code).partition_point(|(range, _)| range.start <= address);
        let (range, unit) = self.code.get(after.checked_sub(1)?)?;
        range.contains(&address).then_some(*unit)
    }

    /// The types that a function is generic over, or that its class is; the function is the one at
    /// a place in the debug information of the unit that the code at an address is of.
    pub(crate) fn parameters(&self, address: u64, function: usize) -> Vec<TypeId> {
        let Some(unit) = self.unit_of(address) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        let mut at = Some(UnitOffset(function));
        // An inlined or a separate instance refers to the function, and that to its declaration.
        for _ in 0..3 {
            let Some(this) = at else {
                break;
            };
            at = self.parameters_at(unit, this, &mut found).flatten();
        }
        found
    }

    /// Adds the parameters of one entry, and says which other one it refers to.
    fn parameters_at(
        &self,
        number: u32,
        at: UnitOffset,
        found: &mut Vec<TypeId>,
    ) -> Option<Option<UnitOffset>> {
        let unit = &self.units[number as usize];
        let mut tree = unit.entries_tree(Some(at)).ok()?;
        let root = tree.root().ok()?;
        let next = [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification]
            .into_iter()
            .find_map(|name| match root.entry().attr_value(name)? {
                AttributeValue::UnitRef(at) => Some(at),
                _ => None,
            });
        let mut children = root.children();
        while let Ok(Some(child)) = children.next() {
            let entry = child.entry();
            let of = type_of(entry).map(|at| (number, at));
            match (entry.tag(), of) {
                (gimli::DW_TAG_template_type_parameter, Some(of)) => found.push(of),
                (gimli::DW_TAG_formal_parameter, Some(of))
                    if entry.has_attr(gimli::DW_AT_artificial) =>
                {
                    let class = self.pointed_to(of);
                    class.and_then(|at| self.parameters_at(number, at, found));
                }
                _ => {}
            }
        }
        Some(next)
    }

    fn pointed_to(&self, of: TypeId) -> Option<UnitOffset> {
        let entry = self.units[of.0 as usize].entry(self.plain(of)?).ok()?;
        let is_pointer = entry.tag() == gimli::DW_TAG_pointer_type;
        self.plain((of.0, type_of(&entry).filter(|_| is_pointer)?))
    }

    fn layout(&self, of: TypeId) -> Rc<Layout> {
        if let Some(known) = self.layouts.borrow().get(&of) {
            return Rc::clone(known);
        }
        let layout = Rc::new(self.read_layout(of).unwrap_or(Layout::Whole));
        self.layouts.borrow_mut().insert(of, Rc::clone(&layout));
        layout
    }

    fn read_layout(&self, of: TypeId) -> Option<Layout> {
        let unit = &self.units[of.0 as usize];
        let at = self.plain(of)?;
        let mut tree = unit.entries_tree(Some(at)).ok()?;
        let root = tree.root().ok()?;
        match root.entry().tag() {
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type => {
                let library = self.library.contains(&(of.0, at));
                let name = self.name((of.0, at)).filter(|_| library);
                let buffer =
                    name.is_some_and(|name| BUFFERS.iter().any(|start| name.starts_with(start)));
                let mut fields = Vec::new();
                let mut children = root.children();
                while let Ok(Some(child)) = children.next() {
                    let entry = child.entry();
                    match type_of(entry) {
                        Some(content) if buffer => {
                            if entry.tag() == gimli::DW_TAG_template_type_parameter {
                                let of = (of.0, content);
                                let (bytes, name) = (0..self.size(of)?, String::new());
                                fields.push(Field { bytes, name, of });
                            }
                        }
                        _ => fields.extend(self.field(of.0, entry, library)),
                    }
                }
                Some(Layout::Fields(at, fields))
            }
            gimli::DW_TAG_array_type => {
                let element = (of.0, type_of(root.entry())?);
                let size = self.size(element).filter(|&size| size != 0)?;
                let mut lengths = Vec::new();
                let mut children = root.children();
                while let Ok(Some(child)) = children.next() {
                    lengths.push(length(child.entry()).unwrap_or(1).max(1));
                }
                // How many elements one step of each index but the last one is.
                let rows = (1..lengths.len()).map(|from| lengths[from..].iter().product());
                Some(Layout::Elements(element, size, rows.collect()))
            }
            _ => None,
        }
    }

    fn field(
        &self,
        unit: u32,
        entry: &gimli::DebuggingInformationEntry<Reader>,
        library: bool,
    ) -> Option<Field> {
        let named = match entry.tag() {
            gimli::DW_TAG_member => !library,
            gimli::DW_TAG_inheritance => false,
            _ => return None,
        };
        // A static of a class is somewhere else.
        if entry.has_attr(gimli::DW_AT_external) {
            return None;
        }
        let start = entry.attr_value(gimli::DW_AT_data_member_location)?;
        let start = start.udata_value()?;
        let of = (unit, type_of(entry)?);
        let name = (entry.attr_value(gimli::DW_AT_name)).filter(|_| named);
        let name = name.and_then(|name| {
            let name = self.dwarf.attr_string(&self.units[unit as usize], name);
            Some(name.ok()?.to_string_lossy().ok()?.into_owned())
        });
        // Fields of Rust's tuples have numbers.
        let name = name.unwrap_or_default();
        let number = name
            .strip_prefix("__")
            .filter(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()));
        Some(Field {
            bytes: start..start.checked_add(self.size(of)?)?,
            name: number.map_or(name.clone(), str::to_owned),
            of,
        })
    }

    /// The type behind other names for it.
    fn plain(&self, of: TypeId) -> Option<UnitOffset> {
        let mut at = of.1;
        for _ in 0..DEPTH {
            let entry = self.units[of.0 as usize].entry(at).ok()?;
            match entry.tag() {
                gimli::DW_TAG_typedef
                | gimli::DW_TAG_const_type
                | gimli::DW_TAG_volatile_type
                | gimli::DW_TAG_atomic_type => at = type_of(&entry)?,
                _ => return Some(at),
            }
        }
        None
    }

    /// How many bytes a value of a type has.
    pub(crate) fn size(&self, of: TypeId) -> Option<u64> {
        let at = self.plain(of)?;
        let unit = &self.units[of.0 as usize];
        let entry = unit.entry(at).ok()?;
        if let Some(size) = entry.attr_value(gimli::DW_AT_byte_size) {
            return size.udata_value();
        }
        match entry.tag() {
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => Some(8),
            gimli::DW_TAG_array_type => {
                let mut size = self.size((of.0, type_of(&entry)?))?;
                let mut tree = unit.entries_tree(Some(at)).ok()?;
                let mut children = tree.root().ok()?.children();
                while let Ok(Some(child)) = children.next() {
                    size = size.checked_mul(length(child.entry())?)?;
                }
                Some(size)
            }
            _ => None,
        }
    }
}

fn type_of(entry: &gimli::DebuggingInformationEntry<Reader>) -> Option<UnitOffset> {
    match entry.attr_value(gimli::DW_AT_type)? {
        AttributeValue::UnitRef(at) => Some(at),
        _ => None,
    }
}

/// The length of an array in one of its dimensions.
fn length(entry: &gimli::DebuggingInformationEntry<Reader>) -> Option<u64> {
    let value = |name| entry.attr_value(name).and_then(|value| value.udata_value());
    value(gimli::DW_AT_count).or_else(|| value(gimli::DW_AT_upper_bound)?.checked_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_what_they_are_in_the_file() {
        let program = std::env::current_exe().unwrap();
        let (all, file) = (
            std::fs::read(&program).unwrap(),
            File::open(&program).unwrap(),
        );
        let parsed = object::File::parse(&*all).unwrap();
        for name in [".text", ".rodata", ".debug_abbrev"] {
            if let Some(section) = parsed.section_by_name(name) {
                let data = section.uncompressed_data().unwrap();
                assert!(content(&file, &section).unwrap()[..] == data[..], "{name}");
            }
        }
        // A file that has become shorter has nothing there.
        let cut = tempfile::tempfile().unwrap();
        let text = parsed.section_by_name(".text").unwrap();
        assert!(content(&cut, &text).is_none());
        assert!(Types::read(Path::new("/no/such/file")).is_none());
    }
}
