//! DoubleChecker: an imprecise analysis that is cheap, and a precise one for what it cannot rule
//! out (Biswas, Huang, Sengupta, Bond; PLDI 2014).
//!
//! | piece | what it is | in the paper |
//! |---|---|---|
//! | [`octet`] | who owns an object; which edges a change of owner means | Table 1, Fig. 4 |
//! | [`places`] | what is owned, and what is accessed | 3.2.1, 3.2.2 |
//! | [`icd`] | imprecise cycle detection: edges, unary transactions | 3.2 |
//! | [`idg`] | the imprecise dependence graph: components, reclaiming | 3.2.3 |
//! | [`log`] | what each transaction accessed | 3.2.4 |
//! | [`frames`] | in which invocations it did | |
//! | [`pcd`] | precise cycle detection on one component | 3.3, Fig. 5 |
//! | [`runs`] | what a first run tells a second | 3.1 |
//!
//! In a single run, ICD watches everything and logs; PCD replays the logs of each strongly
//! connected component that ICD finds. Every cycle of precise dependences is in one of them, so
//! the verdict is Velodrome's. With two runs, the first has ICD without logs and says which
//! regions were in components; the second does the same as a single run, but for these regions
//! only. Over one and the same trace that finds the same: each participant of a precise cycle was
//! in a component of the first run.
//!
//! A violation is found when the last of the transactions of its cycle has finished; those that
//! are open at the end of the trace are finished there.

pub mod frames;
pub mod icd;
pub mod idg;
pub mod log;
pub mod octet;
pub mod pcd;
pub mod places;
pub mod runs;

use crate::engine::{Context, Engine, Occurrence, Stat};
use crate::regions::{Boundary, Regions};
use atomsan_trace::numbers::grouped;
use atomsan_trace::{FunctionId, LockId, Names, Op, SiteId, ThreadId};
use hashbrown::HashMap;
use icd::Icd;
use log::Kind;
use pcd::Pcd;
use places::{Channel, Granularity, Places};
use runs::StaticInfo;
use rustc_hash::FxBuildHasher;
use std::fmt;

/// Which of the paper's modes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// ICD and PCD on everything.
    #[default]
    SingleRun,
    /// ICD only; [`DoubleChecker::static_info`] is what it finds.
    FirstRun,
    /// ICD and PCD on what a first run has found.
    SecondRun(StaticInfo),
}

/// What can be chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Which mode.
    pub mode: Mode,
    /// What changes owner as one.
    pub granularity: Granularity,
    /// Whether synchronisation makes edges, or memory accesses only.
    pub sync_edges: bool,
    /// How many transactions a component may have and still be looked at again as a whole when it
    /// grows, once there are violations in it. Where two threads violate each other without a
    /// pause, the component grows as long as they do, and each transaction that ends would cost
    /// more than the one before. Beyond the limit the older transactions, which have been checked,
    /// are forgotten; what is lost are further violations whose cycles span half of the limit. The
    /// verdict is not affected, it is known by then.
    pub component_limit: usize,
    /// How many transactions and accesses of them may be kept, together. A transaction whose thread does not
    /// run for long reaches what others do meanwhile, and all of it is kept; beyond the limit the older
    /// ones are forgotten, and the verdict says so.
    pub room: usize,
    /// How many transactions must have finished, at least, before their components are looked for.
    pub patience: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            mode: Mode::SingleRun,
            granularity: Granularity::Variable,
            sync_edges: true,
            component_limit: 512,
            room: 6 << 20,
            patience: 1,
        }
    }
}

/// Sees each component that ICD finds.
type Observer = Box<dyn FnMut(&Icd) + Send>;

/// The engine.
pub struct DoubleChecker {
    options: Options,
    regions: Regions,
    places: Places,
    icd: Icd,
    pcd: Pcd,
    found: StaticInfo,
    /// Whether a region is one to look at, once asked.
    watched: HashMap<FunctionId, bool, FxBuildHasher>,
    length: u64,
    counts: Counts,
    observer: Option<Observer>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    transactions: u64,
    regular: u64,
    unary: u64,
    components: u64,
}

impl fmt::Debug for DoubleChecker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoubleChecker")
            .field("options", &self.options)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl DoubleChecker {
    /// Nothing has happened yet.
    pub fn new(options: Options) -> Self {
        let mut icd = Icd::new(options.mode != Mode::FirstRun);
        icd.idg_mut().limit(options.room);
        DoubleChecker {
            regions: Regions::default(),
            places: Places::new(options.granularity),
            icd,
            pcd: Pcd::new(options.sync_edges),
            found: StaticInfo::default(),
            watched: HashMap::default(),
            length: 0,
            counts: Counts::default(),
            observer: None,
            options,
        }
    }

    /// Calls `observer` with each component that ICD finds, before PCD looks at it; it is
    /// [`idg::Idg::component`].
    pub fn observe(&mut self, observer: impl FnMut(&Icd) + Send + 'static) {
        self.observer = Some(Box::new(observer));
    }

    /// What a first run tells the second: complete after [`Engine::finish`].
    pub fn static_info(&self) -> &StaticInfo {
        &self.found
    }

    /// Whether this run looks at transactions of the region, or (without one) at unary ones.
    #[inline]
    fn watches(&mut self, region: Option<FunctionId>, names: &Names) -> bool {
        let Mode::SecondRun(info) = &self.options.mode else {
            return true;
        };
        let Some(region) = region else {
            return info.unary;
        };
        let watched = || info.regions.contains(&*names.function_name(region));
        *self.watched.entry(region).or_insert_with(watched)
    }

    /// Opens what an event opens. Whether the event is to be looked at.
    #[inline]
    fn enter(&mut self, at: &Occurrence, boundary: Boundary, names: &Names) -> bool {
        match boundary {
            Boundary::Begin(region) => self.begin(at, region, at.event.site, names),
            Boundary::Inside | Boundary::Split if self.icd.is_in_transaction(at.event.thread) => {
                true
            }
            Boundary::Inside | Boundary::Split => self.resume(at, names),
            Boundary::End if self.icd.is_in_transaction(at.event.thread) => true,
            Boundary::Outside | Boundary::End => self.watches(None, names),
        }
    }

    fn begin(
        &mut self,
        at: &Occurrence,
        region: FunctionId,
        entered: SiteId,
        names: &Names,
    ) -> bool {
        let watched = self.watches(Some(region), names);
        if watched {
            self.counts.transactions += 1;
            self.icd.begin(at, region, entered);
        }
        watched
    }

    /// In a region, but in no transaction: it was split before this event, or is not watched.
    fn resume(&mut self, at: &Occurrence, names: &Names) -> bool {
        let mut frames = self.regions.frames(at.event.thread).iter();
        match frames.find(|frame| frame.atomic).copied() {
            Some(frame) => self.begin(at, frame.function, frame.site, names),
            None => false,
        }
    }

    /// What an event that is looked at accesses.
    #[inline]
    fn look(&mut self, at: &Occurrence, names: &Names) {
        let forked = self.options.sync_edges && self.icd.forked(at);
        if let Some(var) = at.event.op.var() {
            if self.icd.is_in_transaction(at.event.thread) {
                self.counts.regular += 1;
            } else {
                self.counts.unary += 1;
            }
            let kind = if at.event.op.writes() {
                Kind::Write
            } else {
                Kind::Read
            };
            let place = self.places.var(var, names);
            self.icd.own(at, kind, place, self.places.len());
            self.icd.log(at, kind, place);
        } else if self.options.sync_edges {
            self.synchronise(at);
        }
        if forked {
            self.icd.log_event(at);
        }
        // A fork is in the log by now, once or twice.
        if let Op::Fork(child) = at.event.op
            && self.options.sync_edges
        {
            self.icd.fork(at.event.thread, child);
        }
    }

    fn synchronise(&mut self, at: &Occurrence) {
        match at.event.op {
            Op::Acquire(lock) | Op::Woken(lock) => {
                self.consume(at, lock, &[Channel::Exclusive, Channel::Shared]);
            }
            Op::AcquireShared(lock) => self.consume(at, lock, &[Channel::Exclusive]),
            Op::Leave(barrier) => self.consume(at, barrier, &[Channel::Barrier]),
            Op::Release(lock) | Op::Wait(lock) => self.publish(at, lock, Channel::Exclusive),
            Op::ReleaseShared(lock) => self.publish(at, lock, Channel::Shared),
            Op::Arrive(barrier) => self.publish(at, barrier, Channel::Barrier),
            Op::Fork(_) => self.icd.log_event(at),
            Op::Join(child) => {
                self.icd.join(at, child);
                self.icd.log_event(at);
            }
            _ => {}
        }
    }

    fn publish(&mut self, at: &Occurrence, lock: LockId, channel: Channel) {
        let place = self.places.channel(lock, channel);
        self.icd.own(at, Kind::Publish, place, self.places.len());
        self.icd.log(at, Kind::Publish, place);
    }

    fn consume(&mut self, at: &Occurrence, lock: LockId, channels: &[Channel]) {
        let places = &self.places;
        let known = || {
            let channels = channels.iter();
            channels.filter_map(|&channel| places.known_channel(lock, channel))
        };
        for place in known() {
            self.icd.own(at, Kind::Consume, place, places.len());
        }
        for place in known() {
            self.icd.log(at, Kind::Consume, place);
        }
    }

    /// A regular transaction ends before position `index`.
    fn end(&mut self, thread: ThreadId, index: u64, cx: &mut Context<'_>) {
        self.icd.end(thread, index);
        if self.icd.idg().is_due(self.options.patience) {
            self.components(cx);
        }
    }

    /// Looks for the components of the transactions that have finished.
    #[cold]
    fn components(&mut self, cx: &mut Context<'_>) {
        for component in self.icd.idg_mut().components() {
            self.icd.idg_mut().select(component);
            self.component(cx);
        }
    }

    /// ICD has found a component.
    fn component(&mut self, cx: &mut Context<'_>) {
        self.counts.components += 1;
        if let Some(observer) = &mut self.observer {
            observer(&self.icd);
        }
        if self.options.mode != Mode::FirstRun {
            let size = self.icd.idg().component().len();
            let before = self.pcd.work().entries;
            let violated = self.pcd.check(&mut self.icd, cx);
            let entries = self.pcd.work().entries - before;
            self.icd.idg_mut().spend(entries as usize);
            if violated && size > self.options.component_limit {
                self.icd.idg_mut().retire(self.options.component_limit / 2);
            }
            return;
        }
        for tx in self.icd.idg().component() {
            match self.icd.idg().get(tx).and_then(|tx| tx.region) {
                Some(region) => {
                    let name = cx.names.function_name(region);
                    if !self.found.regions.contains(&*name) {
                        self.found.regions.insert(name.into());
                    }
                }
                None => self.found.unary = true,
            }
        }
    }
}

impl Engine for DoubleChecker {
    fn name(&self) -> &'static str {
        "doublechecker"
    }

    #[inline]
    fn event(&mut self, at: &Occurrence, cx: &mut Context<'_>) {
        let thread = at.event.thread;
        let boundary = self.regions.step(at.index, &at.event, cx.names);
        self.length = at.index + 1;
        if matches!(
            at.event.op,
            Op::Begin(_) | Op::End | Op::Enter(_) | Op::Exit(_)
        ) {
            let open = self.regions.frames(thread);
            self.icd.frames_changed(thread, open);
        }
        if self.enter(at, boundary, cx.names) {
            self.look(at, cx.names);
        }
        if matches!(boundary, Boundary::End | Boundary::Split) {
            self.end(thread, at.index + 1, cx);
        }
    }

    fn finish(&mut self, cx: &mut Context<'_>) {
        for thread in self.icd.finish(self.length) {
            self.icd.end(thread, self.length);
        }
        self.components(cx);
    }

    fn product(&self, _names: &Names) -> Option<String> {
        (self.options.mode == Mode::FirstRun).then(|| self.found.to_string())
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let forgotten = self.icd.idg().forgotten();
        if forgotten > 0 {
            remarks.push(format!(
                "some transactions were open for so long that {} others were forgotten meanwhile, so \
                 violations may be missing",
                grouped(forgotten)
            ));
        }
        if self.options.mode != Mode::FirstRun {
            return remarks;
        }
        let regions = match self.found.regions.len() {
            1 => "1 region".to_owned(),
            count => format!("{count} regions"),
        };
        let unary = if self.found.unary {
            " and accesses outside of regions"
        } else {
            ""
        };
        remarks.push(format!(
            "a first run: {regions}{unary} to check in a second run"
        ));
        remarks
    }

    fn stats(&self) -> Vec<Stat> {
        let stat = |name, value| Stat { name, value };
        let work = self.pcd.work();
        vec![
            stat("regular transactions", self.counts.transactions),
            stat("regular accesses", self.counts.regular),
            stat("non-transactional accesses", self.counts.unary),
            stat("IDG edges", self.icd.edges()),
            stat("ICD SCCs", self.counts.components),
            stat("PCD transactions", work.transactions),
            stat("PCD log entries", work.entries),
            stat("PCD threads asked", work.asked),
            stat("PCD violations", work.violations),
        ]
    }
}
