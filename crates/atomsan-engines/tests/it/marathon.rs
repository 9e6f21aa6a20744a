//! Marathon: the paper's figures by name, and random traces against the definition.

use crate::atomic_sets::{self, Declared, FIELDS, FUNCTIONS, Rules};
use crate::oracle;
use crate::random::{self, Shape};
use crate::trace::{Trace, Verdict};
use atomsan_engines::marathon::{Choice, Declaration, Marathon, Options};
use atomsan_engines::velodrome::{self, Velodrome};
use atomsan_engines::{Context, Engine, Findings, Occurrence};
use atomsan_trace::finding::{Anomaly, Criterion, Status};
use atomsan_trace::{Event, FunctionId, LockId, ObjectId, Op, SiteId, Stacks, ThreadId, VarId};
use proptest::prelude::*;
use std::path::Path;

fn heuristic() -> Marathon {
    Marathon::new(Options::default())
}

fn everything() -> Marathon {
    Marathon::new(Options {
        sets: Choice::Everything,
    })
}

fn declared(text: &str) -> Marathon {
    let declaration = Declaration::parse(Path::new("sets"), text).unwrap();
    Marathon::new(Options {
        sets: Choice::Declared(declaration),
    })
}

fn velodrome(trace: &Trace) -> Verdict {
    let options = velodrome::Options { sync_edges: false };
    trace.run(Velodrome::new(options))
}

/// The events at which an engine reports.
fn reported(trace: &Trace, mut engine: impl Engine) -> Vec<u64> {
    let (mut findings, mut stacks) = (Findings::default(), Stacks::default());
    let mut reported = Vec::new();
    for (index, event) in trace.events.iter().enumerate() {
        let at = Occurrence {
            index: index as u64,
            stack: stacks.step(event),
            event: *event,
        };
        let before = findings.total();
        let mut cx = Context {
            names: &trace.names,
            stacks: &stacks,
            findings: &mut findings,
        };
        engine.event(&at, &mut cx);
        if findings.total() > before {
            reported.push(index as u64);
        }
    }
    reported
}

fn rules_and_traces() -> impl Strategy<Value = (Rules, Trace)> {
    let rules = prop_oneof![
        4 => Just(Rules::Heuristic),
        4 => declarations().prop_map(Rules::Declared),
        1 => Just(Rules::Everything),
    ];
    (rules, object_traces())
}

fn declarations() -> impl Strategy<Value = Declared> {
    let sets = 1..=3usize;
    sets.prop_flat_map(|sets| {
        let units = (
            0..FUNCTIONS.len(),
            any::<bool>(),
            prop::collection::vec(0..sets, 1..=sets),
        );
        (
            prop::collection::vec(any::<bool>(), sets),
            prop::collection::vec(prop::option::weighted(0.9, 0..sets), FIELDS.len()),
            prop::collection::vec(units, 0..6),
            prop::collection::vec(0..FIELDS.len(), 0..4),
        )
    })
    .prop_map(|(sets, members, units, owned)| Declared {
        sets,
        members,
        units,
        owned,
    })
}

/// Random traces about the fields and functions of [`atomic_sets`]. How many of the fields there
/// are is random, too: few make conflicts likely, many make merges likely.
fn object_traces() -> impl Strategy<Value = Trace> {
    let choices = prop::collection::vec((0..3u32, 0..40u8, any::<u8>()), 2..50);
    (2..=FIELDS.len(), choices).prop_map(|(fields, choices)| {
        let mut events = Vec::new();
        for (thread, action, target) in choices {
            let x = VarId(u32::from(target) % fields as u32);
            let function = FunctionId(u32::from(target) % FUNCTIONS.len() as u32);
            let object = ObjectId(u32::from(target / 16) % 3);
            let op = match action {
                0..=8 => Op::Read(x),
                9..=17 => Op::Write(x),
                18 => Op::AtomicRmw(x),
                19..=21 => Op::Begin(function),
                22..=23 => Op::End,
                24..=29 => Op::Enter(function),
                30..=32 => Op::Exit(function),
                33 => Op::Wait(LockId(0)),
                34 => Op::Arrive(LockId(1)),
                35..=38 => Op::RefStore { into: x, object },
                _ => Op::Free(object),
            };
            events.push(Event {
                thread: ThreadId(thread),
                site: SiteId(events.len() as u32 + 1),
                op,
            });
        }
        Trace {
            events,
            names: atomic_sets::names(),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    /// The first violation of each set is reported where it happens, and everything that is
    /// reported is a cycle.
    #[test]
    fn reports_are_the_cycles_of_the_projections((rules, trace) in rules_and_traces()) {
        let engine = match &rules {
            Rules::Heuristic => heuristic(),
            Rules::Declared(file) => declared(&file.text()),
            Rules::Everything => everything(),
        };
        let reported = reported(&trace, engine);
        let truth = atomic_sets::violations(&trace.events, &trace.names, &rules);
        for first in truth.iter().filter_map(|violations| violations.first()) {
            prop_assert!(reported.contains(first), "{first} of {truth:?} is not in {reported:?}");
        }
        for index in &reported {
            prop_assert!(truth.iter().any(|all| all.contains(index)), "{index} is not in {truth:?}");
        }
    }

    /// "If a coarser granularity of data is desired, all locations can be placed in a single atomic
    /// set, in which case our method reverts to conflict-serializability."
    #[test]
    fn one_set_of_everything_is_conflict_serializability(trace in random::traces(Shape::small())) {
        let truth = oracle::judge(&trace, false);
        let marathon = trace.run(everything());
        let velodrome = velodrome(&trace);
        let first = |verdict: &Verdict| verdict.findings.first().map(|finding| finding.index);
        prop_assert_eq!(first(&marathon), truth.violations.first().copied());
        prop_assert_eq!(first(&marathon), first(&velodrome));
    }
}
