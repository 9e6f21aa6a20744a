//! How far around a place nothing is inlined that is written in certain files, so that a program asks a few times for each function
//! and not for each place in it.
//!
//! The rows of the line table are looked at: a row has one line, so no inlined function begins or ends within it, and its first
//! address tells for all of it. Whose code it is does not matter: what is said holds for places and not for functions. So no
//! symbols have to be read, which are most of what there is to read.

use super::{Module, Symbols};
use std::ops::Range;

/// How many bytes of code are looked at, before a place and behind it: much of a function runs from the first place on
/// that is asked for.
const BEFORE: u64 = 1 << 9;
const BEHIND: u64 = 1 << 12;

impl Symbols {
    /// The return addresses around one at which no function is inlined that is written in a file that is asked for. `None` if
    /// there is one at the place itself, or nothing is known of it.
    pub(crate) fn around(&self, pc: u64, is_asked: impl Fn(&str) -> bool) -> Option<Range<u64>> {
        let place = pc.checked_sub(1)?;
        let mut modules = self.modules.iter();
        let module = modules.find(|module| module.range.contains(&place))?;
        let (start, base) = (module.range.start, module.image().base);
        let rows = module.rows_around(place - start + base, is_asked)?;
        let returning = |address: u64| address - base + start + 1;
        Some(returning(rows.start)..returning(rows.end))
    }
}

impl Module {
    fn rows_around(&self, address: u64, is_asked: impl Fn(&str) -> bool) -> Option<Range<u64>> {
        let lines = self.lines()?;
        if self.has_inlined(address, &is_asked)? {
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
            let is_alike = self.has_inlined(start_here, &is_asked) == Some(false);
            if start > address && !(goes_on && is_alike) {
                break;
            }
            let first = around.filter(|_| goes_on);
            let first = first.map_or(start_here, |around| around.start);
            around = is_alike.then_some(first..start + len);
        }
        around.filter(|around| around.contains(&address))
    }

    /// Whether any function is inlined at an address that is written in a file that is asked for; `None` if nothing is known.
    fn has_inlined(&self, address: u64, is_asked: impl Fn(&str) -> bool) -> Option<bool> {
        let mut frames = self.lines()?.find_frames(address).ok()?;
        let (mut has_inlined, mut last) = (false, None);
        while let Ok(Some(frame)) = frames.next() {
            // The last one is the function itself.
            has_inlined |= last == Some(true);
            let file = frame.location.as_ref().and_then(|location| location.file);
            last = Some(file.is_some_and(&is_asked));
        }
        last.map(|_| has_inlined)
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

    #[inline(never)]
    fn none(at: &AtomicU64) {
        at.store(black_box(5), Ordering::SeqCst);
        at.store(black_box(6), Ordering::SeqCst);
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
