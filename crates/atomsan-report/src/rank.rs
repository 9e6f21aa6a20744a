//! How much attention a finding deserves.

use atomsan_trace::finding::{Anomaly, Finding};
use atomsan_trace::{Names, SiteId};
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
        let same_place = first == second && names.is_placed(first);
        let blamed_region = finding
            .participants
            .iter()
            .any(|participant| participant.blamed && participant.region.is_some());
        match finding.anomaly {
            _ if !blamed_region || same_place => Rank::Low,
            Anomaly::LostUpdate if looked_again(finding, names) => Rank::Medium,
            Anomaly::IntermediateState if is_atomic(finding) => Rank::Medium,
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

/// Whether all that the culprit did was atomic: each state of an atomic variable is meant to be seen, for
/// all we know (under way, done).
fn is_atomic(finding: &Finding) -> bool {
    let mut own = finding.witness.iter().filter(|step| step.participant == 0);
    own.all(|step| step.event.op.is_atomic() || step.event.op.var().is_none())
}

/// Whether the culprit's last step is a write after a second look, or part of such a look (a table
/// that makes room for what may be inserted): nothing is known to be lost then.
pub(crate) fn looked_again(finding: &Finding, names: &Names) -> bool {
    let own = finding.witness.iter().rfind(|step| step.participant == 0);
    let Some(site) = own.map(|step| step.event.site) else {
        return false;
    };
    let after_look = |site: SiteId| names.site(site).and_then(|site| site.looked_again);
    after_look(site).is_some()
        || names
            .sites()
            .iter()
            .any(|other| other.looked_again == Some(site))
}
