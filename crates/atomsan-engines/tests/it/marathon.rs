//! Marathon: the paper's figures by name, and random traces against the definition.

use crate::atomic_sets::{self, Declared, FIELDS, FUNCTIONS, Rules};
use crate::oracle;
use crate::random::{self, Shape};
use crate::trace::{Trace, Verdict};
use atomsan_engines::marathon::{Choice, Declaration, Marathon, Options};
use atomsan_engines::velodrome::{self, Velodrome};
use atomsan_engines::{Context, Engine, Findings, Occurrence};
use atomsan_trace::finding::{Anomaly, Criterion, Status};
use atomsan_trace::names::{Definition, Names, Var};
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
    let options = velodrome::Options {
        sync_edges: false,
        ..velodrome::Options::default()
    };
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

/// "Observe that, in Figure 1(b), the execution of `inc()` by `T2` occurs interleaved between that
/// of the two calls to `inc()` by `T1`."
const FIGURE_1B: &str = "
    T1 enter Test.run
    T2 enter Test.run
    T1 enter Account.transfer
    T1 acq account
    T1 r @1.Account.checking
    T1 w @1.Account.checking
    T1 enter Global.inc        // 2
    T1 acq global
    T1 r Global.opCounter
    T1 w Global.opCounter
    T1 rel global
    T1 exit Global.inc
    T2 enter Global.inc        // 4
    T2 acq global
    T2 r Global.opCounter
    T2 w Global.opCounter
    T2 rel global
    T2 exit Global.inc
    T1 r @1.Account.savings
    T1 w @1.Account.savings
    T1 enter Global.inc        // 3
    T1 acq global
    T1 r Global.opCounter
    T1 w Global.opCounter
    T1 rel global
    T1 exit Global.inc
    T1 rel account
    T1 exit Account.transfer
";

/// Statics have no object: the test language takes everything before a dot for one.
fn with_statics(text: &str) -> Trace {
    let mut trace = Trace::parse(text);
    let mut names = Names::default();
    for function in trace.names.functions() {
        names.define(Definition::Function(function.name.clone()));
    }
    for thread in trace.names.threads() {
        names.define(Definition::Thread(thread.clone()));
    }
    for object in trace.names.objects() {
        names.define(Definition::Object(object.clone()));
    }
    for var in trace.names.vars() {
        let object = var.object.filter(|_| var.name.starts_with('@'));
        names.define(Definition::Var(Var {
            object,
            ..var.clone()
        }));
    }
    trace.names = names;
    trace
}

#[test]
fn figure_1b_is_atomic_set_serializable() {
    let trace = with_statics(FIGURE_1B);
    let transfer = velodrome(&trace).findings[0].participants[0].region;
    let transfer = trace.names.function_name(transfer.unwrap());
    assert_eq!(transfer, "Account.transfer", "is not serializable");
    let verdict = trace.run(heuristic());
    assert_eq!(verdict.findings, []);
    assert_eq!(verdict.stat("atomic sets"), 2);
    assert_eq!(verdict.stat("units of work"), 4, "1 to 4");
    assert_eq!(verdict.stat("accesses outside"), 0);
}

#[test]
fn figure_1b_as_the_programmer_declares_it() {
    let trace = with_statics(FIGURE_1B);
    let sets = "
        set S1: *.checking *.savings
        set S2: Global.opCounter
        unit Account.transfer on S1
        unit Global.inc on S2";
    assert_eq!(trace.run(declared(sets)).findings, []);
    // "If a coarser granularity of data is desired, all three locations can be placed in a single
    // atomic set."
    let coarse = "set S: *";
    let finding = &trace.run(declared(coarse)).findings[0];
    assert_eq!(finding.notes[0], "atomic set: S");
    let transfer = trace
        .names
        .function_name(finding.participants[0].region.unwrap());
    assert_eq!(transfer, "Account.transfer");
}

/// "A serializability violation as a cycle of conflicts on variables x, y and z between the units
/// of work u1, u2, and u3."
#[test]
fn figure_2b_is_a_cycle_on_x_y_z_over_u1_u2_u3() {
    let trace = Trace::parse(
        "T1 begin u1
         T1 w x
         T2 begin u2
         T2 r x
         T2 w z
         T2 end
         T3 begin u3
         T3 r z
         T3 r y
         T3 end
         T1 w y
         T1 end",
    );
    for engine in [declared("set L: x y z"), everything()] {
        let verdict = trace.run(engine);
        assert_eq!(verdict.findings.len(), 1);
        let finding = &verdict.findings[0];
        assert_eq!(finding.engine, "marathon");
        assert_eq!(finding.criterion, Criterion::AtomicSetSerializability);
        assert_eq!(finding.status, Status::Observed);
        assert_eq!(finding.anomaly, Anomaly::Cycle(3));
        assert_eq!(finding.index, 10);
        assert_eq!(
            finding.notes[1..],
            [
                "units of work: u1 of T1, u2 of T2, u3 of T3",
                "u1 of T1 before u2 of T2 by x",
                "u2 of T2 before u3 of T3 by z",
                "u3 of T3 before u1 of T1 by y",
            ]
        );
        let step = |at: usize| finding.witness[at].event.op;
        let edges: Vec<(Op, Op)> = (finding.edges.iter())
            .map(|&(from, to)| (step(from), step(to)))
            .collect();
        let [x, z, y] = [VarId(0), VarId(1), VarId(2)];
        assert_eq!(
            edges,
            [
                (Op::Write(x), Op::Read(x)),
                (Op::Write(z), Op::Read(z)),
                (Op::Read(y), Op::Write(y))
            ]
        );
        assert_eq!(verdict.stat("cycles of 3"), 1);
        assert_eq!(verdict.stat("cycles of 2"), 0);
    }
    // Each alone is in order.
    assert_eq!(
        trace.run(declared("set a: x\nset b: y\nset c: z")).findings,
        []
    );
}

/// Each open function and block is looked at once for a set, however deep they nest and however
/// often the innermost ones return.
#[test]
fn a_deep_recursion_is_looked_at_once() {
    let depth = 1000;
    for (enter, exit) in [("enter C.f()", "exit C.f()"), ("begin f", "end")] {
        let down = format!("a {enter}\n a w @1.C.x\n").repeat(depth);
        let again = format!("a {exit}\n a {enter}\n a w @1.C.x\n").repeat(depth);
        let verdict = Trace::parse(&format!("{down}{again}")).run(heuristic());
        assert_eq!(verdict.stat("deepest nesting"), depth as u64);
        assert_eq!(verdict.stat("units of work"), 1);
        let looked_at = verdict.stat("rules looked at");
        assert!(looked_at <= 2 * depth as u64 + 1, "{looked_at}");
    }
}

/// "If a method `foo` calls another method `bar`, where both are declared units of work for the
/// atomic set L1 and `bar` reads a location in L1, then this read belongs to `foo`."
#[test]
fn an_access_belongs_to_the_top_most_unit() {
    let trace = Trace::parse(
        "T1 enter foo
         T1 enter bar
         T1 r l
         T1 exit bar
         T2 w l
         T1 enter bar
         T1 r l
         T1 exit bar
         T1 exit foo",
    );
    let nested = trace.run(declared("set L1: l\nunit foo bar on L1"));
    assert_eq!(nested.findings.len(), 1);
    let culprit = &nested.findings[0].culprit;
    assert_eq!(trace.names.function_name(culprit.region.unwrap()), "foo");
    assert_eq!(
        (culprit.between.0.0, culprit.between.1.0),
        (2, 6),
        "the calls of bar"
    );
    let alone = trace.run(declared(
        "set L1: l\nset L2: m\nunit bar on L1\nunit foo on L2",
    ));
    assert_eq!(alone.findings, []);
    assert_eq!(alone.stat("units of work"), 2, "each bar stands for itself");
}

/// "We break a unit of work into two at a call to wait()."
#[test]
fn waiting_splits_a_unit_and_all_it_is_nested_in() {
    let text = |waits: &str| {
        format!(
            "T1 enter run
             T1 enter take
             T1 enter poll
             T1 r @1.Buffer.full
             {waits}
             T2 w @1.Buffer.full
             T1 r @1.Buffer.full
             T1 exit poll
             T1 exit take"
        )
    };
    let waits = Trace::parse(&text("T1 wait m"));
    let works = Trace::parse(&text(""));
    for sets in [
        "set s: *",
        "set s: *\nunit take on s",
        "set s: *\nunit poll on s",
    ] {
        assert_eq!(waits.run(declared(sets)).findings, []);
        assert_eq!(works.run(declared(sets)).findings.len(), 1);
    }
    assert_eq!(waits.run(heuristic()).findings, []);
    assert_eq!(works.run(heuristic()).findings.len(), 1);
}

/// "A method containing a direct access to a field is an additional unit of work for the atomic
/// set the field belongs to"; "we do not propagate to the top-most unit, as we assume unitfor
/// semantics."
#[test]
fn a_direct_access_makes_a_unit_of_the_method_and_not_of_its_caller() {
    let text = |caller: &str| {
        format!(
            "T1 enter run
             T1 enter List.{caller}
             T1 enter Copy.init
             T1 r @1.Array.size
             T1 exit Copy.init
             T2 w @1.Array.size
             T1 enter Copy.init
             T1 r @1.Array.size
             {{between}}
             T1 r @1.Array.size
             T1 exit Copy.init
             T1 exit List.{caller}"
        )
    };
    let quiet = Trace::parse(&text("copyTwice").replace("{between}", ""));
    assert_eq!(quiet.run(heuristic()).findings, []);
    let torn = Trace::parse(&text("copyTwice").replace("{between}", "T2 w @1.Array.size"));
    let verdict = torn.run(heuristic());
    let region = verdict.findings[0].participants[0].region.unwrap();
    assert_eq!(torn.names.function_name(region), "Copy.init");
    assert_eq!(
        verdict.findings[0].notes[0],
        "atomic set: the fields of @1 of Array"
    );
}

/// "Iterators expose access to an `ArrayList`'s internals to a caller of the `iterator()` method.
/// Thus, we make the caller a unitfor the enclosing `ArrayList` as well."
#[test]
fn the_caller_of_an_iterator_is_a_unit_on_what_it_iterates_over() {
    let text = |class: &str| {
        format!(
            "T1 enter run
             T1 enter Printer.print
             T1 enter {class}.next
             T1 r @1.ArrayList.size
             T1 exit {class}.next
             T2 w @1.ArrayList.size
             T1 enter {class}.next
             T1 r @1.ArrayList.size
             T1 exit {class}.next
             T1 exit Printer.print"
        )
    };
    let inner = Trace::parse(&text("ArrayList$Itr"));
    let verdict = inner.run(heuristic());
    let region = verdict.findings[0].participants[0].region.unwrap();
    assert_eq!(inner.names.function_name(region), "Printer.print");
    assert_eq!(Trace::parse(&text("Cursor")).run(heuristic()).findings, []);
}

/// "All accessible methods of that object are considered initial units of work declared on this
/// atomic set": also those that access nothing themselves.
#[test]
fn a_method_is_a_unit_on_the_first_object_of_its_class() {
    let text = |object: &str| {
        format!(
            "T1 enter run
             T1 enter Account.transfer
             T1 enter Account.withdraw
             T1 w @1.Account.balance
             T1 exit Account.withdraw
             T1 enter Account.deposit
             T1 w @2.Account.balance
             T1 exit Account.deposit
             T2 r {object}.Account.balance
             T1 enter Account.deposit
             T1 w {object}.Account.balance
             T1 exit Account.deposit
             T1 exit Account.transfer"
        )
    };
    let own = Trace::parse(&text("@1")).run(heuristic());
    assert_eq!(
        own.findings.len(),
        1,
        "transfer is a unit on the account it was called on"
    );
    assert_eq!(own.findings[0].anomaly, Anomaly::IntermediateState);
    let other = Trace::parse(&text("@2")).run(heuristic());
    assert_eq!(other.findings, [], "and not on another one");
    let trace = Trace::parse(&text("@2"));
    let sets = "set money per object: *.balance\n";
    let unit = format!("{sets}unit Account.transfer on money");
    assert_eq!(trace.run(declared(&unit)).findings, []);
    let unitfor = format!("{sets}unitfor Account.transfer on money");
    assert_eq!(trace.run(declared(&unitfor)).findings.len(), 1);
}

/// "A `HashSet` is implemented with a backing `HashMap` stored in a field called `map` that would
/// be declared `owned`."
#[test]
fn owned_merges_the_sets() {
    let text = |owned: &str| {
        format!(
            "T1 enter run
             T1 enter HashSet.init
             {owned}
             T1 w @1.HashSet.map
             T1 w @2.HashMap.size
             T1 exit HashSet.init
             T1 enter HashSet.add
             T1 r @1.HashSet.map
             T1 w @2.HashMap.size
             T2 enter run
             T2 enter HashSet.copy
             T2 r @2.HashMap.size
             T2 w @1.HashSet.hash
             T2 exit HashSet.copy
             T1 r @1.HashSet.hash
             T1 exit HashSet.add"
        )
    };
    let reference = Trace::parse(&text("T1 ref @1.HashSet.map @2"));
    let verdict = reference.run(heuristic());
    assert_eq!(verdict.findings.len(), 1);
    assert_eq!(verdict.stat("sets merged"), 1);
    assert_eq!(verdict.findings[0].anomaly, Anomaly::InconsistentPair);
    let unknown = Trace::parse(&text(""));
    assert_eq!(
        unknown.run(heuristic()).findings,
        [],
        "each set alone is in order"
    );
    let sets = "set s per object: *\nunitfor HashSet.* on s\n";
    assert_eq!(reference.run(declared(sets)).findings, []);
    let owned = format!("{sets}owned *HashSet.map");
    assert_eq!(reference.run(declared(&owned)).findings.len(), 1);
    assert_eq!(unknown.run(declared(&owned)).findings, []);
}

/// A merge in the middle of a function can make more objects members of what it has accessed.
#[test]
fn what_a_member_holds_is_owned_as_well() {
    let trace = Trace::parse(
        "T1 enter run
         T1 ref @1.List.first @2
         T1 ref @2.Node.item @3
         T1 enter List.get
         T1 r @1.List.first
         T1 r @3.Item.value
         T1 r @2.Node.item
         T1 r @3.Item.value
         T1 exit List.get",
    );
    let verdict = trace.run(heuristic());
    assert_eq!(verdict.stat("sets merged"), 2);
    assert_eq!(verdict.stat("atomic sets"), 1);
}

#[test]
fn volatile_fields_and_atomic_accesses_stay_out() {
    let text = "
        T1 begin f
        T1 load x
        T2 store x
        T1 load x
        T1 end";
    let trace = Trace::parse(text);
    assert_eq!(trace.run(heuristic()).findings, []);
    assert_eq!(trace.run(everything()).findings.len(), 1);
    let mut plain = Trace::parse(&text.replace("load", "r").replace("store", "w"));
    assert_eq!(plain.run(heuristic()).findings.len(), 1);
    plain.names = Names::default();
    plain.names.define(Definition::Var(Var {
        volatile: true,
        ..Var::default()
    }));
    assert_eq!(plain.run(heuristic()).findings, []);
}

/// "The unique cycles are counted according to the number of units of work that the cycle
/// comprises."
#[test]
fn a_cycle_that_repeats_is_counted_once_and_by_its_size() {
    let mut text = String::new();
    for object in 0..150 {
        text += &format!(
            "T1 begin f
             T1 r @{object}.A.x
             T2 w @{object}.A.x
             T1 r @{object}.A.x
             T1 w @{object}.A.x
             T1 end
             T1 begin f
             T1 r @{object}.A.x
             T2 begin g
             T2 w @{object}.A.x
             T2 end
             T2 begin h
             T2 end
             T2 begin g
             T2 r @{object}.A.y
             T2 end
             T2 begin h
             T2 w @{object}.A.y
             T2 end
             T1 r @{object}.A.y
             T1 end\n"
        );
    }
    let mut trace = Trace::parse(&text);
    for event in &mut trace.events {
        event.site = SiteId(1);
    }
    let verdict = trace.run(heuristic());
    assert_eq!(verdict.stat("cycles of 2"), 1);
    assert_eq!(verdict.stat("cycles of 3"), 1, "g, by the order of T2 h, f");
    assert_eq!(verdict.findings.len(), 2);
    assert_eq!(verdict.total, 300);
    assert_eq!(verdict.findings[1].participants.len(), 3);
    assert!(
        verdict.findings[1]
            .notes
            .contains(&"g of T2 before h of T2 by the order of T2".into())
    );
}

#[test]
fn units_that_are_done_are_reclaimed() {
    let mut text = String::from("T1 begin long\nT1 w @0.A.x\n");
    for object in 1..200 {
        text += &format!(
            "T2 begin f
             T2 r @0.A.x
             T2 w @{object}.A.x
             T2 end
             T3 begin g
             T3 r @{object}.A.x
             T3 w @{object}.A.x
             T3 end\n"
        );
    }
    text += "T1 end\n";
    let trace = Trace::parse(&format!("{text}{text}"));
    let verdict = trace.run(heuristic());
    assert_eq!(verdict.findings, []);
    assert_eq!(
        verdict.stat("largest conflict graph"),
        200,
        "those after the long one, no more"
    );
    assert_eq!(verdict.stat("units of work"), 2 * (1 + 3 * 199));
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
    let choices = prop::collection::vec((0..3u32, 0..40u8, any::<u8>()), 2..60);
    let fields = prop_oneof![2 => 2..=5usize, 1 => 2..=FIELDS.len()];
    (fields, choices).prop_map(|(fields, choices)| {
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
        // No names: every variable is a set of its own, so there is less to violate.
        let each = trace.run(heuristic());
        prop_assert!(each.findings.is_empty() || !marathon.findings.is_empty());
    }
}
