//! The published traces: what is in them, and the verdict that the literature has for them.

use crate::support::{atomsan, published_traces};

/// Name, events, threads, locks, variables, outermost transactions, serializable; 0 where the
/// published table has no figure.
type Row = (&'static str, u64, u64, u64, u64, u64, bool);

const TABLE: &[Row] = &[
    ("rho1.std", 10, 3, 0, 2, 3, true),
    ("rho2.std", 8, 0, 0, 0, 2, false),
    ("rho3.std", 8, 0, 0, 0, 2, false),
    ("rho4.std", 12, 0, 0, 0, 3, false),
    ("fn2.std", 8, 0, 0, 0, 0, false),
    ("fn3.std", 10, 0, 0, 0, 0, false),
    ("fn4.std", 16, 0, 0, 0, 0, false),
    ("rho_ok.std", 16, 3, 1, 1, 2, true),
    ("rho_bad.std", 20, 3, 1, 1, 2, false),
    ("philo.std.zst", 609, 6, 1, 24, 0, true),
    ("elevator.std.zst", 280_302, 5, 50, 725, 22_666, true),
    ("tsp.std.zst", 9_778_716, 9, 2, 22_665, 582, true),
    ("lufact.std.zst", 9_995_984, 4, 1, 251_074, 4_209, false),
];

#[test]
fn the_counts_are_those_of_the_table() {
    let Some(folder) = published_traces() else {
        return;
    };
    for &(name, events, threads, locks, variables, transactions, _) in TABLE {
        let file = folder.join(name);
        let stats = atomsan(&["stats", "--json", file.to_str().unwrap()]).json();
        let check = |what: &str, expected: u64| {
            if expected > 0 {
                assert_eq!(stats[what], expected, "{what} of {name}");
            }
        };
        check("events", events);
        check("threads", threads);
        check("locks", locks);
        check("variables", variables);
        check("transactions", transactions);
    }
}

#[test]
fn the_verdicts_are_those_of_the_table() {
    let Some(folder) = published_traces() else {
        return;
    };
    for &(name, .., serializable) in TABLE {
        let file = folder.join(name);
        let engines = "--engine=velodrome,aerodrome";
        let said = atomsan(&["check", "--json", engines, file.to_str().unwrap()]);
        assert_eq!(said.code, if serializable { 0 } else { 66 }, "{name}");
        for engine in said.json()["engines"].as_array().unwrap() {
            assert_eq!(
                engine["clean"], serializable,
                "{} on {name}",
                engine["name"]
            );
        }
    }
}

#[test]
fn lufact_is_violated_at_the_event_that_others_report() {
    let Some(folder) = published_traces() else {
        return;
    };
    let file = folder.join("lufact.std.zst");
    for engine in ["velodrome", "aerodrome"] {
        let said = atomsan(&[
            "check",
            "--json",
            "--first",
            "--engine",
            engine,
            file.to_str().unwrap(),
        ]);
        // Ours counts from 0.
        assert_eq!(said.json()["findings"][0]["event"], 2_006_728, "{engine}");
    }
}
