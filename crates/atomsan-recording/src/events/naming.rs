//! What threads, memory and locks are called: as somebody knows them who has written the program.
//!
//! * A static has a name ([`Symbols::static_name`](crate::symbols::Symbols::static_name)).
//! * What is allocated has none, but a place at which it was: `field +16 of the 48 bytes allocated
//!   at bank.rs:12`. That place is the nearest line of the user's; what a library did in between is
//!   how it did it. Where the library is generic over the type, its fields have names:
//!   `Account::balance of the 48 bytes allocated at bank.rs:12`.
//! * What lies on a stack belongs to the function whose frame it is in. Each entry of a function
//!   says where its frame is; a frame reaches up to that of its caller, so the outermost
//!   frame that begins below an address has it. Where there is debug information, locals have names.
//! * A lock that is nowhere of these is known by where it was initialised.
//! * A thread is called what it has been named. Names come after the thread itself and can
//!   be given twice, so the first pass collects them, and threads of one name get their numbers too.
//!
//! No name has an address in it: two runs of a program call the same thing the same.

use super::origins::What;
use super::{Call, FxMap, ROOT, Translator};
use crate::file::Record;
use crate::symbols::Type;
use atomsan_trace::names::{self, Definition};
use atomsan_trace::{FunctionId, LockId, ObjectId, SiteId, ThreadId, VarId};
use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// Calls of a library between an allocation and the user's code, at most.
const MOST_CALLS: usize = 32;

/// What data is called of which nothing is known.
const UNNAMED: &str = "memory of unknown origin";

/// The same for locks and other kinds.
pub(super) fn unnamed_lock(kind: &str) -> String {
    format!("a {kind}")
}

/// Who makes room for several values of a type.
const LISTS: [&str; 3] = ["alloc::raw_vec::", "alloc::vec::", "allocator<"];

/// What is known of memory, locks and threads that makes names.
#[derive(Debug, Default)]
pub(super) struct Naming {
    /// The names that threads were given, by number.
    threads: FxMap<u64, Box<str>>,
    /// Threads that were named after they were known.
    renamed: Vec<(ThreadId, String)>,
    /// How many threads have each name.
    shared: HashMap<Box<str>, u32, FxBuildHasher>,
    /// Memory that is allocated and of interest.
    blocks: BTreeMap<u64, Block>,
    /// Where locks were initialised.
    initialised: FxMap<u64, SiteId>,
    /// Addresses of all locks that the first pass saw, in order.
    locks: Vec<u64>,
    /// The same while it sees them.
    seen: HashSet<u64, FxBuildHasher>,
    /// The stacks of threads, by where they end.
    stacks: BTreeMap<u64, Stack>,
    /// File and line of each site, from the first.
    sites: Vec<(Box<str>, u32)>,
    /// The objects that statics are, by name.
    statics: HashMap<Box<str>, ObjectId, FxBuildHasher>,
    /// What is allocated in a chain of calls, at a place, with a size.
    contents: HashMap<(u32, u64, u64), Option<Type>, FxBuildHasher>,
}

/// The stack of a thread with a number, which is recorded in a slot.
#[derive(Debug)]
struct Stack {
    start: u64,
    thread: u64,
    slot: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    end: u64,
    /// The object that it is, if threads share it.
    object: Option<ObjectId>,
    site: SiteId,
    /// Where it was allocated: the chain of calls, and the place in the last of them.
    made: (u32, u64),
}

impl Block {
    fn describe(&self, start: u64, naming: &Naming) -> String {
        let len = self.end - start;
        let bytes = if len == 1 { "byte" } else { "bytes" };
        match naming.place(self.site) {
            Some(place) => format!("the {len} {bytes} allocated at {place}"),
            None => format!("{len} allocated {bytes}"),
        }
    }
}

/// Where something is, as far as that is known without a look at debug information.
#[derive(Clone, Copy, Debug)]
pub(super) enum Spot {
    /// In a block, which starts at an address.
    Allocated(u64, Block),
    /// On the stack of a thread with this number; in which frame, if that is known.
    Local(u64, Option<Home>),
    Elsewhere,
}

/// A frame that something is in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home {
    /// So far above the start of the frame of the function with this code.
    offset: u64,
    code: u64,
    /// The user's function that it belongs to.
    function: FunctionId,
    users_code: u64,
}

/// Where something is, in words.
enum Whereabouts {
    /// In a static with a name, by its path.
    Static(Box<str>, String),
    /// In something that was allocated, by its field or so many bytes into it.
    Allocated(Result<String, u64>, String),
    /// Among the locals of a function or a thread.
    Local(String),
    Unknown,
}

impl Whereabouts {
    /// The name of a variable there.
    fn name(self) -> Option<String> {
        Some(match self {
            Whereabouts::Static(_, name) | Whereabouts::Local(name) => name,
            Whereabouts::Allocated(Ok(member), block) => format!("{member} of {block}"),
            Whereabouts::Allocated(Err(at), block) => format!("field +{at} of {block}"),
            Whereabouts::Unknown => return None,
        })
    }
}

impl Naming {
    /// What the second pass can use of what the first has seen.
    pub(super) fn again(self) -> Naming {
        let mut locks = self.locks;
        locks.extend(self.seen);
        locks.sort_unstable();
        Naming {
            threads: self.threads,
            shared: self.shared,
            locks,
            ..Naming::default()
        }
    }

    /// Goes on with what another pass knows of memory; what this one does is put aside.
    pub(super) fn swap_memory(&mut self, other: &mut Naming) {
        std::mem::swap(&mut self.blocks, &mut other.blocks);
        std::mem::swap(&mut self.statics, &mut other.statics);
        std::mem::swap(&mut self.initialised, &mut other.initialised);
        std::mem::swap(&mut self.stacks, &mut other.stacks);
    }

    /// Forgets what is allocated and which locks there are.
    pub(super) fn forget_memory(&mut self) {
        self.blocks.clear();
        self.statics.clear();
        self.initialised.clear();
        self.seen.clear();
    }

    /// Notes where a new site is.
    pub(super) fn site(&mut self, frames: &[names::Frame]) {
        let place = frames.first().filter(|frame| frame.line != 0);
        let place = place.map(|frame| (frame.file.clone(), frame.line));
        self.sites.push(place.unwrap_or_default());
    }

    fn place(&self, site: SiteId) -> Option<String> {
        let (file, line) = self.sites.get(site.index().checked_sub(1)?)?;
        (!file.is_empty()).then(|| short(file, *line))
    }

    /// Whether a lock of the first pass lies in a range.
    fn has_lock(&self, range: &Range<u64>) -> bool {
        let at = self.locks.partition_point(|&lock| lock < range.start);
        self.locks.get(at).is_some_and(|lock| range.contains(lock))
    }

    fn block(&self, address: u64) -> Option<(u64, &Block)> {
        let (&start, block) = self.blocks.range(..=address).next_back()?;
        (address < block.end).then_some((start, block))
    }

    /// Notes a name. The one that a thread has at last is its name.
    fn name_thread(&mut self, number: u64, name: &str) {
        let name: Box<str> = name.into();
        if let Some(old) = self.threads.insert(number, name.clone())
            && let Some(count) = self.shared.get_mut(&old)
        {
            *count -= 1;
        }
        *self.shared.entry(name).or_default() += 1;
    }

    fn thread(&self, number: u64) -> String {
        match self.threads.get(&number) {
            _ if number == 0 => "main".to_owned(),
            Some(name) if self.shared.get(name).is_some_and(|&count| count > 1) => {
                format!("thread \"{name}\" ({number})")
            }
            Some(name) => format!("thread \"{name}\""),
            None => format!("thread {number}"),
        }
    }
}

/// The file without its directories, and the line.
fn short(file: &str, line: u32) -> String {
    let name = Path::new(file).file_name().and_then(|name| name.to_str());
    format!("{}:{line}", name.unwrap_or(file))
}

/// The name in a record of one.
fn text(record: &Record) -> String {
    let bytes: Vec<u8> = (record.extra.iter())
        .flat_map(|word| word.to_le_bytes())
        .take_while(|&byte| byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Translator {
    pub(super) fn thread_id(&mut self, number: u64) -> ThreadId {
        if let Some(&id) = self.thread_ids.get(&number) {
            return id;
        }
        let id = ThreadId(self.thread_ids.len() as u32);
        self.thread_ids.insert(number, id);
        let name = self.naming.thread(number);
        self.batch.definitions.push(Definition::Thread(name.into()));
        id
    }

    /// A thread is named. If it is known already, it is called something else from now on.
    pub fn name_thread(&mut self, record: &Record) {
        let number = record.subject;
        self.naming.name_thread(number, &text(record));
        if let Some(&id) = self.thread_ids.get(&number) {
            let name = self.naming.thread(number);
            self.naming.renamed.push((id, name));
        }
    }

    /// A thread is started; where, by the place and the calls that led to it, innermost first.
    pub fn fork(&mut self, child: u64, calls: impl Iterator<Item = u64>) -> (ThreadId, SiteId) {
        let child = self.thread_id(child);
        for pc in calls {
            // Most threads are started by the standard library, and it takes long to find out where in it.
            if self.symbols.is_tools(pc) {
                continue;
            }
            let frames = self.symbols.frames(pc);
            let users = frames.iter().position(|frame| self.options.is_users(frame));
            if let Some(at) = users {
                return (child, self.site(&frames[at..]));
            }
        }
        (child, SiteId::UNKNOWN)
    }

    /// Threads that were named after they were known, since the last time.
    pub fn take_renamed(&mut self) -> Vec<(ThreadId, String)> {
        std::mem::take(&mut self.naming.renamed)
    }

    /// A thread's stack.
    pub(super) fn note_stack(&mut self, slot: usize, thread: u64, stack: &Range<u64>) {
        let Range { start, end } = *stack;
        let owner = Stack {
            start,
            thread,
            slot,
        };
        self.naming.stacks.insert(end, owner);
    }

    /// A lock is initialised.
    pub(super) fn note_initialised(&mut self, address: u64, site: SiteId) {
        self.naming.initialised.insert(address, site);
    }

    /// The lock at an address; `kind` is what it is called if it has no name.
    pub(super) fn lock_called(&mut self, address: u64, kind: &'static str) -> LockId {
        if let Some(&id) = self.locks.get(&address) {
            return id;
        }
        let id = LockId(self.lock_count);
        self.lock_count += 1;
        self.locks.insert(address, id);
        if self.survey.is_some() {
            self.naming.seen.insert(address);
        }
        let name = if self.is_replay {
            self.name_later(What::Lock(id, kind), address);
            String::new()
        } else {
            let (spot, initialised) = (self.spot(address), self.initialised(address));
            self.lock_name(address, &spot, initialised, kind)
                .unwrap_or_else(|| unnamed_lock(kind))
        };
        self.batch.definitions.push(Definition::Lock(name.into()));
        id
    }

    /// Where the lock at an address was initialised.
    pub(super) fn initialised(&self, address: u64) -> Option<SiteId> {
        self.naming.initialised.get(&address).copied()
    }

    /// What a lock is called, if that is known.
    pub(super) fn lock_name(
        &mut self,
        address: u64,
        spot: &Spot,
        initialised: Option<SiteId>,
        kind: &str,
    ) -> Option<String> {
        let initialised = initialised.and_then(|site| self.naming.place(site));
        Some(match (self.whereabouts(address, spot), initialised) {
            (Whereabouts::Static(_, name), _) => name,
            (_, Some(place)) => format!("the {kind} initialised at {place}"),
            (Whereabouts::Allocated(Ok(member), block), _) => format!("{member} of {block}"),
            (Whereabouts::Allocated(Err(at), block), _) => format!("{kind} +{at} of {block}"),
            (Whereabouts::Local(local), _) if local.contains("local ") => {
                format!("the {kind} in {local}")
            }
            (Whereabouts::Local(local), _) => local,
            (Whereabouts::Unknown, _) => return None,
        })
    }

    pub(super) fn lock(&mut self, address: u64) -> LockId {
        self.lock_called(address, "lock")
    }

    /// Names a variable that is new.
    pub(super) fn define_var(&mut self, var: VarId, address: u64) {
        let var = if self.is_replay {
            self.name_later(What::Var(var), address);
            names::Var::default()
        } else {
            let spot = self.spot(address);
            let called = self.var_called(address, &spot);
            called.unwrap_or_else(|| self.unnamed_var(address))
        };
        self.batch.definitions.push(Definition::Var(var));
    }

    /// A variable of which nothing is known.
    pub(super) fn unnamed_var(&self, address: u64) -> names::Var {
        names::Var {
            name: UNNAMED.into(),
            object: self.annotations.set_of(address),
            volatile: false,
        }
    }

    /// What a variable is called, and the object that it is a part of, if that is known.
    pub(super) fn var_called(&mut self, address: u64, spot: &Spot) -> Option<names::Var> {
        let whereabouts = self.whereabouts(address, spot);
        let object = match (&whereabouts, spot) {
            (_, Spot::Allocated(_, block)) => block.object,
            (Whereabouts::Static(whole, _), _) => Some(self.static_object(whole.clone())),
            _ => None,
        };
        Some(names::Var {
            name: whereabouts.name()?.into(),
            object: self.annotations.set_of(address).or(object),
            volatile: false,
        })
    }

    /// The object that a static is.
    fn static_object(&mut self, name: Box<str>) -> ObjectId {
        if let Some(&object) = self.naming.statics.get(&name) {
            return object;
        }
        let object = ObjectId(self.object_count);
        self.object_count += 1;
        self.batch
            .definitions
            .push(Definition::Object(name.clone()));
        self.naming.statics.insert(name, object);
        object
    }

    /// Where an address is now.
    pub(super) fn spot(&self, address: u64) -> Spot {
        match self.naming.block(address) {
            Some((start, block)) => Spot::Allocated(start, *block),
            None => self.local(address).unwrap_or(Spot::Elsewhere),
        }
    }

    /// Where something is that was at a spot.
    fn whereabouts(&mut self, address: u64, spot: &Spot) -> Whereabouts {
        if let &Spot::Allocated(start, block) = spot {
            let offset = address - start;
            let whole = block.describe(start, &self.naming);
            let of = self.content(block.made, block.end - start);
            let size = of.and_then(|of| self.symbols.size(of));
            let Some((of, size)) = of.zip(size.filter(|&size| size != 0)) else {
                return Whereabouts::Allocated(Err(offset), whole);
            };
            let member = self.symbols.member(of, offset % size).ok_or(offset);
            let whole = match (&member, size < block.end - start) {
                (Ok(_), true) => format!("element {} of {whole}", offset / size),
                _ => whole,
            };
            return Whereabouts::Allocated(member, whole);
        }
        if let Some((whole, name)) = self.symbols.static_name(address) {
            return Whereabouts::Static(whole.into(), name);
        }
        match *spot {
            Spot::Local(thread, home) => Whereabouts::Local(self.local_name(thread, home)),
            _ => Whereabouts::Unknown,
        }
    }

    /// What an address is on the stack of a thread, if it is on one.
    fn local(&self, address: u64) -> Option<Spot> {
        let (_, stack) = self.naming.stacks.range(address + 1..).next()?;
        if address < stack.start {
            return None;
        }
        let known = self.threads.get(stack.slot)?;
        let node = |call: &Call| &self.nodes[call.node as usize];
        // What a library has on the stack is the user's who called it.
        let home = known.frame_of(address).and_then(|found| {
            let mut outer = known.stack[..=found].iter().rev().map(node);
            let users = outer.find(|node| node.function.is_some())?;
            let call = &known.stack[found];
            Some(Home {
                offset: address - call.frame,
                code: node(call).code,
                function: users.function?,
                users_code: users.code,
            })
        });
        Some(Spot::Local(stack.thread, home))
    }

    fn local_name(&mut self, thread: u64, home: Option<Home>) -> String {
        let Some(Home {
            offset,
            code,
            function,
            users_code,
        }) = home
        else {
            return format!("a local of {}", self.naming.thread(thread));
        };
        let name = self.symbols.local(code, offset);
        let name = name.unwrap_or_else(|| format!("local +{offset}"));
        let function = &self.function_names[function.index()];
        let frames = self.symbols.frames(users_code);
        let place = frames.last().filter(|frame| frame.line != 0);
        match place {
            Some(frame) => {
                let place = short(&frame.file, frame.line);
                format!("{name} of {function} ({place})")
            }
            None => format!("{name} of {function}"),
        }
    }

    /// Memory comes to life: an object if it is shared, or the home of a lock.
    pub(super) fn note_block(
        &mut self,
        range: &Range<u64>,
        made: (u32, u64),
        site: SiteId,
        shared: bool,
    ) -> Option<ObjectId> {
        let object = shared.then(|| {
            let object = ObjectId(self.object_count);
            self.object_count += 1;
            object
        });
        let end = range.end;
        let block = Block {
            end,
            object,
            site,
            made,
        };
        if object.is_some() {
            let name = block.describe(range.start, &self.naming);
            self.batch.definitions.push(Definition::Object(name.into()));
        }
        self.naming.blocks.insert(range.start, block);
        object
    }

    /// The type of what is allocated, if somebody between the allocation and the user's code is
    /// generic over one of that size, or makes room for several of one.
    fn content(&mut self, (chain, pc): (u32, u64), size: u64) -> Option<Type> {
        if let Some(known) = self.naming.contents.get(&(chain, pc, size)) {
            return *known;
        }
        let (mut exact, mut several) = (None, None);
        let mut at = (chain, pc);
        for _ in 0..MOST_CALLS {
            let frames = self.symbols.frames(at.1);
            let users = frames.iter().position(|frame| self.options.is_users(frame));
            let types = (self.symbols).parameters(at.1, users.unwrap_or(frames.len()));
            for (function, of) in types {
                let lists = LISTS
                    .iter()
                    .any(|list| frames[function].function.contains(list));
                match self.symbols.size(of).filter(|&own| own > 1) {
                    Some(own) if own == size => exact = exact.or(Some(of)),
                    Some(own) if lists && size.is_multiple_of(own) => {
                        several = several.or(Some(of));
                    }
                    _ => {}
                }
            }
            if users.is_some() || exact.is_some() || at.0 == ROOT {
                break;
            }
            at = self.nodes[at.0 as usize].caller;
        }
        let found = exact.or(several);
        self.naming.contents.insert((chain, pc, size), found);
        found
    }

    /// Memory dies; the object that it was.
    pub(super) fn forget_block(&mut self, start: u64) -> Option<ObjectId> {
        self.naming.blocks.remove(&start)?.object
    }

    /// Whether memory has no variable of interest, but a lock.
    pub(super) fn houses_lock(&self, range: &Range<u64>) -> bool {
        self.naming.has_lock(range)
    }
}

impl super::Thread {
    /// The function of those that the thread is in whose frame has an address of its stack.
    fn frame_of(&self, address: u64) -> Option<usize> {
        let below = |call: &Call| call.frame != 0 && call.frame <= address;
        self.stack.iter().position(below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Kind;

    #[test]
    fn threads_of_one_name_are_told_apart() {
        let mut naming = Naming::default();
        for (number, name) in [(1, "worker"), (2, "worker"), (3, "teller"), (3, "clerk")] {
            naming.name_thread(number, name);
        }
        let naming = naming.again();
        let names = [0, 1, 2, 3, 4].map(|number| naming.thread(number));
        let expected = [
            "main",
            "thread \"worker\" (1)",
            "thread \"worker\" (2)",
            "thread \"clerk\"",
            "thread 4",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn names_are_of_up_to_15_bytes() {
        let word = |text: &[u8; 8]| u64::from_le_bytes(*text);
        let record = |extra| Record {
            position: 0,
            kind: Kind::ThreadName,
            size: 0,
            subject: 1,
            second: 0,
            extra,
        };
        assert_eq!(text(&record([word(b"teller\0\0"), 0])), "teller");
        let long = [word(b"a-rather"), word(b"-long-n\0")];
        assert_eq!(text(&record(long)), "a-rather-long-n");
    }

    #[test]
    fn places_have_no_directories() {
        assert_eq!(short("/home/me/src/bank.rs", 12), "bank.rs:12");
        assert_eq!(short("bank.c", 3), "bank.c:3");
    }

    #[test]
    fn a_local_is_of_the_outermost_frame_that_begins_below() {
        let call = |frame| Call {
            frame,
            ..Call::default()
        };
        let thread = super::super::Thread {
            stack: vec![call(0x900), call(0), call(0x800), call(0x780)],
            ..super::super::Thread::default()
        };
        let of = |address| thread.frame_of(address);
        assert_eq!(of(0x910), Some(0));
        assert_eq!(of(0x8ff), Some(2));
        assert_eq!(of(0x7f0), Some(3));
        assert_eq!(of(0x700), None);
    }
}
