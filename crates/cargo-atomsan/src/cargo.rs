//! `cargo atomsan`: cargo, with instrumentation and the runtime.
//!
//! ```text
//! cargo atomsan test ─► cargo test ─► rustc (this executable in front) ─► linker (this executable)
//!                            │         adds what instruments               adds the runtime and the stubs
//!                            └► the tests, which record ─► check
//! ```
//!
//! Everything is passed by the environment, so the user's files stay as they are, and all their
//! settings hold: the wrappers of rustc and rustdoc (see [`crate::rustc`]), a target directory of
//! its own, and the target (so that build scripts and procedural macros are left alone).

mod options;
mod workspace;

use crate::exit::{Exit, UsageError};
use crate::nextest::Nextest;
use crate::runtime::{self, TARGET};
use crate::toolchain::Toolchain;
use crate::{accept, last, output, recorded, refine, report, run, rustc, watch};
use anyhow::Context as _;
use clap::Args as _;
use options::Options;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;
use workspace::Workspace;

const EXAMPLES: &str = "\
Examples:
  cargo atomsan test                            all tests of the workspace
  cargo atomsan run --release -- --my-option    a program
  cargo atomsan nextest run -p my-crate         one process for each test
  cargo +nightly atomsan test                   with another toolchain

Our options come first, then cargo's. Exit status: cargo's own; 66 if it succeeded and there are
findings.";

/// cargo on an unmodified workspace, with checking
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "cargo atomsan <COMMAND> [OPTIONS] [CARGO OPTIONS]"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Subcommand,
}

#[derive(Debug, clap::Subcommand)]
enum Subcommand {
    /// Run the tests, those in the documentation too, and check what they did
    #[command(
        visible_alias = "t",
        override_usage = "cargo atomsan test [OPTIONS] [CARGO OPTIONS] [-- TEST OPTIONS]",
        after_help = "\
Examples:
  cargo atomsan test
  cargo atomsan test --noise --lib              more schedules; `--lib` is cargo's
  cargo atomsan test -p my-crate -- a_test      one test of one package
  cargo atomsan test --save-trace t.atrace      keep the events for `atomsan check`
  cargo atomsan test --runs 20 --lib            20 runs with another noise each, as one result
  cargo atomsan test --first-run all.first      of all test binaries together
  cargo atomsan test --second-run all.first"
    )]
    Test(Box<Passed>),

    /// Run a program and check what it did
    #[command(
        visible_alias = "r",
        override_usage = "cargo atomsan run [OPTIONS] [CARGO OPTIONS] [-- PROGRAM OPTIONS]",
        after_help = "\
Examples:
  cargo atomsan run
  cargo atomsan run --noise --release --bin server -- --port 8080"
    )]
    Run(Box<Passed>),

    /// Run a program and print where other threads matter to it, and its interference density
    #[command(
        override_usage = "cargo atomsan yields [OPTIONS] [CARGO OPTIONS] [-- PROGRAM OPTIONS]",
        after_help = "\
Examples:
  cargo atomsan yields
  cargo atomsan yields --release --bin server -- --port 0
  cargo atomsan yields --online --bin server    while it runs, in constant memory"
    )]
    Yields(Box<Passed>),

    /// Run the tests by cargo-nextest, each in a process of its own
    #[command(
        override_usage = "cargo atomsan nextest [OPTIONS] run [NEXTEST OPTIONS]",
        after_help = "\
Examples:
  cargo atomsan nextest run
  cargo atomsan nextest --noise run --workspace -E 'test(queue)'

The same mistake in several processes is shown once."
    )]
    Nextest(Box<Passed>),

    /// Run the benchmarks and check what they did
    #[command(
        override_usage = "cargo atomsan bench [OPTIONS] [CARGO OPTIONS] [-- BENCHMARK OPTIONS]",
        after_help = "\
Examples:
  cargo atomsan bench --bench queue -- --quick

The times are those of the instrumented program."
    )]
    Bench(Box<Passed>),

    /// Build what the others would; `atomsan run` runs it
    #[command(
        visible_alias = "b",
        override_usage = "cargo atomsan build [CARGO OPTIONS]",
        after_help = "\
Examples:
  cargo atomsan build --release
  atomsan run target/atomsan/x86_64-unknown-linux-gnu/release/server"
    )]
    Build(Plain),

    Report(report::Args),

    #[command(override_usage = "cargo atomsan refine [OPTIONS] test|run|… [CARGO OPTIONS]")]
    Refine(refine::Args),

    /// Look at the toolchain and unpack the runtime, before a first build needs it
    #[command(override_usage = "cargo atomsan setup")]
    Setup(Plain),

    /// Remove the instrumented build
    #[command(override_usage = "cargo atomsan clean")]
    Clean(Plain),

    /// Print the environment that makes a plain cargo instrument what it builds
    #[command(
        override_usage = "cargo atomsan show-env",
        after_help = "\
Examples:
  eval \"$(cargo atomsan show-env)\" && cargo build
  cargo atomsan show-env > atomsan.env && source atomsan.env"
    )]
    ShowEnv(Plain),
}

/// What cargo or cargo-nextest call as we do.
const CARGO_TOO: [&str; 4] = ["color", "config", "quiet", "verbose"];

/// What runs programs that are checked then.
#[derive(Debug, clap::Args)]
struct Passed {
    #[command(flatten)]
    pub(crate) recorded: recorded::Args,

    /// What cargo is given
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CARGO OPTIONS"
    )]
    arguments: Vec<OsString>,
}

/// What runs nothing.
#[derive(Debug, clap::Args)]
struct Plain {
    /// What cargo is given
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CARGO OPTIONS"
    )]
    arguments: Vec<OsString>,
}

impl Passed {
    /// Our options behind one of cargo's would be cargo's, which does not know them.
    fn refuse_late_options(&self, subcommand: &str) -> Result<(), UsageError> {
        let ours = Passed::augment_args(clap::Command::new(""));
        let ours = ours.get_arguments().filter_map(clap::Arg::get_long);
        let ours: Vec<&str> = ours.filter(|name| !CARGO_TOO.contains(name)).collect();
        // `run` of nextest is a command.
        let skip = usize::from(subcommand == "nextest").min(self.arguments.len());
        options::misplaced(&self.arguments[skip..], &ours).map_or(Ok(()), |name| {
            Err(UsageError(format!(
                "--{name} is an option of ours: it comes right behind the command, before those of cargo"
            )))
        })
    }
}

impl Args {
    /// Where a command that reads `atomsan.toml` keeps it, and where it looks for it.
    pub(crate) fn accept(&mut self) -> Option<(&mut accept::Args, PathBuf)> {
        match &mut self.command {
            Subcommand::Test(passed)
            | Subcommand::Run(passed)
            | Subcommand::Yields(passed)
            | Subcommand::Nextest(passed)
            | Subcommand::Bench(passed) => {
                let start = Options::read(&passed.arguments).directory();
                Some((&mut passed.recorded.accept, start))
            }
            _ => None,
        }
    }
}

pub(crate) fn run(args: &mut Args) -> anyhow::Result<Exit> {
    runtime::directory()?;
    match &mut args.command {
        Subcommand::Test(passed) => checked("test", passed),
        Subcommand::Run(passed) => checked("run", passed),
        Subcommand::Yields(passed) => {
            passed.recorded.ask_for_yields();
            checked("run", passed)
        }
        Subcommand::Nextest(passed) => {
            let root = Project::find(&passed.arguments)?.workspace.root;
            passed.recorded.nextest = Some(Nextest::new(&root, &passed.arguments));
            checked("nextest", passed)
        }
        Subcommand::Bench(passed) => checked("bench", passed),
        Subcommand::Build(plain) => {
            let project = Project::find(&plain.arguments)?;
            let mut command = Command::new(cargo());
            command.arg("build").args(&plain.arguments);
            let status = command.envs(project.environment()?).status();
            let status = status.context("cannot run cargo")?;
            Ok(run::verdict(status, Exit::Clean))
        }
        Subcommand::Report(args) => {
            let target = Project::find(&[])?.workspace.target;
            report::run(args, &target.join(last::NAME))
        }
        Subcommand::Refine(args) => refine::run(args, refine::Of::Workspace),
        Subcommand::Setup(plain) => {
            Project::find(&plain.arguments)?.environment()?;
            Ok(Exit::Clean)
        }
        Subcommand::Clean(plain) => {
            let directory = Project::find(&plain.arguments)?.workspace.target;
            if directory.exists() {
                std::fs::remove_dir_all(&directory)
                    .with_context(|| format!("cannot remove {}", directory.display()))?;
            }
            Ok(Exit::Clean)
        }
        Subcommand::ShowEnv(plain) => {
            for (name, value) in Project::find(&plain.arguments)?.environment()? {
                println!("export {name}={}", shell_quoted(&value.to_string_lossy()));
            }
            Ok(Exit::Clean)
        }
    }
}

fn checked(subcommand: &str, passed: &Passed) -> anyhow::Result<Exit> {
    passed.recorded.render.refuse_without_file()?;
    passed.refuse_late_options(subcommand)?;
    let project = Project::find(&passed.arguments)?;
    let sources = project.workspace.sources(&passed.recorded.regions)?;
    let mut command = Command::new(cargo());
    command
        .arg(subcommand)
        .args(&passed.arguments)
        .envs(project.environment()?);
    let last = project.workspace.target.join(last::NAME);
    let (status, found) = watch::run(&mut command, &sources, &passed.recorded, &last)?;
    let found = found.unwrap_or(Exit::Clean);
    Ok(run::verdict(status, found))
}

fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// What the user builds, and how.
struct Project {
    workspace: Workspace,
    /// What the user's configuration says of building.
    settings: Value,
    target_dir: Option<OsString>,
}

impl Project {
    fn find(arguments: &[OsString]) -> anyhow::Result<Project> {
        let options = Options::read(arguments);
        if let Some(other) = options.targets.iter().find(|target| *target != TARGET) {
            let message = format!(
                "--target {}: programs can be checked on {TARGET} only",
                other.display()
            );
            return Err(UsageError(message).into());
        }
        let project = Project {
            workspace: Workspace::find(&cargo(), &options)?,
            settings: settings(&options),
            target_dir: options.target_dir,
        };
        if options.targets.is_empty()
            && let Some(other) = project.setting("CARGO_BUILD_TARGET", "target")
            && other != TARGET
        {
            output::warn(&format!(
                "the configured target {} cannot be checked; this is a build for {TARGET}",
                other.display()
            ));
        }
        Ok(project)
    }

    /// A setting of the user's, from the environment or the configuration.
    fn setting(&self, variable: &str, key: &str) -> Option<OsString> {
        let configured = || self.settings[key].as_str().map(OsString::from);
        std::env::var_os(variable)
            .or_else(configured)
            .filter(|value| !value.is_empty() && !rustc::is_ours(value))
    }

    /// What cargo and the compilers it starts are told. Says what will not be seen.
    fn environment(&self) -> anyhow::Result<Vec<(&'static str, OsString)>> {
        let rustc = self.setting("RUSTC", "rustc");
        let rustc = rustc.as_deref().unwrap_or(OsStr::new("rustc"));
        let toolchain = Toolchain::prepare(rustc, &self.workspace.target)?;
        for missed in &toolchain.missed {
            output::warn(missed);
        }
        let runtime = runtime::directory()?;
        let mut environment: Vec<(_, OsString)> = vec![
            ("RUSTC_WRAPPER", runtime.join(rustc::NAME).into()),
            ("RUSTDOC", runtime.join(rustc::DOC_NAME).into()),
            ("CARGO_BUILD_TARGET", TARGET.into()),
            (rustc::DIRECTORY, toolchain.directory.into()),
        ];
        if self.target_dir.is_none() {
            environment.push(("CARGO_TARGET_DIR", self.workspace.target.clone().into()));
        }
        if let Some(wrapper) = self.setting("RUSTC_WRAPPER", "rustc-wrapper") {
            environment.push((rustc::REAL_WRAPPER, wrapper));
        }
        if let Some(rustdoc) = self.setting("RUSTDOC", "rustdoc") {
            environment.push((rustc::REAL_DOC, rustdoc));
        }
        Ok(environment)
    }
}

/// The section `[build]` of the user's configuration, as cargo puts it together from all files.
fn settings(options: &Options) -> Value {
    let output = Command::new(cargo())
        .args(&options.config)
        .args([
            "-Zunstable-options",
            "config",
            "get",
            "build",
            "--format=json",
        ])
        .env("RUSTC_BOOTSTRAP", "1")
        .output();
    // There may be no such section.
    let found = output.ok().filter(|output| output.status.success());
    let mut settings: Value = found
        .and_then(|output| serde_json::from_slice(&output.stdout).ok())
        .unwrap_or_default();
    settings["build"].take()
}

fn shell_quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}
