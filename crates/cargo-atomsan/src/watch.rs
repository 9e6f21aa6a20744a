//! Running a program that is watched: recorded and checked afterwards, or checked while it runs.

use crate::exit::Exit;
use crate::{child, online, recorded};
use anyhow::Context as _;
use atomsan_recording::Options;
use atomsan_report::Report;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::path::Path;
use std::process::{Command, ExitStatus};

/// One in so many steps lets other threads in, where there are several runs.
const NOISE: u64 = 16;

/// How a program is watched.
#[derive(Debug, clap::Args)]
#[group(id = "watch")]
pub(crate) struct Flags {
    /// Check with doublechecker while the program runs; memory does not grow with the run
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

    /// What earlier runs have shown.
    #[arg(skip)]
    shown: RefCell<HashSet<String>>,

    /// How many runs there were before this one.
    #[arg(skip)]
    past: Cell<u64>,
}

impl Flags {
    /// Whether a finding has not been shown yet; from now on it has.
    pub(crate) fn is_new(&self, report: &Report) -> bool {
        let mut shown = self.shown.borrow_mut();
        let is_new = !report.prints().any(|print| shown.contains(print));
        shown.extend(report.prints().map(str::to_owned));
        is_new
    }

    /// Whether this is not the first run.
    pub(crate) fn has_run(&self) -> bool {
        self.past.get() > 0
    }
}

/// Runs a command that starts programs, and checks them; `sources` says which functions are the
/// user's, and `last` where the result is kept. No verdict if nothing was seen.
pub(crate) fn run(
    command: &mut Command,
    sources: &Options,
    args: &recorded::Args,
    last: &Path,
) -> anyhow::Result<(ExitStatus, Option<Exit>)> {
    let runs = args.watch.runs;
    let noise = args.noise.or((runs > 1).then_some(NOISE));
    let first = args
        .watch
        .noise_seed
        .unwrap_or_else(|| u64::from(std::process::id()));
    let (mut status, mut exit) = (None, None);
    for run in 0..runs {
        let seed = first + run;
        command.env("ATOMSAN_NOISE_SEED", seed.to_string());
        args.watch.past.set(run);
        let (ended, found) = once(command, noise, sources, args, last)?;
        if exit.is_none() {
            exit = found;
        }
        if found == Some(Exit::Findings) {
            if noise.is_some() && args.render.is_text() {
                let noise = noise.unwrap_or(NOISE);
                anstream::eprintln!(
                    "atomsan: found with --noise={noise} --noise-seed {seed}, run {} of {runs}",
                    run + 1
                );
            }
            exit = found;
        }
        // The first run that fails says how.
        if status.is_none_or(|status: ExitStatus| status.success()) {
            status = Some(ended);
        }
    }
    let status = status.context("no run was asked for")?;
    Ok((status, exit))
}

fn once(
    command: &mut Command,
    noise: Option<u64>,
    sources: &Options,
    args: &recorded::Args,
    last: &Path,
) -> anyhow::Result<(ExitStatus, Option<Exit>)> {
    let recordings = recorded::directory()?;
    command
        .envs(recorded::environment(args, recordings.path()))
        .env("ATOMSAN_NOISE", noise.unwrap_or(0).to_string());
    if args.is_online() {
        return online::run(command, recordings.path(), sources, args, last);
    }
    let status = child::run(command, recordings.path())
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    if recorded::recordings(recordings.path())?.is_empty() {
        return Ok((status, None));
    }
    let found = recorded::check_all(recordings.path(), sources, args, last)?;
    Ok((status, Some(found)))
}
