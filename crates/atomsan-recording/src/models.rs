//! Which functions are synchronisation, and what the atomic operations inside of them mean.
//!
//! Inside of a lock, a channel or a reference count, atomic operations are implementation: a
//! program's author sees the lock, not its futex word. A model is a path of the implementation
//! and the [`Family`] it belongs to; what happens in a function whose path starts with it, called
//! by the user's code, is replaced by what the family makes of it, or by nothing. The outermost
//! function of the chain decides, so the mutex inside of a channel is part of the channel.

/// What a piece of synchronisation is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Family {
    /// std's futex mutex: 0 is unlocked.
    FutexMutex,
    /// std's futex reader-writer lock: the low 30 bits count the readers, all ones is a writer.
    FutexRwLock,
    /// The reader-writer lock of `spin`, and of those that have taken it over: bit 0 is a writer,
    /// bit 1 a reader that may become one, and readers are counted from bit 2.
    SpinRwLock,
    /// Implementation of something whose meaning comes from the functions that the runtime knows:
    /// waiting, parking, once.
    Hidden,
    /// Implementation of something that has no meaning for atomicity, or whose meaning is known by
    /// the names of its functions; locks inside of it are nobody's.
    Opaque,
}

/// A function of a lock that is known by its name, as `lock_api` has them. What its word means is
/// the lock's own business, and a lock may be handed over without any change of the word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// Has the lock when it returns.
    Lock(Change),
    /// Has the lock if it changes the word.
    TryLock(Change),
    /// Lets go of the lock with its first operation.
    Unlock(Change),
    /// Is called by another one, which is what counts.
    Inner,
}

/// The types whose functions are known by name: the start of their path.
const BY_NAME: &[&str] = &[
    "parking_lot::raw_mutex::RawMutex",
    "parking_lot::raw_rwlock::RawRwLock",
    "dashmap::lock::RawRwLock",
];

/// What a function of a lock does, if it is known by its name.
pub fn step(function: &str) -> Option<Step> {
    let path = path(function);
    if !BY_NAME.iter().any(|start| path.starts_with(start)) {
        return None;
    }
    Some(match path.rsplit("::").next()? {
        "lock" | "lock_exclusive" => Step::Lock(Change::Acquire),
        "lock_shared" | "lock_shared_recursive" => Step::Lock(Change::AcquireShared),
        "try_lock" | "try_lock_exclusive" => Step::TryLock(Change::Acquire),
        "try_lock_shared" => Step::TryLock(Change::AcquireShared),
        "unlock" | "unlock_exclusive" => Step::Unlock(Change::Release),
        "unlock_shared" => Step::Unlock(Change::ReleaseShared),
        _ => Step::Inner,
    })
}

/// A change of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Change {
    /// It is held exclusively.
    Acquire,
    /// It is no longer held exclusively.
    Release,
    /// It is held together with others.
    AcquireShared,
    /// It is no longer held together with others.
    ReleaseShared,
    /// An exclusive hold becomes a shared one.
    Downgrade,
}

/// The path of a function, as the tables have it: without the `<` of Rust's `<T as Trait>::f`, and
/// without what C++ writes around it (`void ns::f<int>(int) const` is `ns::f`).
pub(crate) fn path(function: &str) -> &str {
    if function.starts_with('<') {
        return function.trim_start_matches('<');
    }
    let (mut depth, mut start, mut end) = (0u32, 0, function.len());
    let bytes = function.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' => depth = depth.saturating_sub(1),
            b' ' if depth == 0 => start = at + 1,
            b'(' if depth == 0 && !function[start..at].ends_with("operator") => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    let path = &function[start..end];
    // Only C++ has a list of arguments behind the name.
    if end == function.len() || !path.ends_with('>') {
        return path;
    }
    let mut depth = 0u32;
    for (at, byte) in path.bytes().enumerate().rev() {
        match byte {
            b'>' => depth += 1,
            b'<' if depth == 1 => return &path[..at],
            b'<' => depth -= 1,
            _ => {}
        }
    }
    path
}

/// The models, first match wins: the start of a function's [`path`].
const TABLE: &[(&str, Family)] = &[
    ("std::sys::sync::mutex::futex::Mutex", Family::FutexMutex),
    ("std::sync::poison::mutex::", Family::FutexMutex),
    ("std::sync::nonpoison::mutex::", Family::FutexMutex),
    ("std::sys::sync::rwlock::futex::RwLock", Family::FutexRwLock),
    ("std::sync::poison::rwlock::", Family::FutexRwLock),
    ("std::sync::nonpoison::rwlock::", Family::FutexRwLock),
    ("std::sync::mpsc::", Family::Opaque),
    ("std::sync::mpmc::", Family::Opaque),
    ("std::sync::reentrant_lock::", Family::Opaque),
    ("std::sync::", Family::Hidden),
    ("std::sys::", Family::Hidden),
    ("std::thread::", Family::Hidden),
    ("std::panicking::", Family::Opaque),
    ("std::panic::", Family::Opaque),
    ("std::rt::", Family::Opaque),
    ("std::io::", Family::Opaque),
    ("alloc::sync::", Family::Opaque),
    ("core::sync::exclusive::", Family::Opaque),
    // Their locks are known by the names of their functions: see `Step`.
    ("parking_lot::", Family::Opaque),
    ("parking_lot_core::", Family::Opaque),
    ("lock_api::", Family::Opaque),
    ("crossbeam_channel::", Family::Opaque),
    ("crossbeam_deque::", Family::Opaque),
    ("crossbeam_epoch::", Family::Opaque),
    ("crossbeam_queue::", Family::Opaque),
    ("crossbeam_utils::", Family::Opaque),
    ("dashmap::lock::", Family::SpinRwLock),
    ("spin::rwlock::", Family::SpinRwLock),
    ("spin::", Family::Opaque),
    ("event_listener::", Family::Opaque),
    ("concurrent_queue::", Family::Opaque),
    ("async_channel::", Family::Opaque),
    ("async_lock::", Family::Opaque),
    ("flume::", Family::Opaque),
    ("lazy_static::", Family::Opaque),
    ("thread_local::", Family::Opaque),
    ("futures_channel::", Family::Opaque),
    ("once_cell::", Family::Opaque),
    ("rayon_core::", Family::Opaque),
    ("tokio::", Family::Opaque),
    // libstdc++'s, which is compiled into the program. What a condition does with the user's lock
    // is the user's: the thread holds it before.
    ("std::_V2::condition_variable_any::", Family::Opaque),
    ("std::counting_semaphore<", Family::Opaque),
    ("std::__atomic_semaphore::", Family::Opaque),
    ("std::latch::", Family::Opaque),
    ("std::barrier<", Family::Opaque),
    ("std::__tree_barrier<", Family::Opaque),
    ("std::__detail::__waiter", Family::Opaque),
    ("std::__detail::__platform_", Family::Opaque),
    ("std::stop_token::", Family::Opaque),
    ("std::stop_source::", Family::Opaque),
    ("std::jthread::", Family::Opaque),
    ("std::__future_base::", Family::Opaque),
    ("std::promise<", Family::Opaque),
    ("std::packaged_task<", Family::Opaque),
];

/// Functions that wait for other threads: the start of their path, and the end. Nobody expects to be
/// alone across a call of one of these, whether it has to wait this time or not.
const WAITING: &[(&str, &[&str])] = &[
    ("std::sync::mpsc::Receiver", RECEIVE),
    ("std::sync::mpsc::SyncSender", &["send"]),
    ("std::sync::mpmc::array::", &["send"]),
    ("std::sync::mpmc::zero::", &["send"]),
    ("std::sync::mpmc::", RECEIVE),
    ("std::thread::join_handle::JoinHandle", &["join"]),
    ("std::thread::JoinHandle", &["join"]),
    ("std::thread::scoped::ScopedJoinHandle", &["join"]),
    ("crossbeam_channel::channel::Receiver", RECEIVE),
    (
        "crossbeam_channel::channel::Sender",
        &["send_timeout", "send_deadline"],
    ),
    ("crossbeam_channel::flavors::array::", &["send"]),
    ("crossbeam_channel::flavors::zero::", &["send"]),
    ("crossbeam_channel::flavors::", RECEIVE),
    (
        "crossbeam_channel::select",
        &[
            "select",
            "ready",
            "run_select",
            "run_ready",
            "select_timeout",
        ],
    ),
    ("crossbeam_utils::sync::wait_group::WaitGroup", &["wait"]),
    (
        "crossbeam_utils::sync::parker::Parker",
        &["park", "park_timeout", "park_deadline"],
    ),
    ("crossbeam_utils::thread::", &["scope", "join"]),
    ("flume::Receiver", RECEIVE),
    ("flume::Sender", &["send", "send_timeout", "send_deadline"]),
    ("parking_lot::condvar::Condvar", &["wait_until_internal"]),
    (
        "event_listener::",
        &["listen", "wait", "wait_timeout", "wait_deadline"],
    ),
    ("async_channel::", &["recv_blocking", "send_blocking"]),
    (
        "rayon_core::registry::",
        &[
            "in_worker",
            "in_worker_cold",
            "in_worker_cross",
            "wait_until",
        ],
    ),
    ("rayon_core::join::", &["join", "join_context"]),
    (
        "rayon_core::scope::",
        &["scope", "in_place_scope", "complete"],
    ),
    ("rayon_core::latch::", &["wait", "wait_and_reset"]),
    (
        "rayon_core::thread_pool::ThreadPool",
        &["install", "join", "scope", "broadcast"],
    ),
    (
        "tokio::runtime::",
        &["block_on", "shutdown_timeout", "block_in_place"],
    ),
    ("tokio::task::", &["block_in_place"]),
    (
        "tokio::sync::",
        &[
            "blocking_recv",
            "blocking_send",
            "blocking_lock",
            "blocking_read",
            "blocking_write",
        ],
    ),
    ("futures_executor::", &["block_on"]),
    (
        "oneshot::Receiver",
        &["recv", "recv_ref", "recv_timeout", "recv_deadline"],
    ),
    ("std::_V2::condition_variable_any", CPP_WAIT),
    (
        "std::counting_semaphore<",
        &["acquire", "try_acquire_for", "try_acquire_until"],
    ),
    ("std::latch", CPP_WAIT),
    ("std::barrier<", CPP_WAIT),
    ("std::__atomic_base<", CPP_WAIT),
    ("std::atomic<", CPP_WAIT),
    ("std::future<", &["get", "wait", "wait_for", "wait_until"]),
    (
        "std::shared_future<",
        &["get", "wait", "wait_for", "wait_until"],
    ),
    (
        "std::__basic_future<",
        &["wait", "wait_for", "wait_until", "_M_get_result"],
    ),
];

const CPP_WAIT: &[&str] = &["wait", "wait_for", "wait_until", "arrive_and_wait"];

const RECEIVE: &[&str] = &["recv", "recv_timeout", "recv_deadline", "recv_sync"];

/// Whether a function waits for other threads.
pub fn waits(function: &str) -> bool {
    let path = path(function);
    let end = path.rsplit("::").next().unwrap_or(path);
    WAITING
        .iter()
        .any(|(start, ends)| path.starts_with(start) && ends.contains(&end))
}

/// Whether a function deals with a scope of threads, whose end is in the count of them.
pub fn scopes(function: &str) -> bool {
    let path = function.trim_start_matches('<');
    path.starts_with("std::thread::scoped::")
        || path.starts_with("std::thread::builder::Builder::spawn_scoped")
}

/// Whether a function takes several locks at once: it tries, and gives back what it has when one is
/// not free.
pub fn attempts(function: &str) -> bool {
    let path = path(function);
    path == "std::lock" || path == "std::try_lock" || path.starts_with("std::scoped_lock<")
}

/// Whether a function takes what is in a place, leaves nothing there, and returns what it took.
pub fn takes(function: &str) -> bool {
    const OF: &[&str] = &[
        "core::option::Option",
        "core::cell::Cell",
        "core::cell::RefCell",
        "core::cell::once::OnceCell",
        "core::mem::",
    ];
    let path = path(function);
    let name = path.rsplit("::").next().unwrap_or(path);
    name.split('<').next() == Some("take") && OF.iter().any(|start| path.starts_with(start))
}

/// Functions that call the user's code back while they hold a lock of their own: the module, and their names.
const CALLING_BACK: &[(&str, &[&str])] = &[(
    "parking_lot_core::parking_lot::",
    &["park", "unpark_one", "unpark_filter", "unpark_requeue"],
)];

/// Whether a function, or a closure in it, calls back while it holds a lock of its own.
pub fn calls_back(function: &str) -> bool {
    let path = path(function);
    CALLING_BACK.iter().any(|(module, names)| {
        let name = path
            .strip_prefix(module)
            .and_then(|rest| rest.split("::").next());
        name.is_some_and(|name| names.contains(&name.split('<').next().unwrap_or(name)))
    })
}

/// Whether a function runs a task of the user's under a guard of its own, which is there so that no result is set twice. The
/// task is no initialiser: it is all that a thread does, and others do the same meanwhile.
pub fn runs_task(function: &str) -> bool {
    const OF_FUTURES: [&str; 2] = [
        "std::__future_base::_State_baseV2::_M_set_result",
        "std::__future_base::_State_baseV2::_M_set_delayed_result",
    ];
    OF_FUTURES.contains(&path(function))
}

/// The family that a function belongs to, if it is synchronisation.
pub fn family(function: &str) -> Option<Family> {
    let path = path(function);
    TABLE
        .iter()
        .find(|(start, _)| path.starts_with(start))
        .map(|&(_, family)| family)
}

/// Whether what a function loads atomically means nothing, whoever has called it: a lock is taken by
/// changing its word.
pub fn loads_nothing(function: &str) -> bool {
    matches!(
        family(function),
        Some(Family::FutexMutex | Family::FutexRwLock)
    )
}

impl Family {
    /// Whether it is a part of Rust's standard library that means something.
    pub fn is_of_std(self) -> bool {
        matches!(
            self,
            Family::FutexMutex | Family::FutexRwLock | Family::Hidden
        )
    }

    /// What it means that the lock's word changed.
    pub fn change(self, before: u64, after: u64) -> Option<Change> {
        const WRITER: u64 = (1 << 30) - 1;
        match self {
            Family::FutexMutex => held(before != 0, after != 0),
            Family::FutexRwLock => match (before & WRITER, after & WRITER) {
                (0, WRITER) => Some(Change::Acquire),
                (WRITER, 0) => Some(Change::Release),
                (WRITER, 1) => Some(Change::Downgrade),
                (before, after) if after == before + 1 => Some(Change::AcquireShared),
                (before, after) if after + 1 == before => Some(Change::ReleaseShared),
                _ => None,
            },
            Family::SpinRwLock => match (before & 1, after & 1) {
                (0, 1) => Some(Change::Acquire),
                (1, 0) if after >> 2 > before >> 2 => Some(Change::Downgrade),
                (1, 0) => Some(Change::Release),
                // A reader that finds a writer takes itself back.
                (1, _) => None,
                _ if after >> 1 > before >> 1 => Some(Change::AcquireShared),
                _ if after >> 1 < before >> 1 => Some(Change::ReleaseShared),
                _ => None,
            },
            Family::Hidden | Family::Opaque => None,
        }
    }
}

fn held(before: bool, after: bool) -> Option<Change> {
    match (before, after) {
        (false, true) => Some(Change::Acquire),
        (true, false) => Some(Change::Release),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_both_manglings() {
        let legacy = "<std::sync::poison::mutex::MutexGuard<T> as core::ops::drop::Drop>::drop";
        assert_eq!(family(legacy), Some(Family::FutexMutex));
        let v0 = "<std::sync::poison::rwlock::RwLock<u32>>::read";
        assert_eq!(family(v0), Some(Family::FutexRwLock));
        assert_eq!(family("bank::withdraw"), None);
    }

    #[test]
    fn paths_of_cpp() {
        let wait = "void std::_V2::condition_variable_any::wait<std::unique_lock<std::timed_mutex> >\
                    (std::unique_lock<std::timed_mutex>&)";
        assert_eq!(path(wait), "std::_V2::condition_variable_any::wait");
        assert!(waits(wait) && family(wait) == Some(Family::Opaque));
        let acquire = "std::counting_semaphore<2l>::acquire()";
        assert!(waits(acquire) && family(acquire) == Some(Family::Opaque));
        assert_eq!(
            path("ns::Less<int (*)(long)>::operator()(int) const"),
            "ns::Less<int (*)(long)>::operator()"
        );
        assert_eq!(
            path("std::vec::Vec<(u8, u8)>::push"),
            "std::vec::Vec<(u8, u8)>::push"
        );
        assert_eq!(path("Queue::take()"), "Queue::take");
        assert_eq!(path(")>>(x"), ")>>");
    }

    #[test]
    fn a_reader_writer_lock() {
        let lock = Family::FutexRwLock;
        let (writer, waiting) = ((1 << 30) - 1, 1 << 30);
        assert_eq!(lock.change(0, writer), Some(Change::Acquire));
        assert_eq!(
            lock.change(writer | waiting, waiting),
            Some(Change::Release)
        );
        assert_eq!(lock.change(0, 1), Some(Change::AcquireShared));
        assert_eq!(lock.change(2, 1), Some(Change::ReleaseShared));
        assert_eq!(lock.change(1, 1 | waiting), None, "only a waiter came");
    }

    #[test]
    fn a_reader_writer_lock_that_spins() {
        let lock = Family::SpinRwLock;
        assert_eq!(lock.change(0, 1), Some(Change::Acquire));
        assert_eq!(lock.change(1, 0), Some(Change::Release));
        assert_eq!(lock.change(4, 8), Some(Change::AcquireShared));
        assert_eq!(lock.change(8, 4), Some(Change::ReleaseShared));
        assert_eq!(lock.change(1, 5), None, "in vain");
        assert_eq!(lock.change(5, 1), None, "and back");
        assert_eq!(lock.change(5, 4), Some(Change::Release));
    }

    #[test]
    fn functions_that_take_several_locks() {
        assert!(attempts(
            "void std::lock<std::mutex, std::mutex>(std::mutex&, std::mutex&)"
        ));
        assert!(attempts("std::scoped_lock<A, B>::scoped_lock(A&, B&)"));
        assert!(!attempts(
            "std::lock_guard<std::mutex>::lock_guard(std::mutex&)"
        ));
    }

    #[test]
    fn functions_that_wait() {
        assert!(waits("std::sync::mpsc::Receiver<T>::recv"));
        assert!(waits(
            "<crossbeam_channel::channel::Receiver<u32>>::recv_timeout"
        ));
        assert!(!waits("std::sync::mpsc::Receiver<T>::try_recv"));
        assert!(!waits("crossbeam_channel::flavors::list::Channel<T>::send"));
        assert!(!waits("bank::Receiver::recv"));
    }

    #[test]
    fn locks_that_are_known_by_name() {
        let lock = "<parking_lot::raw_mutex::RawMutex as lock_api::mutex::RawMutex>::lock";
        assert_eq!(step(lock), Some(Step::Lock(Change::Acquire)));
        let slow = "parking_lot::raw_mutex::RawMutex::unlock_slow";
        assert_eq!(step(slow), Some(Step::Inner));
        assert_eq!(step("bank::RawMutex::lock"), None);
    }

    #[test]
    fn a_mutex() {
        let lock = Family::FutexMutex;
        assert_eq!(lock.change(0, 1), Some(Change::Acquire));
        assert_eq!(lock.change(1, 2), None, "only a waiter came");
        assert_eq!(lock.change(2, 0), Some(Change::Release));
    }
}
