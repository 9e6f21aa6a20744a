//! Numbers for everything that can be owned and accessed.
//!
//! What Octet owns is an *object*; what an access conflicts on is a *location* in it. With
//! [`Granularity::Object`] the fields of an object change owner together, as in the paper; with
//! [`Granularity::Variable`] each variable is an object of its own. A lock is one of the objects
//! "being synchronized on": its releases are writes and its acquires reads. Releases order
//! different things, so a lock has three locations, each an object: exclusive releases, shared
//! releases (which a shared acquire does not wait for), and arrivals at a barrier.
//!
//! Numbers are given on first use, one dense space for all.

use atomsan_trace::{LockId, Names, VarId};

/// What changes owner as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Granularity {
    /// Each variable by itself.
    #[default]
    Variable,
    /// All variables of an object together; variables without an object by themselves.
    Object,
}

/// A location and the object it is part of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// What is accessed.
    pub location: u32,
    /// What is owned.
    pub object: u32,
}

impl Place {
    const UNKNOWN: Place = Place {
        location: u32::MAX,
        object: u32::MAX,
    };
}

/// What a lock's operations go through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Channel {
    /// Releases, and waits.
    Exclusive,
    /// Releases of shared holds.
    Shared,
    /// Arrivals at a barrier.
    Barrier,
}

/// The numbers given so far.
#[derive(Debug, Default)]
pub struct Places {
    granularity: Granularity,
    vars: Vec<Place>,
    /// The number of each object, `u32::MAX` if it has none.
    objects: Vec<u32>,
    channels: Vec<[Option<u32>; 3]>,
    next: u32,
}

impl Places {
    /// No numbers yet.
    pub fn new(granularity: Granularity) -> Self {
        Places {
            granularity,
            ..Places::default()
        }
    }

    /// How many numbers have been given.
    #[inline]
    pub fn len(&self) -> usize {
        self.next as usize
    }

    /// Whether no number has been given.
    pub fn is_empty(&self) -> bool {
        self.next == 0
    }

    /// The place of a variable.
    #[inline]
    pub fn var(&mut self, var: VarId, names: &Names) -> Place {
        match self.vars.get(var.index()) {
            Some(&place) if place != Place::UNKNOWN => place,
            _ => self.new_var(var, names),
        }
    }

    #[cold]
    fn new_var(&mut self, var: VarId, names: &Names) -> Place {
        let location = self.number();
        let object = match names.var(var).and_then(|var| var.object) {
            Some(object) if self.granularity == Granularity::Object => {
                grow(&mut self.objects, object.index(), u32::MAX);
                if self.objects[object.index()] == u32::MAX {
                    self.objects[object.index()] = self.number();
                }
                self.objects[object.index()]
            }
            _ => location,
        };
        let place = Place { location, object };
        grow(&mut self.vars, var.index(), Place::UNKNOWN);
        self.vars[var.index()] = place;
        place
    }

    /// The place of what is published through a lock.
    pub fn channel(&mut self, lock: LockId, channel: Channel) -> Place {
        grow(&mut self.channels, lock.index(), [None; 3]);
        let known = self.channels[lock.index()][channel as usize];
        let number = known.unwrap_or_else(|| self.number());
        self.channels[lock.index()][channel as usize] = Some(number);
        Place {
            location: number,
            object: number,
        }
    }

    /// The place of what is published through a lock, if anything ever was.
    #[inline]
    pub fn known_channel(&self, lock: LockId, channel: Channel) -> Option<Place> {
        let number = self.channels.get(lock.index())?[channel as usize]?;
        Some(Place {
            location: number,
            object: number,
        })
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }
}

fn grow<T: Clone>(table: &mut Vec<T>, index: usize, empty: T) {
    if table.len() <= index {
        table.resize(index + 1, empty);
    }
}
