//! What a user says of functions that the table of [`models`] does not know: their own locks, and
//! implementation that means nothing to the program.

use crate::models::{self, Change, Family, Step};
use atomsan_trace::spec::Pattern;

/// What a function means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// It is a function of a lock.
    Step(Step),
    /// It waits for other threads.
    Waits,
    /// It is implementation.
    Hidden,
}

impl Meaning {
    /// All meanings, by name.
    pub const NAMED: &[(&str, Meaning)] = &[
        ("lock", Meaning::Step(Step::Lock(Change::Acquire))),
        (
            "lock-shared",
            Meaning::Step(Step::Lock(Change::AcquireShared)),
        ),
        ("try-lock", Meaning::Step(Step::TryLock(Change::Acquire))),
        (
            "try-lock-shared",
            Meaning::Step(Step::TryLock(Change::AcquireShared)),
        ),
        ("unlock", Meaning::Step(Step::Unlock(Change::Release))),
        (
            "unlock-shared",
            Meaning::Step(Step::Unlock(Change::ReleaseShared)),
        ),
        ("waits", Meaning::Waits),
        ("hidden", Meaning::Hidden),
    ];
}

/// Patterns of function paths and what they mean; the first that matches decides. All of them go
/// before the table.
#[derive(Clone, Debug, Default)]
pub struct Models {
    rules: Vec<(Pattern, Meaning)>,
}

impl Models {
    /// Adds a rule after the others.
    pub fn add(&mut self, functions: Pattern, meaning: Meaning) {
        self.rules.push((functions, meaning));
    }

    fn meaning(&self, function: &str) -> Option<Meaning> {
        let rule = self
            .rules
            .iter()
            .find(|(pattern, _)| pattern.matches(function));
        rule.map(|&(_, meaning)| meaning)
    }

    /// Whether the user says anything of a function; then it is no region.
    pub(crate) fn has(&self, function: &str) -> bool {
        self.meaning(function).is_some()
    }

    /// The family that a function belongs to, if it is synchronisation.
    pub(crate) fn family(&self, function: &str) -> Option<Family> {
        match self.meaning(function) {
            Some(_) => Some(Family::Hidden),
            None => models::family(function),
        }
    }

    /// What a function of a lock does, if it is known by its name.
    pub(crate) fn step(&self, function: &str) -> Option<Step> {
        match self.meaning(function) {
            Some(Meaning::Step(step)) => Some(step),
            Some(_) => None,
            None => models::step(function),
        }
    }

    /// Whether a function waits for other threads.
    pub(crate) fn waits(&self, function: &str) -> bool {
        match self.meaning(function) {
            Some(meaning) => meaning == Meaning::Waits,
            None => models::waits(function),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_word_goes_before_the_table() {
        let mut models = Models::default();
        let pattern = |text| Pattern::parse(text).unwrap();
        models.add(pattern("spin::lock"), Meaning::NAMED[0].1);
        models.add(pattern("spin::*"), Meaning::Hidden);
        models.add(pattern("std::sync::mpsc::Receiver*"), Meaning::Hidden);
        assert_eq!(models.step("spin::lock"), Some(Step::Lock(Change::Acquire)));
        assert_eq!(models.step("spin::spin_once"), None);
        assert_eq!(models.family("spin::spin_once"), Some(Family::Hidden));
        let receive = "std::sync::mpsc::Receiver<T>::recv";
        assert!(models::waits(receive) && !models.waits(receive));
        assert!(!models.has("std::sync::mutex") && models.has("spin::x"));
    }
}
