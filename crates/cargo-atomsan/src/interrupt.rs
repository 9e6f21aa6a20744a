//! Ctrl-C while something is checked: the check stops where it is, and what has been found so far is told.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// How many checks are under way.
static CHECKS: AtomicU32 = AtomicU32::new(0);
static WANTED: AtomicBool = AtomicBool::new(false);

/// A check that can be stopped, as long as this lives.
pub(crate) struct Check(());

impl Check {
    pub(crate) fn start() -> Check {
        CHECKS.fetch_add(1, Ordering::Relaxed);
        Check(())
    }
}

impl Drop for Check {
    fn drop(&mut self) {
        CHECKS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Asks for an end of the check; whether there is one, and nobody has asked before.
pub(crate) fn stop() -> bool {
    CHECKS.load(Ordering::Relaxed) > 0 && !WANTED.swap(true, Ordering::Relaxed)
}

/// Whether somebody has asked.
pub(crate) fn is_wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}
