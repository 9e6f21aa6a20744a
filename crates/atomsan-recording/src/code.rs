//! Which calls in a function wait with a lock of the caller's, told by its code.
//!
//! A critical section that could wait looks the same in every run; whether it has to wait is up to the schedule. So the code
//! is asked: a call is found by its encoding (`call rel32`, `call *word(%rip)`, or `call *%r` where the function loads `r` from such a
//! place, as before a loop), wherever the bytes may be, and counts if it leads *exactly* to a function that waits by its name, in this file, by a stub that jumps there, or by a word that the
//! dynamic linker fills. Bytes that are something else do not do that.
//!
//! A function that calls one of these, and nothing that takes a lock, waits with its caller's lock: a wrapper, of which one
//! level is looked through.

use hashbrown::HashMap;
use object::{Object, ObjectSegment, ObjectSymbol, ObjectSymbolTable, ReadCache, ReadRef};
use object::{RelocationTarget, SymbolKind};
use rustc_hash::FxBuildHasher;
use std::fs::File;
use std::ops::Range;
use std::path::Path;

/// What a function of some name does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Means {
    /// Lets go of a lock that it is given, waits, and has it again.
    Waits,
    /// Takes a lock, for all we know.
    Locks,
}

/// The functions of a file.
#[derive(Debug, Default)]
pub(crate) struct Code {
    /// Their addresses, in order.
    functions: Vec<Range<u64>>,
    /// What those do that start there, or whose addresses are there.
    means: HashMap<u64, Means, FxBuildHasher>,
}

/// A file, of which only those parts are read that are asked for.
struct Parts<'a> {
    data: &'a ReadCache<File>,
    /// Where segments are: their addresses, and where they start in the file.
    segments: Vec<(Range<u64>, u64)>,
}

impl Code {
    /// That of a file; nothing if it cannot be read.
    pub(crate) fn read(path: &Path) -> Code {
        read(path).unwrap_or_default()
    }

    /// The return addresses of those calls in the function around an address that wait with a lock.
    pub(crate) fn waits(&self, path: &Path, address: u64) -> Vec<u64> {
        let waits = || {
            let data = ReadCache::new(File::open(path).ok()?);
            let parts = parts(&data, &object::File::parse(&data).ok()?);
            let calls = self.calls(&parts, self.function(address)?);
            let waits = calls.into_iter().filter(|&(_, to)| {
                self.leads_to(&parts, to) == Some(Means::Waits) || self.wraps(&parts, to)
            });
            Some(waits.map(|(after, _)| after).collect())
        };
        waits().unwrap_or_default()
    }

    fn function(&self, address: u64) -> Option<&Range<u64>> {
        let after = self.functions.partition_point(|at| at.start <= address);
        let function = self.functions.get(after.checked_sub(1)?)?;
        function.contains(&address).then_some(function)
    }

    /// All that may be calls in a function: where they return to, and where they lead, or the word that says so.
    fn calls(&self, parts: &Parts<'_>, function: &Range<u64>) -> Vec<(u64, u64)> {
        let bytes = parts.bytes(function.clone()).unwrap_or_default();
        let (mut calls, mut loads, mut by_register) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..bytes.len() {
            let after = |len: usize| function.start + (at + len) as u64;
            let leads_to = |len: usize| {
                let distance = i32::from_le_bytes(*bytes.get(at + len..)?.first_chunk()?);
                after(len + 4).checked_add_signed(distance.into())
            };
            match bytes[at..] {
                [0xe8, ..] => calls.extend(leads_to(1).map(|to| (after(5), to))),
                [0xff, 0x15, ..] => calls.extend(leads_to(2).map(|to| (after(6), to))),
                // The register's number is in two places.
                [rex @ (0x48 | 0x4c), 0x8b | 0x8d, mode, ..] if mode & 0xc7 == 5 => {
                    let register = (rex & 4) << 1 | mode >> 3;
                    loads.extend(leads_to(3).map(|to| (register, to)));
                }
                [0xff, register @ 0xd0..=0xd7, ..] => {
                    let high = at > 0 && bytes[at - 1] == 0x41;
                    by_register.push((after(2), register - 0xd0 + 8 * u8::from(high)));
                }
                _ => {}
            }
        }
        for (after, register) in by_register {
            let loaded = loads.iter().filter(|(other, _)| *other == register);
            calls.extend(loaded.map(|&(_, to)| (after, to)));
        }
        calls
    }

    /// What a function does that is called there, be it by a stub.
    fn leads_to(&self, parts: &Parts<'_>, to: u64) -> Option<Means> {
        if let Some(&means) = self.means.get(&to) {
            return Some(means);
        }
        if self.function(to).is_some() {
            return None;
        }
        const MARK: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
        let stub = parts.bytes(to..to + 16)?;
        let marked = stub.strip_prefix(&MARK).unwrap_or(stub);
        let jump = marked.strip_prefix(&[0xf2]).unwrap_or(marked);
        let distance = *jump.strip_prefix(&[0xff, 0x25])?.first_chunk()?;
        let after = to + (stub.len() - jump.len() + 6) as u64;
        let word = after.checked_add_signed(i32::from_le_bytes(distance).into())?;
        self.means.get(&word).copied()
    }

    /// Whether a function of this file waits with a lock that its caller has taken.
    fn wraps(&self, parts: &Parts<'_>, to: u64) -> bool {
        let Some(function) = self.function(to).filter(|function| function.start == to) else {
            return false;
        };
        let calls = self.calls(parts, function);
        let does = |means| (calls.iter()).any(|&(_, to)| self.leads_to(parts, to) == Some(means));
        does(Means::Waits) && !does(Means::Locks)
    }
}

impl<'a> Parts<'a> {
    fn bytes(&self, at: Range<u64>) -> Option<&'a [u8]> {
        let mut segments = self.segments.iter();
        let (segment, offset) = segments.find(|(segment, _)| segment.contains(&at.start))?;
        let end = at.end.min(segment.end);
        let offset = offset + (at.start - segment.start);
        self.data.read_bytes_at(offset, end - at.start).ok()
    }
}

fn parts<'a>(data: &'a ReadCache<File>, file: &object::File<'a, &'a ReadCache<File>>) -> Parts<'a> {
    let segments = file.segments().map(|segment| {
        let (offset, size) = segment.file_range();
        (segment.address()..segment.address() + size, offset)
    });
    Parts {
        data,
        segments: segments.collect(),
    }
}

fn read(path: &Path) -> Option<Code> {
    let data = ReadCache::new(File::open(path).ok()?);
    let file = object::File::parse(&data).ok()?;
    let mut code = Code::default();
    for symbol in file.symbols() {
        if symbol.kind() != SymbolKind::Text || symbol.size() == 0 || symbol.is_undefined() {
            continue;
        }
        let start = symbol.address();
        code.functions.push(start..start + symbol.size());
        if let Some(means) = symbol.name().ok().and_then(means) {
            code.means.insert(start, means);
        }
    }
    code.functions.sort_unstable_by_key(|at| (at.start, at.end));
    let names = file.dynamic_symbol_table();
    for (word, relocation) in file.dynamic_relocations().into_iter().flatten() {
        let means = match relocation.target() {
            RelocationTarget::Symbol(index) => names
                .as_ref()
                .and_then(|names| means(names.symbol_by_index(index).ok()?.name().ok()?)),
            RelocationTarget::Absolute => {
                let to = relocation.addend().cast_unsigned();
                code.means.get(&to).copied()
            }
            _ => None,
        };
        code.means.extend(means.map(|means| (word, means)));
    }
    Some(code)
}

/// Functions that wait with a lock that they are given: the start of their path, and the end.
const WAITING: &[(&str, &str)] = &[
    ("pthread_cond_", "wait"),
    ("cnd_", "wait"),
    ("std::condition_variable::", ""),
    ("std::_V2::condition_variable_any::", ""),
    ("std::sync::poison::condvar::Condvar", ""),
    ("std::sync::nonpoison::condvar::Condvar", ""),
    ("std::sync::condvar::Condvar", ""),
    ("std::sys::sync::condvar::", ""),
    ("parking_lot::condvar::Condvar", ""),
];

/// What a function does, by its name as the linker knows it.
fn means(symbol: &str) -> Option<Means> {
    // A version may follow the name, and the linker may have put something in front of it.
    let symbol = symbol.split('@').next().unwrap_or(symbol);
    let symbol = symbol.strip_prefix("__wrap_").unwrap_or(symbol);
    if symbol.contains("wait") {
        let name = crate::symbols::demangle(symbol);
        let path = crate::models::path(&name);
        let waits = WAITING.iter().any(|(start, end)| {
            let rest = path.strip_prefix(start);
            rest.is_some_and(|rest| rest.contains("wait") && rest.ends_with(end))
        });
        if waits {
            return Some(Means::Waits);
        }
    }
    let symbol = symbol.to_ascii_lowercase();
    (symbol.contains("lock") && !symbol.contains("unlock")).then_some(Means::Locks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_functions_that_wait() {
        for name in [
            "pthread_cond_wait",
            "pthread_cond_timedwait@GLIBC_2.3.2",
            "pthread_cond_clockwait",
            "cnd_timedwait",
            "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE",
            "_ZN3std4sync6poison7condvar7Condvar4wait17h0123456789abcdefE",
            "_ZN3std4sync6poison7condvar7Condvar10wait_while17h0123456789abcdefE",
            "__wrap__ZN3std3sys4sync7condvar5futex7Condvar21wait_optional_timeout17h0123456789abcdefE",
            "__wrap__RNvMNtNtNtNtCsjrHSEGnQ3l9_3std3sys4sync7condvar5futexNtB2_7Condvar4wait",
            "_ZN11parking_lot7condvar7Condvar19wait_until_internal17h0123456789abcdefE",
        ] {
            assert_eq!(means(name), Some(Means::Waits), "{name}");
        }
        for name in [
            "pthread_mutex_lock",
            "safe_mutex_lock",
            "_ZNSt5mutex4lockEv",
        ] {
            assert_eq!(means(name), Some(Means::Locks), "{name}");
        }
        for name in [
            "pthread_cond_signal",
            "pthread_mutex_unlock",
            "pthread_cond_wait_for_me",
            "await",
            "_ZN3std4sync6poison7condvar7Condvar10notify_all17h0123456789abcdefE",
        ] {
            assert_eq!(means(name), None, "{name}");
        }
    }
}
