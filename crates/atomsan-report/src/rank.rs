//! How much attention a finding deserves.

use atomsan_trace::finding::{Anomaly, Finding};
use atomsan_trace::{Names, Op, SiteId};
use serde::{Deserialize, Serialize};

/// How much attention a finding deserves. The order is from least to most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rank {
    /// One place in two turns of a loop, or no region to blame.
    Low,
    /// Wrong, but honest idioms have the same shape: look under the read lock, miss, take the
    /// write lock, look again.
    Medium,
    /// Two places of one region, and an update is lost, overwritten or seen half-done.
    High,
}

impl Rank {
    pub(crate) fn of(finding: &Finding, names: &Names) -> Rank {
        let (first, second) = finding.culprit.between;
        // The same place may have two numbers, if it was a second look once.
        let frames = |site: SiteId| names.site(site).map(|site| &site.frames);
        let same_place = frames(first) == frames(second) && names.is_placed(first);
        let blamed_region = finding
            .participants
            .iter()
            .any(|participant| participant.blamed && participant.region.is_some());
        match finding.anomaly {
            _ if !blamed_region || same_place => Rank::Low,
            Anomaly::LostUpdate | Anomaly::IntermediateState | Anomaly::Overwritten
                if looked_again(finding, names).is_some() =>
            {
                Rank::Medium
            }
            Anomaly::LostUpdate if noticed(finding) => Rank::Medium,
            Anomaly::IntermediateState if is_atomic(finding) => Rank::Medium,
            _ if is_next_turn(finding, names) => Rank::Medium,
            // Two places, of which one is not known, may be one.
            _ if names.is_placed(first) != names.is_placed(second) => Rank::Medium,
            Anomaly::LostUpdate | Anomaly::IntermediateState | Anomaly::Overwritten => Rank::High,
            Anomaly::NonRepeatableRead
            | Anomaly::InconsistentPair
            | Anomaly::Cycle(_)
            | Anomaly::NotSerializable
            | Anomaly::NotReducible
            | Anomaly::MissingYield => Rank::Medium,
        }
    }
}

/// Whether the first step is an exchange that failed: the program knows that the value was out of date, and
/// whatever it does next, it does about that.
fn noticed(finding: &Finding) -> bool {
    let mut own = finding.witness.iter().filter(|step| step.participant == 0);
    let first = own.find(|step| step.event.op.var().is_some());
    first.is_some_and(|step| matches!(step.event.op, Op::AtomicRmwFailed(_)))
}

/// Whether the second place is above the first one in the region's own lines: it is in a later turn of a
/// loop, and a loop is seldom meant to be one step.
fn is_next_turn(finding: &Finding, names: &Names) -> bool {
    let line = |site: SiteId| {
        let frames = names.site(site).map_or(&[][..], |site| &site.frames);
        let mut own = frames
            .iter()
            .filter(|frame| frame.function == finding.culprit.region);
        own.next().map(|frame| (&frame.file, frame.line))
    };
    let (first, second) = finding.culprit.between;
    line(first)
        .zip(line(second))
        .is_some_and(|(first, second)| first.0 == second.0 && second.1 < first.1 && second.1 != 0)
}

/// Whether all that the culprit did was atomic: each state of an atomic variable is meant to be seen, for
/// all we know (under way, done).
fn is_atomic(finding: &Finding) -> bool {
    let mut own = finding.witness.iter().filter(|step| step.participant == 0);
    own.all(|step| step.event.op.is_atomic() || step.event.op.var().is_none())
}

/// Whether the culprit's last step is part of a second update, or a write after a second look, or part of
/// such a look (a table that makes room for what may be inserted): nothing is known to be lost then. Returns the place
/// of that look, if it was one.
pub(crate) fn looked_again(finding: &Finding, names: &Names) -> Option<SiteId> {
    let own = finding.witness.iter().rfind(|step| step.participant == 0);
    let site = own?.event.site;
    let after_look = names.site(site).and_then(|site| site.looked_again);
    after_look.or_else(|| {
        let mut sites = names.sites().iter();
        let is_look = sites.any(|other| other.looked_again == Some(site));
        is_look.then_some(site)
    })
}
