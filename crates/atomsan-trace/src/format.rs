//! The formats of trace files, and how one is told from another.

pub mod atrace;
pub(crate) mod lines;
pub mod rr;
pub mod std;

use ::std::fmt;
use ::std::str::FromStr;

/// A format of trace files.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// RAPID's text format, `thread|op|loc` a line.
    Std,
    /// RoadRunner's log, `@ Op(tid,target)  State  File.java:line:col` a line.
    Rr,
    /// Our own binary format.
    Atrace,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 3] = [Format::Std, Format::Rr, Format::Atrace];

    /// The name a user asks for it by.
    pub fn name(self) -> &'static str {
        match self {
            Format::Std => "std",
            Format::Rr => "rr",
            Format::Atrace => "atrace",
        }
    }

    /// Recognises the beginning of a trace. In a text, the first line that is an event decides,
    /// so a log may have other lines in front; `looked_at` keeps how many bytes of those there
    /// are, for when more of the head has been read.
    pub(crate) fn sniff(head: &[u8], ended: bool, looked_at: &mut usize) -> Option<Format> {
        let magic = atrace::MAGIC.len().min(head.len());
        if !head.is_empty() && atrace::MAGIC[..magic] == head[..magic] {
            let whole = magic == atrace::MAGIC.len();
            return (whole || ended).then_some(Format::Atrace);
        }
        while *looked_at < head.len() {
            let rest = &head[*looked_at..];
            let end = match memchr::memchr(b'\n', rest) {
                Some(end) => end,
                // A line that is not whole may yet become anything.
                None if !ended => return None,
                None => rest.len(),
            };
            let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
            if self::std::Std::recognises(line) {
                return Some(Format::Std);
            }
            if rr::Rr::recognises(line) {
                return Some(Format::Rr);
            }
            *looked_at += end + 1;
        }
        None
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Format, String> {
        Format::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| format!("unknown trace format `{name}`; expected std, rr or atrace"))
    }
}
