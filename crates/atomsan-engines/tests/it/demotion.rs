//! What is reported is taken out of the specification, and what it contains is checked by itself.

use crate::trace::Trace;
use atomsan_engines::checker::Checker;
use atomsan_engines::demotion::demote;
use atomsan_engines::doublechecker::{DoubleChecker, Options};
use atomsan_trace::spec::Atomic;
use atomsan_trace::{Batch, Spec};
use std::collections::BTreeSet;

/// Two workers, each in one call that never ends, whose jobs are not atomic either.
const WORKERS: &str = "
    t1 enter main
    t2 enter run
    t1 enter work
    t2 enter work
    t1 w queue
    t2 w queue
    t1 w queue
    t1 enter job
    t1 r x
    t2 enter job
    t2 r x
    t2 w x
    t2 exit job
    t1 w x
    t1 exit job
    t2 w queue";

fn check(spec: &str) -> Checker {
    let Trace { events, names } = Trace::parse_with_spec(WORKERS, spec);
    let engine = DoubleChecker::new(Options::default());
    let mut checker = Checker::new(names, vec![Box::new(engine)], false);
    checker.batch(&mut Batch {
        events,
        ..Batch::default()
    });
    checker.finish();
    checker
}

fn culprits(checker: &Checker) -> BTreeSet<String> {
    let findings = checker.runs()[0].findings.list().iter();
    let regions = findings.filter_map(|finding| finding.culprit.region);
    let names = regions.map(|region| checker.names().function_name(region).into_owned());
    names.collect()
}

#[test]
fn what_a_culprit_contains_is_checked_by_itself() {
    let mut spec = Spec::default();
    let first = check("");
    assert_eq!(culprits(&first), BTreeSet::from(["work".into()]));
    assert!(demote(&first, &mut spec));
    assert_eq!(spec.decide("work"), Atomic::No);
    assert_eq!(spec.decide("job"), Atomic::UnlessEntry);
    let second = check("!work");
    assert_eq!(culprits(&second), BTreeSet::from(["job".into()]));
    assert!(demote(&second, &mut spec));
    assert_eq!(spec.decide("job"), Atomic::No);
    let third = check("!work\n!job");
    assert!(culprits(&third).is_empty() && !demote(&third, &mut spec));
}
