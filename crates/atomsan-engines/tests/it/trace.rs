//! Traces written by hand in tests, and running engines on them.
//!
//! One event a line, `thread op arguments`; blank lines and what follows `//` do not count. The
//! site of an event is its line number in the text, so a test can say which lines a finding names.

use atomsan_engines::{Context, Engine, Findings, Occurrence, Stat};
use atomsan_trace::finding::{Finding, Role};
use atomsan_trace::names::{Definition, Frame, Names, Site, Var};
use atomsan_trace::{
    Event, FunctionId, LockId, ObjectId, Op, SiteId, Spec, Stacks, ThreadId, VarId,
};
use std::collections::HashMap;
use std::path::Path;

/// Events and their names.
#[derive(Clone, Default)]
pub struct Trace {
    pub events: Vec<Event>,
    pub names: Names,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f)?;
        for (index, event) in self.events.iter().enumerate() {
            writeln!(f, "{index:3}  t{} {:?}", event.thread.0, event.op)?;
        }
        Ok(())
    }
}

/// What an engine said about a trace.
#[derive(Debug)]
pub struct Verdict {
    pub findings: Vec<Finding>,
    /// Violations with repetitions.
    pub total: u64,
    pub stats: Vec<Stat>,
    pub remarks: Vec<String>,
}

impl Verdict {
    pub fn stat(&self, name: &str) -> u64 {
        let stat = self.stats.iter().find(|stat| stat.name == name);
        stat.unwrap_or_else(|| panic!("no figure named {name}: {:?}", self.stats))
            .value
    }

    /// The lines at which each finding of a reduction was entered, committed and violated.
    pub fn reduction_lines(&self) -> Vec<[u32; 3]> {
        let steps = |finding: &Finding| {
            let roles: Vec<Role> = finding.witness.iter().map(|step| step.role).collect();
            assert_eq!(roles, [Role::Entered, Role::Committed, Role::Violated]);
            [0, 1, 2].map(|at| finding.witness[at].event.site.0)
        };
        self.findings.iter().map(steps).collect()
    }
}

impl Trace {
    pub fn new(events: Vec<Event>) -> Trace {
        Trace {
            events,
            names: Names::default(),
        }
    }

    pub fn parse(text: &str) -> Trace {
        Trace::parse_with_spec(text, "")
    }

    /// `spec` is the text of a specification: which functions are atomic.
    pub fn parse_with_spec(text: &str, spec: &str) -> Trace {
        let spec = Spec::parse(Path::new("spec"), spec).unwrap();
        let mut parser = Parser {
            names: Names::new(spec),
            known: HashMap::new(),
        };
        let mut events = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split("//").next().unwrap().trim();
            let words: Vec<&str> = line.split_whitespace().collect();
            parser.define_line(number as u32 + 1);
            if !words.is_empty() {
                events.push(parser.event(number as u32 + 1, &words));
            }
        }
        Trace {
            events,
            names: parser.names,
        }
    }

    /// Runs an engine over the whole trace.
    pub fn run(&self, mut engine: impl Engine) -> Verdict {
        self.feed(&mut engine)
    }

    /// Runs an engine that has more to say than its verdict.
    pub fn feed(&self, engine: &mut impl Engine) -> Verdict {
        let mut findings = Findings::default();
        let mut stacks = Stacks::default();
        let occurrences: Vec<Occurrence> = (self.events.iter().enumerate())
            .map(|(index, event)| Occurrence {
                index: index as u64,
                stack: stacks.step(event),
                event: *event,
            })
            .collect();
        let mut cx = Context {
            names: &self.names,
            stacks: &stacks,
            findings: &mut findings,
        };
        engine.events(&occurrences, &mut cx);
        engine.finish(&mut cx);
        Verdict {
            total: findings.total(),
            findings: findings.into_list(),
            stats: engine.stats(),
            remarks: engine.remarks(),
        }
    }
}

impl Trace {
    /// The stacks of a finding's steps, innermost function first, joined by `<`; empty ones left
    /// out.
    pub fn stacks_of(&self, finding: &Finding) -> Vec<String> {
        let mut stacks = Stacks::default();
        self.events.iter().for_each(|event| {
            stacks.step(event);
        });
        let name = |(function, _)| self.names.function_name(function).into_owned();
        (finding.witness.iter())
            .map(|step| stacks.frames(step.stack).map(name).collect::<Vec<_>>())
            .filter(|frames| !frames.is_empty())
            .map(|frames| frames.join("<"))
            .collect()
    }
}

struct Parser {
    names: Names,
    known: HashMap<(&'static str, String), u32>,
}

impl Parser {
    fn define_line(&mut self, line: u32) {
        let frame = Frame {
            file: "test".into(),
            line,
            ..Frame::default()
        };
        self.names.define(Definition::Site(Site {
            frames: vec![frame],
            ..Site::default()
        }));
    }

    fn id(&mut self, kind: &'static str, name: &str) -> u32 {
        if let Some(&id) = self.known.get(&(kind, name.to_owned())) {
            return id;
        }
        // `object.field` is a field of an object.
        let object = match name.split_once('.') {
            Some((object, _)) if kind == "var" => Some(ObjectId(self.id("object", object))),
            _ => None,
        };
        let id = self.known.keys().filter(|(k, _)| *k == kind).count() as u32;
        self.known.insert((kind, name.to_owned()), id);
        self.names.define(match kind {
            "thread" => Definition::Thread(name.into()),
            "var" => Definition::Var(Var {
                name: name.into(),
                object,
                volatile: false,
            }),
            "lock" => Definition::Lock(name.into()),
            "function" => Definition::Function(name.into()),
            _ => Definition::Object(name.into()),
        });
        id
    }

    fn event(&mut self, line: u32, words: &[&str]) -> Event {
        let argument = |at: usize| words.get(at).copied().unwrap_or("");
        let thread = ThreadId(self.id("thread", words[0]));
        let mut id = |kind| self.id(kind, argument(2));
        let op = match argument(1) {
            "begin" => Op::Begin(FunctionId(id("function"))),
            "end" => Op::End,
            "r" => Op::Read(VarId(id("var"))),
            "w" => Op::Write(VarId(id("var"))),
            "load" => Op::AtomicLoad(VarId(id("var"))),
            "store" => Op::AtomicStore(VarId(id("var"))),
            "rmw" => Op::AtomicRmw(VarId(id("var"))),
            "casfail" => Op::AtomicRmwFailed(VarId(id("var"))),
            "acq" => Op::Acquire(LockId(id("lock"))),
            "rel" => Op::Release(LockId(id("lock"))),
            "acqs" => Op::AcquireShared(LockId(id("lock"))),
            "rels" => Op::ReleaseShared(LockId(id("lock"))),
            "wait" => Op::Wait(LockId(id("lock"))),
            "woken" => Op::Woken(LockId(id("lock"))),
            "notify" => Op::Notify(LockId(id("lock"))),
            "fork" => Op::Fork(ThreadId(id("thread"))),
            "join" => Op::Join(ThreadId(id("thread"))),
            "arrive" => Op::Arrive(LockId(id("lock"))),
            "leave" => Op::Leave(LockId(id("lock"))),
            "yield" => Op::Yield,
            "enter" => Op::Enter(FunctionId(id("function"))),
            "exit" => Op::Exit(FunctionId(id("function"))),
            "alloc" => Op::Alloc(ObjectId(id("object"))),
            "free" => Op::Free(ObjectId(id("object"))),
            "ref" => Op::RefStore {
                into: VarId(id("var")),
                object: ObjectId(self.id("object", argument(3))),
            },
            other => panic!("line {line}: no operation {other:?}"),
        };
        Event {
            thread,
            site: SiteId(line),
            op,
        }
    }
}
