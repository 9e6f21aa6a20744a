//! What a finding is to a person.
//!
//! Engines speak in ids. [`fold()`] leaves out what an engine says twice, [`resolve()`] turns ids
//! into a [`Report`] with names and a [`Rank`], and [`gather()`] makes one finding of all reports
//! about one mistake, and [`unite()`] one document of several. The findings are in a [`Document`],
//! which can be written down and read back, and which every renderer ([`terminal`], [`sarif`],
//! [`junit`], [`html`]) starts from; a [`story`] is what they all tell.
#![forbid(unsafe_code)]

mod accepted;
#[cfg(test)]
mod examples;
pub mod explain;
mod fingerprint;
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
mod subjects;
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
