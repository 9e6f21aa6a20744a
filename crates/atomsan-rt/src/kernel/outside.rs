//! What is logged again outside of regions: all that follows a conflict that says something new.
//!
//! Threads take turns, step by step, so that it is clear what happened in which order. Transactions are nodes, and so is what a thread
//! does outside of regions until it depends on an open region that it could not be reached from: that begins the next one. An access must be
//! in the log behind the beginning of its node, by itself or by an earlier one that stands for it, unless it is outside of regions, of what nobody else has accessed, and in no
//! cycle: there, whatever it depends on begins another *part* of what the thread does. (The engines' tests, `stretches.rs`, show that nothing is lost then.)

use super::recorded::Logs as Recorded;
use super::{Actor, MEMORY, MEMORY_SIZE, no_stack, repeat_with, variable};
use crate::format::Kind;
use crate::start::{self, Logs};
use crate::{ownership, shadow, thread};
use shuttle::rand::{Rng, thread_rng};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::vec::Vec;

/// A thread, and how many nodes it had before.
type Node = (usize, usize);

/// What is done at a place.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Does {
    Read,
    Write,
    Acquire,
    AcquireShared,
    Release,
    ReleaseShared,
}

impl Does {
    fn conflicts_with(self, earlier: Does) -> bool {
        use Does::*;
        match self {
            Read => earlier == Write,
            Write => matches!(earlier, Read | Write),
            Acquire => matches!(earlier, Release | ReleaseShared),
            AcquireShared => earlier == Release,
            Release | ReleaseShared => false,
        }
    }
}

/// An access, and the position at which its node began.
struct Made {
    part: Node,
    /// Whether it is outside of regions, and nobody else had accessed the place.
    is_private: bool,
    slot: u32,
    began: u64,
    end: u64,
    address: usize,
    write: bool,
}

struct Player {
    actor: Actor,
    nodes: usize,
    parts: usize,
    began: u64,
    in_region: bool,
}

struct Game {
    players: Vec<Player>,
    edges: HashSet<(Node, Node)>,
    /// The same between parts.
    finer: HashSet<(Node, Node)>,
    /// The last that each thread has done at a place, by kind: its node and its part.
    last: HashMap<(usize, usize, Does), (Node, Node)>,
    holders: HashMap<usize, Vec<(usize, bool)>>,
    made: Vec<Made>,
    story: Vec<std::string::String>,
}

impl Game {
    fn new(players: usize) -> Game {
        let truth = Arc::new(std::sync::Mutex::new(super::Truth::default()));
        let mut game = Game {
            players: Vec::new(),
            edges: HashSet::new(),
            finer: HashSet::new(),
            last: HashMap::new(),
            holders: HashMap::new(),
            made: Vec::new(),
            story: Vec::new(),
        };
        for name in 0..players {
            let number = start::new_thread_number();
            let starts = |first: &Player| first.actor.thread.gives_birth(number, 0);
            let parent = game.players.first().map(starts);
            let thread = thread::register(number, parent, no_stack).unwrap();
            let started = truth.lock().unwrap().start((name > 0).then_some(0));
            assert_eq!(started, name);
            game.players.push(Player {
                actor: Actor {
                    thread,
                    name,
                    truth: truth.clone(),
                },
                nodes: 0,
                parts: 0,
                began: thread.position(),
                in_region: false,
            });
            if name > 0 {
                game.edges.insert((game.node(0), (name, 0)));
                game.finer.insert((game.part(0), (name, 0)));
            }
            // Some of it is there when the others are born.
            game.plain(0, thread_rng().gen_range(0..3), true);
        }
        game
    }

    fn node(&self, player: usize) -> Node {
        (player, self.players[player].nodes)
    }

    fn part(&self, player: usize) -> Node {
        (player, self.players[player].parts)
    }

    fn is_reached(&self, to: Node, from: Node) -> bool {
        Game::leads(&self.edges, to, from)
    }

    fn leads(edges: &HashSet<(Node, Node)>, to: Node, from: Node) -> bool {
        let (mut found, mut next) = (HashSet::from([from]), std::vec![from]);
        while let Some(at) = next.pop() {
            if at == to || at.0 == to.0 && at.1 < to.1 {
                return true;
            }
            let ways = edges.iter().filter(|(source, _)| {
                // The own thread's order leads to all later nodes.
                source.0 == at.0 && source.1 >= at.1
            });
            for &(_, target) in ways {
                if found.insert(target) {
                    next.push(target);
                }
            }
        }
        false
    }

    /// Whether a part comes before itself, or before an earlier one of its thread, by way of others.
    fn is_in_cycle(&self, part: Node) -> bool {
        let mut ways = self.finer.iter().filter(|(source, target)| {
            source.0 == part.0 && source.1 >= part.1 && target.0 != part.0
        });
        ways.any(|&(_, target)| Game::leads(&self.finer, part, target))
    }

    /// The transactions that others are in.
    fn open_regions(&self, but: usize) -> impl Iterator<Item = Node> {
        let players = self.players.iter().enumerate();
        players
            .filter(move |(player, state)| *player != but && state.in_region)
            .map(|(player, state)| (player, state.nodes))
    }

    fn begin_node(&mut self, player: usize) {
        let player = &mut self.players[player];
        player.nodes += 1;
        player.began = player.actor.thread.position();
    }

    /// Something is about to be done at a place.
    fn does(&mut self, player: usize, place: usize, does: Does) {
        let others = self.last.iter().filter(|((other, at, earlier), _)| {
            *other != player && *at == place && does.conflicts_with(*earlier)
        });
        let others: Vec<(Node, Node)> = others.map(|(_, &both)| both).collect();
        let own = self.node(player);
        let is_new = |open: Node| {
            let leads_here = others.iter().any(|&(node, _)| self.is_reached(node, open));
            leads_here && !self.is_reached(own, open)
        };
        let is_news = self.open_regions(player).any(is_new);
        if is_news && !self.players[player].in_region {
            self.begin_node(player);
        }
        if !others.is_empty() && !self.players[player].in_region {
            self.players[player].parts += 1;
        }
        let (own, part) = (self.node(player), self.part(player));
        for (node, other) in others {
            self.edges.insert((node, own));
            self.finer.insert((other, part));
        }
        self.last.insert((player, place, does), (own, part));
    }

    fn plain(&mut self, player: usize, number: usize, write: bool) {
        let address = variable(number);
        self.says(player, if write { "writes" } else { "reads" }, number);
        self.does(player, number, if write { Does::Write } else { Does::Read });
        let part = self.part(player);
        let is_others = |made: &Made| made.address == address && made.part.0 != player;
        let is_shared = self.made.iter().any(is_others);
        let Player {
            actor,
            began,
            in_region,
            ..
        } = &self.players[player];
        actor.plain(address, 8, write);
        self.made.push(Made {
            part,
            is_private: !in_region && !is_shared,
            slot: actor.thread.slot.get(),
            began: *began,
            end: actor.thread.position(),
            address,
            write,
        });
    }

    /// The second thread reads; how many bytes it logs for that.
    fn logs_read(&mut self, number: usize) -> u64 {
        self.logs(number, false)
    }

    /// The same for an access of it.
    fn logs(&mut self, number: usize, write: bool) -> u64 {
        let thread = self.players[1].actor.thread;
        let before = thread.position();
        self.plain(1, number, write);
        thread.position() - before
    }

    fn atomic(&mut self, player: usize, number: usize, write: bool) {
        self.says(player, if write { "stores" } else { "loads" }, number);
        self.does(player, number, if write { Does::Write } else { Does::Read });
        let actor = &self.players[player].actor;
        match write {
            true => actor.store(variable(number), 1),
            false => drop(actor.load(variable(number))),
        }
    }

    fn lock(&mut self, player: usize, number: usize, shared: bool) {
        let holders = self.holders.entry(number).or_default();
        let place = variable(number);
        let held = holders.iter().position(|(holder, _)| *holder == player);
        let (does, kind) = match held.map(|at| holders.remove(at)) {
            Some((_, true)) => (Does::ReleaseShared, Kind::ReleaseShared),
            Some((_, false)) => (Does::Release, Kind::Release),
            None if holders.iter().any(|(_, is_shared)| !(shared && *is_shared)) => return,
            None => {
                holders.push((player, shared));
                match shared {
                    true => (Does::AcquireShared, Kind::AcquireShared),
                    false => (Does::Acquire, Kind::Acquire),
                }
            }
        };
        self.says(player, &format!("{kind:?}"), number);
        self.does(player, number, does);
        let thread = self.players[player].actor.thread;
        match does {
            Does::Acquire => drop(ownership::own(thread, place, 0, true)),
            Does::AcquireShared => drop(ownership::own(thread, place, 0, false)),
            _ => {}
        }
        thread.append_step(kind, place as u64, 3);
    }

    fn region(&mut self, player: usize) {
        let Player {
            actor, in_region, ..
        } = &mut self.players[player];
        *in_region = !*in_region;
        actor.thread.set_region(u64::from(*in_region));
        self.says(player, "is at the edge of a region", 0);
        self.begin_node(player);
        self.players[player].parts += 1;
    }

    fn says(&mut self, player: usize, what: &str, number: usize) {
        self.story.push(format!("{player} {what} {number}"));
    }

    fn step(&mut self) {
        let player = thread_rng().gen_range(0..self.players.len());
        let (number, flag) = (thread_rng().gen_range(0..3), thread_rng().gen_bool(0.4));
        match thread_rng().gen_range(0..16) {
            0..10 => self.plain(player, number, flag),
            10 | 11 => self.atomic(player, 4 + number % 2, flag),
            12 | 13 => self.lock(player, 6 + number % 2, !flag),
            _ => self.region(player),
        }
    }

    /// All threads end, and the logs say what they should.
    fn ends(self, since: &HashMap<u32, u64>) {
        for player in &self.players {
            player.actor.thread.end();
        }
        let logs = Recorded::read(since);
        for made in &self.made {
            let log = &logs.logs[&made.slot];
            let stands = log.iter().any(|record| {
                (made.began..made.end).contains(&record.position)
                    && record.stands_for(made.address, made.write, false)
            });
            let needs_no_log = || made.is_private && !self.is_in_cycle(made.part);
            let kind = if made.write { "write" } else { "read" };
            let place = (made.address - MEMORY) / 8;
            assert!(
                stands || needs_no_log(),
                "a {kind} of {place} before {:#x} of {} has no record since {:#x}; {:#?}",
                made.end,
                made.slot,
                made.began,
                self.story
            );
        }
    }
}

fn play(steps: usize) {
    let since: HashMap<u32, u64> = (1..64)
        .map(|slot| (slot, thread::position_of(slot)))
        .collect();
    shadow::reset(MEMORY, MEMORY_SIZE);
    let mut game = Game::new(4);
    (0..steps).for_each(|_| game.step());
    game.ends(&since);
}

#[test]
fn what_repeats_behind_a_conflict_is_logged_again() {
    repeat_with(Logs::Transactions, 5000, || play(40));
}

/// Where nobody is in a region, nothing is: the only one has ended.
#[test]
fn what_repeats_where_no_region_is_left_is_not() {
    repeat_with(Logs::Transactions, 1, || {
        shadow::reset(MEMORY, MEMORY_SIZE);
        let mut game = Game::new(2);
        game.region(0);
        (8..16).for_each(|number| game.plain(0, number, true));
        for number in 8..10 {
            assert!(game.logs_read(number) > 0);
            assert!(number == 8 || game.logs_read(8) > 0);
            assert_eq!(game.logs_read(8), 0);
        }
        game.region(0);
        for number in 10..16 {
            assert!(game.logs_read(number) > 0);
            if number == 10 {
                // There may be an edge to the end of the region.
                game.logs_read(8);
            }
            assert_eq!(game.logs_read(8), 0);
        }
        for player in &game.players {
            player.actor.thread.end();
        }
    });
}

/// Nor is it behind an edge: it comes from no region that is left and goes on.
#[test]
fn what_repeats_behind_an_edge_is_not_where_no_region_is_left() {
    repeat_with(Logs::Transactions, 1, || {
        shadow::reset(MEMORY, MEMORY_SIZE);
        let mut game = Game::new(2);
        // Both have read it, so it has no owner.
        game.plain(0, 8, true);
        game.logs_read(8);
        game.plain(0, 8, false);
        assert!(game.logs_read(8) > 0);
        for number in 9..12 {
            game.plain(0, number, true);
            assert!(game.logs_read(number) > 0);
            assert_eq!(game.logs_read(8), 0);
        }
        game.region(0);
        game.plain(0, 12, true);
        assert!(game.logs_read(12) > 0);
        assert!(game.logs_read(8) > 0);
        for player in &game.players {
            player.actor.thread.end();
        }
    });
}

/// Nor is what a thread has to itself, until an edge comes from a region that goes on.
#[test]
fn what_a_thread_has_to_itself_is_not_logged_where_no_region_is_left() {
    repeat_with(Logs::Transactions, 1, || {
        shadow::reset(MEMORY, MEMORY_SIZE);
        let mut game = Game::new(2);
        let own = 20;
        (8..12).for_each(|number| game.plain(0, number, true));
        game.plain(1, own, true);
        assert!(game.logs_read(8) > 0);
        // It is outside of regions again, and has looked at the others.
        (0..2).for_each(|_| game.region(1));
        assert_eq!(game.logs(own, true), 0);
        game.region(1);
        assert!(game.logs(own, true) > 0, "in a region all is logged");
        game.region(1);
        game.region(0);
        game.plain(0, 12, true);
        assert_eq!(game.logs(own, true), 0);
        assert!(game.logs_read(12) > 0);
        assert!(game.logs(own, true) > 0);
        (0..2).for_each(|_| game.region(1));
        assert!(game.logs(own, true) > 0);
        game.region(0);
        assert!(game.logs_read(9) > 0);
        (0..2).for_each(|_| game.region(1));
        assert_eq!(game.logs(own, true), 0);
        for player in &game.players {
            player.actor.thread.end();
        }
    });
}
