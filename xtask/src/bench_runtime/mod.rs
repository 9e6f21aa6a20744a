//! What checking a running program costs: programs run natively, under an empty runtime, under
//! ThreadSanitizer and under ours.
//!
//! The runs of a program are interleaved, one of each mode after the other, so that whatever else
//! the machine does falls on all of them; the best of several counts.

mod build;
mod growth;
mod measure;
mod programs;

use crate::Result;
use build::Workshop;
use measure::{MODES, Mode, OTHERS, Run};
use programs::{PROGRAMS, Program};

const HELP: &str = "\
cargo xtask bench runtime [OPTION…]
What checking a running program costs, compared with ThreadSanitizer and with an empty runtime.

  --quick       less work in each program, and two runs
  --only NAME   only this program; may be repeated
  --mode NAME   only this mode of ours, beside those it is compared with; may be repeated
  --runs N      how often each is run; the best counts (default 5)
  --cpu         compare the time of processors instead of the time on the clock
  --growth      how time and memory grow with the work, instead
  --list        the programs and the modes

Needs gcc and g++ with ThreadSanitizer, and for the real programs apt-get and dpkg-source.
Everything is built in target/bench-runtime and kept there.";

struct Options {
    quick: bool,
    cpu: bool,
    growth: bool,
    runs: usize,
    only: Vec<String>,
    modes: Vec<String>,
}

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let mut options = Options {
        quick: false,
        cpu: false,
        growth: false,
        runs: 0,
        only: Vec::new(),
        modes: Vec::new(),
    };
    let mut arguments = arguments.iter();
    while let Some(&argument) = arguments.next() {
        let mut value = || {
            let value = arguments.next();
            value
                .map(|text| (*text).to_owned())
                .ok_or_else(|| format!("{argument} needs a value"))
        };
        match argument {
            "--quick" => options.quick = true,
            "--cpu" => options.cpu = true,
            "--growth" => options.growth = true,
            "--runs" => {
                let text = value()?;
                let runs = text.parse().ok().filter(|runs| *runs > 0);
                options.runs = runs.ok_or_else(|| format!("`{text}` is not a number of runs"))?;
            }
            "--only" => options.only.push(value()?),
            "--mode" => options.modes.push(value()?),
            "--list" => {
                list();
                return Ok(());
            }
            "--help" | "-h" => {
                println!("{HELP}");
                return Ok(());
            }
            other => return Err(format!("no option `{other}`\n\n{HELP}").into()),
        }
    }
    if options.runs == 0 {
        options.runs = if options.quick { 2 } else { 5 };
    }
    bench(&options)
}

fn list() {
    for program in PROGRAMS {
        println!("{:10} {}", program.name, program.kind);
    }
    let modes: Vec<&str> = MODES.iter().map(|mode| mode.name).collect();
    println!("modes: {}", modes.join(", "));
}

/// The items that were asked for by name; all if none was.
fn chosen<T>(
    all: &'static [T],
    name: fn(&T) -> &'static str,
    wanted: &[String],
) -> Result<Vec<&'static T>> {
    if let Some(unknown) = wanted
        .iter()
        .find(|wanted| !all.iter().any(|item| name(item) == **wanted))
    {
        let names: Vec<&str> = all.iter().map(name).collect();
        return Err(format!("no `{unknown}`; there are {}", names.join(", ")).into());
    }
    let is_wanted =
        |item: &&T| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name(item));
    Ok(all.iter().filter(is_wanted).collect())
}

fn bench(options: &Options) -> Result<()> {
    let programs = chosen(PROGRAMS, |program| program.name, &options.only)?;
    let (others, ours) = MODES.split_at(OTHERS);
    let ours = chosen(ours, |mode| mode.name, &options.modes)?;
    let modes: Vec<&Mode> = others.iter().chain(ours.iter().copied()).collect();
    let workshop = Workshop::open()?;
    if options.growth {
        return growth::bench(&workshop, &ours, options.quick);
    }
    for program in &programs {
        workshop.build(program)?;
    }
    let mut rows = Vec::new();
    for program in programs {
        eprint!("{}", program.name);
        rows.push((program, best(&workshop, program, &modes, options)?));
        eprintln!();
    }
    print(&modes, &rows, options);
    Ok(())
}

/// The best of several runs in each mode.
fn best(
    workshop: &Workshop,
    program: &Program,
    modes: &[&Mode],
    options: &Options,
) -> Result<Vec<Run>> {
    let mut best: Vec<Option<Run>> = vec![None; modes.len()];
    for _ in 0..options.runs {
        for (mode, best) in modes.iter().zip(&mut best) {
            eprint!(".");
            let run = measure::run(workshop, program, mode, options.quick)?;
            let so_far = best.unwrap_or(run);
            *best = Some(Run {
                wall: so_far.wall.min(run.wall),
                cpu: so_far.cpu.min(run.cpu),
                memory: so_far.memory.min(run.memory),
                recorded: so_far.recorded.max(run.recorded),
                dropped: so_far.dropped.max(run.dropped),
            });
        }
    }
    Ok(best.into_iter().flatten().collect())
}

type Row = (&'static Program, Vec<Run>);

fn print(modes: &[&Mode], rows: &[Row], options: &Options) {
    let time = |run: &Run| if options.cpu { run.cpu } else { run.wall };
    let of = if options.cpu {
        "processor time"
    } else {
        "time"
    };
    println!("{}; best of {}\n", machine(), options.runs);
    let (others, ours) = modes.split_at(OTHERS);

    println!("Seconds natively, and {of} as a multiple of that:\n");
    let names: Vec<&str> = modes[1..].iter().map(|mode| mode.name).collect();
    header(
        &[&["program", "kind", "native s"], names.as_slice()].concat(),
        2,
    );
    for (program, runs) in rows {
        print!(
            "| {} | {} | {:.3} |",
            program.name,
            program.kind,
            time(&runs[0])
        );
        for run in &runs[1..] {
            print!(" {:.1} |", time(run) / time(&runs[0]));
        }
        println!();
    }
    print!("| geometric mean | | |");
    for mode in 1..modes.len() {
        print!(
            " {:.1} |",
            mean(
                rows.iter()
                    .map(|(_, runs)| time(&runs[mode]) / time(&runs[0]))
            )
        );
    }
    println!("\n");

    println!("{of} of ours as a multiple of ThreadSanitizer's and of the empty runtime's:\n");
    let pairs: Vec<String> = ours
        .iter()
        .flat_map(|mode| {
            others[1..]
                .iter()
                .rev()
                .map(|other| format!("{} / {}", mode.name, other.name))
        })
        .collect();
    let names: Vec<&str> = pairs.iter().map(String::as_str).collect();
    header(&[&["program"], names.as_slice()].concat(), 1);
    let ratio =
        |runs: &[Run], mode: usize, other: usize| time(&runs[OTHERS + mode]) / time(&runs[other]);
    for (program, runs) in rows {
        print!("| {} |", program.name);
        for mode in 0..ours.len() {
            print!(
                " {:.2} | {:.2} |",
                ratio(runs, mode, 2),
                ratio(runs, mode, 1)
            );
        }
        println!();
    }
    for (name, fold) in [
        ("geometric mean", mean as fn(Vec<f64>) -> f64),
        ("worst", worst),
    ] {
        print!("| {name} |");
        for mode in 0..ours.len() {
            for other in [2, 1] {
                print!(
                    " {:.2} |",
                    fold(
                        rows.iter()
                            .map(|(_, runs)| ratio(runs, mode, other))
                            .collect()
                    )
                );
            }
        }
        println!();
    }

    println!("\nPeak memory in MB, and what was recorded:\n");
    let names: Vec<&str> = modes.iter().map(|mode| mode.name).collect();
    header(
        &[&["program"], names.as_slice(), &["recording"]].concat(),
        1,
    );
    for (program, runs) in rows {
        print!("| {} |", program.name);
        for run in runs {
            print!(" {:.0} |", run.memory);
        }
        println!(
            " {:.0} |",
            runs.iter().map(|run| run.recorded).fold(0.0, f64::max)
        );
    }
    print!("| geometric mean of the multiple of TSan's |");
    for mode in 0..modes.len() {
        print!(
            " {:.2} |",
            mean(
                rows.iter()
                    .map(|(_, runs)| runs[mode].memory / runs[2].memory)
            )
        );
    }
    println!(" |");
    for (program, runs) in rows {
        for (mode, run) in modes.iter().zip(runs) {
            if run.dropped > 0 {
                println!(
                    "\n{} ({}): {} events did not fit into the recording.",
                    program.name, mode.name, run.dropped
                );
            }
        }
    }
}

/// The head of a table; all columns but the first ones are numbers.
fn header(columns: &[&str], words: usize) {
    println!("| {} |", columns.join(" | "));
    let lines: Vec<&str> = (0..columns.len())
        .map(|at| if at < words { "---" } else { "--:" })
        .collect();
    println!("|{}|", lines.join("|"));
}

fn mean(ratios: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    for ratio in ratios {
        sum += ratio.ln();
        count += 1;
    }
    (sum / f64::from(count)).exp()
}

fn worst(ratios: Vec<f64>) -> f64 {
    ratios.into_iter().fold(0.0, f64::max)
}

/// The processor, how many of it there are, and how busy they were.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processors = read("/proc/cpuinfo");
    let model = processors
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("an unknown processor", |(_, model)| model);
    let count = std::thread::available_parallelism().map_or(0, usize::from);
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or("?");
    let kernel = read("/proc/sys/kernel/osrelease");
    format!(
        "{count} × {}, Linux {}, load {load}",
        model.trim(),
        kernel.trim()
    )
}
