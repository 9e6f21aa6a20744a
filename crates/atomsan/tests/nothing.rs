//! In an ordinary build annotations are nothing: this program is linked without the runtime, which
//! would fail if anything referred to it, and behaves as if they were not there.
#![cfg(not(atomsan))]

use atomsan::{Region, atomic_block, atomic_set, yield_point};
use std::mem::{needs_drop, size_of};

#[atomsan::atomic]
fn doubled<'a, T>(items: &'a [T]) -> impl Iterator<Item = (&'a T, &'a T)> + use<'a, T>
where
    T: Clone,
{
    items.iter().map(|item| (item, item))
}

struct Account(i32);

impl Account {
    #[atomsan::atomic("withdrawal")]
    pub(crate) fn withdraw(&mut self, amount: i32) -> Result<i32, String> {
        if amount > self.0 {
            return Err(format!("only {}", self.0));
        }
        self.0 -= amount;
        Ok(self.0)
    }

    #[atomsan::not_atomic]
    unsafe extern "C" fn raw(&self) -> i32 {
        self.0
    }
}

#[test]
fn a_region_has_no_size_and_no_destructor() {
    assert_eq!(size_of::<Region>(), 0);
    assert!(!needs_drop::<Region>());
}

#[test]
fn functions_keep_their_meaning() {
    assert_eq!(doubled(&[1, 2]).count(), 2);
    let mut account = Account(10);
    assert_eq!(account.withdraw(3), Ok(7));
    assert_eq!(account.withdraw(8), Err("only 7".into()));
    // SAFETY: the function has no requirements.
    assert_eq!(unsafe { account.raw() }, 7);
}

#[test]
fn blocks_keep_their_control_flow() {
    fn find(numbers: &[i32]) -> Option<i32> {
        for &number in numbers {
            atomic_block!("find", {
                yield_point!();
                if number < 0 {
                    continue;
                }
                if number > 10 {
                    return Some(number);
                }
            });
        }
        None
    }
    assert_eq!(find(&[-1, 5, 11, 12]), Some(11));
    assert_eq!(find(&[-1]), None);
    atomic_set!("pair"; &1, "text", &[0u8; 4][..]);
}

#[test]
fn nothing_of_the_runtime_is_linked() {
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    // Backwards, so that the test does not find itself.
    let name: String = "_nasmota__".chars().rev().collect();
    let found = program
        .windows(name.len())
        .filter(|window| *window == name.as_bytes());
    assert_eq!(found.count(), 0);
}
