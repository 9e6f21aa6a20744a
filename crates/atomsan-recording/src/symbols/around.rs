//! How far around a place nothing is inlined that is written in certain files, so that a program asks a few times for each function
//! and not for each place in it; and whether nothing is in a whole function.
//!
//! The rows of the line table are looked at: a row has one line, so no inlined function begins or ends within it, and its first
//! address tells for all of it. Whose code it is does not matter: what is said holds for places and not for functions. So no
//! symbols have to be read, which are most of what there is to read.

use super::{Module, Symbols};
use gimli::ReaderOffset as _;
use std::ops::Range;

/// How many bytes of code are looked at, before a place and behind it: much of a function runs from the first place on
/// that is asked for.
const BEFORE: u64 = 1 << 9;
const BEHIND: u64 = 1 << 12;
/// How many bytes a function may have for all of it to be looked at.
const FUNCTION: u64 = 1 << 14;

impl Symbols {
    /// The return addresses around one at which no function is inlined that is written in a file that is asked for. `None` if
    /// there is one at the place itself, or nothing is known of it.
    pub(crate) fn around(&self, pc: u64, is_asked: impl Fn(&str) -> bool) -> Option<Range<u64>> {
        let (module, address) = self.code_at(pc)?;
        let rows = module.rows_around(address, is_asked)?;
        let returning = |at: u64| pc.wrapping_add(at.wrapping_sub(address));
        Some(returning(rows.start)..returning(rows.end))
    }

    /// Whether no function that is written in a file that is asked for is inlined in the one that a return address is in, from there on: `false` if
    /// that is not known. What the compiler has put elsewhere, because it is hardly ever run, is not looked at.
    pub(crate) fn has_nothing(&self, pc: u64, is_asked: impl Fn(&str) -> bool) -> bool {
        let code = self.code_at(pc);
        code.and_then(|(module, address)| module.has_nothing(address, is_asked)) == Some(true)
    }

    /// The module with the call that returns to an address, and where in its file that is.
    fn code_at(&self, pc: u64) -> Option<(&Module, u64)> {
        let place = pc.checked_sub(1)?;
        let mut modules = self.modules.iter();
        let module = modules.find(|module| module.range.contains(&place))?;
        Some((module, place - module.range.start + module.image().base))
    }
}

/// What is inlined at an address.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Inlined {
    /// The function whose code it is, as the file numbers them.
    function: Option<usize>,
    /// Whether anything is inlined there that is written in a file that is asked for.
    any: bool,
}

impl Module {
    fn has_nothing(&self, address: u64, is_asked: impl Fn(&str) -> bool) -> Option<bool> {
        let function = self.inlined(address, &is_asked)?.function?;
        let end = address + FUNCTION;
        let rows = self.lines()?.find_location_range(address, end).ok()?;
        for (start, len, _) in rows {
            let start = start.max(address);
            if self.tools().contains(start) {
                return Some(true);
            }
            let here = self.inlined(start, &is_asked)?;
            if here.function != Some(function) {
                return Some(true);
            }
            if here.any || start + len >= end {
                return Some(false);
            }
        }
        Some(true)
    }

    fn rows_around(&self, address: u64, is_asked: impl Fn(&str) -> bool) -> Option<Range<u64>> {
        let lines = self.lines()?;
        if self.inlined(address, &is_asked)?.any {
            return None;
        }
        let looked_at = address.saturating_sub(BEFORE)..address + BEHIND;
        let rows = lines
            .find_location_range(looked_at.start, looked_at.end)
            .ok()?;
        let mut around: Option<Range<u64>> = None;
        for (start, len, _) in rows {
            // A row may begin before all that.
            let start_here = start.max(looked_at.start);
            let goes_on = around.as_ref().is_some_and(|around| around.end == start);
            let is_alike = (self.inlined(start_here, &is_asked)).is_some_and(|here| !here.any);
            if start > address && !(goes_on && is_alike) {
                break;
            }
            let first = around.filter(|_| goes_on);
            let first = first.map_or(start_here, |around| around.start);
            around = is_alike.then_some(first..start + len);
        }
        around.filter(|around| around.contains(&address))
    }

    /// What is inlined at an address; `None` if nothing is known.
    fn inlined(&self, address: u64, is_asked: impl Fn(&str) -> bool) -> Option<Inlined> {
        let mut frames = self.lines()?.find_frames(address).ok()?;
        let (mut any, mut last) = (false, None);
        while let Ok(Some(frame)) = frames.next() {
            // The last one is the function itself.
            any |= last.is_some_and(|(is_asked, _)| is_asked);
            let file = frame.location.as_ref().and_then(|location| location.file);
            let function = frame.dw_die_offset;
            last = Some((file.is_some_and(&is_asked), function));
        }
        last.map(|(_, function)| Inlined {
            function: function.map(|function| function.0.into_u64() as usize),
            any,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[inline(always)]
    fn inlined(at: &AtomicU64) {
        at.store(
            black_box(at.load(Ordering::SeqCst)) * 3 + 1,
            Ordering::SeqCst,
        );
    }

    #[inline(never)]
    fn some(at: &AtomicU64) {
        at.store(black_box(7), Ordering::SeqCst);
        inlined(at);
        at.store(black_box(9), Ordering::SeqCst);
    }

    /// A function of more than [`FUNCTION`] bytes.
    #[inline(never)]
    fn many(at: &AtomicU64) {
        macro_rules! again {
            ($($of:tt)*) => {$( { let _ = stringify!($of); inlined(at); inlined(at); inlined(at); inlined(at); } )*};
        }
        macro_rules! more {
            ($($of:tt)*) => {$( { let _ = stringify!($of); again!(a a a a a a a a a a a a a a a a); } )*};
        }
        more!(a a a a a a a a a a a a a a a a);
    }

    #[inline(never)]
    fn none(at: &AtomicU64) {
        at.store(black_box(5), Ordering::SeqCst);
        at.store(black_box(6), Ordering::SeqCst);
    }

    /// By definition: at no place of a function is anything inlined.
    #[test]
    fn functions_have_nothing_inlined() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut symbols = Symbols::of_maps(std::iter::once(&*maps));
        let is_asked = |file: &str| file.ends_with("symbols/around.rs");
        let functions = [some as fn(&AtomicU64), none, many];
        let [some, none, many] = functions.map(|function| function as usize as u64 + 1);
        let mut by_definition = |first: u64| {
            let mut function = |place| {
                symbols
                    .frames(place)
                    .last()
                    .map(|frame| frame.function.clone())
            };
            let name = function(first);
            let places = (first..).take_while(|&place| function(place) == name);
            let places: Vec<u64> = places.collect();
            !places.into_iter().any(|place| {
                let frames = symbols.frames(place);
                let (_, inlined) = frames.split_last().unwrap();
                inlined.iter().any(|frame| is_asked(&frame.file))
            })
        };
        assert_eq!(
            [some, none, many].map(&mut by_definition),
            [false, true, false]
        );
        let symbols = Symbols::of_maps(std::iter::once(&*maps));
        let has_nothing = |first: u64| symbols.has_nothing(first, is_asked);
        assert_eq!([some, none, many].map(has_nothing), [false, true, false]);
        // Nothing is asked for, but this function is too long to be looked at.
        assert!(symbols.has_nothing(some, |_| false) && !symbols.has_nothing(many, |_| false));
        assert!(!symbols.has_nothing(8, is_asked));
    }

    /// By definition: at no place of a part is anything inlined that is asked for, and at a place without a part there is.
    #[test]
    fn parts_have_nothing_inlined() {
        let at = AtomicU64::new(1);
        some(&at);
        none(&at);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut symbols = Symbols::of_maps(std::iter::once(&*maps));
        let is_asked = |file: &str| file.ends_with("symbols/around.rs");
        for (function, has_any) in [(some as fn(&AtomicU64), true), (none, false)] {
            let start = function as usize as u64 + 1;
            let (mut with, mut without) = (0, 0);
            for place in start..start + 24 {
                let mut has_inlined = |place| {
                    let frames = symbols.frames(place);
                    let (_, inlined) = frames.split_last().unwrap();
                    inlined.iter().any(|frame| is_asked(&frame.file))
                };
                let here = has_inlined(place);
                let part = Symbols::of_maps(std::iter::once(&*maps)).around(place, is_asked);
                assert_eq!(part.is_none(), here, "{place:x}");
                for place in part.into_iter().flatten() {
                    assert!(!has_inlined(place), "{place:x}");
                }
                with += usize::from(here);
                without += usize::from(!here);
            }
            assert!(without > 0 && (with > 0) == has_any, "{with} {without}");
        }
    }
}
