//! Which engines there are, and how the command line asks for them.

use crate::exit::UsageError;
use anyhow::Context as _;
use atomsan_engines::cooperability::yields::Yields;
use atomsan_engines::doublechecker::places::Granularity;
use atomsan_engines::doublechecker::runs::StaticInfo;
use atomsan_engines::marathon::Choice;
use atomsan_engines::marathon::declaration::Declaration;
use atomsan_engines::{
    Engine, aerodrome, atomizer, blocks, cooperability, doublechecker, marathon, reduction,
    velodrome,
};
use std::path::{Path, PathBuf};

/// The flags of single engines.
#[derive(Debug, clap::Args)]
pub(crate) struct Flags {
    /// Only memory accesses order transactions; locks, fork and join do not
    #[arg(long)]
    no_sync_edges: bool,

    /// How much is compared: one variable, two transactions, any number of them
    #[arg(
        long,
        value_name = "HOW",
        default_value = "2v",
        help_heading = "blocks"
    )]
    strength: StrengthArg,

    /// How many comparisons and trace prefixes may be tried
    #[arg(long, value_name = "N", default_value_t = blocks::Options::default().limit, help_heading = "blocks")]
    limit: u64,

    /// Which blocks are expected to be atomic
    #[arg(
        long,
        value_name = "HOW",
        default_value = "regions",
        help_heading = "atomizer"
    )]
    heuristic: HeuristicArg,

    /// What the programmer says: lines such as `atomic PATTERN` or `no_warn PATTERN`
    #[arg(long, value_name = "FILE", help_heading = "atomizer")]
    annotations: Option<PathBuf>,

    /// Switch improvements off
    #[arg(
        long,
        value_name = "WHAT",
        value_delimiter = ',',
        help_heading = "reduction"
    )]
    without: Vec<Improvement>,

    /// Imprecise analysis only; write what it found, for a second run
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "second_run",
        help_heading = "doublechecker"
    )]
    pub(crate) first_run: Option<PathBuf>,

    /// Check only what first runs found
    #[arg(long, value_name = "FILE", help_heading = "doublechecker")]
    second_run: Vec<PathBuf>,

    /// What is owned as a whole
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "variable",
        help_heading = "doublechecker"
    )]
    granularity: GranularityArg,

    /// Take yields to be where an earlier run of silver inferred them
    #[arg(long, value_name = "FILE", help_heading = "copper and silver")]
    yields: Vec<PathBuf>,

    /// Atomic regions have a yield before and after them
    #[arg(long, help_heading = "copper and silver")]
    regions_yield: bool,

    /// Compare the yields inferred with those inferred before
    #[arg(long, value_name = "FILE", help_heading = "copper and silver")]
    pub(crate) against: Vec<PathBuf>,

    /// Write the yields inferred
    #[arg(long, value_name = "FILE", help_heading = "copper and silver")]
    pub(crate) write_yields: Option<PathBuf>,

    /// A declaration of atomic sets and units of work, instead of the heuristics
    #[arg(long, value_name = "FILE", help_heading = "marathon")]
    sets: Option<PathBuf>,

    /// All variables are one atomic set
    #[arg(long, conflicts_with = "sets", help_heading = "marathon")]
    one_set: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum StrengthArg {
    /// Patterns of one variable (Theorem 3).
    #[value(name = "1v")]
    One,
    /// Patterns of two variables in two transactions (Theorem 4).
    #[value(name = "2v")]
    Two,
    /// Cycles through any number of transactions, slower (Theorem 5).
    Cyclic,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum HeuristicArg {
    /// Labelled regions and functions.
    Regions,
    /// Those, and each synchronised block.
    ExportSynch,
    /// Synchronised blocks.
    Synch,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Improvement {
    Escape,
    HappenBefore,
    Multilockset,
    /// Theorem 2.
    AcqARel,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum GranularityArg {
    Variable,
    Object,
}

/// What the flags say, files read.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    serializability: velodrome::Options,
    doublechecker: doublechecker::Options,
    atomizer: atomizer::Options,
    reduction: reduction::Options,
    blocks: blocks::Options,
    cooperability: cooperability::Options,
    marathon: marathon::Options,
}

fn read(path: &Path, what: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the {what} {}", path.display()))
}

/// The yields of several files together.
pub(crate) fn read_yields(paths: &[PathBuf]) -> anyhow::Result<Yields> {
    let mut yields = Yields::default();
    for path in paths {
        yields.merge(&Yields::parse(path, &read(path, "yields")?)?);
    }
    Ok(yields)
}

impl Flags {
    pub(crate) fn choices(&self) -> anyhow::Result<Choices> {
        let sync_edges = !self.no_sync_edges;
        Ok(Choices {
            serializability: velodrome::Options {
                sync_edges,
                ..velodrome::Options::default()
            },
            doublechecker: doublechecker::Options {
                mode: self.mode()?,
                granularity: match self.granularity {
                    GranularityArg::Variable => Granularity::Variable,
                    GranularityArg::Object => Granularity::Object,
                },
                sync_edges,
                ..doublechecker::Options::default()
            },
            atomizer: self.atomizer()?,
            reduction: self.reduction(),
            blocks: blocks::Options {
                strength: match self.strength {
                    StrengthArg::One => blocks::Strength::OneVar,
                    StrengthArg::Two => blocks::Strength::TwoVar,
                    StrengthArg::Cyclic => blocks::Strength::Cyclic,
                },
                limit: self.limit,
                ..blocks::Options::default()
            },
            cooperability: cooperability::Options {
                sync_edges,
                regions_yield: self.regions_yield,
                assumed: read_yields(&self.yields)?,
            },
            marathon: marathon::Options {
                sets: match &self.sets {
                    Some(path) => {
                        let text = read(path, "declaration")?;
                        Choice::Declared(Declaration::parse(path, &text)?)
                    }
                    None if self.one_set => Choice::Everything,
                    None => Choice::Heuristic,
                },
            },
        })
    }

    /// Whether doublechecker looks at everything, precisely.
    pub(crate) fn is_single_run(&self) -> bool {
        self.first_run.is_none() && self.second_run.is_empty()
    }

    /// The flags that were given for engines that do not run.
    pub(crate) fn unused(&self, entries: &[&Entry]) -> Vec<&'static str> {
        let given = [
            (
                "--annotations",
                self.annotations.is_some(),
                &["atomizer"][..],
            ),
            ("--without", !self.without.is_empty(), &["reduction"]),
            ("--first-run", self.first_run.is_some(), &["doublechecker"]),
            (
                "--second-run",
                !self.second_run.is_empty(),
                &["doublechecker"],
            ),
            ("--yields", !self.yields.is_empty(), &["copper", "silver"]),
            ("--regions-yield", self.regions_yield, &["copper", "silver"]),
            ("--against", !self.against.is_empty(), &["silver"]),
            ("--write-yields", self.write_yields.is_some(), &["silver"]),
            ("--sets", self.sets.is_some(), &["marathon"]),
            ("--one-set", self.one_set, &["marathon"]),
        ];
        let runs = |name: &&str| entries.iter().any(|entry| entry.name == *name);
        (given.into_iter())
            .filter(|(_, given, engines)| *given && !engines.iter().any(runs))
            .map(|(flag, ..)| flag)
            .collect()
    }

    fn mode(&self) -> anyhow::Result<doublechecker::Mode> {
        if self.first_run.is_some() {
            return Ok(doublechecker::Mode::FirstRun);
        }
        Ok(match self.second_run()? {
            Some(info) => doublechecker::Mode::SecondRun(info),
            None => doublechecker::Mode::SingleRun,
        })
    }

    /// What first runs have found, if this is a second one.
    pub(crate) fn second_run(&self) -> anyhow::Result<Option<StaticInfo>> {
        if self.second_run.is_empty() {
            return Ok(None);
        }
        let mut info = StaticInfo::default();
        for path in &self.second_run {
            info.unite(StaticInfo::parse(path, &read(path, "first run")?)?);
        }
        Ok(Some(info))
    }

    fn atomizer(&self) -> anyhow::Result<atomizer::Options> {
        let mut options = atomizer::Options {
            heuristic: match self.heuristic {
                HeuristicArg::Regions => atomizer::Heuristic::Regions,
                HeuristicArg::ExportSynch => atomizer::Heuristic::ExportSynch,
                HeuristicArg::Synch => atomizer::Heuristic::Synch,
            },
            ..atomizer::Options::default()
        };
        if let Some(path) = &self.annotations {
            options.annotations = atomizer::Annotations::parse(path, &read(path, "annotations")?)?;
        }
        Ok(options)
    }

    fn reduction(&self) -> reduction::Options {
        let mut options = reduction::Options::default();
        for improvement in &self.without {
            match improvement {
                Improvement::Escape => options.escape = false,
                Improvement::HappenBefore => options.happens_before = false,
                Improvement::Multilockset => options.multilockset = false,
                Improvement::AcqARel => options.acq_a_rel = false,
            }
        }
        options
    }
}

/// One engine of the catalogue.
pub(crate) struct Entry {
    /// The name a user asks for it by.
    pub(crate) name: &'static str,
    /// What it does, in a few words.
    about: &'static str,
    /// Whether it works on a stream, in bounded memory, and not on the whole trace.
    streams: bool,
    make: fn(&Choices) -> Box<dyn Engine>,
}

/// All engines.
const CATALOGUE: &[Entry] = &[
    Entry {
        name: "velodrome",
        about: "observed violations, with the whole cycle (the default)",
        streams: true,
        make: |choices| Box::new(velodrome::Velodrome::new(choices.serializability.clone())),
    },
    Entry {
        name: "aerodrome",
        about: "observed violations, with vector clocks, leanest",
        streams: true,
        make: |choices| Box::new(aerodrome::Aerodrome::new(choices.serializability.clone())),
    },
    Entry {
        name: "doublechecker",
        about: "observed violations: imprecise first, precise on what is left",
        streams: true,
        make: |choices| {
            let options = choices.doublechecker.clone();
            Box::new(doublechecker::DoubleChecker::new(options))
        },
    },
    Entry {
        name: "atomizer",
        about: "predicted violations, by online reduction",
        streams: true,
        make: |choices| Box::new(atomizer::Atomizer::new(choices.atomizer.clone())),
    },
    Entry {
        name: "reduction",
        about: "predicted violations, by offline reduction",
        streams: false,
        make: |choices| Box::new(reduction::Reduction::new(choices.reduction)),
    },
    Entry {
        name: "blocks",
        about: "predicted violations, as unserializable patterns of accesses",
        streams: false,
        make: |choices| Box::new(blocks::Blocks::new(choices.blocks)),
    },
    Entry {
        name: "copper",
        about: "interference at places without a yield",
        streams: true,
        make: |choices| {
            let options = choices.cooperability.clone();
            Box::new(cooperability::copper::Copper::new(options))
        },
    },
    Entry {
        name: "silver",
        about: "infers the yields that a program needs",
        streams: true,
        make: |choices| {
            let options = choices.cooperability.clone();
            Box::new(cooperability::silver::Silver::new(options))
        },
    },
    Entry {
        name: "marathon",
        about: "observed violations of atomic sets",
        streams: false,
        make: |choices| Box::new(marathon::Marathon::new(choices.marathon.clone())),
    },
];

/// The engines of the same criterion, which must agree on every trace.
pub(crate) const PRECISE: &[&str] = &["velodrome", "aerodrome", "doublechecker"];

/// Their names.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    CATALOGUE.iter().map(|entry| entry.name)
}

/// The engines with these names; `all` stands for all of them.
pub(crate) fn choose(names: &[String]) -> Result<Vec<&'static Entry>, UsageError> {
    if names.iter().any(|name| name == "all") {
        return Ok(CATALOGUE.iter().collect());
    }
    let mut entries: Vec<&Entry> = Vec::new();
    for name in names {
        let entry = CATALOGUE.iter().find(|entry| entry.name == name);
        let entry = entry.ok_or_else(|| {
            let known: Vec<&str> = CATALOGUE.iter().map(|entry| entry.name).collect();
            UsageError(format!(
                "there is no engine `{name}`; expected {} or all",
                known.join(", ")
            ))
        })?;
        if entries.iter().all(|known| known.name != entry.name) {
            entries.push(entry);
        }
    }
    Ok(entries)
}

/// The engines that check a program while it runs. By default that is doublechecker, which has a
/// way of its own to do so; then there is none.
pub(crate) fn choose_online(names: &[String]) -> Result<Vec<&'static Entry>, UsageError> {
    if names == ["doublechecker"] || names == DEFAULT {
        return Ok(Vec::new());
    }
    let entries = choose(names)?;
    if let Some(whole) = entries.iter().find(|entry| !entry.streams) {
        let streams = CATALOGUE.iter().filter(|entry| entry.streams);
        let names: Vec<&str> = streams.map(|entry| entry.name).collect();
        return Err(UsageError(format!(
            "`{}` needs the whole run, so it cannot check while the program runs; with --online, \
             expected {}",
            whole.name,
            names.join(", ")
        )));
    }
    Ok(entries)
}

/// The engines for programs: what was observed, and what is predicted.
pub(crate) const DEFAULT: [&str; 2] = ["doublechecker", "blocks"];

impl Entry {
    /// A new engine.
    pub(crate) fn make(&self, choices: &Choices) -> Box<dyn Engine> {
        (self.make)(choices)
    }
}

/// The list for `--help`.
pub(crate) fn help() -> String {
    let mut text = String::from("Engines:\n");
    for entry in CATALOGUE {
        text.push_str(&format!("  {:<14} {}\n", entry.name, entry.about));
    }
    text
}
