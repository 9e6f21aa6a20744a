//! Orders that are easy to see.

use super::*;
use crate::file::tests::Builder;
use crate::format::first_word;

fn write(builder: &mut Builder, slot: usize, address: u64) {
    builder.push(slot, &[first_word(Kind::Write, 4, address), 0]);
}

fn edge(builder: &mut Builder, slot: usize, from: usize, position: u64) {
    builder.push(slot, &[first_word(Kind::Edge, 0, position), from as u64]);
}

fn order(recording: &Recording) -> Vec<(usize, u64)> {
    Order::new(recording)
        .map(|(slot, record)| (slot, record.subject))
        .collect()
}

#[test]
fn edges_are_respected() {
    let mut builder = Builder::default();
    write(&mut builder, 1, 1);
    let first = builder.end(1);
    edge(&mut builder, 2, 1, first);
    write(&mut builder, 2, 2);
    let second = builder.end(2);
    edge(&mut builder, 1, 2, second);
    write(&mut builder, 1, 3);
    assert_eq!(order(&builder.build()), [(1, 1), (2, 2), (1, 3)]);
}

/// The writes of a recording in order; behind a cut, after a `|`; `?` if they are doubtful.
fn writes(recording: &Recording) -> String {
    let mut order = Order::new(recording);
    let mut text = String::new();
    while let Some((_, record)) = order.next() {
        if order.is_cut() {
            text += "| ";
        }
        if record.kind == Kind::Write {
            let doubtful = if order.is_doubtful() { "?" } else { "" };
            text += &format!("{}{doubtful} ", record.subject);
        }
    }
    text
}

/// `1` is before something that is forgotten, and that before `2`.
#[test]
fn what_is_before_something_forgotten_comes_first() {
    let mut builder = Builder::default();
    edge(&mut builder, 1, 2, 8);
    write(&mut builder, 1, 2);
    write(&mut builder, 3, 1);
    let first = builder.end(3);
    write(&mut builder, 3, 4);
    builder.push(2, &[first_word(Kind::Continue, 0, 7), 0, 0, 0]);
    edge(&mut builder, 2, 3, first);
    builder.gap(2);
    write(&mut builder, 2, 3);
    assert_eq!(writes(&builder.build()), "1 | 2 3 4 ");
}

/// `1` is after a part of what is forgotten and before another part, and `2` is after `1`; `4` is too, but behind the
/// gap.
#[test]
fn what_is_between_parts_of_a_gap_is_doubtful() {
    let mut builder = Builder::default();
    write(&mut builder, 1, 3);
    edge(&mut builder, 1, 2, 8);
    write(&mut builder, 1, 1);
    let first = builder.end(1);
    write(&mut builder, 1, 4);
    edge(&mut builder, 3, 1, first);
    write(&mut builder, 3, 2);
    let second = builder.end(3);
    write(&mut builder, 3, 6);
    builder.push(2, &[first_word(Kind::Continue, 0, 7), 0, 0, 0]);
    edge(&mut builder, 2, 3, second);
    builder.gap(2);
    write(&mut builder, 2, 5);
    assert_eq!(writes(&builder.build()), "3 1? 2? | 4 5 6 ");
}

/// `2` is after a part of what is forgotten and before another part, but nothing else is: `1`, which is before the gap
/// too, comes first.
#[test]
fn what_one_log_does_between_parts_of_a_gap_counts() {
    let mut builder = Builder::default();
    write(&mut builder, 1, 3);
    edge(&mut builder, 1, 2, 8);
    write(&mut builder, 1, 2);
    let second = builder.end(1);
    write(&mut builder, 1, 4);
    write(&mut builder, 3, 1);
    let first = builder.end(3);
    write(&mut builder, 3, 6);
    builder.push(2, &[first_word(Kind::Continue, 0, 7), 0, 0, 0]);
    edge(&mut builder, 2, 3, first);
    edge(&mut builder, 2, 1, second);
    builder.gap(2);
    write(&mut builder, 2, 5);
    assert_eq!(writes(&builder.build()), "3 1 | 2 | 4 5 6 ");
}

/// Two logs have forgotten something, one after the other.
#[test]
fn what_is_between_two_gaps_counts() {
    let mut builder = Builder::default();
    write(&mut builder, 1, 1);
    let first = builder.end(1);
    edge(&mut builder, 1, 2, 8);
    write(&mut builder, 1, 2);
    let second = builder.end(1);
    edge(&mut builder, 1, 3, 8);
    write(&mut builder, 1, 3);
    for (slot, position) in [(2, first), (3, second)] {
        builder.push(slot, &[first_word(Kind::Continue, 0, 7), 0, 0, 0]);
        edge(&mut builder, slot, 1, position);
        builder.gap(slot);
    }
    write(&mut builder, 2, 4);
    write(&mut builder, 3, 5);
    assert_eq!(writes(&builder.build()), "1 | 2 | 3 4 5 ");
}

#[test]
fn circles_and_lost_records_do_not_stop_it() {
    let mut builder = Builder::default();
    edge(&mut builder, 1, 2, u64::MAX >> 16);
    write(&mut builder, 1, 1);
    edge(&mut builder, 2, 1, u64::MAX >> 16);
    edge(&mut builder, 2, 99, 5);
    write(&mut builder, 2, 2);
    let mut order = order(&builder.build());
    order.sort();
    assert_eq!(order, [(1, 1), (2, 2)]);
}
