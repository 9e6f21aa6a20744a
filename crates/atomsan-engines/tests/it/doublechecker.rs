//! DoubleChecker: the paper's Fig. 3 by name, and random traces against the definition, Velodrome,
//! and between its own modes.

use crate::oracle;
use crate::random::{self, Shape};
use crate::serializability::check_witness;
use crate::trace::{Trace, Verdict};
use atomsan_engines::doublechecker::places::Granularity;
use atomsan_engines::doublechecker::runs::StaticInfo;
use atomsan_engines::doublechecker::{DoubleChecker, Mode, Options};
use atomsan_engines::velodrome::{self, Velodrome};
use atomsan_trace::names::{Definition, Var};
use atomsan_trace::{Event, ObjectId, Op, ThreadId};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A transaction of a component: its thread, and from where to where in the trace it ran.
#[derive(Clone, Copy, Debug)]
struct Member {
    thread: ThreadId,
    began: u64,
    ended: u64,
    regular: bool,
}

#[derive(Clone, Debug)]
struct Component {
    members: Vec<Member>,
    /// All edges of the graph, as positions of the first events of two transactions.
    edges: BTreeSet<(u64, u64)>,
}

impl Component {
    fn contains(&self, thread: ThreadId, index: u64) -> bool {
        let mut members = self.members.iter();
        members.any(|m| m.thread == thread && (m.began..m.ended).contains(&index))
    }
}

/// Runs the engine and also returns what ICD found.
fn watch(trace: &Trace, options: Options) -> (Verdict, Vec<Component>) {
    let components = Arc::new(Mutex::new(Vec::new()));
    let mut engine = DoubleChecker::new(options);
    let seen = components.clone();
    engine.observe(move |icd| {
        let idg = icd.idg();
        let began = |tx| idg.get(tx).unwrap().began.index;
        let members = idg.component().map(|tx| {
            let transaction = idg.get(tx).unwrap();
            Member {
                thread: transaction.thread,
                began: transaction.began.index,
                ended: transaction.ended.unwrap(),
                regular: transaction.region.is_some(),
            }
        });
        let edges = idg.transactions().flat_map(|(tx, _)| {
            let successors = idg.successors(tx);
            successors.map(move |to| (began(tx), began(to)))
        });
        seen.lock().unwrap().push(Component {
            members: members.collect(),
            edges: edges.collect(),
        });
    });
    let verdict = trace.run(engine);
    let components = components.lock().unwrap().clone();
    (verdict, components)
}

fn single_run(trace: &Trace) -> Verdict {
    trace.run(DoubleChecker::new(Options::default()))
}

/// The first run's result, through its file.
fn first_run(trace: &Trace, options: &Options) -> StaticInfo {
    let mut engine = DoubleChecker::new(Options {
        mode: Mode::FirstRun,
        ..options.clone()
    });
    let verdict = trace.feed(&mut engine);
    assert!(verdict.findings.is_empty(), "a first run reports nothing");
    let text = engine.static_info().to_string();
    StaticInfo::parse(Path::new("first"), &text).unwrap()
}

/// All violations, as the positions that complete them.
fn violations(verdict: &Verdict) -> BTreeSet<u64> {
    verdict
        .findings
        .iter()
        .map(|finding| finding.index)
        .collect()
}

/// The trace with its variables in objects: all but the last in one.
fn with_objects(mut trace: Trace, vars: u32) -> Trace {
    for number in 0..vars {
        trace.names.define(Definition::Var(Var {
            name: format!("v{number}").into(),
            object: Some(ObjectId(u32::from(number + 1 == vars))),
            volatile: false,
        }));
    }
    trace
}

/// Single run, and two runs, against the definition and Velodrome.
fn agree(trace: &Trace, options: &Options) -> Result<(), TestCaseError> {
    let sync_edges = options.sync_edges;
    let truth = oracle::judge(trace, sync_edges);
    let (verdict, components) = watch(trace, options.clone());
    let found = violations(&verdict);
    prop_assert_eq!(found.first(), truth.violations.first());
    let velodrome = trace.run(Velodrome::new(velodrome::Options { sync_edges }));
    // Repetitions are not logged, so it is the transactions that compare, not the events.
    let culprits = |violations: &BTreeSet<u64>| -> BTreeSet<usize> {
        let violations = violations.iter();
        violations
            .map(|&index| truth.transactions[index as usize])
            .collect()
    };
    let (here, there) = (culprits(&found), culprits(&violations(&velodrome)));
    prop_assert!(
        there.is_subset(&here),
        "velodrome has {there:?} but here are {here:?}"
    );
    for finding in &verdict.findings {
        prop_assert_eq!(finding.engine, "doublechecker");
        check_witness(trace, &truth, finding, sync_edges)?;
    }
    for cycle in cycles(trace, &truth, sync_edges) {
        let inside = components.iter().any(|component| {
            let mut events = cycle.iter();
            events.all(|&index| component.contains(trace.events[index].thread, index as u64))
        });
        prop_assert!(inside, "{cycle:?} in none of {components:?}");
    }
    let second = trace.run(DoubleChecker::new(Options {
        mode: Mode::SecondRun(first_run(trace, options)),
        ..options.clone()
    }));
    // A violation may hide later ones of the same component, so only the first must be the same.
    let again = violations(&second);
    prop_assert_eq!(again.first(), found.first());
    for finding in &second.findings {
        check_witness(trace, &truth, finding, sync_edges)?;
    }
    Ok(())
}

/// The strongly connected components of the full conflict graph: of each, one event of each
/// transaction that is regular or itself a source of dependences.
fn cycles(trace: &Trace, truth: &oracle::Truth, sync_edges: bool) -> Vec<Vec<usize>> {
    let transactions = &truth.transactions;
    let count = transactions.iter().max().map_or(0, |max| max + 1);
    let mut edges = vec![Vec::new(); count];
    for later in 0..trace.events.len() {
        for earlier in 0..later {
            let (from, to) = (transactions[earlier], transactions[later]);
            let conflict =
                oracle::conflict(&trace.events[earlier], &trace.events[later], sync_edges);
            if from != to && conflict && !edges[from].contains(&to) {
                edges[from].push(to);
            }
        }
    }
    let mut first = vec![usize::MAX; count];
    let mut events = vec![0; count];
    for (index, &transaction) in transactions.iter().enumerate() {
        first[transaction] = first[transaction].min(index);
        events[transaction] += 1;
    }
    let counts = |transaction: usize| {
        let event: &Event = &trace.events[first[transaction]];
        events[transaction] > 1
            || event.op.var().is_some()
            || sync_edges
                && matches!(
                    event.op,
                    Op::Release(_) | Op::ReleaseShared(_) | Op::Wait(_) | Op::Arrive(_)
                )
    };
    let mut done = vec![false; count];
    let mut result = Vec::new();
    for start in 0..count {
        let together = |other: usize| {
            oracle::reaches(&edges, start, other) && oracle::reaches(&edges, other, start)
        };
        if done[start] || edges[start].is_empty() {
            continue;
        }
        let members: Vec<usize> = (start..count).filter(|&other| together(other)).collect();
        members.iter().for_each(|&member| done[member] = true);
        if members.len() > 1 {
            let members = members.into_iter().filter(|&member| counts(member));
            result.push(members.map(|member| first[member]).collect());
        }
    }
    result
}

fn cases(count: u32) -> ProptestConfig {
    ProptestConfig::with_cases(count)
}

proptest! {
    #![proptest_config(cases(100_000))]
    #[test]
    fn everything_undisciplined(trace in random::traces(Shape::small())) {
        agree(&trace, &Options::default())?;
    }
}
