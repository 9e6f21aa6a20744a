//! The command line: `atomsan`.
//!
//! Each subcommand is a module. They all end in an [`Exit`], which is the documented contract
//! with scripts; errors are printed here, once, and say what to do.
#![forbid(unsafe_code)]

mod accept;
mod baseline;
mod bell;
mod browser;

mod cargo;
mod cc;
mod check;
mod child;
mod config;
mod convert;
mod destination;
mod document;
mod engines;
mod exit;
mod explain;
mod format_arg;
mod generate;
mod interrupt;
mod last;
mod linker;
mod memory;
mod merge;
mod nextest;
mod online;
mod outcome;
mod output;
mod pass;
mod products;
mod program;
mod progress;
mod recorded;
mod refine;
mod render;
mod report;
mod run;
mod runtime;
mod rustc;
mod stats;
mod suppress;
mod toolchain;
mod watch;

use cc::Language;
use clap::{Args as _, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use config::Config;
use exit::Exit;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  atomsan check trace.std.zst                 is the execution serializable?
  atomsan check --engine all --json t.atrace  every engine, for a program to read
  atomsan stats trace.std                     what is in a trace
  atomsan convert trace.std trace.atrace      to the compact binary format
  atomsan gen --events 1000000 -o t.atrace    a random trace
  atomsan cc prog.c -o prog                   compile C for checking; `c++` for C++
  atomsan run ./prog                          run it and check what its threads did
  atomsan explain lost-update                 what a kind of finding means

Exit status: 0 clean, 66 findings, 2 wrong usage, 1 anything else that failed.";

/// Finds atomicity violations in multithreaded programs.
#[derive(Debug, Parser)]
#[command(name = "atomsan", version, about, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    common: Common,

    #[command(subcommand)]
    command: Command,
}

/// What all commands take.
#[derive(Debug, clap::Args)]
struct Common {
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: output::ColorWhen,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(Box<check::Args>),
    Stats(stats::Args),
    Convert(convert::Args),
    Gen(generate::Args),
    Merge(merge::Args),
    Refine(refine::Args),
    Report(report::Args),
    Run(run::Args),
    /// Run a program and print where other threads matter, and its interference density
    Yields(run::Args),
    Explain(explain::Args),
    #[command(hide = true)]
    Recorded(recorded::Recorded),
    Cargo(cargo::Args),
    Cc(cc::Args),
    #[command(name = "c++")]
    Cpp(cc::Args),
}

fn main() -> ExitCode {
    let name = std::env::args_os()
        .next()
        .map(PathBuf::from)
        .unwrap_or_default();
    let name = name.file_name().unwrap_or_default().to_owned();
    let rest = || std::env::args_os().skip(1).collect::<Vec<_>>();
    let done = match name.to_str() {
        Some(linker::NAME) => linker::run(&rest()),
        Some(rustc::NAME) => rustc::run(&rest()),
        Some(rustc::DOC_NAME) => rustc::run_doc(&rest()),
        Some(cc::NAME) => cc::run(Language::C, &rest()),
        Some(cc::CPP_NAME) => cc::run(Language::Cpp, &rest()),
        _ => parse().and_then(run_command),
    };
    let exit = done.unwrap_or_else(|error| {
        anstream::eprintln!("{}: {error:#}", output::error_word());
        Exit::of(&error)
    });
    exit.into()
}

/// What this process was called with. A program that was started by itself has its recording checked by
/// the runtime, which knows of no options: those are in `ATOMSAN_OPTIONS`.
fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments
        .get(1)
        .is_some_and(|command| command == "recorded")
    {
        let options = std::env::var("ATOMSAN_OPTIONS").unwrap_or_default();
        let options = options.split_whitespace().map(OsString::from);
        arguments.splice(2..2, options);
    }
    arguments
}

/// The command line as far as it takes to read these arguments: of all commands together there is so much to build that
/// it is a quarter of what a short run takes.
fn command(arguments: &[OsString]) -> clap::Command {
    let name = arguments.get(1).and_then(|name| name.to_str());
    match name.and_then(only) {
        Some(only) => Common::augment_args(clap::Command::new("atomsan")).subcommand(only),
        None => config::cargo_keeps_its_own(Cli::command()),
    }
}

/// A command that runs programs, by its name.
fn only(name: &str) -> Option<clap::Command> {
    let command = clap::Command::new(name.to_owned());
    match name {
        "run" => Some(run::Args::augment_args(command)),
        "recorded" => Some(recorded::Recorded::augment_args(command).hide(true)),
        _ => None,
    }
}

/// The command line, with the settings of `atomsan.toml` as the defaults of its flags.
fn parse() -> anyhow::Result<Cli> {
    let arguments = arguments();
    let read = |command: clap::Command| {
        let matches = command.get_matches_from(&arguments);
        Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    };
    let mut cli = read(command(&arguments));
    // For the configuration's own errors, too.
    cli.common.color.apply();
    if let Some((args, start)) = cli.command.accept() {
        let config = Config::find(&args.file, &start)?;
        if config.has_defaults() {
            cli = read(config.defaults(command(&arguments)));
        }
        if let Some((args, _)) = cli.command.accept() {
            args.load(config)?;
        }
    }
    Ok(cli)
}

impl Command {
    /// Where a command that reads `atomsan.toml` keeps it, and where it looks for it.
    fn accept(&mut self) -> Option<(&mut accept::Args, PathBuf)> {
        let here = std::env::current_dir().unwrap_or_default();
        match self {
            Command::Check(args) => Some((&mut args.accept, here)),
            Command::Run(args) | Command::Yields(args) => Some((&mut args.recorded.accept, here)),
            Command::Recorded(args) => Some((&mut args.args.accept, here)),
            Command::Cargo(args) => args.accept(),
            _ => None,
        }
    }
}

fn run_command(cli: Cli) -> anyhow::Result<Exit> {
    match cli.command {
        Command::Check(args) => check::run(&args),
        Command::Stats(args) => stats::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Gen(args) => generate::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Refine(args) => refine::run(&args, refine::Of::Program),
        Command::Report(args) => report::run(&args, &last::place()?),
        Command::Run(args) => run::run(&args),
        Command::Yields(mut args) => {
            args.recorded.ask_for_yields();
            run::run(&args)
        }
        Command::Explain(args) => explain::run(&args),
        Command::Recorded(args) => recorded::run(&args),
        Command::Cargo(mut args) => cargo::run(&mut args),
        Command::Cc(args) => cc::run(Language::C, &args.arguments),
        Command::Cpp(args) => cc::run(Language::Cpp, &args.arguments),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_command_that_is_built_alone_is_the_same() {
        for name in ["run", "recorded"] {
            let helps = |mut command: clap::Command| {
                command.build();
                let command = command.find_subcommand_mut(name).unwrap();
                let usage = command.render_usage();
                (command.render_long_help().to_string(), usage.to_string())
            };
            let arguments = ["atomsan", name].map(OsString::from);
            assert!(command(&arguments).find_subcommand("check").is_none());
            assert_eq!(helps(command(&arguments)), helps(command(&[])));
        }
    }
}
