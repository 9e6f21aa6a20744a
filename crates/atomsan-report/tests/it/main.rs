//! Everything that is written, from saved documents of `tests/programs`.

mod browser;
mod sarif;
mod snapshots;

use atomsan_report::{Document, Sources};
use std::path::{Path, PathBuf};

/// The workspace.
fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap()
}

/// What `atomsan run --json` said of a program, with paths, process and time made the same for
/// everybody.
fn document(name: &str) -> Document {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/documents/{name}.json"));
    let text = std::fs::read_to_string(path).unwrap();
    let documents = Document::read_all(&text).unwrap();
    documents.into_iter().next().unwrap()
}

/// The programs' sources.
fn sources() -> Sources {
    Sources::under(root())
}
