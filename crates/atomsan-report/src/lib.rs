//! What a finding is to a person.
//!
//! Engines speak in ids. [`fold()`] leaves one finding for each mistake, and [`resolve()`] turns
//! it into a [`Report`]: names, places, a [`Rank`], a fingerprint that survives edits; [`agree()`]
//! merges what several engines say, and [`merge()`] what several processes show. The renderers
//! ([`terminal`], [`json`]) only ever see reports.
#![forbid(unsafe_code)]

mod accepted;
#[cfg(test)]
mod examples;
pub mod explain;
mod fold;
mod gather;
pub mod html;
pub mod json;
pub mod junit;
mod rank;
pub mod resolve;
pub mod sarif;
pub mod source;
pub mod story;
pub mod terminal;
mod unite;
mod words;

pub use accepted::{Accepted, AcceptedBy};
pub use fold::fold;
pub use gather::{Agreeing, gather};
pub use json::Document;
pub use rank::Rank;
pub use resolve::{Place, Report, Step, resolve, resolve_call};
pub use source::Sources;
pub use unite::unite;
pub use words::CODES;
