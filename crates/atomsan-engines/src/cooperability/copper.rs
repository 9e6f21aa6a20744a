//! Copper: the operations at which a yield is missing.
//!
//! The `addInEdges` of Fig. 5: an edge that would close a cycle is reported and left out. The
//! finding shows the whole cycle: the step with which the transaction came before the others,
//! theirs, and the operation that comes after them and so lacks a yield in front of it, each with
//! its stack.
//!
//! The verdict is exact: something is reported if and only if the trace is not serializable with
//! the yields it has, and the first report is at the first event that makes it so. What is
//! reported later is always a true cycle; but as an edge was left out, not every later one is seen.

use super::core::{Answer, Core, Rule, Violation};
use super::{Options, region_name};
use crate::culprit::culprit;
use crate::cycle::describe;
use crate::engine::{Context, Engine, Occurrence, Stat};
use atomsan_trace::finding::{Anomaly, Criterion, Finding, Role};

/// The cooperability checker.
#[derive(Debug)]
pub struct Copper {
    core: Core<Report>,
}

/// Reports and leaves the edge out.
#[derive(Debug)]
struct Report;

impl Copper {
    /// Nothing has happened yet.
    pub fn new(options: Options) -> Self {
        Copper {
            core: Core::new(Report, options),
        }
    }
}

impl Engine for Copper {
    fn name(&self) -> &'static str {
        "copper"
    }

    #[inline]
    fn event(&mut self, at: &Occurrence, cx: &mut Context<'_>) {
        self.core.event(at, cx);
    }

    fn stats(&self) -> Vec<Stat> {
        self.core.stats()
    }
}

impl Rule for Report {
    fn violated(&mut self, violation: &Violation<'_>, cx: &mut Context<'_>) -> Answer {
        let (from, to) = (&violation.from.at, &violation.to.at);
        let Context {
            names,
            stacks,
            findings,
        } = cx;
        // The place that lacks a yield, and the one that interferes.
        let key = (to.event.site, from.event.site);
        findings.report(key, || {
            let cycle = violation.cycle();
            let first = cycle[0].data.0;
            let frames = violation.regions.frames(to.event.thread);
            let mut finding = Finding {
                criterion: Criterion::Cooperability,
                anomaly: Anomaly::MissingYield,
                culprit: culprit(frames, (names, stacks), &first, to),
                ..describe("copper", violation.graph, &cycle)
            };
            finding.participants[0].blamed = true;
            if let Some(step) = finding.witness.iter_mut().find(|s| s.index == to.index) {
                step.role = Role::Violated;
            }
            if let Some(region) = violation.broken_region() {
                let region = region_name(region.function, names);
                finding.notes.push(format!(
                    "{region} is declared atomic; a yield here would say that it is not"
                ));
            }
            finding
        });
        Answer::LeaveOut
    }
}
