//! Programs that know their transactions, under every kind of schedule: what they say of them is compared with what happened,
//! with logs and without.

use super::{Actor, Child, explore_transactions, run, variable};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::{Mutex, RwLock};
use std::sync::Arc;
use std::vec::Vec;

/// What threads do in transactions and outside of them, with all that they can synchronise by.
fn any_transactions(first: &Actor) {
    let locks = Arc::new([0, 1].map(|number| RwLock::new(variable(number))));
    let body = move |actor: &Actor| {
        for _ in 0..4 {
            let steps = || {
                for _ in 0..thread_rng().gen_range(1..4) {
                    let which = thread_rng().gen_range(0..2);
                    let (data, atomic) = (variable(4) + 4 * which, variable(6 + which));
                    let write = thread_rng().gen_bool(0.4);
                    match thread_rng().gen_range(0..6) {
                        0 => drop(actor.load(atomic)),
                        1 => actor.store(atomic, 1),
                        2 => drop(actor.add(atomic, 1)),
                        3 => drop(actor.compare_exchange(atomic, 1, 0)),
                        _ => actor.holding(&locks[which], write, || {
                            actor.plain(data, 4, false);
                            actor.plain(data + 8, 4, write);
                            actor.plain(data, 4, write);
                        }),
                    }
                }
            };
            if thread_rng().gen_bool(0.6) {
                actor.region(steps);
            } else {
                steps();
            }
        }
    };
    let children: Vec<Child> = (0..2).map(|_| first.spawn(true, body.clone())).collect();
    body(first);
    children
        .into_iter()
        .for_each(|child| first.join(true, child));
    first.plain(variable(4), 16, true);
}

#[test]
fn transactions_are_in_the_order_of_their_accesses() {
    explore_transactions(1500, || drop(run(any_transactions)));
}

#[test]
fn transactions_whose_synchronisation_is_not_seen() {
    explore_transactions(900, || {
        run(|first| {
            let locks = Arc::new([Mutex::new(1), Mutex::new(2)]);
            let body = move |actor: &Actor| {
                for _ in 0..6 {
                    let which = thread_rng().gen_range(0..2);
                    let of_lock = |number: usize| variable(2 * which + number);
                    let write = thread_rng().gen_bool(0.5);
                    let steps = || {
                        actor.alone(&locks[which], || {
                            actor.read(of_lock(0));
                            actor.plain(of_lock(1), 8, write);
                            actor.plain(of_lock(0), 8, write);
                        })
                    };
                    if thread_rng().gen_bool(0.6) {
                        actor.region(steps);
                    } else {
                        steps();
                    }
                }
            };
            let children: Vec<Child> = (0..2).map(|_| first.spawn(false, body.clone())).collect();
            body(first);
            children
                .into_iter()
                .for_each(|child| first.join(false, child));
            (0..4).for_each(|number| first.write(variable(number)));
        });
    });
}

#[test]
fn what_was_there_at_birth_is_read_in_no_order() {
    explore_transactions(900, || {
        let own = Arc::new(std::sync::Mutex::new(0));
        let slot = own.clone();
        let links = run(move |first| {
            *slot.lock().unwrap() = first.thread.slot.get();
            (0..4).for_each(|number| first.write(variable(number)));
            let read = |actor: &Actor| {
                actor.region(|| (0..4).for_each(|number| actor.read(variable(number))));
            };
            let children: Vec<Child> = (0..3).map(|_| first.spawn(true, read)).collect();
            first.write(variable(5));
            children
                .into_iter()
                .for_each(|child| first.join(true, child));
            (0..4).for_each(|number| first.write(variable(number)));
        });
        let own = *own.lock().unwrap();
        let mut edges = links.0.iter();
        let between_children = edges.find(|((from, _), (to, _))| *from != own && *to != own);
        assert_eq!(between_children, None, "{:?}", links.0);
    });
}

#[test]
fn what_was_there_at_birth_is_written_after_all_readers() {
    explore_transactions(900, || {
        run(|first| {
            (0..2).for_each(|number| first.write(variable(number)));
            let locks = Arc::new([Mutex::new(1), Mutex::new(2)]);
            let body = move |actor: &Actor| {
                for _ in 0..4 {
                    let which = thread_rng().gen_range(0..2);
                    let write = thread_rng().gen_bool(0.4);
                    actor.region(|| {
                        actor.alone(&locks[which], || {
                            actor.read(variable(which));
                            actor.plain(variable(which), 8, write);
                        });
                    });
                }
            };
            let children: Vec<Child> = (0..3).map(|_| first.spawn(true, body.clone())).collect();
            children
                .into_iter()
                .for_each(|child| first.join(true, child));
        });
    });
}

#[test]
fn a_lock_that_is_held_from_one_transaction_to_the_next() {
    explore_transactions(900, || {
        run(|first| {
            let lock = Arc::new(RwLock::new(variable(0)));
            let body = move |actor: &Actor| {
                for _ in 0..3 {
                    let exclusive = thread_rng().gen_bool(0.6);
                    actor.holding(&lock, exclusive, || {
                        actor.region(|| actor.plain(variable(1), 4, exclusive));
                        actor.region(|| actor.plain(variable(1) + 4, 4, exclusive));
                    });
                }
            };
            let children: Vec<Child> = (0..2).map(|_| first.spawn(true, body.clone())).collect();
            children
                .into_iter()
                .for_each(|child| first.join(true, child));
        });
    });
}

#[test]
fn turns_make_no_circle() {
    explore_transactions(900, || {
        let links = run(|first| {
            let locks = Arc::new([0, 1].map(|number| RwLock::new(variable(number))));
            let body = move |actor: &Actor| {
                for _ in 0..5 {
                    let which = thread_rng().gen_range(0..2);
                    actor.region(|| {
                        actor.holding(&locks[which], true, || {
                            actor.read(variable(4 + which));
                            actor.write(variable(4 + which));
                        });
                    });
                }
            };
            let children: Vec<Child> = (0..2).map(|_| first.spawn(true, body.clone())).collect();
            children
                .into_iter()
                .for_each(|child| first.join(true, child));
        });
        assert_eq!(links.cycle(), None, "{:?}", links.0);
    });
}
