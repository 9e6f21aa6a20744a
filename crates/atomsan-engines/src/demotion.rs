//! Demotion on blame: what a finding shows not to be atomic.
//!
//! A function that never was atomic, such as the loop of a worker, is one transaction as long as
//! it runs: it is reported, and what it calls is not looked at by itself. So when a trace has been
//! checked, the culprits are taken out of the specification and the trace is checked again, until
//! nothing new comes up: the papers' iterative refinement, on one execution. A function that calls a
//! culprit contains what is not atomic, and goes with it.

use crate::checker::Checker;
use atomsan_trace::finding::Finding;
use atomsan_trace::spec::Atomic;
use atomsan_trace::{FunctionId, Spec, Stacks};

/// Takes the culprits of all findings, and the functions that were open around them, out of the
/// specification. Whether there was anything to take out.
pub fn demote(checker: &Checker, spec: &mut Spec) -> bool {
    let names = checker.names();
    let mut demoted = false;
    for run in checker.runs() {
        for finding in run.findings.list() {
            for function in not_atomic(finding, checker.stacks()) {
                if names
                    .function(function)
                    .is_some_and(|f| f.atomic != Atomic::No)
                {
                    demoted |= spec.demote(&names.function_name(function));
                }
            }
        }
    }
    demoted
}

/// Demotion while the trace goes on: what is found from now on takes the culprits of new findings,
/// and the functions around them, as not atomic. A culprit that contains no other function stays:
/// there is nothing in it that could be checked by itself, and it may have another mistake. So may
/// one that does: it may be checked for some more rounds before it goes, because what is seen of it
/// first may be no more than the mistake of a function in it.
#[derive(Debug, Default)]
pub struct Demotion {
    /// How many findings of each engine have been looked at.
    seen: Vec<usize>,
    /// Functions that were found not to be atomic, and how many rounds they have left.
    waiting: Vec<(FunctionId, u32)>,
}

impl Demotion {
    /// Looks at the findings that are new; what they show not to be atomic goes after so many more
    /// rounds.
    pub fn demote(
        &mut self,
        checker: &mut Checker,
        rounds: u32,
        contains: impl Fn(FunctionId) -> bool,
    ) {
        self.seen.resize(checker.runs().len(), 0);
        for (run, seen) in checker.runs().iter().zip(&mut self.seen) {
            let findings = run.findings.list();
            for finding in &findings[(*seen).min(findings.len())..] {
                for function in not_atomic(finding, checker.stacks()) {
                    if self.waiting.iter().all(|&(known, _)| known != function) {
                        self.waiting.push((function, rounds));
                    }
                }
            }
            *seen = findings.len();
        }
        self.waiting.retain_mut(|(function, rounds)| {
            let waits = *rounds > 0;
            if !waits && contains(*function) {
                checker.demote(*function);
            }
            *rounds = rounds.saturating_sub(1);
            waits
        });
    }
}

/// The culprit, and what was open around it.
fn not_atomic(finding: &Finding, stacks: &Stacks) -> Vec<FunctionId> {
    let Some(culprit) = finding.culprit.region else {
        return Vec::new();
    };
    let first = finding.witness.iter().find(|step| step.participant == 0);
    let calls: Vec<FunctionId> = first
        .map(|step| {
            stacks
                .frames(step.stack)
                .map(|(function, _)| function)
                .collect()
        })
        .unwrap_or_default();
    let around = calls.iter().position(|&function| function == culprit);
    let mut functions = around.map_or_else(Vec::new, |at| calls[at..].to_vec());
    // A labelled block is no call.
    functions.push(culprit);
    functions.extend(finding.participants.first().and_then(|p| p.region));
    functions
}
