//! Progress of long work: on a terminal, after a second, with speed and time left.

use crate::output;
use atomsan_trace::numbers::grouped;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

/// Work that is done in less is not worth a line.
const PATIENCE: Duration = Duration::from_secs(1);

/// A line on the terminal that goes away when the work is done.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    what: String,
    started: Instant,
}

impl Progress {
    /// Work on `what`. Without a terminal nothing is ever shown.
    pub(crate) fn new(what: impl Into<String>) -> Progress {
        Progress {
            bar: None,
            what: what.into(),
            started: Instant::now(),
        }
    }

    /// `events` are done, and of the whole work `done` of `total`, if that is known.
    pub(crate) fn update(&mut self, events: u64, done: u64, total: Option<u64>) {
        let elapsed = self.started.elapsed();
        if self.bar.is_none() && (elapsed < PATIENCE || !output::has_terminal()) {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr_with_hz(8));
            let template = match total {
                Some(_) => "{prefix} {bar:30} {percent:>3}%  {msg}",
                None => "{prefix} {spinner}  {msg}",
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.set_prefix(self.what.clone());
            bar
        });
        bar.set_position(done);
        let elapsed = elapsed.as_secs_f64();
        let speed = events as f64 / elapsed / 1e6;
        let mut message = format!("{} events, {speed:.1} M events/s", grouped(events));
        if let Some(total) = total.filter(|_| done > 0) {
            let left = elapsed * total.saturating_sub(done) as f64 / done as f64;
            message.push_str(&format!(", {left:.0} s left"));
        }
        bar.set_message(message);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
