//! Waiting for a program that runs: until it ends, until it rings, or for so long.
//!
//! A program that has asked something, or is short of room, sends a signal to the process that follows it
//! (`atomsan_rt::recording::ring`), so nobody has to look all the time. It is one that is ignored by whoever does not
//! expect it, because the number of a process may be somebody else's by then. What the signal does is to write into a
//! pipe that is waited for together with the program's end: it stays there until it is read, so one that comes before
//! we wait is not lost. A program that cannot send it is looked at now and then, as all are.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use signal_hook::SigId;
use signal_hook::consts::SIGURG;
use signal_hook::low_level;
use std::io::{self, PipeReader, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Child;
use std::time::Instant;

/// What came first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum News {
    /// The program has ended, or may have: where there is no file for that, one has to look each time.
    End,
    /// It has rung.
    Ring,
    /// The time is over.
    Nothing,
}

/// What a program rings.
pub(crate) struct Bell {
    rings: PipeReader,
    signal: SigId,
}

impl Bell {
    /// A bell for programs that are started from now on.
    pub(crate) fn new() -> io::Result<Bell> {
        let (rings, ring) = io::pipe()?;
        ioctl_fionbio(&rings, true)?;
        let signal = low_level::pipe::register(SIGURG, ring)?;
        Ok(Bell { rings, signal })
    }

    /// Waits for a program, no longer than until then.
    pub(crate) fn wait(&mut self, end: &End, until: Instant) -> News {
        loop {
            let time = until.saturating_duration_since(Instant::now());
            let time = Timespec::try_from(time).ok();
            let rings = self.rings.as_fd();
            let file = end.0.as_ref().map_or(rings, OwnedFd::as_fd);
            let mut files = [rings, file].map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN));
            let found = poll(&mut files, time.as_ref());
            let has_ended = !files[1].revents().is_empty();
            // What interrupts us is the signal most of the time, which has been written then.
            let may_have_rung = found.is_err() || !files[0].revents().is_empty();
            if may_have_rung && self.has_rung() {
                return News::Ring;
            }
            return match found {
                Err(_) if Instant::now() < until => continue,
                Ok(1..) if has_ended => News::End,
                _ if end.0.is_none() => News::End,
                _ => News::Nothing,
            };
        }
    }

    /// Whether it has been rung since this was asked last.
    fn has_rung(&mut self) -> bool {
        // More than one are the same news.
        self.rings.read(&mut [0; 64]).is_ok_and(|rings| rings > 0)
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        low_level::unregister(self.signal);
    }
}

/// The end of a process, by a file that can be read then, where there are such files.
pub(crate) struct End(Option<OwnedFd>);

impl End {
    /// That of a program that was started.
    pub(crate) fn of(child: &Child) -> End {
        End(pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn a_ring_before_anybody_waits_is_not_lost_and_an_end_is_seen() {
        let long = || Instant::now() + Duration::from_secs(60);
        let mut bell = Bell::new().unwrap();
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let end = End::of(&child);
        let shortly = Instant::now() + Duration::from_millis(5);
        assert_eq!(bell.wait(&end, shortly), News::Nothing);
        assert!(Instant::now() >= shortly);
        for _ in 0..100 {
            low_level::raise(SIGURG).unwrap();
        }
        // All of them are one.
        while bell.wait(&end, Instant::now()) == News::Ring {}
        low_level::raise(SIGURG).unwrap();
        assert_eq!(bell.wait(&end, long()), News::Ring);
        child.kill().unwrap();
        assert_eq!(bell.wait(&end, long()), News::End);
        child.wait().unwrap();
    }
}
