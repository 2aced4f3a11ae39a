//! A progress bar for work with stages, such as generating and importing. It is shown only on a terminal.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use uva_graph::Progress;

/// The tick of a bar whose work does not report its progress.
const TICK: Duration = Duration::from_millis(125);

/// The bar. Dropping it removes it from the terminal.
#[derive(Debug)]
pub struct Work {
    bar: ProgressBar,
    /// The thread that ticks it, if nothing else does: it ends with the sender.
    ticks: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Work {
    /// A bar on stderr, for work that reports its progress.
    pub fn new() -> Work {
        Self::of_template("{msg:<10} {bar:30} {percent:>3} %  {elapsed}")
    }

    /// A bar that also shows the remaining time.
    pub fn with_remaining_time() -> Work {
        Self::of_template("{msg:<10} {bar:30} {percent:>3} %  {elapsed}, {eta} left")
    }

    fn of_template(template: &str) -> Work {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
        let style = ProgressStyle::with_template(template)
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("━╸─");
        bar.set_style(style);
        Work { bar, ticks: None }
    }

    /// A moving line on stderr, for work that does not report its progress. Without a terminal, or if no thread can be
    /// started, nothing moves.
    pub fn of_unknown_length(name: &'static str) -> Work {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
        let style = ProgressStyle::with_template("{spinner} {msg}  {elapsed}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.set_message(name);
        let ticks = if bar.is_hidden() { None } else { ticks(&bar) };
        Work { bar, ticks }
    }

    /// Runs `say`, which writes to the terminal, with the bar hidden.
    pub fn beside(&self, say: impl FnOnce()) {
        self.bar.suspend(say);
    }

    /// Shows the progress of the work.
    pub fn show(&self, progress: Progress) {
        self.show_named(progress.stage, progress.done, progress.total);
    }

    /// Shows the progress of a stage whose name is made at run time.
    pub fn show_named(&self, stage: &str, done: u64, total: u64) {
        if self.bar.message() != stage {
            self.bar.set_message(stage.to_owned());
        }
        self.bar.set_length(total);
        self.bar.set_position(done);
    }
}

/// A thread that moves the bar until the sender is gone.
fn ticks(bar: &ProgressBar) -> Option<(mpsc::Sender<()>, JoinHandle<()>)> {
    bar.tick();
    let (sender, receiver) = mpsc::channel();
    let bar = bar.clone();
    let tick = move || {
        while receiver.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            bar.tick();
        }
    };
    let thread = thread::Builder::new().name("bar".to_owned()).spawn(tick).ok()?;
    Some((sender, thread))
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.ticks.take() {
            drop(sender);
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}
