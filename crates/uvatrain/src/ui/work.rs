//! A bar for work with stages: generating and importing. Only on a terminal; elsewhere it says nothing.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use uva_graph::generate::Progress;

/// The bar. It goes away when it is dropped.
#[derive(Debug)]
pub struct Work {
    bar: ProgressBar,
}

impl Work {
    /// A bar on stderr.
    pub fn new() -> Work {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
        let style = ProgressStyle::with_template("{msg:<10} {bar:30} {percent:>3} %  {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("━╸─");
        bar.set_style(style);
        Work { bar }
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
