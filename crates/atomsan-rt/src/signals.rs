//! Jumps out of signal handlers.
//!
//! A handler may interrupt the runtime in the middle of its work; it sees that the thread is busy,
//! and what it does is not recorded. It may also never return, but jump to another place of the
//! program: then the work is abandoned, and the thread is not busy any more. A record that was not
//! finished is overwritten by the next one; a granule that stays locked is taken over by who needs
//! it ([`crate::ownership`]).

use crate::platform::exported_before;
use crate::thread;

/// The runtime itself never jumps, so a busy thread that does is in a handler.
fn jumping(_pc: u64, _first: usize) {
    if let Some(thread) = thread::current() {
        thread.abandon();
    }
}

exported_before! {
    jumping: longjmp _longjmp siglongjmp __longjmp_chk;
}
