//! The local variables of a function, by where they are in its frame.
//!
//! A frame is known by the stack pointer that the function had when it told the runtime of its entry,
//! behind its prologue. Debug information places locals relative to the frame's base, which is the
//! stack pointer itself, the frame pointer, or the address behind the return address. How far that is
//! from the stack pointer is what the unwind table says, or, where the frame pointer is in the way,
//! the instructions of the prologue. A local that would lie below the stack pointer shows that they
//! were not understood; then there are no names, rather than wrong ones.

use super::{Reader, TypeId, Types, type_of};
use gimli::{AttributeValue, CfaRule, Operation, UnitOffset, UnwindSection as _, X86_64};
use object::{Object, ObjectSection, ObjectSegment, ReadRef};
use std::ops::Range;

/// A local: where it is, counted from the stack pointer, what it is called, and its type.
pub(crate) struct Local {
    pub(crate) bytes: Range<u64>,
    pub(crate) name: String,
    pub(crate) of: TypeId,
}

impl Types {
    /// The locals of a function that is at a place in the debug information of the unit that the
    /// code at an address is of; the address is behind the prologue.
    pub(crate) fn locals<'data>(
        &self,
        file: &object::File<'data, impl ReadRef<'data>>,
        address: u64,
        function: usize,
    ) -> Option<Vec<Local>> {
        let number = self.unit_of(address)?;
        let unit = &self.units[number as usize];
        let entry = unit.entry(UnitOffset(function)).ok()?;
        let AttributeValue::Exprloc(base) = entry.attr_value(gimli::DW_AT_frame_base)? else {
            return None;
        };
        let pointer = || {
            let start = entry.attr_value(gimli::DW_AT_low_pc)?;
            let start = self.dwarf.attr_address(unit, start).ok()??;
            prologue(code(file, start..address)?)
        };
        let base = match base.operations(unit.encoding()).next().ok()?? {
            Operation::Register { register } if register == X86_64::RSP => 0,
            Operation::Register { register } if register == X86_64::RBP => pointer()?,
            Operation::CallFrameCFA => match frame_address(file, address)? {
                (X86_64::RSP, offset) => u64::try_from(offset).ok()?,
                (X86_64::RBP, offset) => pointer()?.checked_add_signed(offset)?,
                _ => return None,
            },
            _ => return None,
        };
        let mut locals = Vec::new();
        let mut entries = unit.entries_at_offset(UnitOffset(function)).ok()?;
        entries.next_dfs().ok()?;
        let depth = entries.depth();
        // What is inside of another function has another frame: methods of local types, closures.
        let mut inside = isize::MAX;
        while let Ok(Some(entry)) = entries.next_dfs() {
            if entry.depth() <= depth {
                break;
            }
            if entry.depth() > inside {
                continue;
            }
            inside = match entry.tag() {
                gimli::DW_TAG_subprogram => entry.depth(),
                _ => isize::MAX,
            };
            let is_local = matches!(
                entry.tag(),
                gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter
            );
            let Some(offset) = is_local.then(|| frame_offset(unit, entry)).flatten() else {
                continue;
            };
            // An inlined or a separate instance refers to where it is described.
            let origin = match entry.attr_value(gimli::DW_AT_abstract_origin) {
                Some(AttributeValue::UnitRef(at)) => Some(unit.entry(at).ok()?),
                _ => None,
            };
            let described = origin.as_ref().unwrap_or(entry);
            let name = described.attr_value(gimli::DW_AT_name);
            let (Some(name), Some(of)) = (name, type_of(described)) else {
                continue;
            };
            let name = self.dwarf.attr_string(unit, name).ok()?;
            let name = String::from_utf8_lossy(&gimli::Reader::to_slice(&name).ok()?).into_owned();
            let of = (number, of);
            let start = base.checked_add_signed(offset)?;
            let Some(size) = self.size(of) else {
                continue;
            };
            let bytes = start..start.checked_add(size)?;
            locals.push(Local { bytes, name, of });
        }
        Some(locals)
    }
}

/// Where a variable is relative to the frame's base, if it is there all the time.
fn frame_offset(
    unit: &gimli::Unit<Reader>,
    entry: &gimli::DebuggingInformationEntry<Reader>,
) -> Option<i64> {
    let AttributeValue::Exprloc(place) = entry.attr_value(gimli::DW_AT_location)? else {
        return None;
    };
    let mut operations = place.operations(unit.encoding());
    match (operations.next().ok()?, operations.next().ok()?) {
        (Some(Operation::FrameOffset { offset }), None) => Some(offset),
        _ => None,
    }
}

/// What the unwind table says of an address: the register and how far from it the frame ends.
fn frame_address<'data>(
    file: &object::File<'data, impl ReadRef<'data>>,
    address: u64,
) -> Option<(gimli::Register, i64)> {
    let section = file.section_by_name(".eh_frame")?;
    let table = gimli::EhFrame::new(section.data().ok()?, gimli::LittleEndian);
    let bases = gimli::BaseAddresses::default().set_eh_frame(section.address());
    let mut context = gimli::UnwindContext::new();
    let row = table.unwind_info_for_address(
        &bases,
        &mut context,
        address,
        gimli::EhFrame::cie_from_offset,
    );
    match row.ok()?.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => Some((*register, *offset)),
        _ => None,
    }
}

fn code<'data>(
    file: &object::File<'data, impl ReadRef<'data>>,
    range: Range<u64>,
) -> Option<&'data [u8]> {
    let segment = file.segments().find(|segment| {
        (segment.address()..segment.address() + segment.size()).contains(&range.start)
    })?;
    let start = (range.start - segment.address()) as usize;
    let len = range.end.checked_sub(range.start)? as usize;
    segment.data().ok()?.get(start..start.checked_add(len)?)
}

/// How far the frame pointer is from the stack pointer behind the prologue that code begins with;
/// `None` if it does not begin with one.
fn prologue(code: &[u8]) -> Option<u64> {
    let code = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code);
    // push rbp; mov rbp, rsp
    let mut code = code.strip_prefix(&[0x55, 0x48, 0x89, 0xe5])?;
    let mut distance = 0;
    loop {
        match code {
            // push
            [0x50..=0x57, rest @ ..] | [0x41, 0x50..=0x57, rest @ ..] => {
                distance += 8;
                code = rest;
            }
            // sub rsp, …
            [0x48, 0x83, 0xec, size @ 0..0x80, ..] => return Some(distance + u64::from(*size)),
            [0x48, 0x81, 0xec, a, b, c, d, ..] => {
                return Some(distance + u64::from(u32::from_le_bytes([*a, *b, *c, *d])));
            }
            // add rsp, -128
            [0x48, 0x83, 0xc4, 0x80, ..] => return Some(distance + 128),
            // and rsp, …
            [0x48, 0x83 | 0x81, 0xe4, ..] => return None,
            _ => return Some(distance),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::prologue;

    #[test]
    fn prologues() {
        // push rbp; mov rbp, rsp; sub rsp, 0x20
        let plain = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20, 0x90];
        assert_eq!(prologue(&plain), Some(0x20));
        // endbr64; push rbp; mov rbp, rsp; push r15; push rbx; sub rsp, 0x1008
        let large = [
            0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x41, 0x57, 0x53, 0x48, 0x81, 0xec, 8,
            0x10, 0, 0,
        ];
        assert_eq!(prologue(&large), Some(0x1018));
        // The stack pointer is aligned: nobody knows.
        let aligned = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xe0];
        assert_eq!(prologue(&aligned), None);
        assert_eq!(prologue(&[0x48, 0x83, 0xec, 0x20]), None);
    }
}
