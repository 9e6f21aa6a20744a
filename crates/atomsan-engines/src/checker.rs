//! Feeding a trace to engines: names, stacks and positions are worked out once for all of them.

use crate::engine::{Context, Engine, Findings, Occurrence};
use atomsan_trace::names::Var;
use atomsan_trace::{
    Batch, FunctionId, LockId, Names, Op, SiteId, StackId, Stacks, ThreadId, VarId,
};

/// One engine and what it has found.
pub struct Run {
    /// The engine.
    pub engine: Box<dyn Engine>,
    /// Its findings.
    pub findings: Findings,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run")
            .field("engine", &self.engine.name())
            .field("findings", &self.findings)
            .finish()
    }
}

/// Runs engines over one trace, in one pass.
#[derive(Debug)]
pub struct Checker {
    names: Names,
    stacks: Stacks,
    runs: Vec<Run>,
    events: u64,
    occurrences: Vec<Occurrence>,
    /// Where each thread was started.
    spawned: Vec<Option<(SiteId, StackId)>>,
}

impl Checker {
    /// `names` knows the specification; with `first_only` an engine stops at its first finding.
    pub fn new(names: Names, engines: Vec<Box<dyn Engine>>, first_only: bool) -> Self {
        let run = |engine| Run {
            engine,
            findings: if first_only {
                Findings::first_only()
            } else {
                Findings::default()
            },
        };
        Checker {
            names,
            stacks: Stacks::default(),
            runs: engines.into_iter().map(run).collect(),
            events: 0,
            occurrences: Vec::new(),
            spawned: Vec::new(),
        }
    }

    /// Takes names without events.
    pub fn define(&mut self, batch: &mut Batch) {
        for definition in batch.definitions.drain(..) {
            self.names.define(definition);
        }
    }

    /// Gives a thread that is defined another name.
    pub fn rename_thread(&mut self, thread: ThreadId, name: &str) {
        self.names.rename_thread(thread, name);
    }

    /// Names variables and locks that are defined without a name.
    pub fn name(&mut self, vars: Vec<(VarId, Var)>, locks: Vec<(LockId, String)>) {
        for (id, var) in vars {
            self.names.name_var(id, var);
        }
        for (id, name) in locks {
            self.names.name_lock(id, &name);
        }
    }

    /// Puts a new engine in the place of each; what the old ones have found stays.
    pub fn renew(&mut self, engines: Vec<Box<dyn Engine>>) {
        for (run, engine) in self.runs.iter_mut().zip(engines) {
            run.engine = engine;
        }
    }

    /// Starts over with new engines, which have found nothing, in the middle of a trace: variables,
    /// locks and objects have other ids from now on, and all calls that are open will be told
    /// again. Returns the checker of what was before.
    #[must_use]
    pub fn start_over(&mut self, engines: Vec<Box<dyn Engine>>) -> Checker {
        let next = Checker {
            events: self.events,
            spawned: self.spawned.clone(),
            occurrences: std::mem::take(&mut self.occurrences),
            ..Checker::new(self.names.without_data(), engines, false)
        };
        let before = std::mem::replace(self, next);
        // The stacks are others, too.
        self.spawned
            .iter_mut()
            .flatten()
            .for_each(|(_, stack)| *stack = StackId::EMPTY);
        before
    }

    /// From now on, a function is not atomic. Whether that is new.
    pub fn demote(&mut self, function: FunctionId) -> bool {
        self.names.demote(function)
    }

    /// Takes the next piece of the trace, and its definitions for good.
    pub fn batch(&mut self, batch: &mut Batch) {
        self.define(batch);
        self.occurrences.clear();
        let first = self.events;
        for (event, index) in batch.events.iter().zip(first..) {
            let stack = self.stacks.step(event);
            if let Op::Fork(child) = event.op {
                self.spawn(child, event.site, stack);
            }
            self.occurrences.push(Occurrence {
                index,
                stack,
                event: *event,
            });
        }
        self.events += batch.events.len() as u64;
        let (names, stacks) = (&self.names, &self.stacks);
        for Run { engine, findings } in &mut self.runs {
            if !findings.full() {
                engine.events(
                    &self.occurrences,
                    &mut Context {
                        names,
                        stacks,
                        findings,
                    },
                );
            }
        }
    }

    /// Notes where a thread was started, unless that is known.
    pub fn spawn(&mut self, child: ThreadId, site: SiteId, stack: StackId) {
        if self.names.threads().get(child.index()).is_none() {
            return;
        }
        if self.spawned.len() <= child.index() {
            self.spawned.resize(child.index() + 1, None);
        }
        self.spawned[child.index()].get_or_insert((site, stack));
    }

    /// Where a thread was started, and by what calls; the first time, if it was more than once.
    pub fn spawned(&self, thread: ThreadId) -> Option<(SiteId, StackId)> {
        *self.spawned.get(thread.index())?
    }

    /// Whether every engine has all the findings it wants.
    pub fn is_full(&self) -> bool {
        self.runs.iter().all(|run| run.findings.full())
    }

    /// The trace has ended.
    pub fn finish(&mut self) {
        let (names, stacks) = (&self.names, &self.stacks);
        for Run { engine, findings } in &mut self.runs {
            if !findings.full() {
                engine.finish(&mut Context {
                    names,
                    stacks,
                    findings,
                });
            }
        }
    }

    /// How many events there were.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The names of the trace.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The stacks that findings refer to.
    pub fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    /// The engines and their findings.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }
}
