//! `atomsan check`: traces in, findings out.

use crate::accept::{self, Judge};
use crate::document::{About, document, further};
use crate::engines::{self, Choices, Entry, Flags};
use crate::exit::{Exit, UsageError};
use crate::format_arg::FormatArg;
use crate::memory;
use crate::output::{self, Output};
use crate::products::Products;
use crate::progress::Progress;
use crate::recorded::PASSES;
use crate::render;
use anyhow::Context as _;
use atomsan_engines::checker::{Checker, Run};
use atomsan_engines::demotion::demote;
use atomsan_report::{Rank, Report, fold};
use atomsan_trace::input::Source;
use atomsan_trace::names::Definition;
use atomsan_trace::numbers::grouped;
use atomsan_trace::read::{self, ReadOptions, Summary};
use atomsan_trace::spec::Atomic;
use atomsan_trace::{Names, Spec};
use std::path::{Path, PathBuf};
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  atomsan check trace.std.zst
  atomsan check --engine velodrome,aerodrome --first trace.std
  atomsan check --spec methods.txt program.rr.zst
  zstdcat trace.std.zst | atomsan check --json - | jq '.findings[].culprit'

A specification (--spec) has a pattern a line: `Account.*` makes functions atomic, `!*.run` does
not; the last match decides. Without one, all functions are atomic but each thread's outermost.";

/// Check recorded traces for atomicity violations
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{}\n{EXAMPLES}", engines::help()))]
pub(crate) struct Args {
    /// Traces, plain or compressed; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The engines to run, or `all`; by default velodrome, or those of `atomsan run` for what it has
    /// kept by `--save-trace`
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    engine: Vec<String>,

    /// The traces' format; `auto` finds out by content
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    format: FormatArg,

    /// Which functions of a trace with calls are transactions
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,

    /// Stop each engine at the first violation that it reports
    #[arg(long)]
    first: bool,

    /// Skip what cannot be read instead of stopping
    #[arg(long)]
    lenient: bool,

    /// Show what the engines counted
    #[arg(long)]
    stats: bool,

    /// The least rank that makes the exit status 66; by default low, or medium for what `atomsan run`
    /// has kept, of which low ones are not shown then
    #[arg(long, value_name = "RANK")]
    fail_on: Option<RankArg>,

    #[command(flatten)]
    pub(crate) accept: accept::Args,

    #[command(flatten)]
    render: render::Flags,

    /// Print no results, only errors and warnings; the exit status tells
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    flags: Flags,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum RankArg {
    High,
    Medium,
    Low,
}

impl From<RankArg> for Rank {
    fn from(rank: RankArg) -> Rank {
        match rank {
            RankArg::High => Rank::High,
            RankArg::Medium => Rank::Medium,
            RankArg::Low => Rank::Low,
        }
    }
}

/// What became of one trace.
struct Checked {
    file: String,
    checker: Checker,
    summary: Summary,
    seconds: f64,
    /// Whether it is what a program has done, kept by `--save-trace`.
    recorded: bool,
    /// What was found when functions were taken as not atomic that had been found not to be.
    further: Vec<Checker>,
}

/// Reads a specification.
pub(crate) fn read_spec(path: &Path) -> anyhow::Result<Spec> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the specification {}", path.display()))?;
    Ok(Spec::parse(path, &text)?)
}

/// What the command line says, or the configuration.
pub(crate) fn spec(path: Option<&Path>, accept: &accept::Args) -> anyhow::Result<Spec> {
    match path {
        Some(path) => read_spec(path),
        None => Ok(accept.config.spec.clone().unwrap_or_default()),
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let spec = spec(args.spec.as_deref(), &args.accept)?;
    let mut judge = Judge::new(&args.accept);
    let choices = args.flags.choices()?;
    let entries = match args.engine.is_empty() {
        true => [engines_for(args, false)?, engines_for(args, true)?].concat(),
        false => engines::choose(&args.engine)?,
    };
    let written = [
        &args.render.output,
        &args.flags.first_run,
        &args.flags.write_yields,
    ];
    refuse_to_overwrite(&args.files, written.into_iter().flatten())?;
    for flag in args.flags.unused(&entries) {
        output::warn(&format!("{flag} is not for any of the engines that run"));
    }
    let mut out = Output::open(args.render.output.as_deref())?;
    let mut exit = Exit::Clean;
    let mut products = Products::default();
    let mut documents = Vec::new();
    for path in &args.files {
        let checked = check(args, path, &spec, &choices)?;
        products.add(&checked.checker)?;
        let mut document = document(
            &checked.checker,
            About {
                file: checked.file.clone(),
                process: None,
                seconds: checked.seconds,
                warnings: warnings(&checked, args.spec.is_some()),
                stats: args.stats || args.render.html,
            },
        );
        for checker in &checked.further {
            further(&mut document, checker);
        }
        let least = match args.fail_on {
            Some(rank) => rank.into(),
            None if checked.recorded => Rank::Medium,
            None => Rank::Low,
        };
        if checked.recorded && least > Rank::Low {
            document.findings.retain(|report| report.rank > Rank::Low);
        }
        judge.judge(&mut document, |_| true);
        if accept::counts(&document, least) {
            exit = Exit::Findings;
        }
        for warning in &document.warnings {
            output::warn(&format!("{}: {warning}", checked.file));
        }
        if args.quiet {
            continue;
        }
        if args.render.is_text() {
            write_text(&mut out, &checked, &document.findings, args)?;
        } else if args.render.json {
            render::documents(&mut out, &args.render, &[document])?;
        } else {
            documents.push(document);
        }
    }
    if !documents.is_empty() {
        render::documents(&mut out, &args.render, &documents)?;
    }
    let quiet = args.quiet || !args.render.is_text();
    products.write(&args.flags, &mut out, quiet)?;
    let accepted = judge.finish()?;
    if !quiet {
        for line in accepted {
            out.write(|out| writeln!(out, "{line}"))?;
        }
    }
    Ok(exit)
}

/// The engines for a trace that is what a program has done, or another one.
fn engines_for(args: &Args, recorded: bool) -> Result<Vec<&'static Entry>, UsageError> {
    let by_default: &[&str] = match recorded {
        true => &engines::DEFAULT,
        false => &["velodrome"],
    };
    match &args.engine[..] {
        [] => engines::choose(
            &by_default
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>(),
        ),
        given => engines::choose(given),
    }
}

/// Checks a trace. What a program has done is checked as `atomsan run` does it, which goes over it
/// again while what was found shows functions not to be atomic.
fn check(args: &Args, path: &Path, spec: &Spec, choices: &Choices) -> anyhow::Result<Checked> {
    let mut checked = pass(args, path, spec, choices)?;
    let mut refined = spec.clone();
    let again = checked.recorded && !args.first && path != Path::new("-");
    for _ in 1..PASSES {
        let last = checked.further.last().unwrap_or(&checked.checker);
        if !again || !demote(last, &mut refined) {
            break;
        }
        let more = pass(args, path, &refined, choices)?;
        checked.further.push(more.checker);
    }
    Ok(checked)
}

/// Goes over a trace once.
fn pass(args: &Args, path: &Path, spec: &Spec, choices: &Choices) -> anyhow::Result<Checked> {
    let options = ReadOptions {
        format: args.format.into(),
        lenient: args.lenient,
    };
    let source = Source::path(path);
    let started = Instant::now();
    let mut trace = read::open(&source, &options)?;
    let mut progress = Progress::new(source.name());
    let make = |recorded: bool| {
        let entries = engines_for(args, recorded)?.into_iter();
        let engines = entries.map(|entry| entry.make(choices)).collect();
        let names = Names::new(spec.clone());
        Ok::<_, UsageError>(Checker::new(names, engines, args.first))
    };
    let (mut recorded, mut checker) = (false, None);
    while let Some(batch) = trace.next()? {
        let checker = match &mut checker {
            Some(checker) => checker,
            None => {
                recorded = matches!(batch.definitions.first(), Some(Definition::Program(_)));
                checker.insert(make(recorded)?)
            }
        };
        checker.batch(batch);
        if checker.is_full() {
            break;
        }
        let (done, total) = trace.progress();
        progress.update(checker.events(), done, total);
    }
    let mut checker = match checker {
        Some(checker) => checker,
        None => make(false)?,
    };
    checker.finish();
    Ok(Checked {
        file: source.name().to_owned(),
        summary: trace.summary().clone(),
        checker,
        seconds: started.elapsed().as_secs_f64(),
        recorded,
        further: Vec::new(),
    })
}

/// A result must not be written over what it is the result of.
fn refuse_to_overwrite<'a>(
    inputs: &[PathBuf],
    outputs: impl Iterator<Item = &'a PathBuf>,
) -> Result<(), UsageError> {
    for output in outputs {
        let Ok(output) = output.canonicalize() else {
            continue;
        };
        let same = |input: &&PathBuf| input.canonicalize().is_ok_and(|input| input == output);
        if let Some(input) = inputs.iter().find(same) {
            return Err(UsageError(format!(
                "the trace {} would be overwritten; write to another file",
                input.display()
            )));
        }
    }
    Ok(())
}

/// What is odd about the trace, or about the specification for it.
fn warnings(checked: &Checked, has_spec: bool) -> Vec<String> {
    let mut warnings = output::trace_warnings(&checked.summary);
    if checked.checker.events() == 0 {
        warnings.push("there are no events in this trace".to_owned());
    }
    let functions = checked.checker.names().functions();
    let unmatched = functions.iter().all(|f| f.atomic == Atomic::No);
    if has_spec && unmatched && !functions.is_empty() {
        warnings.push("the specification makes no function of this trace atomic".to_owned());
    }
    warnings
}

fn write_text(
    out: &mut Output,
    checked: &Checked,
    reports: &[Report],
    args: &Args,
) -> anyhow::Result<()> {
    let counting = reports.iter().filter(|report| report.accepted.is_none());
    render::findings(out, counting, &[])?;
    let events = checked.checker.events();
    for run in checked.checker.runs() {
        let shown = fold(run.findings.list()).len();
        let verdict = match shown {
            0 if infers(run, checked) => "done".to_owned(),
            0 => "clean".to_owned(),
            1 => "1 finding".to_owned(),
            n => format!("{n} findings"),
        };
        let seen = match run.findings.total() {
            total if total > shown as u64 => {
                format!(", {} violations", grouped(total))
            }
            _ => String::new(),
        };
        let stopped = if args.first && run.findings.full() {
            "; stopped at the first"
        } else {
            ""
        };
        let line = format!(
            "{}: {}: {verdict}{seen} in {} events{stopped}",
            checked.file,
            run.engine.name(),
            grouped(events),
        );
        out.write(|out| writeln!(out, "{line}"))?;
        if run.findings.not_kept() > 0 {
            let count = grouped(run.findings.not_kept());
            let note = format!("{count} violations after those are only counted");
            out.write(|out| writeln!(out, "  note: {note}"))?;
        }
        for remark in run.engine.remarks() {
            out.write(|out| writeln!(out, "  note: {remark}"))?;
        }
        if args.stats {
            for stat in run.engine.stats() {
                let value = grouped(stat.value);
                out.write(|out| writeln!(out, "  {value:>15}  {}", stat.name))?;
            }
        }
    }
    if checked.checker.runs().len() > 1 {
        for line in verdicts(checked, args.flags.is_single_run()) {
            out.write(|out| writeln!(out, "{line}"))?;
        }
    }
    if args.stats {
        let speed = events as f64 / checked.seconds / 1e6;
        let mut line = format!("{:.2} s, {speed:.1} M events/s", checked.seconds);
        if let Some(bytes) = memory::peak() {
            line.push_str(&format!(", {} MB resident", bytes / 1_000_000));
        }
        out.write(|out| writeln!(out, "{line}"))?;
    }
    Ok(())
}

/// Whether the engine has something else to say than findings.
fn infers(run: &Run, checked: &Checked) -> bool {
    run.engine.product(checked.checker.names()).is_some()
}

/// Who says what, and whether those who must agree do.
fn verdicts(checked: &Checked, single_run: bool) -> Vec<String> {
    let named = |clean: bool| -> Vec<&str> {
        let runs = checked.checker.runs().iter();
        runs.filter(|run| !infers(run, checked))
            .filter(|run| run.findings.list().is_empty() == clean)
            .map(|run| run.engine.name())
            .collect()
    };
    let (clean, found) = (named(true), named(false));
    let mut lines = Vec::new();
    for (word, names) in [("clean", &clean), ("findings", &found)] {
        if !names.is_empty() {
            lines.push(format!("{}: {word}: {}", checked.file, names.join(", ")));
        }
    }
    let precise = |names: &[&str]| names.iter().any(|name| engines::PRECISE.contains(name));
    if single_run && precise(&clean) && precise(&found) {
        lines.push(format!(
            "{}: {} must agree and do not: please report this as a bug in atomsan",
            checked.file,
            engines::PRECISE.join(", ")
        ));
    }
    lines
}
