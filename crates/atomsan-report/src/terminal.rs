//! A report for a person at a terminal.
//!
//! The text always carries its colours; the stream it is written to takes them out where they do
//! not belong (`anstream`).

use crate::rank::Rank;
use crate::resolve::{Place, Report, Step};
use crate::words;
use anstyle::{AnsiColor, Style};
use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{self, Write};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const BLUE: Style = AnsiColor::Blue.on_default().bold();

/// A longer witness is shown by its first and last steps; machines get all of it.
const MOST_STEPS: usize = 16;
const HEAD: usize = 8;
const TAIL: usize = 6;

fn rank_style(rank: Rank) -> (&'static str, Style) {
    match rank {
        Rank::High => ("error", AnsiColor::Red.on_default().bold()),
        Rank::Medium => ("warning", AnsiColor::Yellow.on_default().bold()),
        Rank::Low => ("note", AnsiColor::Cyan.on_default().bold()),
    }
}

/// Writes one report.
pub fn write(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = render(&mut text, &printable(report));
    out.write_all(text.as_bytes())
}

/// Names come from traces, and a trace may come from anybody: what would move the cursor or start
/// a new line is shown, not done.
fn printable(report: &Report) -> Report {
    let clean = |text: &mut String| {
        if text.chars().any(char::is_control) {
            *text = text.escape_debug().to_string();
        }
    };
    let mut report = report.clone();
    report.culprit.function.iter_mut().for_each(clean);
    report.culprit.file.iter_mut().for_each(clean);
    report.notes.iter_mut().for_each(clean);
    for transaction in &mut report.transactions {
        clean(&mut transaction.thread);
        transaction.region.iter_mut().for_each(clean);
    }
    for step in &mut report.witness {
        clean(&mut step.thread);
        step.target.iter_mut().for_each(clean);
        step.place.function.iter_mut().for_each(clean);
        step.place.file.iter_mut().for_each(clean);
    }
    report
}

fn render(out: &mut String, report: &Report) -> fmt::Result {
    let (word, style) = rank_style(report.rank);
    let who = match (&report.culprit.function, report.transactions.first()) {
        (Some(function), _) => format!("`{function}`"),
        (None, Some(transaction)) => {
            let region = transaction.region.as_deref().unwrap_or("this step");
            format!("{region} of {}", named_thread(&transaction.thread))
        }
        (None, None) => "this region".to_owned(),
    };
    let code = report.anomaly.as_str();
    // Where yields are missing, nobody has said that anything is atomic.
    let verdict = match code {
        words::MISSING_YIELD => "needs a yield",
        _ => "is not atomic",
    };
    writeln!(
        out,
        "{style}{word}[{code}]{style:#}{BOLD}: {who} {verdict}: {}{BOLD:#}",
        report.message
    )?;
    if let Some(between) = between(report) {
        writeln!(out, "  {BLUE}-->{BLUE:#} {between}")?;
    }
    let rows: Vec<[String; 4]> = report.witness.iter().map(row).collect();
    let widths = [0, 1, 2].map(|at| rows.iter().map(|row| row[at].chars().count()).max());
    for (number, (row, step)) in rows.iter().zip(&report.witness).enumerate() {
        if rows.len() > MOST_STEPS && (HEAD..rows.len() - TAIL).contains(&number) {
            if number == HEAD {
                let left_out = rows.len() - HEAD - TAIL;
                writeln!(
                    out,
                    "       {BLUE}|{BLUE:#} {DIM}… {left_out} more steps{DIM:#}"
                )?;
            }
            continue;
        }
        let mark = if step.transaction == 0 { " " } else { "|" };
        let [thread, action, place, note] = row;
        write!(out, "   {BLUE}{:>3} {mark}{BLUE:#} ", number + 1)?;
        let w = widths.map(|width| width.unwrap_or(0));
        write!(out, "{thread:w0$}  {action:w1$}", w0 = w[0], w1 = w[1])?;
        if note.is_empty() {
            writeln!(out, "  {DIM}{place}{DIM:#}")?;
        } else {
            writeln!(out, "  {DIM}{place:w2$}{DIM:#}  {note}", w2 = w[2])?;
        }
    }
    for note in &report.notes {
        writeln!(out, "   {BLUE}={BLUE:#} note: {note}")?;
    }
    let times = |count: u64| match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    };
    write!(
        out,
        "   {BLUE}={BLUE:#} {DIM}{}, {} {}, at event {}",
        report.engine,
        report.status,
        times(report.count),
        report.event
    )?;
    for other in &report.agreeing {
        let (engine, status) = (&other.engine, &other.status);
        write!(out, "; {engine} agrees, {status} {}", times(other.count))?;
    }
    writeln!(out, "{DIM:#}")?;
    writeln!(out)
}

fn between(report: &Report) -> Option<String> {
    let culprit = &report.culprit;
    let mut text = match (culprit.file.as_deref(), culprit.lines.as_slice()) {
        (Some(file), [first, second]) if first != second => {
            format!("{file}, between lines {first} and {second}")
        }
        (Some(file), [line, ..]) => format!("{file}, around line {line}"),
        (Some(file), []) => file.to_owned(),
        (None, [first, second]) if first != second => {
            format!("between locations {first} and {second}")
        }
        (None, [line, ..]) => format!("at location {line}"),
        (None, []) => String::new(),
    };
    if let Some(other) = report.transactions.get(1) {
        if !text.is_empty() {
            text.push_str("; ");
        }
        let thread = named_thread(&other.thread);
        match &other.region {
            Some(region) => write!(text, "`{region}` of {thread} got in").ok()?,
            None => write!(text, "{thread} got in").ok()?,
        }
    }
    (!text.is_empty()).then_some(text)
}

/// A trace may call its threads `7`, `worker` or `thread 7`.
fn named_thread(name: &str) -> Cow<'_, str> {
    if name.starts_with("thread") || name.starts_with("main") {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(format!("thread {name}"))
    }
}

fn row(step: &Step) -> [String; 4] {
    let action = match &step.target {
        Some(target) => format!("{} {target}", step.op),
        None => step.op.clone(),
    };
    [
        step.thread.clone(),
        action,
        place(&step.place),
        step.note
            .as_ref()
            .map_or(String::new(), |note| format!("<- {note}")),
    ]
}

fn place(place: &Place) -> String {
    let at = match (&place.file, place.line) {
        (Some(file), Some(line)) => format!("{file}:{line}"),
        (Some(file), None) => file.clone(),
        (None, Some(line)) => format!("location {line}"),
        (None, None) => String::new(),
    };
    match &place.function {
        Some(function) if at.is_empty() => format!("in {function}"),
        Some(function) => format!("{at} in {function}"),
        None => at,
    }
}
