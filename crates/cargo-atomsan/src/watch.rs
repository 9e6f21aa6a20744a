//! Running a program that is watched: recorded and checked afterwards, or checked while it runs.

use crate::exit::Exit;
use crate::outcome::{Noise, Outcome, Runs};
use crate::{child, online, recorded};
use anyhow::Context as _;
use atomsan_recording::Options;
use std::path::Path;
use std::process::{Command, ExitStatus};

/// One in so many steps lets other threads in, where there are several runs.
const NOISE: u64 = 16;

/// How a program is watched.
#[derive(Debug, clap::Args)]
#[group(id = "watch")]
pub(crate) struct Flags {
    /// Check while the program runs; memory does not grow with the run. With doublechecker, unless
    /// `--engine` names others that work on a stream
    #[arg(long)]
    pub(crate) online: bool,

    /// Run N times, with another noise each time, and add up what is found
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) runs: u64,

    /// Make the noise of an earlier run again
    #[arg(long, value_name = "SEED")]
    pub(crate) noise_seed: Option<u64>,

    /// Check the same run again as a recording, and say whether the findings are the same
    #[arg(long, hide = true, requires = "online")]
    pub(crate) compare: bool,
}

/// Runs a command that starts programs, and checks them; `sources` says which functions are the
/// user's, and `last` where the result is kept. No verdict if nothing was seen.
pub(crate) fn run(
    command: &mut Command,
    sources: &Options,
    args: &recorded::Args,
    last: &Path,
) -> anyhow::Result<(ExitStatus, Option<Exit>)> {
    args.check_engines()?;
    let planned = args.watch.runs;
    let one_in = args.noise.or((planned > 1).then_some(NOISE));
    let first = args
        .watch
        .noise_seed
        .unwrap_or_else(|| u64::from(std::process::id()));
    let mut status = None;
    let mut runs = Runs::default();
    for seed in (first..).take(planned as usize) {
        let noise = one_in.map(|one_in| Noise { one_in, seed });
        command.env("ATOMSAN_NOISE_SEED", seed.to_string());
        let (ended, outcome) = once(command, one_in, sources, args, last)?;
        if let Some(outcome) = outcome {
            runs.add(outcome, noise, planned, args);
        }
        // The first run that fails says how.
        if status.is_none_or(|status: ExitStatus| status.success()) {
            status = Some(ended);
        }
        if child::is_interrupted() {
            break;
        }
    }
    let status = status.context("no run was asked for")?;
    let exit = match runs.is_empty() {
        true => None,
        false => Some(runs.conclude(args, last)?),
    };
    Ok((status, exit))
}

fn once(
    command: &mut Command,
    noise: Option<u64>,
    sources: &Options,
    args: &recorded::Args,
    last: &Path,
) -> anyhow::Result<(ExitStatus, Option<Outcome>)> {
    let recordings = recorded::directory(args.is_online())?;
    command
        .envs(recorded::environment(args, recordings.path()))
        .env("ATOMSAN_NOISE", noise.unwrap_or(0).to_string());
    if args.is_online() {
        return online::run(command, recordings.path(), sources, args, last);
    }
    let status = child::run(command, recordings.path())
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let files = recorded::recordings(recordings.path())?;
    if files.is_empty() {
        return Ok((status, None));
    }
    let outcome = recorded::check_files(&files, sources, args)?;
    Ok((status, Some(outcome)))
}
