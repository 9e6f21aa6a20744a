//! A finding for a person at a terminal, drawn as rustc draws its errors.
//!
//! The snippet shows the culprit function with its two lines labelled, and the lines of the others
//! that got in; the numbers of the labels say in which order it happened. Where there is no source,
//! the steps are a table. The text always carries its colours; the stream it is written to takes
//! them out where they do not belong (`anstream`).
//!
//! # Width
//!
//! No line is longer than the terminal is wide, from 40 columns on: text is wrapped, source lines are
//! cut, and a label that has no room behind its line says less; the steps are a table then, which says
//! it all ([`fit`]). Only the path below the headline stays whole, as in rustc: it is there to be
//! clicked at.

mod fit;

use crate::rank::Rank;
use crate::resolve::{Place, Report};
use crate::source::{self, Sources};
use crate::story::{self, Told};
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use fit::{columns, cut, hanging, narrowed, shorten, wrapped};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// How a report is drawn.
#[derive(Debug)]
pub struct Options<'a> {
    /// How many columns there are.
    pub width: usize,
    /// Where snippets come from.
    pub sources: &'a Sources,
}

/// A longer witness is shown by its first and last steps; machines get all of it.
const MOST_STEPS: usize = 16;
const HEAD: usize = 8;
const TAIL: usize = 6;
/// More ways in which a mistake was seen are counted.
const MOST_WAYS: usize = 3;
/// Names that are longer are cut in the middle, and shorter ones where there is little room.
const MOST_NAME: usize = 60;
/// With less room for a headline behind its code, it goes on below the code.
const LEAST_HEADLINE: usize = 40;
/// What stands in front of a note, but for the digits of lines: its sign and its level.
const NOTE: usize = "  = note: ".len();

/// Writes one report.
pub fn write(out: &mut dyn Write, report: &Report, options: &Options<'_>) -> io::Result<()> {
    let text = render(&printable(report, options.width), options);
    writeln!(out, "{text}\n")
}

/// Names come from traces, and a trace may come from anybody: what would move the cursor or start
/// a new line is shown, not done. Names of templates may be longer than a screen.
fn printable(report: &Report, width: usize) -> Report {
    // A name in quotes fits into a note; a description can be wrapped.
    let narrow = width.saturating_sub(NOTE + 4).clamp(16, MOST_NAME);
    let shorten = |text: &mut String| match text.contains(' ') {
        true => shorten(text, MOST_NAME),
        false => shorten(text, narrow),
    };
    let clean = |text: &mut String| {
        if text.chars().any(char::is_control) {
            *text = text.escape_debug().to_string();
        }
    };
    let name = |text: &mut String| {
        clean(text);
        shorten(text);
    };
    // What a part belongs to is told only once.
    let target = |text: &mut String| {
        clean(text);
        match text.split_once(" of ") {
            Some((part, whole)) => {
                let (mut part, mut whole) = (part.to_owned(), whole.to_owned());
                shorten(&mut part);
                shorten(&mut whole);
                *text = format!("{part} of {whole}");
            }
            None => shorten(text),
        }
    };
    let place = |place: &mut Place| {
        place.function.iter_mut().for_each(name);
        place.file.iter_mut().for_each(clean);
    };
    let mut report = report.clone();
    clean(&mut report.message);
    clean(&mut report.anomaly);
    clean(&mut report.engine);
    report.culprit.function.iter_mut().for_each(name);
    report.culprit.file.iter_mut().for_each(clean);
    report.notes.iter_mut().for_each(clean);
    for transaction in &mut report.transactions {
        clean(&mut transaction.thread);
        transaction.region.iter_mut().for_each(name);
        transaction.spawned.iter_mut().for_each(place);
    }
    for step in &mut report.witness {
        clean(&mut step.thread);
        clean(&mut step.op);
        step.target.iter_mut().for_each(target);
        step.note.iter_mut().for_each(clean);
        place(&mut step.place);
        step.stack.iter_mut().for_each(place);
    }
    let also = report.also.iter();
    report.also = also.map(|other| printable(other, width)).collect();
    report
}

fn render(report: &Report, options: &Options<'_>) -> String {
    let level = match report.rank {
        Rank::High => Level::ERROR,
        Rank::Medium => Level::WARNING,
        Rank::Low => Level::NOTE,
    };
    let told = story::tell(report);
    let digits = told.iter().filter_map(|step| step.place.line).max();
    let digits = digits.map_or(0, |line| line.to_string().len());
    let room = options.width.saturating_sub(NOTE + digits.max(2));
    let headline = Headline::new(report, options.width);
    let title = level
        .primary_title(headline.text.clone())
        .id(report.anomaly.clone());
    let mut group = Group::with_title(title);
    let (snippets, labels) = snippets(report, &told, options);
    let drawn = !snippets.is_empty();
    if let Some(origin) = origin(report, options).filter(|_| !drawn) {
        group = group.element(origin);
    }
    group = group.elements(snippets);
    // A label needs its line; steps without one, and long stories, are told in a table. Where only
    // room was short, what the labels do not say is told below them.
    let steps = match labels {
        _ if !drawn || told.len() > 4 => Some(table(&told, options.sources, room)),
        Labels::SayAll => None,
        Labels::SayLess => Some(list(&told, None, room)),
        Labels::Missing => Some(table(&told, options.sources, room)),
    };
    if let Some(steps) = steps {
        group = group.element(Level::NOTE.message(in_order(&steps)));
    }
    group = noted(group, Level::HELP, &story::help(report), room);
    if let Some(doubt) = story::doubt(report) {
        group = noted(group, Level::NOTE, doubt, room);
    }
    let about = story::about(report);
    if !about.is_empty() {
        group = noted(group, Level::NOTE, &about.join("; "), room);
    }
    for note in &report.notes {
        group = noted(group, Level::NOTE, note, room);
    }
    let also = story::also(report);
    if let Some(text) = ways(&also) {
        group = noted(group, Level::NOTE, &text, room);
    }
    let print = report.fingerprint.get(..8).unwrap_or(&report.fingerprint);
    let evidence = format!(
        "{}; finding {print}; `atomsan explain {}` says more",
        story::evidence(report),
        report.anomaly
    );
    group = noted(group, Level::NOTE, &evidence, room);
    let renderer = Renderer::styled().term_width(options.width);
    headline.place(&renderer.render(&[group]))
}

/// What is wrong, in lines that fit.
struct Headline {
    text: String,
    /// How many columns the renderer puts in front of all lines but the first, and how many of them are to stay.
    lead: (usize, usize),
}

impl Headline {
    fn new(report: &Report, width: usize) -> Headline {
        let word = match report.rank {
            Rank::High => "error",
            Rank::Medium => "warning",
            Rank::Low => "note",
        };
        let lead = columns(word) + columns(&report.anomaly) + "[]: ".len();
        let text = story::headline(report);
        if lead + LEAST_HEADLINE <= width {
            let text = wrapped(&text, width - lead);
            return Headline {
                text,
                lead: (lead, lead),
            };
        }
        let text = format!("\n{}", wrapped(&text, width.saturating_sub(2)));
        Headline {
            text,
            lead: (lead, 2),
        }
    }

    /// Moves the lines to where they belong.
    fn place(&self, rendered: &str) -> String {
        let (lead, left) = self.lead;
        let (from, to) = (" ".repeat(lead), " ".repeat(left));
        let count = self.text.matches('\n').count();
        let lines = rendered.split('\n').enumerate().map(|(at, line)| match at {
            at if (1..=count).contains(&at) => line.replacen(&from, &to, 1),
            _ => line.to_owned(),
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

fn noted<'a>(group: Group<'a>, level: Level<'a>, text: &str, room: usize) -> Group<'a> {
    group.element(level.message(wrapped(text, room)))
}

/// Where the program is wrong, if its source cannot be shown.
fn origin<'a>(report: &Report, options: &Options<'_>) -> Option<Origin<'a>> {
    let file = report.culprit.file.as_deref();
    let name = file.map(|file| options.sources.name(file));
    let place = story::between(report, name.as_deref())?;
    // Who got in is told in the table.
    let place = place.split("; ").next().unwrap_or(&place).to_owned();
    Some(Origin::path(place))
}

type Drawn<'a> = Snippet<'a, annotate_snippets::Annotation<'a>>;

/// What the labels of the snippets tell of the steps.
enum Labels {
    SayAll,
    /// Each step has one, but there is no room for all of it.
    SayLess,
    Missing,
}

/// The snippets, one a file, and what their labels tell.
fn snippets<'a>(report: &Report, told: &[Told], options: &Options<'_>) -> (Vec<Drawn<'a>>, Labels) {
    // The culprit's file first.
    let mut files: Vec<&str> = report.culprit.file.as_deref().into_iter().collect();
    for step in told {
        let file = step.place.file.as_deref();
        files.extend(
            file.filter(|file| !files.contains(file))
                .into_iter()
                .collect::<Vec<_>>(),
        );
    }
    let (mut shown, mut complete) = (0, true);
    let mut snippets = Vec::new();
    for file in files {
        let lines = options.sources.lines(file);
        let here = |step: &&Told| step.place.file.as_deref() == Some(file);
        let labels: Vec<(&Told, u32)> = (told.iter().filter(here))
            .filter_map(|step| Some((step, step.place.line?)))
            .filter(|(_, line)| lines.contains_key(line))
            .collect();
        let Some(first) = labels.iter().map(|(_, line)| *line).min() else {
            continue;
        };
        let last = labels.iter().map(|(_, line)| *line).max().unwrap_or(first);
        let function = report.culprit.function.as_deref().unwrap_or("");
        let heading = (report.culprit.file.as_deref() == Some(file))
            .then(|| source::heading(&lines, function, first))
            .flatten();
        shown += labels.len();
        let range = heading.unwrap_or(first)..=last;
        let (snippet, all) = drawn(options, file, &lines, range, &labels, heading);
        snippets.push(snippet);
        complete &= all;
    }
    let labels = match shown == told.len() {
        true if complete => Labels::SayAll,
        true => Labels::SayLess,
        false => Labels::Missing,
    };
    (snippets, labels)
}

/// One file's snippet, and whether its labels say all there is to say.
fn drawn<'a>(
    options: &Options<'_>,
    file: &str,
    lines: &source::Lines,
    range: std::ops::RangeInclusive<u32>,
    labels: &[(&Told, u32)],
    heading: Option<u32>,
) -> (Drawn<'a>, bool) {
    let start = *range.start();
    let gutter = range.end().to_string().len() + 4;
    let room = options.width.saturating_sub(gutter).max(20);
    let mut complete = true;
    let mut text = String::new();
    let mut spans: BTreeMap<u32, std::ops::Range<usize>> = BTreeMap::new();
    for number in range {
        let line = lines.get(&number).map_or("", |line| line.as_str());
        let line = cut(line, room);
        let indent = line.len() - line.trim_start().len();
        let from = text.len() + indent;
        spans.insert(number, from..(text.len() + line.len()).max(from));
        text.push_str(&line);
        text.push('\n');
    }
    let mut snippet = Snippet::source(text.clone())
        .line_start(start as usize)
        .path(options.sources.name(file));
    if let Some(span) = heading.and_then(|line| spans.get(&line)) {
        snippet = snippet.annotation(AnnotationKind::Visible.span(span.clone()));
    }
    for (step, line) in labels {
        let span = spans.get(line).cloned().unwrap_or(0..0);
        let kind = if step.culprit {
            AnnotationKind::Primary
        } else {
            AnnotationKind::Context
        };
        // Several labels of one line stand below it, one alone behind what it marks.
        let alone = labels.iter().filter(|(_, other)| other == line).count() == 1;
        let indent = fit::indent(&text, &span);
        let (label, all) = label(
            step,
            room.saturating_sub(indent + if alone { 2 } else { 0 }),
        );
        complete &= all;
        let span = match alone {
            true => narrowed(&text, span, room, columns(&label)),
            false => span,
        };
        snippet = snippet.annotation(kind.span(span).label(label));
    }
    (snippet, complete)
}

/// What a label says of a step: as much as there is room for, and whether that is all.
fn label(step: &Told, room: usize) -> (String, bool) {
    let (sign, thread, action) = (step.sign(), &step.thread, &step.action);
    let mut full = format!("{sign} {thread} {action}");
    let short = full.clone();
    if !step.meaning.is_empty() {
        full.push_str(", ");
        full.push_str(&step.meaning);
    }
    let verb = action.split(' ').next().unwrap_or("");
    let all = columns(&full) <= room;
    let less = [
        short,
        format!("{sign} {thread} {verb}"),
        format!("{sign} {verb}"),
    ];
    let fitting = [full]
        .into_iter()
        .chain(less)
        .find(|label| columns(label) <= room);
    (fitting.unwrap_or(sign), all)
}

/// The steps as a table; without functions, and without meanings, where they do not fit; or as a list, where
/// nothing does.
fn table(told: &[Told], sources: &Sources, room: usize) -> Vec<String> {
    let rows = [(true, true), (false, true), (false, false)].map(|with| rows(told, sources, with));
    let fits = |rows: &Vec<String>| rows.iter().all(|row| columns(row) <= room);
    let rows = rows.into_iter().find(fits);
    rows.unwrap_or_else(|| list(told, Some(sources), room))
}

/// The steps one after the other, each in as many lines as it takes, with or without places.
fn list(told: &[Told], places: Option<&Sources>, room: usize) -> Vec<String> {
    let step = |step: &Told| {
        let mut text = format!("{} {} {}", step.sign(), step.thread, step.action);
        let place = places.map(|sources| place(&step.place, sources));
        if let Some(place) = place.filter(|place| !place.is_empty()) {
            text.push_str(&format!(" at {place}"));
        }
        if !step.meaning.is_empty() {
            text.push_str(&format!(", {}", step.meaning));
        }
        hanging(&text, room, 2)
    };
    told.iter().map(step).collect()
}

/// The first and the last of many steps.
fn in_order(steps: &[String]) -> String {
    let mut text = String::from("in this order:");
    for (number, step) in steps.iter().enumerate() {
        if steps.len() > MOST_STEPS && (HEAD..steps.len() - TAIL).contains(&number) {
            if number == HEAD {
                let left_out = steps.len() - HEAD - TAIL;
                text.push_str(&format!("\n  … {left_out} more steps"));
            }
            continue;
        }
        text.push('\n');
        text.push_str(step);
    }
    text
}

fn rows(told: &[Told], sources: &Sources, (functions, meanings): (bool, bool)) -> Vec<String> {
    let place = |step: &Told| {
        let function = step.place.function.clone().filter(|_| functions);
        self::place(
            &Place {
                function,
                ..step.place.clone()
            },
            sources,
        )
    };
    let cells = |step: &Told| [step.thread.clone(), step.action.clone(), place(step)];
    let cells: Vec<[String; 3]> = told.iter().map(cells).collect();
    let width = |at: usize| {
        let widths = cells.iter().map(|row| row[at].chars().count());
        widths.max().unwrap_or(0)
    };
    let (w0, w1, w2) = (width(0), width(1), width(2));
    let rows = cells
        .iter()
        .zip(told)
        .map(|([thread, action, place], step)| {
            let mark = if step.culprit { ' ' } else { '|' };
            let meaning = if meanings { step.meaning.as_str() } else { "" };
            let sign = step.sign();
            let row = format!("{sign} {mark} {thread:w0$}  {action:w1$}  {place:w2$}  {meaning}");
            row.trim_end().to_owned()
        });
    rows.collect()
}

fn place(place: &Place, sources: &Sources) -> String {
    let at = match (&place.file, place.line) {
        (Some(file), Some(line)) => format!("{}:{line}", sources.name(file)),
        (Some(file), None) => sources.name(file),
        (None, Some(line)) => format!("location {line}"),
        (None, None) => String::new(),
    };
    match &place.function {
        Some(function) if at.is_empty() => format!("in {function}"),
        Some(function) => format!("{at} in {function}"),
        None => at,
    }
}

fn ways(also: &[String]) -> Option<String> {
    let shown = also.get(..MOST_WAYS).unwrap_or(also).join("; ");
    match also.len() {
        0 => None,
        count if count > MOST_WAYS => Some(format!(
            "the same gap was also seen as {shown}; and in {} more ways",
            count - MOST_WAYS
        )),
        _ => Some(format!("the same gap was also seen as {shown}")),
    }
}
