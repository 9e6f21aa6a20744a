//! The command line: `atomsan`.
//!
//! Each subcommand is a module. They all end in an [`Exit`], which is the documented contract
//! with scripts; errors are printed here, once, and say what to do.
#![forbid(unsafe_code)]

mod cargo;
mod cc;
mod check;
mod convert;
mod destination;
mod document;
mod engines;
mod exit;
mod format_arg;
mod generate;
mod linker;
mod memory;
mod online;
mod output;
mod products;
mod progress;
mod recorded;
mod render;
mod run;
mod runtime;
mod stats;
mod watch;

use cc::Language;
use clap::{Parser, Subcommand};
use exit::Exit;
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
  atomsan yields ./prog                       where other threads matter

Exit status: 0 clean, 66 findings, 2 wrong usage, 1 anything else that failed.";

/// Finds atomicity violations in multithreaded programs.
#[derive(Debug, Parser)]
#[command(name = "atomsan", version, about, after_help = EXAMPLES)]
struct Cli {
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: output::ColorWhen,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(Box<check::Args>),
    Stats(stats::Args),
    Convert(convert::Args),
    Gen(generate::Args),
    Run(run::Args),
    /// Run a program and print where other threads matter, and its interference density
    Yields(run::Args),
    #[command(hide = true)]
    Recorded(recorded::Recorded),
    Cargo(cargo::Args),
    Cc(cc::Args),
    #[command(name = "c++")]
    Cpp(cc::Args),
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let name = arguments.next().map(PathBuf::from).unwrap_or_default();
    let done = if name.file_name().is_some_and(|name| name == linker::NAME) {
        linker::run(&arguments.collect::<Vec<_>>())
    } else {
        run_command(Cli::parse())
    };
    let exit = done.unwrap_or_else(|error| {
        anstream::eprintln!("{}: {error:#}", output::error_word());
        Exit::of(&error)
    });
    exit.into()
}

fn run_command(cli: Cli) -> anyhow::Result<Exit> {
    cli.color.apply();
    match cli.command {
        Command::Check(args) => check::run(&args),
        Command::Stats(args) => stats::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Gen(args) => generate::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Yields(mut args) => {
            args.recorded.ask_for_yields();
            run::run(&args)
        }
        Command::Recorded(args) => recorded::run(&args),
        Command::Cargo(args) => cargo::run(args),
        Command::Cc(args) => cc::run(Language::C, &args),
        Command::Cpp(args) => cc::run(Language::Cpp, &args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}
