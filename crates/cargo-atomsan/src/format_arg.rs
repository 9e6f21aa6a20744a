//! `--format`: which format to read.

use atomsan_trace::Format;

/// A format, or finding out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum FormatArg {
    /// By content.
    Auto,
    /// RAPID's text format.
    Std,
    /// RoadRunner's log.
    Rr,
    /// Our binary format.
    Atrace,
}

impl From<FormatArg> for Option<Format> {
    fn from(format: FormatArg) -> Option<Format> {
        match format {
            FormatArg::Auto => None,
            FormatArg::Std => Some(Format::Std),
            FormatArg::Rr => Some(Format::Rr),
            FormatArg::Atrace => Some(Format::Atrace),
        }
    }
}
