//! One page for a browser, complete in one file: no network, no other files.
//!
//! The page, its style and its script are files beside this module. The findings are embedded as
//! JSON and drawn when they are looked at, so a thousand of them are no problem. Names come from
//! the checked program and may be anything: in the JSON every character that could end the element
//! is escaped, and the script only ever makes text nodes of them.

use crate::explain;
use crate::gather::gather;
use crate::json::Document;
use crate::rank::Rank;
use crate::resolve::{Place, Report};
use crate::source::{self, Sources};
use crate::story;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = include_str!("html/page.html");
const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/script.js");

/// How many lines are shown around a line that a finding is about.
const AROUND: u32 = 3;

/// All documents as one page.
pub fn render(documents: &[Document], sources: &Sources) -> String {
    let data = escaped(&data(documents, sources).to_string());
    let mut page = String::with_capacity(PAGE.len() + STYLE.len() + SCRIPT.len() + data.len());
    let mut rest = PAGE;
    for (mark, text) in [
        ("{{style}}", STYLE),
        ("{{data}}", &data),
        ("{{script}}", SCRIPT),
    ] {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        page.push_str(before);
        page.push_str(text);
        rest = after;
    }
    page.push_str(rest);
    page
}

/// JSON in which nothing can end a script element, or a line of old scripts.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\u{7f}' => {
                text.push_str(&format!("\\u{:04x}", c as u32));
            }
            c => text.push(c),
        }
    }
    text
}

/// What the page shows, as the script wants it.
pub fn data(documents: &[Document], sources: &Sources) -> Value {
    let findings = gather(
        documents
            .iter()
            .flat_map(|one| one.findings.clone())
            .collect(),
    );
    let mut lines: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    let shown: Vec<Value> = findings
        .iter()
        .map(|one| finding(one, sources, &mut lines))
        .collect();
    let yields = (documents.iter().flat_map(|one| &one.engines))
        .filter_map(|engine| engine.product.as_deref())
        .flat_map(|product| yields(product, sources, &mut lines));
    let yields = by_line(yields.collect());
    let codes: BTreeSet<&str> = findings.iter().map(|one| one.anomaly.as_str()).collect();
    let explain = codes.into_iter().filter_map(explain::find).map(|one| {
        let about = json!({
            "meaning": one.meaning, "example": one.example, "harmless": one.harmless,
        });
        (one.code.to_owned(), about)
    });
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "summary": summary(&findings, documents),
        "findings": shown,
        "documents": documents.iter().map(|one| about(one, sources)).collect::<Vec<_>>(),
        "explain": explain.collect::<Map<String, Value>>(),
        "sources": excerpts(&lines, sources),
        "yields": yields,
        "density": density(documents),
    })
}

fn summary(findings: &[Report], documents: &[Document]) -> String {
    let count = |rank| findings.iter().filter(|one| one.rank == rank).count();
    let ranks = [
        (Rank::High, "high"),
        (Rank::Medium, "medium"),
        (Rank::Low, "low"),
    ];
    let parts = ranks.map(|(rank, name)| (count(rank), name));
    let parts: Vec<String> = (parts.iter().filter(|(count, _)| *count > 0))
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    let found = match findings.len() {
        0 => "nothing found".to_owned(),
        1 => format!("1 finding ({})", parts.join(", ")),
        n => format!("{n} findings ({})", parts.join(", ")),
    };
    match documents {
        [one] => format!(
            "{found} in {}",
            one.file.rsplit('/').next().unwrap_or(&one.file)
        ),
        many => format!("{found} in {} processes or traces", many.len()),
    }
}

fn about(document: &Document, sources: &Sources) -> Value {
    let engines = document.engines.iter().map(|engine| {
        json!({
            "name": engine.name, "findings": engine.findings,
            "violations": engine.violations, "remarks": engine.remarks,
        })
    });
    json!({
        "file": sources.name(&document.file),
        "process": document.process,
        "events": document.events,
        "seconds": document.seconds,
        "threads": document.threads.len(),
        "warnings": document.warnings,
        "engines": engines.collect::<Vec<_>>(),
    })
}

fn finding(one: &Report, sources: &Sources, lines: &mut BTreeMap<String, BTreeSet<u32>>) -> Value {
    let told = story::tell(one);
    let file = one.culprit.file.as_deref().map(|file| sources.name(file));
    let at = match (&file, one.culprit.lines.as_slice()) {
        (Some(file), [first, second]) if first != second => format!("{file}:{first}–{second}"),
        (Some(file), [line, ..]) => format!("{file}:{line}"),
        (Some(file), []) => file.clone(),
        (None, lines) => {
            let numbers: Vec<String> = lines.iter().map(u32::to_string).collect();
            numbers.join("–")
        }
    };
    let steps = told.iter().zip(&one.witness).map(|(told, step)| {
        json!({
            "number": told.number,
            "sign": told.sign(),
            "thread": told.thread,
            "culprit": told.culprit,
            "action": told.action,
            "meaning": told.meaning,
            "function": told.place.function,
            "bare": told.place.function.as_deref().map(source::bare_name),
            "path": told.place.file,
            "file": told.place.file.as_deref().map(|file| sources.name(file)),
            "line": told.place.line,
            "site": place(&step.place, sources),
            "stack": step.stack.iter().map(|one| place(one, sources)).collect::<Vec<_>>(),
        })
    });
    let accepted = one.accepted.iter().map(|accepted| accepted.sentence());
    let notes = one.notes.iter().cloned().chain(accepted);
    let who = story::who(one);
    let spawned = one.transactions.iter().filter_map(|thread| {
        let at = where_(thread.spawned.as_ref()?, sources)?;
        Some((story::named_thread(&thread.thread).into_owned(), at.into()))
    });
    let engines: BTreeSet<&str> = ([one.engine.as_str()].into_iter())
        .chain(one.agreeing.iter().map(|one| one.engine.as_str()))
        .collect();
    json!({
        "rank": one.rank,
        "code": one.anomaly,
        "criterion": one.criterion,
        "headline": story::headline(one),
        "who": who.trim_matches('`'),
        "file": file,
        "at": at,
        "between": story::between(one, file.as_deref()),
        "engines": engines,
        "count": one.total,
        "evidence": story::evidence(one),
        "help": story::help(one),
        "doubt": story::doubt(one),
        "about": story::about(one),
        "notes": notes.collect::<Vec<_>>(),
        "also": story::also(one),
        "spawned": spawned.collect::<Map<String, Value>>(),
        "fingerprint": one.fingerprint,
        "edges": one.edges,
        "steps": steps.collect::<Vec<_>>(),
        "windows": windows(one, &told, sources, lines),
    })
}

/// The lines that are shown beside the diagram, the culprit's file first.
fn windows(
    one: &Report,
    told: &[story::Told],
    sources: &Sources,
    all: &mut BTreeMap<String, BTreeSet<u32>>,
) -> Vec<Value> {
    let mut files: Vec<(&str, BTreeSet<u32>)> = Vec::new();
    if let Some(file) = &one.culprit.file {
        files.push((file, BTreeSet::new()));
    }
    for step in told {
        let (Some(file), Some(line)) = (&step.place.file, step.place.line) else {
            continue;
        };
        let known = sources.lines(file);
        let at = files
            .iter()
            .position(|(name, _)| name == file)
            .unwrap_or(files.len());
        if at == files.len() {
            files.push((file, BTreeSet::new()));
        }
        let around = line.saturating_sub(AROUND)..=line.saturating_add(AROUND);
        let lines = &mut files[at].1;
        lines.extend(around.filter(|line| known.contains_key(line)));
        if let (true, Some(function)) = (step.culprit, &step.place.function) {
            lines.extend(source::heading(&known, function, line));
        }
    }
    let windows = files.into_iter().filter(|(_, lines)| !lines.is_empty());
    windows
        .map(|(file, lines)| {
            all.entry(file.to_owned()).or_default().extend(&lines);
            json!({"path": file, "name": sources.name(file), "lines": lines})
        })
        .collect()
}

fn excerpts(lines: &BTreeMap<String, BTreeSet<u32>>, sources: &Sources) -> Value {
    let files = lines.iter().map(|(file, numbers)| {
        let known = sources.lines(file);
        let texts = numbers
            .iter()
            .filter_map(|number| Some((number.to_string(), known.get(number)?.clone().into())));
        (file.clone(), Value::Object(texts.collect()))
    });
    Value::Object(files.collect())
}

fn place(place: &Place, sources: &Sources) -> Value {
    json!({
        "library": place.file.as_deref().is_some_and(source::is_library),
        "function": place.function,
        "file": place.file.as_deref().map(|file| sources.name(file)),
        "line": place.line,
    })
}

fn where_(place: &Place, sources: &Sources) -> Option<String> {
    let file = sources.name(place.file.as_deref()?);
    Some(format!("{file}:{}", place.line?))
}

/// Silver's yields, as its product has them: lines of fields that are separated by tabs.
fn yields(
    product: &str,
    sources: &Sources,
    lines: &mut BTreeMap<String, BTreeSet<u32>>,
) -> Vec<Value> {
    let mut yields: Vec<Value> = Vec::new();
    if !product.starts_with("atomsan yields") {
        return yields;
    }
    for record in product.lines().skip(1) {
        let fields: Vec<&str> = record.split('\t').collect();
        let [kind, count, at, function, ..] = fields.as_slice() else {
            continue;
        };
        let mut parts = at.rsplitn(3, ':').skip(1);
        let line: u32 = parts.next().and_then(|line| line.parse().ok()).unwrap_or(0);
        let file = parts.next().unwrap_or("");
        let count: u64 = count.parse().unwrap_or(0);
        match (*kind, yields.last_mut()) {
            ("yield", _) => {
                let known = sources.lines(file);
                let around = line.saturating_sub(AROUND)..=line.saturating_add(AROUND);
                let shown = around.filter(|line| known.contains_key(line));
                lines.entry(file.to_owned()).or_default().extend(shown);
                yields.push(json!({
                    "path": file, "name": sources.name(file), "line": line,
                    "function": function, "count": count, "with": [],
                }));
            }
            ("with", Some(last)) => {
                let name = sources.name(file);
                let short = name.rsplit('/').next().unwrap_or(&name);
                if let Some(with) = last["with"].as_array_mut() {
                    let function = source::bare_name(function);
                    with.push(format!("{function} ({short}:{line})").into());
                }
            }
            _ => {}
        }
    }
    yields
}

/// A line is one place of the map, though a line of several calls may need several yields, and
/// several runs may need the same.
fn by_line(yields: Vec<Value>) -> Vec<Value> {
    let mut lines: Vec<Value> = Vec::new();
    for one in yields {
        let same =
            |known: &&mut Value| known["path"] == one["path"] && known["line"] == one["line"];
        let Some(known) = lines.iter_mut().find(same) else {
            lines.push(one);
            continue;
        };
        let count = |value: &Value| value["count"].as_u64().unwrap_or(0);
        known["count"] = (count(known) + count(&one)).into();
        if let (Some(with), Value::Array(more)) = (known["with"].as_array_mut(), &one["with"]) {
            for other in more {
                if !with.contains(other) {
                    with.push(other.clone());
                }
            }
        }
    }
    lines
}

/// What Silver counted, if it was asked to: for each program, shares in percent.
fn density(documents: &[Document]) -> Vec<Value> {
    let of_document = |document: &Document| {
        let silver = (document.engines.iter()).find(|engine| engine.name == "silver")?;
        let share = |who: &str| {
            let stat = silver.stats.get(&format!("{who} density (per 10,000)"))?;
            Some(stat.as_f64()? / 100.0)
        };
        Some(json!({
            "name": document.file.rsplit('/').next(),
            "preemptive": share("preemptive")?,
            "cooperative": share("cooperative")?,
            "atomic": share("atomic")?,
        }))
    };
    documents.iter().filter_map(of_document).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::report;

    #[test]
    fn names_cannot_leave_the_data() {
        let mut hostile = report();
        hostile.culprit.function =
            Some("</script><script>alert(1)</script><!--{{script}}".to_owned());
        hostile.witness[0].thread = "\u{2028}\u{0}\u{1b}[2J&amp;\"'".to_owned();
        let document = Document {
            findings: vec![hostile],
            ..Document::default()
        };
        let page = render(&[document], &Sources::default());
        let (_, rest) = page.split_once("id=\"data\">").unwrap();
        let (data, rest) = rest.split_once("</script>").unwrap();
        assert!(
            rest.trim_start().starts_with("<script>\n\"use strict\""),
            "{rest:.60}"
        );
        let data: Value = serde_json::from_str(data).unwrap();
        let finding = &data["findings"][0];
        assert_eq!(
            finding["who"],
            "</script><script>alert(1)</script><!--{{script}}"
        );
        assert!(
            finding["steps"][0]["thread"]
                .as_str()
                .unwrap()
                .contains('\u{2028}')
        );
    }
}
