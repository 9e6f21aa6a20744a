//! From a finding in ids to a report in names.

use crate::accepted::Accepted;
use crate::gather::Agreeing;
use crate::rank::{self, Rank};
use crate::subjects::tell_apart;
use crate::words;
use atomsan_trace::finding::{Anomaly, Finding};
use atomsan_trace::names::Frame;
use atomsan_trace::{FunctionId, Names, Op, SiteId, StackId, Stacks};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

/// A place in the program, by name.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Place {
    /// The function, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The file, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line, or the location number of a trace that has no files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// Where the program is wrong.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Culprit {
    /// The function or region that is not atomic.
    pub function: Option<String>,
    /// Its file, if known.
    pub file: Option<String>,
    /// The two lines between which it was split.
    pub lines: Vec<u32>,
}

/// One step of a witness, by name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// The thread.
    pub thread: String,
    /// What it did.
    pub op: String,
    /// To what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Where.
    #[serde(flatten)]
    pub place: Place,
    /// Position in the trace, from 1.
    pub event: u64,
    /// Number of the transaction it belongs to, in this report; 0 is the culprit's.
    pub transaction: usize,
    /// What it is to the finding, if there is something to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The calls that led there, innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<Place>,
}

/// A transaction, by name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Transaction {
    /// Its thread.
    pub thread: String,
    /// Where that thread was started, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawned: Option<Place>,
    /// Its region; `None` if it is a single event outside of all regions.
    pub region: Option<String>,
    /// Whether it is not serializable itself.
    pub blamed: bool,
}

/// A finding, by name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The engine.
    pub engine: String,
    /// What is violated.
    pub criterion: String,
    /// How it is known.
    pub status: String,
    /// How much attention it deserves.
    pub rank: Rank,
    /// The anomaly's code.
    pub anomaly: String,
    /// The anomaly in one sentence.
    pub message: String,
    /// Where the program is wrong.
    pub culprit: Culprit,
    /// The transactions involved.
    pub transactions: Vec<Transaction>,
    /// The steps, in order.
    pub witness: Vec<Step>,
    /// Dependences between steps.
    pub edges: Vec<(usize, usize)>,
    /// Position in the trace at which the violation was complete, from 1.
    pub event: u64,
    /// How often it was seen exactly so.
    pub count: u64,
    /// How often this engine saw the mistake, in all the ways that are one finding.
    #[serde(default)]
    pub total: u64,
    /// What else there is to say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Other engines that found the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agreeing: Vec<Agreeing>,
    /// The same mistake seen at other places of the same function: other lines of it, other
    /// accesses. Each is a report of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Report>,
    /// Why it is not held against the program; none if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Accepted>,
    /// Identifies the finding across runs and edits.
    pub fingerprint: String,
    /// The fingerprints of the other ways in which the mistake was seen: what has one of them is
    /// this finding.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<String>,
}

/// Turns ids into names. Where threads were started is for the caller to say.
pub fn resolve(finding: &Finding, names: &Names, stacks: &Stacks) -> Report {
    let resolver = Resolver { names };
    let function = finding.culprit.region.and_then(|f| resolver.function(f));
    let (first, second) = finding.culprit.between;
    let region = finding.culprit.region;
    let (first, second) = (
        resolver.line_in(first, region),
        resolver.line_in(second, region),
    );
    let ops: Vec<Op> = finding.witness.iter().map(|step| step.event.op).collect();
    let targets = ops.iter().map(|&op| words::target(op, names));
    let mut targets: Vec<Option<String>> = targets.collect();
    // A lock may be called what it protects.
    tell_apart(&mut targets, ops.iter().map(|op| op.var()));
    tell_apart(&mut targets, ops.iter().map(|op| op.lock()));
    let witness: Vec<Step> = finding
        .witness
        .iter()
        .zip(targets)
        .map(|(step, target)| {
            let calls: Vec<(FunctionId, SiteId)> = stacks.frames(step.stack).collect();
            let innermost = calls.first().map(|(function, _)| *function);
            let mut stack = Vec::new();
            for (at, (_, call)) in calls.iter().enumerate() {
                let caller = calls.get(at + 1).map(|(function, _)| *function);
                stack.push(resolver.place(*call, caller));
            }
            Step {
                thread: names.thread(step.event.thread).into_owned(),
                op: words::verb(step.event.op).to_owned(),
                target,
                place: resolver.place(step.event.site, innermost),
                event: step.index + 1,
                transaction: step.participant,
                note: words::role(step.role).map(str::to_owned),
                stack,
            }
        })
        .collect();
    Report {
        engine: finding.engine.to_owned(),
        criterion: words::criterion(finding.criterion).to_owned(),
        status: words::status(finding.status).to_owned(),
        rank: Rank::of(finding, names),
        anomaly: words::code(finding.anomaly).to_owned(),
        message: words::sentence(finding.anomaly).into_owned(),
        fingerprint: fingerprint(finding, function.as_deref(), &first, &second, &witness),
        culprit: Culprit {
            function,
            file: first.file.clone().or(second.file.clone()),
            lines: first.line.into_iter().chain(second.line).collect(),
        },
        transactions: finding
            .participants
            .iter()
            .map(|participant| Transaction {
                thread: names.thread(participant.thread).into_owned(),
                spawned: None,
                region: participant
                    .region
                    .map(|region| resolver.region(region, participant.entered)),
                blamed: participant.blamed,
            })
            .collect(),
        witness,
        edges: finding.edges.clone(),
        event: finding.index + 1,
        count: finding.count,
        total: finding.count,
        notes: notes(finding, names),
        agreeing: Vec::new(),
        also: Vec::new(),
        accepted: None,
        ways: Vec::new(),
    }
}

/// What else there is to say.
fn notes(finding: &Finding, names: &Names) -> Vec<String> {
    let mut notes = finding.notes.clone();
    if finding.anomaly == Anomaly::LostUpdate
        && let Some(look) = rank::looked_again(finding, names)
    {
        notes.push(match look {
            SiteId::UNKNOWN => {
                "what is written here may not depend on what was read before: right, if it does not"
                    .to_owned()
            }
            _ => "the critical section of the write looks again before it writes: right, if only \
                  that look decides"
                .to_owned(),
        });
    }
    notes
}

/// A place that a person wrote: an event's own, or, if it is in no file of a person's (inside of a
/// library without lines), the nearest call that is.
pub fn resolve_call(site: SiteId, stack: StackId, names: &Names, stacks: &Stacks) -> Place {
    let resolver = Resolver { names };
    let calls: Vec<(FunctionId, SiteId)> = stacks.frames(stack).collect();
    let innermost = calls.first().map(|(function, _)| *function);
    let own = resolver.place(site, innermost);
    if own.line.is_some() {
        return own;
    }
    let callers = calls.iter().skip(1).map(|(function, _)| Some(*function));
    let callers = callers.chain([None]);
    let mut places =
        (calls.iter().zip(callers)).map(|((_, call), caller)| resolver.place(*call, caller));
    places.find(|place| place.line.is_some()).unwrap_or(own)
}

struct Resolver<'a> {
    names: &'a Names,
}

impl Resolver<'_> {
    fn function(&self, id: FunctionId) -> Option<String> {
        let name = self.names.function_name(id);
        (!name.is_empty()).then(|| name.into_owned())
    }

    /// A region by its name, or by where it was entered if it has none.
    fn region(&self, id: FunctionId, entered: SiteId) -> String {
        self.function(id).unwrap_or_else(|| {
            let place = self.place(entered, None);
            match (place.file, place.line) {
                (Some(file), Some(line)) => format!("region at {file}:{line}"),
                (None, Some(line)) => format!("region at location {line}"),
                _ => "region".to_owned(),
            }
        })
    }

    /// The place in a function: where a site is inside of something that was inlined, the line
    /// of the function that it was inlined into.
    fn line_in(&self, site: SiteId, function: Option<FunctionId>) -> Place {
        let frames = self.names.site(site).map_or(&[][..], |site| &site.frames);
        let own = frames
            .iter()
            .find(|frame| function.is_some() && frame.function == function);
        match own.filter(|frame| frame.line != 0) {
            Some(frame) => self.framed(Some(frame), function),
            None => self.place(site, None),
        }
    }

    /// `function` is used where the site does not say in which function it is.
    fn place(&self, site: SiteId, function: Option<FunctionId>) -> Place {
        self.framed(
            self.names.site(site).and_then(|site| site.frame()),
            function,
        )
    }

    fn framed(&self, frame: Option<&Frame>, function: Option<FunctionId>) -> Place {
        let function = frame.and_then(|frame| frame.function).or(function);
        Place {
            function: function.and_then(|function| self.function(function)),
            file: frame
                .map(|frame| frame.file.to_string())
                .filter(|file| !file.is_empty()),
            line: frame
                .filter(|frame| frame.line != 0 || frame.is_bare())
                .map(|frame| frame.line),
        }
    }
}

/// No addresses, no line numbers, no thread names where there are files: what is left survives
/// edits elsewhere in the file. In traces without files the location number is all there is.
fn fingerprint(
    finding: &Finding,
    function: Option<&str>,
    first: &Place,
    second: &Place,
    witness: &[Step],
) -> String {
    let mut hash = Xxh3::new();
    let mut add = |text: &str| {
        hash.update(text.as_bytes());
        hash.update(&[0]);
    };
    add(words::criterion(finding.criterion));
    add(words::code(finding.anomaly));
    add(function.unwrap_or(""));
    for place in [first, second] {
        match (&place.file, place.line) {
            (Some(file), _) => add(file.rsplit(['/', '\\']).next().unwrap_or(file)),
            (None, Some(line)) => add(&line.to_string()),
            (None, None) => add(""),
        }
    }
    for step in witness {
        add(&step.op);
        add(step.place.function.as_deref().unwrap_or(""));
    }
    format!("{:016x}", hash.digest())
}
