//! How time and memory grow: one program, with more and more of one kind of work.

use super::build::Workshop;
use super::measure::{Mode, run_program};
use crate::Result;
use std::ffi::OsString;

/// A kind of work of `c/growth.c`, and how much of it.
const WORK: &[(&str, [u64; 3])] = &[
    ("mixed", [100_000, 1_000_000, 10_000_000]),
    ("transactions", [50_000, 500_000, 5_000_000]),
    ("endless", [100_000, 1_000_000, 10_000_000]),
    ("everyone", [10_000, 100_000, 1_000_000]),
    ("threads", [50, 500, 5000]),
    ("together", [10, 100, 1000]),
];

/// Runs all kinds of work in the modes that are checked while they run, and prints a table.
pub(super) fn bench(workshop: &Workshop, modes: &[&Mode], quick: bool) -> Result<()> {
    let program = workshop.build_for_us("growth")?;
    println!("Processor time of program and checker in seconds, and their memory in MB:\n");
    println!("| work | mode | 1 × | 10 × | 100 × | MB 1 × | MB 10 × | MB 100 × |");
    println!("|---|---|--:|--:|--:|--:|--:|--:|");
    for (kind, amounts) in WORK {
        for mode in modes.iter().filter(|mode| !mode.command.is_empty()) {
            let mut runs = Vec::new();
            for amount in &amounts[..if quick { 2 } else { 3 }] {
                eprint!(".");
                let arguments = [OsString::from(*kind), amount.to_string().into()];
                runs.push(run_program(workshop, "growth", mode, &program, &arguments)?);
            }
            let times: String = runs
                .iter()
                .map(|run| format!(" {:.3} |", run.cpu))
                .collect();
            let sizes: String = runs
                .iter()
                .map(|run| format!(" {:.0} |", run.memory))
                .collect();
            println!("| {kind}, {} | {} |{times}{sizes}", amounts[0], mode.name);
        }
    }
    Ok(())
}
