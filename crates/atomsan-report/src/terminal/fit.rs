//! Text that fits into so many columns.

use std::ops::Range;
use unicode_width::UnicodeWidthStr as _;

/// How many columns a tab takes, to the renderer of snippets.
const TAB: usize = 4;

/// How many columns a text without tabs takes.
pub(super) fn columns(text: &str) -> usize {
    text.width()
}

fn column(c: char) -> usize {
    match c {
        '\t' => TAB,
        c => unicode_width::UnicodeWidthChar::width(c).unwrap_or(0),
    }
}

/// Cuts a name that is too long in its middle.
pub(super) fn shorten(name: &mut String, most: usize) {
    let length = name.chars().count();
    if length > most {
        let half = (most - 1) / 2;
        let head = name.chars().take(half);
        let tail = name.chars().skip(length - half);
        *name = head.chain(['…']).chain(tail).collect();
    }
}

/// A line that fits.
pub(super) fn cut(line: &str, room: usize) -> String {
    let mut columns = 0;
    let mut kept = String::new();
    for c in line.chars() {
        columns += column(c);
        if columns > room {
            kept.pop();
            kept.push('…');
            break;
        }
        kept.push(c);
    }
    kept
}

/// Lines that fit. A word that is longer than a line is broken.
pub(super) fn wrapped(text: &str, room: usize) -> String {
    hanging(text, room, 0)
}

/// The same, with all lines but the first indented.
pub(super) fn hanging(text: &str, room: usize, indent: usize) -> String {
    let indent = " ".repeat(indent);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if columns(line) + 1 + columns(word) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            last => {
                let mut line = last.map_or_else(String::new, |_| indent.clone());
                for c in word.chars() {
                    if columns(&line) + column(c) > room && !line.trim().is_empty() {
                        lines.push(std::mem::replace(&mut line, indent.clone()));
                    }
                    line.push(c);
                }
                lines.push(line);
            }
        }
    }
    lines.join("\n")
}

/// How many columns a span of a text is indented.
pub(super) fn indent(text: &str, span: &Range<usize>) -> usize {
    let line_start = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
    text[line_start..span.start].chars().map(column).sum()
}

/// As much of a span, which is part of a line, as leaves room for a label behind it.
pub(super) fn narrowed(text: &str, span: Range<usize>, room: usize, label: usize) -> Range<usize> {
    let most = room.saturating_sub(indent(text, &span) + label + 1).max(1);
    let mut columns = 0;
    let mut end = span.start;
    for c in text[span.clone()].chars() {
        columns += column(c);
        if columns > most && columns > column(c) {
            break;
        }
        end += c.len_utf8();
    }
    span.start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_broken_and_lines_indented() {
        assert_eq!(wrapped("one two three", 7), "one two\nthree");
        assert_eq!(wrapped("a abcdefghij b", 4), "a\nabcd\nefgh\nij b");
        assert_eq!(hanging("one two three", 7, 2), "one two\n  three");
        assert_eq!(wrapped("漢字漢字", 5), "漢字\n漢字");
    }

    #[test]
    fn names_and_lines_are_cut() {
        let mut name = "abcdefghij".to_owned();
        shorten(&mut name, 5);
        assert_eq!(name, "ab…ij");
        assert_eq!(cut("\tabc", 6), "\ta…");
        assert_eq!(cut("abc", 3), "abc");
    }

    #[test]
    fn a_span_leaves_room_for_its_label() {
        let text = "x\n  abcdefgh\n";
        assert_eq!(narrowed(text, 4..12, 20, 4), 4..12);
        assert_eq!(narrowed(text, 4..12, 10, 4), 4..7);
        assert_eq!(narrowed(text, 4..12, 3, 40), 4..5);
    }
}
