//! Copper and Silver: the paper's `Buffer`, and random traces against the definition.

use crate::oracle::{conflict, reaches};
use crate::random::{self, Shape};
use crate::trace::{Trace, Verdict};
use atomsan_engines::cooperability::Options;
use atomsan_engines::cooperability::copper::Copper;
use atomsan_engines::cooperability::silver::Silver;
use atomsan_trace::finding::{Anomaly, Criterion, Finding, Role, Status};
use atomsan_trace::{Event, FunctionId, LockId, ObjectId, Op, SiteId, ThreadId, VarId};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

fn copper(trace: &Trace) -> Verdict {
    trace.run(Copper::new(Options::default()))
}

fn silver(trace: &Trace, options: Options) -> (Silver, Verdict) {
    let mut silver = Silver::new(options);
    let verdict = trace.feed(&mut silver);
    (silver, verdict)
}

/// The lines in front of which Silver wants a yield.
fn yield_lines(text: &str) -> Vec<u32> {
    let (silver, verdict) = silver(&Trace::parse(text), Options::default());
    assert!(verdict.findings.is_empty(), "an inference is no finding");
    silver.sites().iter().map(|site| site.0).collect()
}

// ---------------------------------------------------------------------------------------------
// The paper's examples. The `Buffer` of Fig. 2 is a queue of one element: `nonBlockingDequeue` is
// synchronized and returns null if there is none; `dequeue` and `enqueue` wait busily, with a
// yield at the start of each turn of their loops. Fig. 3 is a trace of `Buffer.main`: thread 1
// dequeues while thread 2 enqueues, and "Thread 2's accesses to done are local".

/// Trace A of Fig. 3: preemptive. Thread 1 finds the buffer empty in its first turn.
const TRACE_A: &str = "main fork t1
    main fork t2
    t1 yield             // dequeue: while (elem == null)
    t2 w done            // enqueue: boolean done = false
    t1 acq this          // nonBlockingDequeue
    t2 r done            // while (!done)
    t1 r contents
    t1 w contents
    t2 yield
    t1 rel this
    t2 acq this
    t2 r contents        // if (contents == null)
    t1 yield             // second turn
    t2 w contents
    t2 w done
    t2 rel this
    t1 acq this
    t2 r done
    t1 r contents
    t1 w contents
    t1 rel this
    main join t1
    main join t2";

fn without_yields(text: &str) -> String {
    let lines = text.lines().map(|line| match line.contains(" yield") {
        true => "",
        false => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn fig_3_trace_a_is_serializable_with_the_yields_of_fig_2() {
    assert!(copper(&Trace::parse(TRACE_A)).findings.is_empty());
    assert_eq!(yield_lines(TRACE_A), []);
}

#[test]
fn fig_3_trace_a_without_the_yields_of_fig_2_is_not() {
    let trace = Trace::parse(&without_yields(TRACE_A));
    let verdict = copper(&trace);
    let finding = &verdict.findings[0];
    assert_eq!(finding.engine, "copper");
    assert_eq!(finding.criterion, Criterion::Cooperability);
    assert_eq!(finding.anomaly, Anomaly::MissingYield);
    assert_eq!(finding.status, Status::Observed);
    let steps: Vec<(u32, Role)> = (finding.witness.iter())
        .map(|step| (step.event.site.0, step.role))
        .collect();
    let expected = [
        (10, Role::Access),   // t1 rel this
        (11, Role::Access),   // t2 acq this
        (16, Role::Access),   // t2 rel this
        (17, Role::Violated), // t1 acq this, in the second turn
    ];
    assert_eq!(steps, expected);
    assert_eq!(finding.edges, [(0, 1), (2, 3)]);
    let between = finding.culprit.between;
    assert_eq!((between.0.0, between.1.0), (10, 17));
}

#[test]
fn fig_2_one_yield_in_the_loop_of_dequeue_is_what_trace_a_needs() {
    // In trace A, thread 2 needs one turn only, so its loop needs no yield.
    assert_eq!(yield_lines(&without_yields(TRACE_A)), [17]);
}

#[test]
fn fig_2_enqueue_that_waits_needs_its_yield_too() {
    let text = "
        t2 acq this
        t2 r contents        // full
        t2 rel this
        t1 acq this
        t1 r contents
        t1 w contents
        t1 rel this
        t2 acq this          // second turn
        t2 r contents
        t2 w contents
        t2 rel this";
    assert_eq!(yield_lines(text), [9]);
}

/// `while (contents == null) { yield; } return nonBlockingDequeue();` while another thread takes
/// the element after the test of the loop.
const ERRONEOUS_DEQUEUE: &str = "
    t1 enter dequeue
    t1 r contents        // null
    t1 yield
    t2 acq this
    t2 r contents
    t2 w contents        // enqueue
    t2 rel this
    t2 yield
    t1 r contents        // no longer null
    t3 enter dequeue
    t3 r contents
    t3 acq this
    t3 r contents
    t3 w contents        // the other one was faster
    t3 rel this
    t3 exit dequeue
    t1 enter nonBlockingDequeue
    t1 acq this
    t1 r contents        // null
    t1 w contents
    t1 rel this
    t1 exit nonBlockingDequeue
    t1 exit dequeue";

#[test]
fn the_erroneous_dequeue_is_not_cooperable() {
    let trace = Trace::parse(ERRONEOUS_DEQUEUE);
    let verdict = copper(&trace);
    let finding = &verdict.findings[0];
    assert_eq!(finding.index, 17, "the acquire in nonBlockingDequeue");
    let region = finding.culprit.region.unwrap();
    assert_eq!(trace.names.function_name(region), "dequeue");
    let between = finding.culprit.between;
    assert_eq!(between.0.0, 10, "the test of the loop");
    assert_eq!(between.1.0, 18, "the call");
    let mut calls = Trace::stacks_of(&trace, finding);
    calls.dedup();
    assert_eq!(calls, ["dequeue", "nonBlockingDequeue<dequeue"]);
    assert_eq!(yield_lines(ERRONEOUS_DEQUEUE), [19]);
}

#[test]
fn the_second_yield_makes_the_erroneous_dequeue_cooperable() {
    let fixed = ERRONEOUS_DEQUEUE.replace(
        "t1 enter nonBlockingDequeue",
        "t1 yield \n t1 enter nonBlockingDequeue",
    );
    assert!(copper(&Trace::parse(&fixed)).findings.is_empty());
}

// ---------------------------------------------------------------------------------------------
// What is a yield.

#[test]
fn waiting_and_joining_and_barriers_yield() {
    for (blocks, yields) in [
        ("t1 wait m \n t2 w x \n t1 woken m", true),
        ("t2 w x \n t1 join t2", true),
        ("t1 arrive b \n t2 w x \n t1 leave b", true),
        ("t1 yield \n t2 w x", true),
        ("t1 notify m \n t2 w x", false),
        ("t1 rel m \n t2 w x \n t1 acq m", false),
    ] {
        let text = format!("t1 w x \n {blocks} \n t1 r x");
        let findings = copper(&Trace::parse(&text)).findings;
        assert_eq!(findings.is_empty(), yields, "{blocks}");
    }
}

#[test]
fn a_join_between_two_transactions_is_after_the_first_only() {
    // t1 is between two transactions when it is joined, so waking up later is no interference.
    let text = "
        t1 acq m
        t1 wait m
        t2 join t1
        t2 acq m
        t2 rel m
        t1 woken m
        t1 rel m";
    assert_eq!(yield_lines(text), []);
}

const REGIONS: &str = "
    t1 begin get
    t1 r x
    t1 end
    t2 w x
    t1 begin set
    t1 w x
    t1 end";

#[test]
fn the_borders_of_regions_yield_on_request_only() {
    let trace = Trace::parse(REGIONS);
    assert_eq!(copper(&trace).findings.len(), 1);
    assert_eq!(yield_lines(REGIONS), [7]);
    let options = Options {
        regions_yield: true,
        ..Options::default()
    };
    assert!(trace.run(Copper::new(options)).findings.is_empty());
}

#[test]
fn a_yield_that_a_region_forbids_names_the_region() {
    let trace = Trace::parse(
        "t1 begin update
         t1 r x
         t2 w x
         t1 w x
         t1 end",
    );
    let finding = &copper(&trace).findings[0];
    assert_eq!(
        finding.notes,
        ["update is declared atomic; a yield here would say that it is not"]
    );
    let (silver, _) = silver(&trace, Options::default());
    let yields = silver.yields(&trace.names);
    let (place, needed) = yields.places.first_key_value().unwrap();
    assert_eq!((&*place.file, place.line, needed.count), ("test", 4, 1));
    assert!(needed.regions.iter().map(|name| &**name).eq(["update"]));
    let conflict = needed.conflicts.first_key_value().unwrap();
    assert_eq!((conflict.0.line, *conflict.1), (3, 1));

    // A yield in the region that is written says so itself.
    let written = Trace::parse("t1 begin f \n t1 r x \n t2 w x \n t1 yield \n t1 w x \n t1 end");
    assert!(copper(&written).findings.is_empty());
    // A region that starts after the interference is not broken.
    let (silver, _) = self::silver(&Trace::parse(REGIONS), Options::default());
    let yields = silver.yields(&trace.names);
    assert!(
        yields
            .places
            .values()
            .all(|needed| needed.regions.is_empty())
    );
}

#[test]
fn a_region_without_a_name_is_called_so() {
    let trace = Trace::parse("t1 begin \n t1 r x \n t2 w x \n t1 w x");
    let note = "(unnamed) is declared atomic; a yield here would say that it is not";
    assert_eq!(copper(&trace).findings[0].notes, [note]);
    let (silver, _) = silver(&trace, Options::default());
    let text = silver.yields(&trace.names).to_string();
    let expected = "atomsan yields 1\nyield\t1\ttest:4:0\t\t(unnamed)\nwith\t1\ttest:3:0\t\n";
    assert_eq!(text, expected);
}

#[test]
fn a_yield_is_counted_once_for_each_time_it_is_needed() {
    let mut trace = Trace::parse(&"t1 r x \n t1 w x \n t2 w x \n".repeat(4));
    for event in &mut trace.events {
        event.site.0 = (event.site.0 - 1) % 3 + 1;
    }
    let (silver, verdict) = silver(&trace, Options::default());
    let yields = silver.yields(&trace.names);
    let counts: Vec<(u32, u64)> = (yields.places.iter())
        .map(|(place, needed)| (place.line, needed.count))
        .collect();
    // Threads 1 and 2 take turns: from the second turn on both need a yield.
    assert_eq!(counts, [(1, 3), (3, 3)]);
    assert_eq!(verdict.stat("inferred yields"), 6);
    assert_eq!(verdict.stat("inferred points"), 2);
    let options = Options {
        assumed: yields,
        ..Options::default()
    };
    assert!(trace.run(Copper::new(options)).findings.is_empty());
}

#[test]
fn the_reads_and_the_write_before_a_write_ask_for_a_yield_together() {
    // At t1's second write of z, Fig. 4 first orders t1's transaction after the write by t3, and
    // then finds that the read by t2 needs a yield. The first edge belongs to what comes after
    // that yield; left on what comes before, it would ask for another yield at t3's last write.
    let text = "
        t1 w x
        t1 w y
        t3 w z
        t2 r z
        t2 w x
        t1 w z
        t3 w y";
    assert_eq!(yield_lines(text), [7]);
}

// ---------------------------------------------------------------------------------------------
// The table of Fig. 7.

#[test]
fn interference_points_are_counted_as_in_fig_7() {
    let text = "
        main fork t1
        t1 begin get         // atomic: a call from outside
        t1 acq m
        t1 r x
        t1 rel m
        t1 end
        t1 begin set         // atomic: a call from outside
        t1 w y
        t1 end
        t1 r x               // atomic: an access outside
        t2 w x
        t1 w x               // atomic, and a yield is needed
        main join t1         // an implicit yield";
    let (silver, verdict) = silver(&Trace::parse(text), Options::default());
    let density = silver.density();
    assert_eq!(density.threads, 3);
    assert_eq!(density.sites, 13);
    assert_eq!(density.preemptive, 6, "m, x, y, x, x, x");
    assert_eq!(density.atomic, 5, "get, set, three accesses of x");
    assert_eq!(density.cooperative, 2);
    assert_eq!(density.inferred, 1);
    assert_eq!(verdict.stat("preemptive density (per 10,000)"), 4615);
    assert_eq!(verdict.stat("cooperative density (per 10,000)"), 1538);
    let row = "      3       13         6   46.15%         5   38.46%         2   15.38%\n";
    assert!(density.to_string().ends_with(row), "{density}");
}

// ---------------------------------------------------------------------------------------------
// The definition: the transactions are the stretches between yields.

/// The transaction of each event; a yield is a mark and in none.
fn stretches(trace: &Trace, regions_yield: bool) -> Vec<Option<usize>> {
    let mut count = 0;
    let mut current = HashMap::<ThreadId, usize>::new();
    let mut depth = HashMap::<ThreadId, u32>::new();
    let mut result = Vec::new();
    for event in &trace.events {
        let thread = event.thread;
        let depth = depth.entry(thread).or_default();
        let outermost_begin = matches!(event.op, Op::Begin(_)) && *depth == 0;
        let outermost_end = event.op == Op::End && *depth == 1;
        match event.op {
            Op::Begin(_) => *depth += 1,
            Op::End => *depth = depth.saturating_sub(1),
            _ => {}
        }
        let before = matches!(event.op, Op::Yield | Op::Join(_));
        if before || regions_yield && outermost_begin {
            current.remove(&thread);
        }
        if event.op == Op::Yield {
            result.push(None);
            continue;
        }
        let stretch = *current.entry(thread).or_insert_with(|| {
            count += 1;
            count - 1
        });
        result.push(Some(stretch));
        let after = matches!(event.op, Op::Wait(_) | Op::Arrive(_));
        if after || regions_yield && outermost_end {
            current.remove(&thread);
        }
        if let Op::Join(child) = event.op
            && child != thread
        {
            current.remove(&child);
        }
    }
    result
}

/// The first event that makes the trace not serializable.
fn first_violation(trace: &Trace, options: &Options) -> Option<usize> {
    let stretches = stretches(trace, options.regions_yield);
    let count = stretches.iter().flatten().max().map_or(0, |max| max + 1);
    let mut edges = vec![Vec::new(); count];
    for (later, event) in trace.events.iter().enumerate() {
        let Some(to) = stretches[later] else { continue };
        for (earlier, other) in trace.events[..later].iter().enumerate() {
            let Some(from) = stretches[earlier] else {
                continue;
            };
            if from == to || edges[from].contains(&to) {
                continue;
            }
            if conflict(other, event, options.sync_edges) {
                if reaches(&edges, to, from) {
                    return Some(later);
                }
                edges[from].push(to);
            }
        }
    }
    None
}

/// The trace with yields in front of the events at these positions.
fn with_yields(trace: &Trace, positions: &[usize]) -> Trace {
    let mut events = Vec::new();
    for (index, event) in trace.events.iter().enumerate() {
        if positions.contains(&index) {
            events.push(Event {
                op: Op::Yield,
                site: SiteId::UNKNOWN,
                ..*event
            });
        }
        events.push(*event);
    }
    Trace::new(events)
}

/// Each event has a site of its own, so that a yield's site says which event it precedes.
fn number_sites(trace: &mut Trace) {
    for (index, event) in trace.events.iter_mut().enumerate() {
        event.site = SiteId(index as u32 + 1);
    }
}

/// The cycle that a finding shows consists of conflicts, and it is one.
fn check_witness(trace: &Trace, options: &Options, finding: &Finding) {
    let stretches = stretches(trace, options.regions_yield);
    let index = |step: usize| finding.witness[step].index as usize;
    for (number, &(from, to)) in finding.edges.iter().enumerate() {
        let (a, b) = (index(from), index(to));
        assert!(a < b);
        assert!(conflict(
            &trace.events[a],
            &trace.events[b],
            options.sync_edges
        ));
        let next = finding.edges[(number + 1) % finding.edges.len()].0;
        assert_eq!(stretches[b], stretches[index(next)], "{finding:?}");
        assert_ne!(stretches[a], stretches[b]);
    }
    assert_eq!(finding.edges.len(), finding.participants.len());
    let (_, last) = *finding.edges.last().unwrap();
    assert_eq!(finding.witness[last].role, Role::Violated);
    assert_eq!(finding.witness[last].index, finding.index);
}

fn check(trace: &Trace, options: Options) {
    let (silver, _) = silver(trace, options.clone());
    let positions: Vec<usize> = (silver.sites().iter())
        .map(|site| site.index() - 1)
        .collect();

    // Copper and the definition agree on the trace as it is, and on the first violation.
    let violation = first_violation(trace, &options);
    let verdict = trace.run(Copper::new(options.clone()));
    let first = verdict.findings.first().map(|f| f.index as usize);
    assert_eq!(first, violation);
    assert_eq!(positions.first().copied(), violation);
    for finding in &verdict.findings {
        check_witness(trace, &options, finding);
    }

    // With Silver's yields in place Copper is silent and the trace is serializable ...
    let annotated = with_yields(trace, &positions);
    assert_eq!(first_violation(&annotated, &options), None);
    let verdict = annotated.run(Copper::new(options.clone()));
    assert!(verdict.findings.is_empty());
    let assumed = Options {
        assumed: silver.yields(&trace.names),
        ..options.clone()
    };
    assert!(trace.run(Copper::new(assumed)).findings.is_empty());

    // ... and without any one of them it is not.
    for dropped in 0..positions.len() {
        let mut fewer = positions.clone();
        fewer.remove(dropped);
        let annotated = with_yields(trace, &fewer);
        assert!(first_violation(&annotated, &options).is_some());
    }
}

/// Traces with a few yields more than [`random::traces`] has.
fn traces(shape: Shape) -> impl Strategy<Value = Trace> {
    let yields = prop::collection::vec(0..shape.length, 0..4);
    (random::traces(shape), yields).prop_map(|(trace, positions)| {
        let mut trace = with_yields(&trace, &positions);
        number_sites(&mut trace);
        trace
    })
}

/// An operation that [`random::traces`] does not make.
fn other_op() -> impl Strategy<Value = Op> {
    let id = 0..4_u32;
    prop_oneof![
        id.clone().prop_map(|f| Op::Enter(FunctionId(f))),
        id.clone().prop_map(|f| Op::Exit(FunctionId(f))),
        id.clone().prop_map(|o| Op::Alloc(ObjectId(o))),
        id.clone().prop_map(|o| Op::Free(ObjectId(o))),
        id.clone().prop_map(|l| Op::Leave(LockId(l))),
        id.clone().prop_map(|l| Op::Woken(LockId(l))),
        id.prop_map(|x| Op::RefStore {
            into: VarId(x),
            object: ObjectId(x),
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]
    #[test]
    fn silver_infers_what_is_needed_and_no_more(trace in traces(Shape::small())) {
        check(&trace, Options::default());
    }

    #[test]
    fn silver_is_minimal_where_locks_are_locks(
        trace in traces(Shape { disciplined: true, ..Shape::small() }),
    ) {
        check(&trace, Options::default());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30_000))]
    #[test]
    fn silver_is_minimal_with_memory_accesses_only(trace in traces(Shape::small())) {
        check(&trace, Options { sync_edges: false, ..Options::default() });
    }

    #[test]
    fn silver_is_minimal_where_there_are_operations_of_all_kinds(
        mut trace in traces(Shape::small()),
        others in prop::collection::vec((any::<usize>(), other_op()), 0..12),
    ) {
        for (at, op) in others {
            let length = trace.events.len().max(1);
            if let Some(event) = trace.events.get_mut(at % length) {
                event.op = op;
            }
        }
        check(&trace, Options::default());
    }

    #[test]
    fn silver_is_minimal_where_regions_yield(trace in traces(Shape::small())) {
        check(&trace, Options { regions_yield: true, ..Options::default() });
    }
}

// ---------------------------------------------------------------------------------------------
// Long traces, where transactions are reclaimed and forgotten.

/// Fig. 4 and 6 to the letter (but for the one call at a write, see above), with a graph that
/// never forgets.
#[derive(Default)]
struct Letter {
    current: HashMap<ThreadId, usize>,
    released: HashMap<LockId, usize>,
    read: HashMap<(VarId, ThreadId), usize>,
    written: HashMap<VarId, usize>,
    before: Vec<HashSet<usize>>,
    yields: Vec<u32>,
}

impl Letter {
    fn fresh(&mut self) -> usize {
        self.before.push(HashSet::new());
        self.before.len() - 1
    }

    fn current(&mut self, thread: ThreadId) -> usize {
        match self.current.get(&thread) {
            Some(&current) => current,
            None => {
                let fresh = self.fresh();
                self.current.insert(thread, fresh);
                fresh
            }
        }
    }

    fn yields(&mut self, thread: ThreadId) {
        let last = self.current(thread);
        let fresh = self.fresh();
        self.before[fresh].insert(last);
        self.current.insert(thread, fresh);
    }

    fn is_before(&self, a: usize, b: usize) -> bool {
        let mut seen = HashSet::new();
        let mut todo = vec![b];
        while let Some(at) = todo.pop() {
            if at == a {
                return true;
            }
            if seen.insert(at) {
                todo.extend(&self.before[at]);
            }
        }
        false
    }

    fn add_in_edges(&mut self, event: &Event, nodes: Vec<usize>) {
        let current = self.current(event.thread);
        if (nodes.iter()).any(|&n| n != current && self.is_before(current, n)) {
            self.yields.push(event.site.0);
            self.yields(event.thread);
        }
        let current = self.current(event.thread);
        self.before[current].extend(nodes.into_iter().filter(|&n| n != current));
    }

    fn analyze(&mut self, event: &Event) {
        let thread = event.thread;
        match event.op {
            Op::Yield => self.yields(thread),
            Op::Read(x) => {
                self.add_in_edges(event, self.written.get(&x).copied().into_iter().collect());
                let current = self.current(thread);
                self.read.insert((x, thread), current);
            }
            Op::Write(x) => {
                let reads = (self.read.iter()).filter(|((y, _), _)| x == *y);
                let nodes = reads.map(|(_, node)| node).chain(self.written.get(&x));
                self.add_in_edges(event, nodes.copied().collect());
                let current = self.current(thread);
                self.written.insert(x, current);
            }
            Op::Acquire(m) => {
                self.add_in_edges(event, self.released.get(&m).copied().into_iter().collect());
            }
            Op::Release(m) => {
                let current = self.current(thread);
                self.released.insert(m, current);
            }
            Op::Fork(child) => {
                let (from, to) = (self.current(thread), self.current(child));
                self.before[to].insert(from);
            }
            op => panic!("{op:?} is not in this test"),
        }
    }
}

/// The main thread writes all variables, forks the others, and is open until it looks again.
fn long_trace(mut seed: u64, looks: usize) -> Trace {
    let mut random = || {
        // Marsaglia's xorshift.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 32) as u32
    };
    let event = |thread: u8, op| Event {
        thread: ThreadId(thread.into()),
        site: SiteId::UNKNOWN,
        op,
    };
    let mut events: Vec<Event> = (0..40).map(|x| event(0, Op::Write(VarId(x)))).collect();
    events.extend((1..5).map(|child| event(0, Op::Fork(ThreadId(child)))));
    for number in 0..4000 {
        let thread = (random() % 4 + 1) as u8;
        let (var, lock) = (VarId(random() % 40), LockId(random() % 3));
        match random() % 12 {
            0..5 => events.push(event(thread, Op::Read(var))),
            5..9 => events.push(event(thread, Op::Write(var))),
            9 => events.push(event(thread, Op::Yield)),
            _ => {
                events.push(event(thread, Op::Acquire(lock)));
                events.push(event(thread, Op::Write(var)));
                events.push(event(thread, Op::Release(lock)));
            }
        }
        if number % looks == looks - 1 {
            events.push(event(0, Op::Read(var)));
        }
    }
    let mut trace = Trace::new(events);
    number_sites(&mut trace);
    trace
}

#[test]
fn forgetting_transactions_changes_nothing() {
    for (seed, looks) in [(1, usize::MAX), (2, 1500), (3, 300)] {
        let trace = long_trace(seed, looks);
        let mut letter = Letter::default();
        trace.events.iter().for_each(|event| letter.analyze(event));
        let (silver, verdict) = silver(&trace, Options::default());
        let sites: Vec<u32> = silver.sites().iter().map(|site| site.0).collect();
        assert_eq!(sites, letter.yields);
        // The main thread stays open, but what is kept follows the 40 variables.
        let (all, kept) = (
            verdict.stat("transactions"),
            verdict.stat("most transactions kept"),
        );
        assert!(all > 600 && kept < 300, "{all} transactions, {kept} kept");
        // What Copper shows after forgetting is still made of real steps, in order.
        for finding in &copper(&trace).findings {
            for step in &finding.witness {
                assert_eq!(step.event, trace.events[step.index as usize]);
                assert_eq!(
                    finding.participants[step.participant].thread,
                    step.event.thread
                );
            }
        }
    }
}
