//! `atomsan.toml`: what a project has decided, so that it need not be said on every command line.
//!
//! Settings that are flags too (engines, `fail-on`, …) become the defaults of the flags, so the
//! command line wins without any further rule, and `--help` shows what is in force. The rest is
//! what only a file can say: which functions are atomic, models, suppressions. `docs/CONFIG.md`
//! is the page for users.

mod defaults;
mod problems;
mod reader;

use crate::suppress::{self, Suppression};
use anyhow::Context as _;
use atomsan_recording::own_models::{Meaning, Models};
use atomsan_trace::Spec;
use problems::Problems;
pub(crate) use reader::{Reader, Value};
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::de::DeTable;

/// The name that is looked for.
const NAME: &str = "atomsan.toml";

/// Which file is read.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "config-file")]
pub(crate) struct Args {
    /// The configuration, instead of the nearest `atomsan.toml` upwards from here
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Read no `atomsan.toml`
    #[arg(long, conflicts_with = "config")]
    no_config: bool,
}

/// The flag under `cargo atomsan`, where `--config` is cargo's.
const CARGO_FLAG: &str = "atomsan-config";

/// Leaves `--config` to cargo.
pub(crate) fn cargo_keeps_its_own(command: clap::Command) -> clap::Command {
    command.mut_subcommand("cargo", |mut cargo| {
        let names: Vec<String> = (cargo.get_subcommands())
            .filter(|subcommand| {
                subcommand
                    .get_arguments()
                    .any(|arg| arg.get_id() == "config")
            })
            .map(|subcommand| subcommand.get_name().to_owned())
            .collect();
        for name in names {
            cargo = cargo.mut_subcommand(name, |subcommand| {
                subcommand.mut_arg("config", |arg| arg.long(CARGO_FLAG))
            });
        }
        cargo
    })
}

impl Args {
    /// The same for a process of ours.
    pub(crate) fn passed_on(&self, cargo: bool) -> Vec<OsString> {
        let flag = if cargo { CARGO_FLAG } else { "config" };
        match &self.config {
            _ if self.no_config => vec!["--no-config".into()],
            Some(path) => vec![format!("--{flag}").into(), path.into()],
            None => Vec::new(),
        }
    }
}

/// What the file says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    /// The file, as it is shown.
    pub(crate) path: PathBuf,
    /// Flags and their values, as on the command line.
    flags: Vec<(&'static str, String)>,
    /// Which functions should be atomic.
    pub(crate) spec: Option<Spec>,
    /// What functions mean that are not known.
    pub(crate) models: Models,
    /// Findings that are known and accepted.
    pub(crate) suppressions: Vec<Suppression>,
}

/// A setting that is a flag too.
struct Setting {
    key: &'static str,
    flag: &'static str,
    kind: Kind,
}

/// How a setting is written.
enum Kind {
    /// A string, or several.
    Words,
    /// A string or a whole number.
    Word,
    /// A file, as seen from the directory of `atomsan.toml`.
    File,
}

const fn setting(key: &'static str, flag: &'static str, kind: Kind) -> Setting {
    Setting { key, flag, kind }
}

const SETTINGS: &[Setting] = &[
    setting("baseline", "baseline", Kind::File),
    setting("engines", "engine", Kind::Words),
    setting("fail-on", "fail-on", Kind::Word),
    setting("memory", "memory", Kind::Word),
    setting("noise", "noise", Kind::Word),
    setting("regions", "regions", Kind::Words),
];

/// What can stand at the top besides settings.
const TABLES: &[&str] = &["spec", "model", "suppress"];

impl Config {
    /// Reads the file that was asked for, or the nearest one upwards from `start`.
    pub(crate) fn find(args: &Args, start: &Path) -> anyhow::Result<Config> {
        let path = match &args.config {
            _ if args.no_config => return Ok(Config::default()),
            Some(path) => path.clone(),
            None => {
                let mut upwards = start.ancestors().map(|directory| directory.join(NAME));
                match upwards.find(|path| path.is_file()) {
                    Some(path) => path,
                    None => return Ok(Config::default()),
                }
            }
        };
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read the configuration {}", path.display()))?;
        // Named as a person in this directory would.
        let here = std::env::current_dir().unwrap_or_default();
        Config::parse(path.strip_prefix(here).unwrap_or(&path), &text)
    }

    fn parse(path: &Path, text: &str) -> anyhow::Result<Config> {
        let mut config = Config {
            path: path.to_owned(),
            ..Config::default()
        };
        let mut reader = Reader {
            problems: Problems::new(path, text),
        };
        match DeTable::parse(text) {
            Ok(table) => config.read(table.get_ref(), &mut reader),
            Err(error) => {
                let span = error.span().unwrap_or(0..0);
                reader.problems.add(span, error.message(), None);
            }
        }
        reader.problems.into_result()?;
        Ok(config)
    }

    fn read(&mut self, table: &DeTable<'_>, reader: &mut Reader<'_>) {
        let settings = SETTINGS.iter().map(|setting| setting.key);
        let known: Vec<&str> = settings.chain(TABLES.iter().copied()).collect();
        reader.keys(table, &known, "there is no setting");
        for setting in SETTINGS {
            if let Some(value) = table.get(setting.key) {
                self.flag(setting, value, reader);
            }
        }
        if let Some(value) = table.get("spec") {
            self.spec = self.spec(value, reader);
        }
        if let Some(value) = table.get("model") {
            for (table, span) in reader.tables("model", value) {
                self.model(table, span, reader);
            }
        }
        if let Some(value) = table.get("suppress") {
            for (table, span) in reader.tables("suppress", value) {
                self.suppressions
                    .extend(suppress::read(table, span, reader));
            }
        }
    }

    fn flag(&mut self, setting: &Setting, value: &Value<'_>, reader: &mut Reader<'_>) {
        let words = match setting.kind {
            Kind::Words => reader.strings(value),
            Kind::Word => (reader.word(value).into_iter())
                .map(|word| (word, value.span()))
                .collect(),
            Kind::File => (reader.string(value).into_iter())
                .map(|file| (self.beside(&file).display().to_string(), value.span()))
                .collect(),
        };
        let mut accepted = Vec::new();
        for (word, span) in words {
            match defaults::check(setting.flag, &word) {
                Ok(()) => accepted.push(word),
                Err(refused) => {
                    let known: Vec<&str> = refused.known.iter().map(String::as_str).collect();
                    if known.is_empty() {
                        reader.problems.add(span, refused.message, None);
                    } else {
                        reader
                            .problems
                            .unknown(span, refused.message, &refused.word, &known);
                    }
                }
            }
        }
        if !accepted.is_empty() {
            self.flags.push((setting.flag, accepted.join(",")));
        }
    }

    /// A file that is named in this one.
    fn beside(&self, file: &str) -> PathBuf {
        self.path.with_file_name("").join(file)
    }

    fn spec(&self, value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Spec> {
        let table = reader.table("spec", value)?;
        let known = ["file", "atomic", "not-atomic"];
        reader.keys(table, &known, "`[spec]` has no");
        let mut spec = Spec::default();
        if let Some(value) = table.get("file") {
            let file = self.beside(&reader.string(value)?);
            match crate::check::read_spec(&file) {
                Ok(read) => spec = read,
                Err(error) => reader
                    .problems
                    .add(value.span(), format!("{error:#}"), None),
            }
        }
        for (key, atomic) in [("atomic", true), ("not-atomic", false)] {
            let patterns = table.get(key).map(|value| reader.strings(value));
            for (text, span) in patterns.into_iter().flatten() {
                if text.starts_with('!') {
                    let help =
                        "patterns without `!` go under `atomic`, the others under `not-atomic`";
                    let message = "no function name starts with `!`";
                    reader.problems.add(span, message, Some(help.to_owned()));
                } else if let Some(pattern) = reader.pattern(&text, span) {
                    spec.add(pattern, atomic);
                }
            }
        }
        Some(spec)
    }

    fn model(&mut self, table: &DeTable<'_>, span: Range<usize>, reader: &mut Reader<'_>) {
        let known = ["function", "is"];
        reader.keys(table, &known, "`[[model]]` has no");
        let header = span.start..span.start + "[[model]]".len();
        let (Some(functions), Some(value)) = (table.get("function"), table.get("is")) else {
            let message = "a model needs a function and what it is";
            let help = "add `function = \"…\"` and `is = \"…\"`".to_owned();
            return reader.problems.add(header, message, Some(help));
        };
        let Some(word) = reader.string(value) else {
            return;
        };
        let Some(&(_, meaning)) = Meaning::NAMED.iter().find(|(name, _)| *name == word) else {
            let names: Vec<&str> = Meaning::NAMED.iter().map(|(name, _)| *name).collect();
            let message = format!("`{word}` is not what a function can be");
            return reader
                .problems
                .unknown(value.span(), message, &word, &names);
        };
        for (text, span) in reader.strings(functions) {
            if let Some(pattern) = reader.pattern(&text, span) {
                self.models.add(pattern, meaning);
            }
        }
    }

    /// Whether there are settings that are flags too.
    pub(crate) fn has_defaults(&self) -> bool {
        !self.flags.is_empty()
    }

    /// Makes the settings the defaults of flags.
    pub(crate) fn defaults(&self, command: clap::Command) -> clap::Command {
        defaults::apply(command, &self.flags)
    }
}
