//! Chores of the project's developers: `cargo xtask help`.
#![forbid(unsafe_code)]

mod bench_runtime;
mod bench_trace;
mod corpus;
mod noise;
mod silence;
mod test;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask test           everything CI checks: format, lints, documentation, tests
cargo xtask bench trace    how fast traces are checked, and how that grows
cargo xtask bench runtime  what checking a running program costs; --help says more
cargo xtask corpus         which published bugs are found; --quick, names of drivers, or --suites
cargo xtask noise          how many noisy runs see what a quiet one misses; names of programs
cargo xtask silence        whether right programs are silent; --runs N (100), --noise, parts of names";

/// Why a chore failed.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["test"] => test::run(),
        ["corpus", rest @ ..] => corpus::run(rest),
        ["noise", rest @ ..] => noise::run(rest),
        ["silence", rest @ ..] => silence::run(rest),
        ["bench", "trace", rest @ ..] => bench_trace::run(rest),
        ["bench", "runtime", rest @ ..] => bench_runtime::run(rest),
        ["help" | "--help" | "-h"] | [] => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        other => {
            eprintln!("error: no chore `{}`\n\n{HELP}", other.join(" "));
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
