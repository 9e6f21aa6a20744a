//! A finding for a person at a terminal, drawn as rustc draws its errors.
//!
//! The snippet shows the culprit function with its two lines labelled, and the lines of the others
//! that got in; the numbers of the labels say in which order it happened. Where there is no source,
//! the steps are a table. The text always carries its colours; the stream it is written to takes
//! them out where they do not belong (`anstream`).

use crate::rank::Rank;
use crate::resolve::{Place, Report};
use crate::source::{self, Sources};
use crate::story::{self, Told};
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
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
/// Names that are longer are cut in the middle.
const MOST_NAME: usize = 60;

/// Writes one report.
pub fn write(out: &mut dyn Write, report: &Report, options: &Options<'_>) -> io::Result<()> {
    let text = render(&printable(report), options);
    writeln!(out, "{text}\n")
}

/// Names come from traces, and a trace may come from anybody: what would move the cursor or start
/// a new line is shown, not done. Names of templates may be longer than a screen.
fn printable(report: &Report) -> Report {
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
    report.also = report.also.iter().map(printable).collect();
    report
}

fn shorten(name: &mut String) {
    let length = name.chars().count();
    if length > MOST_NAME {
        let half = (MOST_NAME - 1) / 2;
        let head = name.chars().take(half);
        let tail = name.chars().skip(length - half);
        *name = head.chain(['…']).chain(tail).collect();
    }
}

fn render(report: &Report, options: &Options<'_>) -> String {
    let level = match report.rank {
        Rank::High => Level::ERROR,
        Rank::Medium => Level::WARNING,
        Rank::Low => Level::NOTE,
    };
    let told = story::tell(report);
    // The word, the code and a colon stand in front of the headline.
    let lead = report.anomaly.len() + 12;
    let headline = wrapped(&story::headline(report), options.width, lead);
    let title = level.primary_title(headline).id(report.anomaly.clone());
    let mut group = Group::with_title(title);
    let (snippets, shown) = snippets(report, &told, options);
    let drawn = !snippets.is_empty();
    if let Some(origin) = origin(report, options).filter(|_| !drawn) {
        group = group.element(origin);
    }
    group = group.elements(snippets);
    // A label needs its line; steps without one, and long stories, are told in a table.
    if !drawn || shown < told.len() || told.len() > 4 {
        group = noted(group, Level::NOTE, &table(&told, options), usize::MAX);
    }
    let width = options.width;
    group = noted(group, Level::HELP, &story::help(report), width);
    if let Some(doubt) = story::doubt(report) {
        group = noted(group, Level::NOTE, doubt, width);
    }
    let about = story::about(report);
    if !about.is_empty() {
        group = noted(group, Level::NOTE, &about.join("; "), width);
    }
    for note in &report.notes {
        group = noted(group, Level::NOTE, note, width);
    }
    let also = story::also(report);
    if let Some(text) = ways(&also) {
        group = noted(group, Level::NOTE, &text, width);
    }
    let print = report.fingerprint.get(..8).unwrap_or(&report.fingerprint);
    let evidence = format!(
        "{}; finding {print}; `atomsan explain {}` says more",
        story::evidence(report),
        report.anomaly
    );
    group = noted(group, Level::NOTE, &evidence, width);
    Renderer::styled().term_width(width).render(&[group])
}

fn noted<'a>(group: Group<'a>, level: Level<'a>, text: &str, width: usize) -> Group<'a> {
    group.element(level.message(wrapped(text, width, 12)))
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

/// The snippets, one a file, and how many steps have a label in them.
fn snippets<'a>(report: &Report, told: &[Told], options: &Options<'_>) -> (Vec<Drawn<'a>>, usize) {
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
    let mut shown = 0;
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
        snippets.push(drawn(
            options,
            file,
            &lines,
            heading.unwrap_or(first)..=last,
            &labels,
            heading,
        ));
    }
    (snippets, shown)
}

fn drawn<'a>(
    options: &Options<'_>,
    file: &str,
    lines: &source::Lines,
    range: std::ops::RangeInclusive<u32>,
    labels: &[(&Told, u32)],
    heading: Option<u32>,
) -> Drawn<'a> {
    let start = *range.start();
    let gutter = range.end().to_string().len() + 4;
    let room = options.width.saturating_sub(gutter).max(40);
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
        let label = label(step);
        let span = spans.get(line).cloned().unwrap_or(0..0);
        let kind = if step.culprit {
            AnnotationKind::Primary
        } else {
            AnnotationKind::Context
        };
        // Several labels of one line stand below it.
        let alone = labels.iter().filter(|(_, other)| other == line).count() == 1;
        let span = match alone {
            true => narrowed(&text, span, room, label.chars().count()),
            false => span,
        };
        snippet = snippet.annotation(kind.span(span).label(label));
    }
    snippet
}

fn label(step: &Told) -> String {
    let mut text = format!("{} {} {}", step.sign(), step.thread, step.action);
    if !step.meaning.is_empty() {
        text.push_str(", ");
        text.push_str(&step.meaning);
    }
    text
}

/// As much of the line as leaves room for the label behind it.
fn narrowed(
    text: &str,
    span: std::ops::Range<usize>,
    room: usize,
    label: usize,
) -> std::ops::Range<usize> {
    let line_start = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
    let columns = |part: &str| {
        part.chars()
            .map(|c| if c == '\t' { 4 } else { 1 })
            .sum::<usize>()
    };
    let indent = columns(&text[line_start..span.start]);
    let most = room.saturating_sub(indent + label + 1).max(1);
    let end = text[span.clone()]
        .char_indices()
        .nth(most)
        .map_or(span.end, |(at, _)| span.start + at);
    span.start..end
}

/// A line that fits.
fn cut(line: &str, room: usize) -> String {
    let mut columns = 0;
    let mut kept = String::new();
    for c in line.chars() {
        columns += if c == '\t' { 4 } else { 1 };
        if columns > room {
            kept.pop();
            kept.push('…');
            break;
        }
        kept.push(c);
    }
    kept
}

/// Lines of at most `width` columns, of which `lead` are taken on each.
fn wrapped(text: &str, width: usize, lead: usize) -> String {
    let room = width.saturating_sub(lead).max(30);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// The steps as a table; without functions, and without meanings, where they do not fit.
fn table(told: &[Told], options: &Options<'_>) -> String {
    let room = options.width.saturating_sub(12).max(60);
    let rows =
        [(true, true), (false, true), (false, false)].map(|with| rows(told, options.sources, with));
    let fits = |rows: &&Vec<String>| rows.iter().all(|row| row.chars().count() <= room);
    let rows = rows.iter().find(fits).unwrap_or(&rows[2]);
    let mut text = String::from("in this order:");
    for (number, row) in rows.iter().enumerate() {
        if rows.len() > MOST_STEPS && (HEAD..rows.len() - TAIL).contains(&number) {
            if number == HEAD {
                let left_out = rows.len() - HEAD - TAIL;
                text.push_str(&format!("\n  … {left_out} more steps"));
            }
            continue;
        }
        text.push('\n');
        text.push_str(&cut(row, room));
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
