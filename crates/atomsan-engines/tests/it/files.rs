//! The traces of real programs, where they are at hand.
//!
//! They are too large for the repository. They are looked for in `$ATOMSAN_TRACES`, then beside
//! the workspace; where they are missing a test says that it was skipped, except under `CI`.

use crate::trace::Trace;
use atomsan_trace::input::Source;
use atomsan_trace::read::{self, ReadOptions};
use atomsan_trace::{Names, Spec};
use std::path::{Path, PathBuf};

fn directory() -> PathBuf {
    match std::env::var_os("ATOMSAN_TRACES") {
        Some(directory) => directory.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"),
    }
}

/// Reads a whole trace; `None` if it is not at hand. `spec` is the text of a specification.
pub fn load(name: &str, spec: &str) -> Option<Trace> {
    let path = directory().join(name);
    if !path.exists() {
        let missing = format!("{} is missing; set ATOMSAN_TRACES", path.display());
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        eprintln!("skipped: {missing}");
        return None;
    }
    let spec = Spec::parse(Path::new("spec"), spec).unwrap();
    let (mut names, mut events) = (Names::new(spec), Vec::new());
    let mut reader = read::open(&Source::path(path), &ReadOptions::default()).unwrap();
    while let Some(batch) = reader.next().unwrap() {
        for definition in batch.definitions.drain(..) {
            names.define(definition);
        }
        events.extend_from_slice(&batch.events);
    }
    Some(Trace { events, names })
}
