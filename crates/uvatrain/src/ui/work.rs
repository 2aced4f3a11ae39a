//! A bar for work with stages: generating and importing. Only on a terminal; elsewhere it says nothing.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use uva_graph::generate::Progress;

/// The bar. It goes away when it is dropped.
#[derive(Debug)]
pub struct Work {
    bar: ProgressBar,
}

impl Work {
    /// A bar on stderr, for work that says how far it is.
    pub fn new() -> Work {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
        let style = ProgressStyle::with_template("{msg:<10} {bar:30} {percent:>3} %  {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("━╸─");
        bar.set_style(style);
        Work { bar }
    }

    /// A line on stderr that moves, for work that does not say how far it is.
    pub fn of_unknown_length(name: &'static str) -> Work {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
        let style = ProgressStyle::with_template("{spinner} {msg}  {elapsed}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.set_message(name);
        bar.enable_steady_tick(Duration::from_millis(125));
        Work { bar }
    }

    /// Does something that writes to the terminal, with the bar out of its way.
    pub fn beside(&self, say: impl FnOnce()) {
        self.bar.suspend(say);
    }

    /// Shows how far the work is.
    pub fn show(&self, progress: Progress) {
        if self.bar.message() != progress.stage {
            self.bar.set_message(progress.stage);
        }
        self.bar.set_length(progress.total);
        self.bar.set_position(progress.done);
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
