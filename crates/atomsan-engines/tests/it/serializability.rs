//! Velodrome and AeroDrome: small traces by name, and random ones against the definition.

use crate::oracle;
use crate::random::{self, Shape};
use crate::trace::{Trace, Verdict};
use atomsan_engines::aerodrome::Aerodrome;
use atomsan_engines::velodrome::{Options, Velodrome};
use atomsan_trace::finding::Anomaly;
use proptest::prelude::*;

fn velodrome(trace: &Trace) -> Verdict {
    trace.run(Velodrome::new(Options::default()))
}

fn aerodrome(trace: &Trace) -> Verdict {
    trace.run(Aerodrome::new(Options::default()))
}

const WITHDRAW: &str = "
    t1 begin withdraw
    t1 acq m
    t1 r balance
    t1 rel m
    t2 begin withdraw
    t2 acq m
    t2 r balance
    t2 rel m
    t2 acq m
    t2 w balance
    t2 rel m
    t2 end
    t1 acq m
    t1 w balance
    t1 rel m
    t1 end
";

#[test]
fn withdraw_is_a_lost_update_without_the_lock_edges() {
    let options = Options {
        sync_edges: false,
        ..Options::default()
    };
    let verdict = Trace::parse(WITHDRAW).run(Velodrome::new(options));
    assert_eq!(verdict.findings.len(), 1);
    let finding = &verdict.findings[0];
    assert_eq!(finding.anomaly, Anomaly::LostUpdate);
    assert_eq!(finding.culprit.between.0.0, 4, "the read");
    assert_eq!(finding.culprit.between.1.0, 15, "the write");
    let order: Vec<u64> = finding.witness.iter().map(|step| step.index).collect();
    assert_eq!(order, [2, 9, 13], "read, the other's write, write");
    assert!(finding.participants[0].blamed && !finding.participants[1].blamed);
}

#[test]
fn withdraw_is_split_at_the_lock() {
    let verdict = velodrome(&Trace::parse(WITHDRAW));
    let finding = &verdict.findings[0];
    assert_eq!(finding.index, 12, "the second acquire closes the cycle");
    assert_eq!(
        finding.culprit.between.0.0, 4,
        "the read: data says more than locks"
    );
    assert_eq!(finding.culprit.between.1.0, 14, "the acquire");
    assert_eq!(
        verdict.findings[1].anomaly,
        Anomaly::LostUpdate,
        "the write"
    );
    assert_eq!(aerodrome(&Trace::parse(WITHDRAW)).findings[0].index, 12);
}

#[test]
fn every_edge_of_a_longer_cycle_is_in_the_finding() {
    let verdict = velodrome(&Trace::parse(
        "t1 begin f
         t1 w x
         t2 begin g
         t2 r x
         t2 w y
         t2 end
         t3 r y
         t3 begin h
         t3 w z
         t3 end
         t1 r z
         t1 end",
    ));
    assert_eq!(verdict.findings.len(), 1);
    let finding = &verdict.findings[0];
    assert_eq!(finding.anomaly, Anomaly::Cycle(4));
    let threads: Vec<u32> = finding.participants.iter().map(|p| p.thread.0).collect();
    assert_eq!(threads, [0, 1, 2, 2], "f, g, the unary read, h");
    assert_eq!(finding.edges.len(), 4);
    let blamed: Vec<bool> = finding.participants.iter().map(|p| p.blamed).collect();
    assert_eq!(blamed, [true, false, false, false]);
    for &(from, to) in &finding.edges {
        assert!(
            from < to,
            "edges point forward in time: {:?}",
            finding.edges
        );
    }
}

#[test]
fn blame_is_not_on_a_transaction_that_ran_alone() {
    let verdict = velodrome(&Trace::parse(
        "t1 begin f
         t1 w y
         t2 begin g
         t2 w x
         t2 r y
         t2 end
         t1 r x
         t1 end",
    ));
    let participants = &verdict.findings[0].participants;
    let blamed: Vec<(u32, bool)> = participants
        .iter()
        .map(|p| (p.thread.0, p.blamed))
        .collect();
    assert_eq!(blamed, [(0, true), (1, false)]);
}

/// While a transaction is interrupted, another thread does the same a thousand times.
#[test]
fn a_cycle_through_a_thousand_transactions_is_shown_as_the_two_that_matter() {
    let mut text = String::from("t1 begin withdraw\nt1 r balance\n");
    for _ in 0..1000 {
        text.push_str("t2 begin withdraw\nt2 r balance\nt2 w balance\nt2 end\n");
    }
    text.push_str("t1 w balance\nt1 end\n");
    let verdict = velodrome(&Trace::parse(&text));
    let finding = &verdict.findings[0];
    assert_eq!(finding.anomaly, Anomaly::LostUpdate);
    assert_eq!(finding.witness.len(), 3);
    let text = text
        .replace("t1 w balance", "t1 r log")
        .replace("t2 end", "t2 w log\nt2 end");
    let finding = &velodrome(&Trace::parse(&text)).findings[0];
    assert_eq!(finding.anomaly, Anomaly::InconsistentPair);
    assert!(
        finding.participants.len() <= 3,
        "{:?}",
        finding.participants
    );
}

#[test]
fn a_violation_that_repeats_is_one_finding() {
    let mut text = String::from("t1 begin f\n");
    for _ in 0..5 {
        text.push_str("t1 w x \n t2 w x \n");
    }
    let mut trace = Trace::parse(&text);
    for event in &mut trace.events {
        event.site.0 = u32::from(event.thread.0 == 0);
    }
    for verdict in [velodrome(&trace), aerodrome(&trace)] {
        assert_eq!(verdict.findings.len(), 1);
        assert_eq!(verdict.findings[0].count, 4);
        assert_eq!(verdict.total, 4);
    }
}

#[test]
fn the_culprit_is_the_innermost_invocation_that_spans_both_accesses() {
    let trace = Trace::parse(
        "t1 enter main
         t1 enter outer
         t1 enter transfer
         t1 enter get
         t1 r balance
         t1 exit get
         t2 w balance
         t1 enter set
         t1 w balance
         t1 exit set
         t1 exit transfer
         t1 exit outer",
    );
    let finding = &velodrome(&trace).findings[0];
    let region = finding.culprit.region.unwrap();
    assert_eq!(trace.names.function_name(region), "transfer");
    assert_eq!(finding.culprit.between.0.0, 4, "the call of get");
    assert_eq!(finding.culprit.between.1.0, 8, "the call of set");
}

/// An access behind a region joins the region's transaction, but is not in the region.
#[test]
fn an_access_right_behind_a_region_is_not_in_it() {
    let trace = Trace::parse(
        "a begin g
         b begin h
         b r x
         a r x
         c w x
         c begin f
         b w x
         c end
         b end
         c w x
         a r x",
    );
    let verdict = velodrome(&trace);
    let finding = verdict.findings.last().unwrap();
    let steps = finding.witness.iter();
    let intruders: Vec<_> = steps
        .filter(|step| step.event.thread.0 == 2)
        .map(|step| (step.index, finding.participants[step.participant].region))
        .collect();
    assert!(intruders.contains(&(9, None)), "{intruders:?}");
}

#[test]
fn a_yield_splits_the_transaction() {
    let text = "
        t1 begin start
        t1 w x
        t1 yield
        t2 r x
        t2 w y
        t1 r y
        t1 end";
    assert!(velodrome(&Trace::parse(text)).findings.is_empty());
    assert!(aerodrome(&Trace::parse(text)).findings.is_empty());
    let without = text.replace("t1 yield", "");
    assert_eq!(velodrome(&Trace::parse(&without)).findings.len(), 1);
}

#[test]
fn waiting_splits_the_transaction() {
    let text = "
        t1 begin take
        t1 acq m
        t1 r full
        t1 wait m
        t2 begin put
        t2 acq m
        t2 w full
        t2 notify m
        t2 rel m
        t2 end
        t1 woken m
        t1 r full
        t1 rel m
        t1 end";
    assert!(velodrome(&Trace::parse(text)).findings.is_empty());
    assert!(aerodrome(&Trace::parse(text)).findings.is_empty());
    let without = text.replace("wait", "rel").replace("woken", "acq");
    let verdict = velodrome(&Trace::parse(&without));
    let closing: Vec<u64> = verdict
        .findings
        .iter()
        .map(|finding| finding.index)
        .collect();
    assert_eq!(closing, [10, 11], "the second acquire, and the second read");
}

/// Both engines, against the definition and each other.
fn agree(trace: &Trace, sync_edges: bool) -> Result<(), TestCaseError> {
    let truth = oracle::judge(trace, sync_edges);
    let options = Options {
        sync_edges,
        ..Options::default()
    };
    let velodrome = trace.run(Velodrome::new(options.clone()));
    let aerodrome = trace.run(Aerodrome::new(options));
    let first = |verdict: &Verdict| verdict.findings.first().map(|finding| finding.index);
    prop_assert_eq!(first(&velodrome), truth.violations.first().copied());
    prop_assert_eq!(first(&aerodrome), truth.violations.first().copied());
    let all = |verdict: &Verdict| -> Vec<(u64, u64)> {
        let findings = verdict.findings.iter();
        findings
            .map(|finding| (finding.index, finding.count))
            .collect()
    };
    prop_assert_eq!(all(&velodrome), all(&aerodrome));
    for finding in &velodrome.findings {
        check_witness(trace, &truth, finding, sync_edges)?;
    }
    Ok(())
}

/// A witness is a cycle of real conflicts, and blame is what blame is defined to be.
pub fn check_witness(
    trace: &Trace,
    truth: &oracle::Truth,
    finding: &atomsan_trace::Finding,
    sync_edges: bool,
) -> Result<(), TestCaseError> {
    let steps = &finding.witness;
    for step in steps {
        prop_assert_eq!(step.event, trace.events[step.index as usize]);
    }
    let count = finding.participants.len();
    prop_assert_eq!(finding.edges.len(), count);
    for (number, &(from, to)) in finding.edges.iter().enumerate() {
        let (from, to) = (&steps[from], &steps[to]);
        prop_assert!(from.index < to.index);
        prop_assert!(oracle::conflict(&from.event, &to.event, sync_edges));
        prop_assert_eq!(
            to.participant,
            (number + 1) % count,
            "the next one of the cycle"
        );
        // An edge arrives and the next one leaves in one transaction, or further on in its thread.
        let (leaving, arriving) = finding.edges[(number + 1) % count];
        let (leaving, arriving) = (&steps[leaving], &steps[arriving]);
        prop_assert_eq!(leaving.event.thread, to.event.thread);
        let transaction = |index: u64| truth.transactions[index as usize];
        let participant = &finding.participants[(number + 1) % count];
        prop_assert_eq!(participant.thread, leaving.event.thread);
        prop_assert_eq!(participant.region, oracle::region(trace, leaving.index));
        let blamed = participant.blamed;
        prop_assert_eq!(blamed, arriving.index < to.index);
        if blamed {
            prop_assert_eq!(transaction(leaving.index), transaction(to.index));
        } else {
            prop_assert!(
                transaction(leaving.index) == transaction(to.index) || leaving.index > to.index
            );
        }
    }
    prop_assert!(finding.participants[0].blamed);
    Ok(())
}

fn cases(count: u32) -> ProptestConfig {
    ProptestConfig::with_cases(count)
}

proptest! {
    #![proptest_config(cases(300_000))]
    #[test]
    fn everything_undisciplined(trace in random::traces(Shape::small())) {
        agree(&trace, true)?;
    }
}

proptest! {
    #![proptest_config(cases(100_000))]
    #[test]
    fn locks_with_discipline(trace in random::traces(Shape {
        disciplined: true, length: 60, threads: 3, ..Shape::small()
    })) {
        agree(&trace, true)?;
    }
}

proptest! {
    #![proptest_config(cases(100_000))]
    #[test]
    fn data_conflicts_only(trace in random::traces(Shape { exotic: false, ..Shape::small() })) {
        agree(&trace, false)?;
    }
}

proptest! {
    #![proptest_config(cases(5_000))]
    #[test]
    fn long_traces(trace in random::traces(Shape {
        threads: 6, vars: 8, length: 250, ..Shape::small()
    })) {
        agree(&trace, true)?;
    }
}

proptest! {
    #![proptest_config(cases(20_000))]
    #[test]
    fn forgetting_changes_nothing(trace in random::traces(Shape {
        threads: 5, length: 120, ..Shape::small()
    })) {
        let all = |verdict: Verdict| -> Vec<(u64, u64)> {
            let findings = verdict.findings.iter();
            findings.map(|finding| (finding.index, finding.count)).collect()
        };
        let expected = all(velodrome(&trace));
        let options = Options { keep: Some(2), ..Options::default() };
        prop_assert_eq!(all(trace.run(Velodrome::new(options.clone()))), expected.clone());
        prop_assert_eq!(all(trace.run(Aerodrome::new(options))), expected);
    }
}

/// A comparison is worth something only if both verdicts are common.
#[test]
fn random_traces_are_of_both_kinds() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let strategy = random::traces(Shape::small());
    let violating = (0..1000)
        .filter(|_| {
            let trace = strategy.new_tree(&mut runner).unwrap().current();
            !oracle::judge(&trace, true).violations.is_empty()
        })
        .count();
    assert!((200..=800).contains(&violating), "{violating} of 1000");
}

/// A transaction that never ends, and ten thousand others that come after it: what nothing refers
/// to is forgotten, and the violation at the end is still found.
#[test]
fn a_transaction_that_never_ends_does_not_keep_the_rest() {
    let mut text = String::from("main begin f\nmain w x\nt1 r x\n");
    for turn in 0..10_000 {
        text.push_str(&format!("t{} begin g\n", turn % 3 + 1));
        text.push_str(&format!("t{} w y{}\n", turn % 3 + 1, turn % 2));
        text.push_str(&format!("t{} end\n", turn % 3 + 1));
    }
    text.push_str("main r y0\nmain end\n");
    let trace = Trace::parse(&text);
    let last = trace.events.len() as u64 - 2;
    for verdict in [velodrome(&trace), aerodrome(&trace)] {
        let found: Vec<u64> = verdict.findings.iter().map(|f| f.index).collect();
        assert_eq!(found, [last]);
    }
    let verdict = aerodrome(&trace);
    assert_eq!(verdict.stat("transactions"), 10_001);
    assert!(verdict.stat("most transactions kept") < 3_000);
}
