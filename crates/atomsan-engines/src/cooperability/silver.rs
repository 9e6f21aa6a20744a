//! Silver: where yields are needed.
//!
//! The `addInEdges` of Fig. 6: if an edge would close a cycle, a yield goes right before the
//! operation, which then is in a new transaction that nothing depends on yet. So no edge is ever
//! left out, and what is inferred is exact for the whole trace.
//!
//! A dynamic yield belongs to a place in the program. For each place Silver counts how often it
//! was needed and what interfered ([`Silver::yields`]), and it counts the interference points of
//! the program on the way ([`Silver::density`]).

use super::core::{Answer, Core, Rule, Violation};
use super::density::{Density, Points};
use super::yields::{Place, Yields};
use super::{Options, region_name};
use crate::engine::{Context, Engine, Occurrence, Stat};
use atomsan_trace::{Event, FunctionId, Names, SiteId};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// The yield inference.
#[derive(Debug)]
pub struct Silver {
    core: Core<Infer>,
}

/// Puts a yield there.
#[derive(Debug, Default)]
struct Infer {
    needed: HashMap<(SiteId, SiteId), Needed, FxBuildHasher>,
    points: Points,
}

/// Why a yield is needed at one place because of another.
#[derive(Debug)]
struct Needed {
    count: u64,
    /// The atomic region that it contradicts.
    region: Option<FunctionId>,
}

impl Silver {
    /// Nothing has happened yet.
    pub fn new(options: Options) -> Self {
        Silver {
            core: Core::new(Infer::default(), options),
        }
    }

    /// The yields inferred so far.
    pub fn yields(&self, names: &Names) -> Yields {
        let mut yields = Yields::default();
        for (&(site, conflict), needed) in &self.core.rule.needed {
            let place = yields.places.entry(Place::of(site, names)).or_default();
            place.count += needed.count;
            let conflicts = place.conflicts.entry(Place::of(conflict, names));
            *conflicts.or_default() += needed.count;
            let region = needed.region.map(|region| region_name(region, names));
            place.regions.extend(region);
        }
        yields
    }

    /// The sites of the yields inferred so far, in order.
    pub fn sites(&self) -> Vec<SiteId> {
        let mut sites: Vec<SiteId> = (self.core.rule.needed.keys())
            .map(|(site, _)| *site)
            .collect();
        sites.sort_unstable();
        sites.dedup();
        sites
    }

    /// The interference points so far.
    pub fn density(&self) -> Density {
        self.core.rule.points.density()
    }
}

impl Engine for Silver {
    fn name(&self) -> &'static str {
        "silver"
    }

    #[inline]
    fn event(&mut self, at: &Occurrence, cx: &mut Context<'_>) {
        self.core.event(at, cx);
    }

    fn product(&self, names: &Names) -> Option<String> {
        Some(self.yields(names).to_string())
    }

    fn stats(&self) -> Vec<Stat> {
        let stat = |name, value| Stat { name, value };
        let density = self.density();
        let per_myriad = |points| (10_000.0 * density.share(points)).round() as u64;
        let yields = self.core.rule.needed.values().map(|needed| needed.count);
        let mut stats = vec![
            stat("threads", density.threads),
            stat("sites", density.sites),
            stat("preemptive points", density.preemptive),
            stat(
                "preemptive density (per 10,000)",
                per_myriad(density.preemptive),
            ),
            stat("atomic points", density.atomic),
            stat("atomic density (per 10,000)", per_myriad(density.atomic)),
            stat("cooperative points", density.cooperative),
            stat(
                "cooperative density (per 10,000)",
                per_myriad(density.cooperative),
            ),
            stat("inferred points", density.inferred),
            stat("inferred yields", yields.sum()),
        ];
        stats.extend(self.core.stats());
        stats
    }
}

impl Rule for Infer {
    fn violated(&mut self, violation: &Violation<'_>, _cx: &mut Context<'_>) -> Answer {
        let (from, to) = (&violation.from.at, &violation.to.at);
        let key = (to.event.site, from.event.site);
        let needed = self.needed.entry(key).or_insert_with(|| Needed {
            count: 0,
            region: violation.broken_region().map(|frame| frame.function),
        });
        needed.count += 1;
        self.points.inferred(to.event.site);
        Answer::Yield
    }

    #[inline]
    fn observe(&mut self, event: &Event, inside: bool) {
        self.points.observe(event, inside);
    }

    fn entered(&mut self, event: &Event) {
        self.points.entered(event.site);
    }

    fn yielded(&mut self, event: &Event) {
        self.points.yielded(event.site);
    }
}
