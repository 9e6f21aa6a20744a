//! A report for the unit tests.

use crate::rank::Rank;
use crate::resolve::{Culprit, Place, Report, Step, Transaction};

/// `withdraw` reads, another `withdraw` writes, and it writes.
pub(crate) fn report() -> Report {
    let step = |thread: &str, op: &str, line, transaction, event| Step {
        thread: thread.to_owned(),
        op: op.to_owned(),
        target: Some("balance".to_owned()),
        place: Place {
            function: Some("withdraw".to_owned()),
            file: Some("src/bank.rs".to_owned()),
            line: Some(line),
        },
        event,
        transaction,
        note: None,
        stack: Vec::new(),
    };
    let transaction = |thread: &str, blamed| Transaction {
        thread: thread.to_owned(),
        spawned: None,
        region: Some("withdraw".to_owned()),
        blamed,
    };
    Report {
        engine: "velodrome".to_owned(),
        criterion: "conflict-serializability".to_owned(),
        status: "observed".to_owned(),
        rank: Rank::High,
        anomaly: "lost-update".to_owned(),
        message: "it wrote from a value that another thread had changed since".to_owned(),
        culprit: Culprit {
            function: Some("withdraw".to_owned()),
            file: Some("src/bank.rs".to_owned()),
            lines: vec![10, 12],
        },
        transactions: vec![
            transaction("thread 1", true),
            transaction("thread 2", false),
        ],
        witness: vec![
            step("thread 1", "read", 10, 0, 3),
            step("thread 2", "write", 12, 1, 7),
            step("thread 1", "write", 12, 0, 9),
        ],
        edges: vec![(0, 1), (1, 2)],
        event: 9,
        count: 1,
        total: 1,
        notes: Vec::new(),
        agreeing: Vec::new(),
        also: Vec::new(),
        accepted: None,
        fingerprint: "0123456789abcdef".to_owned(),
        ways: Vec::new(),
    }
}
