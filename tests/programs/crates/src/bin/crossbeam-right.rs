//! crossbeam: channels of each kind, work stealing, epochs, wait groups, atomic cells; flume and
//! event-listener.
use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};
use crossbeam_deque::{Injector, Steal, Worker};
use crossbeam_epoch::{Atomic, Owned, pin};
use crossbeam_utils::atomic::AtomicCell;
use crossbeam_utils::sync::{ShardedLock, WaitGroup};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

fn produce(to: &Sender<Vec<u64>>, of: u64) {
    for value in 0..of {
        to.send(vec![value; 3]).unwrap();
    }
}

fn consume(from: &Receiver<Vec<u64>>) -> u64 {
    from.iter().map(|values| values[0]).sum()
}

fn channels(channel: fn() -> (Sender<Vec<u64>>, Receiver<Vec<u64>>)) {
    let (sender, receiver) = channel();
    let (stop, stopped) = bounded::<()>(0);
    thread::scope(|scope| {
        scope.spawn(move || produce(&sender, 30));
        scope.spawn(move || drop(stop));
        let _ = select! { recv(stopped) -> message => message };
        assert_eq!(consume(&receiver), 435);
    });
}

fn steal(injector: &Injector<Box<u64>>, worker: &Worker<Box<u64>>) -> Option<Box<u64>> {
    loop {
        match injector.steal_batch_and_pop(worker) {
            Steal::Success(job) => return Some(job),
            Steal::Empty => return worker.pop(),
            Steal::Retry => {}
        }
    }
}

fn stealing() {
    let injector = Injector::new();
    (0..100).for_each(|job| injector.push(Box::new(job)));
    let done = AtomicCell::new(0u64);
    let group = WaitGroup::new();
    thread::scope(|scope| {
        for _ in 0..2 {
            let group = group.clone();
            let (injector, done) = (&injector, &done);
            scope.spawn(move || {
                let worker = Worker::new_lifo();
                while let Some(job) = worker.pop().or_else(|| steal(injector, &worker)) {
                    done.fetch_add(*job);
                }
                drop(group);
            });
        }
        group.wait();
    });
    assert_eq!(done.load(), 4950);
}

fn replace(current: &Atomic<[u64; 4]>, value: u64) {
    let guard = pin();
    let old = current.swap(Owned::new([value; 4]), Ordering::AcqRel, &guard);
    // SAFETY: nobody can get at it any more.
    unsafe { guard.defer_destroy(old) };
}

fn look(current: &Atomic<[u64; 4]>) -> u64 {
    let guard = pin();
    let value = current.load(Ordering::Acquire, &guard);
    // SAFETY: it lives as long as the guard.
    unsafe { value.deref() }.iter().sum()
}

fn epochs(table: &ShardedLock<Vec<u64>>) {
    let current = Atomic::new([1; 4]);
    thread::scope(|scope| {
        scope.spawn(|| (0..40).for_each(|value| replace(&current, value)));
        scope.spawn(|| (0..40).for_each(|_| assert_eq!(look(&current) % 4, 0)));
        scope.spawn(|| (0..10).for_each(|value| table.write().unwrap().push(value)));
        let sum = || table.read().unwrap().iter().sum::<u64>();
        (0..10).for_each(|_| assert!(sum() <= 45));
    });
    // SAFETY: all others are gone.
    drop(unsafe { current.into_owned() });
}

fn listen(event: &event_listener::Event, flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        let listener = event.listen();
        if flag.load(Ordering::Acquire) {
            return;
        }
        event_listener::Listener::wait(listener);
    }
}

fn others() {
    let (sender, receiver) = flume::bounded(2);
    let (event, flag) = (event_listener::Event::new(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| (0..30).for_each(|value: u64| sender.send(value).unwrap()));
        scope.spawn(|| listen(&event, &flag));
        assert_eq!((0..30).map(|_| receiver.recv().unwrap()).sum::<u64>(), 435);
        flag.store(true, Ordering::Release);
        event.notify(usize::MAX);
    });
}

fn main() {
    channels(unbounded);
    channels(|| bounded(4));
    channels(|| bounded(0));
    stealing();
    epochs(&ShardedLock::default());
    others();
}
