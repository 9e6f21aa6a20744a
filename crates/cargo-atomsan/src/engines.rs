//! Which engines there are, and how the command line asks for them.

use crate::exit::UsageError;
use atomsan_engines::{Engine, aerodrome, velodrome};

/// What the flags say to the engines.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    /// Whether synchronisation makes edges.
    pub(crate) sync_edges: bool,
}

/// One engine of the catalogue.
pub(crate) struct Entry {
    /// The name a user asks for it by.
    pub(crate) name: &'static str,
    /// What it does, in a few words.
    pub(crate) about: &'static str,
    make: fn(&Choices) -> Box<dyn Engine>,
}

/// All engines.
pub(crate) const CATALOGUE: &[Entry] = &[
    Entry {
        name: "velodrome",
        about: "observed violations, with the whole cycle (the default)",
        make: |choices| Box::new(velodrome::Velodrome::new(serializability(choices))),
    },
    Entry {
        name: "aerodrome",
        about: "observed violations, with vector clocks, fastest",
        make: |choices| Box::new(aerodrome::Aerodrome::new(serializability(choices))),
    },
];

fn serializability(choices: &Choices) -> velodrome::Options {
    velodrome::Options {
        sync_edges: choices.sync_edges,
    }
}

/// The engines with these names; `all` stands for all of them.
pub(crate) fn choose(names: &[String], choices: &Choices) -> anyhow::Result<Vec<Box<dyn Engine>>> {
    if names.iter().any(|name| name == "all") {
        return Ok(CATALOGUE
            .iter()
            .map(|entry| (entry.make)(choices))
            .collect());
    }
    let mut engines = Vec::new();
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            continue;
        }
        let entry = CATALOGUE.iter().find(|entry| entry.name == name);
        let entry = entry.ok_or_else(|| {
            let known: Vec<&str> = CATALOGUE.iter().map(|entry| entry.name).collect();
            UsageError(format!(
                "there is no engine `{name}`; expected {} or all",
                known.join(", ")
            ))
        })?;
        engines.push((entry.make)(choices));
    }
    Ok(engines)
}

/// The list for `--help`.
pub(crate) fn help() -> String {
    let mut text = String::from("Engines:\n");
    for entry in CATALOGUE {
        text.push_str(&format!("  {:<14} {}\n", entry.name, entry.about));
    }
    text
}
