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

/// A transaction that stays open reaches all that others do. There is a limit to that, which is said; what
/// comes after it is checked as before.
#[test]
fn a_transaction_that_stays_open_is_not_kept_at_any_price() {
    let mut text =
        "t1 begin slow\n t1 r x\n t1 w y\n t2 begin first\n t2 r y\n t2 end\n".to_owned();
    for turn in 0..30_000 {
        text += &format!("t2 begin f\n t2 w v{}\n t2 end\n", turn % 100);
    }
    text += "t2 begin last\n t2 w x\n t2 end\n t1 w x\n t1 end\n";
    let run = |room| {
        let verdict = Trace::parse(&text).run(DoubleChecker::new(Options {
            room,
            ..Options::default()
        }));
        (verdict.findings.len(), verdict.remarks.len())
    };
    assert_eq!(run(Options::default().room), (1, 0));
    assert_eq!(run(1 << 10).1, 1);
}

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
    let velodrome = trace.run(Velodrome::new(velodrome::Options {
        sync_edges,
        ..velodrome::Options::default()
    }));
    // Repetitions are not logged, so it is the transactions that compare, not the events; and an
    // edge that is refused for one violation may hide another one of the same component.
    let transaction = |index: u64| truth.transactions[index as usize];
    let culprits: BTreeSet<usize> = found.iter().map(|&index| transaction(index)).collect();
    for index in violations(&velodrome) {
        let contains = |component: &Component, index: u64| {
            component.contains(trace.events[index as usize].thread, index)
        };
        let hidden = components.iter().any(|component| {
            contains(component, index) && found.iter().any(|&other| contains(component, other))
        });
        prop_assert!(
            culprits.contains(&transaction(index)) || hidden,
            "velodrome reports {index}, here {found:?}"
        );
    }
    for finding in &verdict.findings {
        prop_assert_eq!(finding.engine, "doublechecker");
        check_witness(trace, &truth, finding, sync_edges)?;
        let other = velodrome
            .findings
            .iter()
            .find(|other| other.witness == finding.witness);
        if let Some(other) = other {
            prop_assert_eq!(&finding.culprit, &other.culprit);
            prop_assert_eq!(&finding.participants, &other.participants);
        }
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

fn by_object() -> Options {
    Options {
        granularity: Granularity::Object,
        ..Options::default()
    }
}

proptest! {
    #![proptest_config(cases(80_000))]
    #[test]
    fn everything_undisciplined(trace in random::traces(Shape::small())) {
        agree(&trace, &Options::default())?;
    }
}

proptest! {
    #![proptest_config(cases(60_000))]
    #[test]
    fn objects_of_two_fields(trace in random::traces(Shape::small())) {
        agree(&with_objects(trace, 3), &by_object())?;
    }
}

proptest! {
    #![proptest_config(cases(30_000))]
    /// Components that are looked for late are the same, or parts of larger ones.
    #[test]
    fn patience(trace in random::traces(Shape::small()), patience in 2..12usize) {
        agree(&trace, &Options { patience, ..Options::default() })?;
    }
}

proptest! {
    #![proptest_config(cases(30_000))]
    #[test]
    fn locks_with_discipline(trace in random::traces(Shape {
        disciplined: true, length: 60, threads: 3, ..Shape::small()
    })) {
        agree(&trace, &Options::default())?;
    }
}

proptest! {
    #![proptest_config(cases(30_000))]
    #[test]
    fn data_conflicts_only(trace in random::traces(Shape { exotic: false, ..Shape::small() })) {
        let options = Options { sync_edges: false, ..by_object() };
        agree(&with_objects(trace, 3), &options)?;
    }
}

proptest! {
    #![proptest_config(cases(1_000))]
    #[test]
    fn long_traces(trace in random::traces(Shape {
        threads: 6, vars: 8, length: 200, ..Shape::small()
    })) {
        agree(&with_objects(trace, 8), &by_object())?;
    }
}

proptest! {
    #![proptest_config(cases(20_000))]
    #[test]
    fn forgetting_checked_transactions_keeps_the_verdict(trace in random::traces(Shape::small())) {
        let truth = oracle::judge(&trace, true);
        let options = Options { component_limit: 1, ..Options::default() };
        let verdict = trace.run(DoubleChecker::new(options));
        prop_assert_eq!(verdict.findings.is_empty(), truth.violations.is_empty());
        for finding in &verdict.findings {
            check_witness(&trace, &truth, finding, true)?;
        }
    }
}

/// The interleaving of Fig. 3. Each transaction is named as in the figure.
const FIGURE_3: &str = "
    T7 begin Tx7
    T7 w p.q          // WrEx T7
    T6 begin Tx6
    T6 r p.q          // RdEx T6
    T5 begin Tx5m
    T5 r p.q          // RdSh c
    T1 begin Tx1i
    T1 w o.f          // WrEx T1
    T2 begin Tx2j
    T2 r o.g          // RdEx T2
    T3 begin Tx3k
    T3 r o.f          // RdSh c+1
    T4 begin Tx4l
    T4 r o.h          // fence
    T4 r p.q          // no fence: T4 has read a more recent RdSh object
    T2 end
    T3 end
    T4 end
    T5 end
    T6 end
    T7 end
    T1 w o.f          // WrEx T1
    T1 end
";

/// The name of the transaction that began at a position.
fn name(trace: &Trace, began: u64) -> String {
    match trace.events[began as usize].op {
        Op::Begin(region) => trace.names.function_name(region).into_owned(),
        other => panic!("{other:?} begins no regular transaction"),
    }
}

fn names(trace: &Trace, component: &Component) -> Vec<String> {
    let members = component.members.iter();
    let mut names: Vec<String> = members.map(|member| name(trace, member.began)).collect();
    names.sort();
    names
}

#[test]
fn figure_3() {
    let trace = Trace::parse(FIGURE_3);
    let (verdict, components) = watch(&trace, by_object());
    assert_eq!(components.len(), 1, "found when Tx1i ends");
    let edges: BTreeSet<(String, String)> = (components[0].edges.iter())
        .map(|&(from, to)| (name(&trace, from), name(&trace, to)))
        .collect();
    let expected = [
        ("Tx7", "Tx6"),   // conflicting, WrEx T7 → RdEx T6
        ("Tx6", "Tx5m"),  // upgrading, from T6.lastRdEx
        ("Tx1i", "Tx2j"), // conflicting, WrEx T1 → RdEx T2
        ("Tx2j", "Tx3k"), // upgrading, from T2.lastRdEx
        ("Tx5m", "Tx3k"), // upgrading, from gLastRdSh
        ("Tx3k", "Tx4l"), // fence, from gLastRdSh
        // Conflicting, RdSh → WrEx T1: from every thread.
        ("Tx2j", "Tx1i"),
        ("Tx3k", "Tx1i"),
        ("Tx4l", "Tx1i"),
        ("Tx5m", "Tx1i"),
        ("Tx6", "Tx1i"),
        ("Tx7", "Tx1i"),
    ];
    let expected = expected.map(|(from, to)| (from.to_owned(), to.to_owned()));
    assert_eq!(edges, BTreeSet::from(expected));
    assert_eq!(verdict.stat("IDG edges"), 12);
    let four = ["Tx1i", "Tx2j", "Tx3k", "Tx4l"];
    assert_eq!(names(&trace, &components[0]), four, "an SCC of size four");

    assert_eq!(verdict.findings.len(), 1);
    let finding = &verdict.findings[0];
    let region = |at: usize| {
        let participant = &finding.participants[at];
        let name = trace.names.function_name(participant.region.unwrap());
        (name.into_owned(), participant.blamed)
    };
    assert_eq!(
        finding.participants.len(),
        2,
        "a precise cycle with just two"
    );
    assert_eq!(region(0), ("Tx1i".into(), true), "PCD blames Tx1i");
    assert_eq!(region(1), ("Tx3k".into(), false));
}

#[test]
fn figure_3_without_rd_o_f_is_an_imprecise_cycle_only() {
    let other = Trace::parse(&FIGURE_3.replace("T3 r o.f ", "T3 r o.g "));
    let (verdict, components) = watch(&other, by_object());
    assert_eq!(
        names(&other, &components[0]),
        ["Tx1i", "Tx2j", "Tx3k", "Tx4l"]
    );
    assert!(verdict.findings.is_empty());

    let without = Trace::parse(&FIGURE_3.replace("T3 r o.f ", "T3 yield "));
    let (verdict, components) = watch(&without, by_object());
    assert_eq!(names(&without, &components[0]), ["Tx1i", "Tx2j", "Tx4l"]);
    assert!(verdict.findings.is_empty());
}

/// The example of `icd`'s documentation: the accesses of T are merged, and one node for them would
/// be in a cycle with D.
const MERGED: &str = "
    D begin d
    D w x
    E r x
    F r x             // x is read-shared
    E r p
    F r p             // p is read-shared, and more recent
    T w y
    T r p             // the only edge into T
    T w y
    T r x             // depends on D, without an edge
    D r y
    D end
";

#[test]
fn merged_unary_accesses_are_nodes_of_their_own() {
    let trace = Trace::parse(MERGED);
    let (verdict, components) = watch(&trace, Options::default());
    assert_eq!(components.len(), 1);
    let unary = components[0]
        .members
        .iter()
        .find(|m| !m.regular && m.began == 7);
    assert_eq!(unary.unwrap().ended, 10, "three accesses are merged");
    assert!(verdict.findings.is_empty());
    // A repetition behind the read is the dependence that closes a cycle.
    let trace = Trace::parse(&MERGED.replace("D r y", "T w y \n D r y"));
    let verdict = single_run(&trace);
    let order: Vec<u64> = verdict.findings[0]
        .witness
        .iter()
        .map(|step| step.index)
        .collect();
    assert_eq!(order, [1, 9, 10, 11], "w x, r x, the second w y, r y");
}

#[test]
fn the_culprit_is_the_innermost_invocation_that_spans_both_accesses() {
    for (inner, culprit, lines) in [
        ("get", "transfer", (4, 8)),
        // Two invocations of one function from one place are not one.
        ("set", "transfer", (4, 8)),
    ] {
        let text = "t1 enter main
             t1 enter outer
             t1 enter transfer
             t1 enter INNER
             t1 r balance
             t1 exit INNER
             t2 w balance
             t1 enter set
             t1 w balance
             t1 exit set
             t1 exit transfer
             t1 exit outer";
        let mut trace = Trace::parse(&text.replace("INNER", inner));
        if inner == "set" {
            trace.events[7].site = trace.events[3].site;
        }
        let finding = &single_run(&trace).findings[0];
        let region = finding.culprit.region.unwrap();
        assert_eq!(trace.names.function_name(region), culprit);
        let between = (finding.culprit.between.0.0, finding.culprit.between.1.0);
        let lines = if inner == "set" { (4, 4) } else { lines };
        assert_eq!(between, lines, "the calls");
    }
}

#[test]
fn transactions_that_are_open_at_the_end_are_finished_there() {
    let trace = Trace::parse("t1 begin f \n t1 r x \n t2 begin g \n t2 w x \n t1 w x");
    let verdict = single_run(&trace);
    assert_eq!(violations(&verdict), BTreeSet::from([4]));
    assert_eq!(verdict.stat("ICD SCCs"), 1);
}

/// Two regions that violate, one that does not, and much that happens outside.
const TWO_RUNS: &str = "
    t1 begin bad
    t1 r x
    t2 begin worse
    t2 w x
    t2 r y
    t2 end
    t1 w x
    t1 end
    t3 begin good
    t3 r z
    t3 w z
    t3 end
    t3 w y
    t3 r y
";

#[test]
fn a_second_run_looks_only_at_what_the_first_found() {
    let trace = Trace::parse(TWO_RUNS);
    let info = first_run(&trace, &Options::default());
    let text = "# atomsan doublechecker first run 1\nunary no\nregion bad\nregion worse\n";
    assert_eq!(info.to_string(), text);
    let single = single_run(&trace);
    let second = trace.run(DoubleChecker::new(Options {
        mode: Mode::SecondRun(info),
        ..Options::default()
    }));
    assert_eq!(violations(&single), BTreeSet::from([6]));
    assert_eq!(violations(&second), BTreeSet::from([6]));
    let figures = |verdict: &Verdict| {
        [
            "regular transactions",
            "regular accesses",
            "non-transactional accesses",
            "PCD transactions",
            "PCD log entries",
        ]
        .map(|figure| verdict.stat(figure))
    };
    // Where the transactions begin is in the log, too.
    assert_eq!(figures(&single), [3, 6, 2, 2, 6]);
    assert_eq!(figures(&second), [2, 4, 0, 2, 6]);
}

#[test]
fn a_second_run_that_was_told_nothing_finds_nothing() {
    let verdict = Trace::parse(TWO_RUNS).run(DoubleChecker::new(Options {
        mode: Mode::SecondRun(StaticInfo::default()),
        ..Options::default()
    }));
    assert!(verdict.findings.is_empty());
    assert_eq!(verdict.stat("regular transactions"), 0);
}

/// Everybody depends on everybody: replaying asks the threads that may go on, not all of them at
/// each step.
#[test]
fn a_replay_asks_only_threads_that_may_go_on() {
    let threads = 40;
    let mut text = String::new();
    for t in 0..threads {
        text += &format!("t{t} begin m{t}\n t{t} w x{t}\n");
    }
    for t in 0..threads {
        for other in (0..threads).filter(|&other| other != t) {
            text += &format!("t{t} r x{other}\n");
        }
    }
    for t in 0..threads {
        text += &format!("t{t} end\n");
    }
    let verdict = single_run(&Trace::parse(&text));
    assert_eq!(verdict.total, threads * (threads - 1) / 2);
    let (entries, asked) = (
        verdict.stat("PCD log entries"),
        verdict.stat("PCD threads asked"),
    );
    assert!(asked < 2 * entries, "{asked} for {entries}");
}

#[test]
fn a_component_that_grows_does_not_report_again() {
    // The cycle of f and g is complete when g ends, and is in the component of h, too.
    let trace = Trace::parse(
        "t3 begin h
         t3 w a
         t1 begin f
         t1 r a
         t1 r x
         t2 begin g
         t2 w x
         t1 w x
         t1 end
         t2 w b
         t2 end
         t3 r b
         t3 end",
    );
    let (verdict, components) = watch(&trace, Options::default());
    let sizes: Vec<usize> = components.iter().map(|c| c.members.len()).collect();
    assert_eq!(sizes, [2, 3]);
    assert_eq!(violations(&verdict), BTreeSet::from([7, 11]));
    assert_eq!(verdict.total, 2);
}

/// Two threads that violate each other without a pause: each transaction overlaps the next one.
fn endless_violations(rounds: usize) -> Trace {
    let mut text = String::from("t0 begin f \n t0 w x \n");
    for round in 0..rounds {
        let (this, other) = (round % 2, 1 - round % 2);
        text.push_str(&format!(
            "t{other} begin f \n t{other} w x \n t{this} w x \n t{this} end \n"
        ));
    }
    let mut trace = Trace::parse(&text);
    for event in &mut trace.events {
        event.site.0 = 1;
    }
    trace
}

#[test]
fn a_component_with_violations_does_not_grow_for_ever() {
    let trace = endless_violations(2_000);
    let (verdict, components) = watch(&trace, Options::default());
    assert_eq!(verdict.findings.len(), 1);
    let largest = components.iter().map(|c| c.members.len()).max().unwrap();
    // One more than the limit, and the few that waited for the same search.
    assert!((513..540).contains(&largest), "{largest}");
    let velodrome = trace.run(Velodrome::new(velodrome::Options::default()));
    assert!(verdict.total >= velodrome.total, "nothing was lost by it");
}
