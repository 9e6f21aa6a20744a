//! How far around a place nothing is inlined that is written in certain files, so that a program asks once for each function
//! and not for each place in it.
//!
//! The rows of the line table are looked at, from the beginning of the function on: a row has one line, so no inlined function begins or
//! ends within it, and its first address tells for all of it. Where a function ends is told by its symbol.

use super::{Module, Symbols};
use std::ops::Range;

/// How many rows are looked at, at most, and how many bytes of code.
const ROWS: usize = 2048;
const BYTES: u64 = 1 << 16;

impl Symbols {
    /// The return addresses around one, in the same function, at which no function is inlined that is written in a file
    /// that is asked for. `None` if there is one at the place itself, or nothing is known of it.
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
        let function = |address| Some(lines.find_symbol_info(address)?.address());
        let begin = function(address)?;
        let rows = lines.find_location_range(begin, address + BYTES).ok()?;
        let mut around: Option<Range<u64>> = None;
        for (start, len, _) in rows.take(ROWS) {
            let goes_on = around.as_ref().is_some_and(|around| around.end == start);
            let is_alike = self.has_inlined(start, &is_asked) == Some(false);
            if start > address && !(goes_on && is_alike && function(start) == Some(begin)) {
                break;
            }
            let first = around.filter(|_| goes_on);
            let first = first.map_or(start, |around| around.start);
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
