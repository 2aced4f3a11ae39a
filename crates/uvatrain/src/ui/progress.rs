//! The view of a training run: a moving bar on a terminal, and a line per epoch everywhere.

use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use uva_files::escape;
use uva_graph::Split;
use uva_runtime::RuntimeError;
use uva_runtime::telemetry::metrics::{EpochEvent, Event, Observer, RunProgress};

use super::remaining::{Epochs, remaining};
use super::{format, out};

/// A view of a run for the user, on stderr.
#[derive(Debug)]
pub struct TrainingBar {
    /// Hidden if stderr is not a terminal; then only whole lines are printed.
    bar: ProgressBar,
    pass: Option<Pass>,
    /// The epochs' durations so far, to estimate the others.
    timed: Epochs,
    /// Batches per second of the last training pass, for its epoch's line.
    rate: f64,
    epochs: u32,
    /// Whether only batches are visible: such a trainer does not share losses and accuracies.
    batches_alone: bool,
}

/// One pass over one split, for its speed. After a resume it may begin in the middle.
#[derive(Debug)]
struct Pass {
    split: Split,
    epoch: u32,
    first_batch: u64,
    since: Instant,
}

impl TrainingBar {
    /// A view that prints to stderr.
    pub fn new() -> TrainingBar {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
        // The bar gets the columns that the figures do not need, a few on a terminal of 80.
        // The template is a constant: a mistake in it shows in every run, and falls back to a plain bar.
        let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len}  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("━╸─");
        bar.set_style(style);
        TrainingBar { bar, pass: None, timed: Epochs::default(), rate: 0.0, epochs: 0, batches_alone: false }
    }

    /// A view for runs in which only batches are visible.
    pub fn of_batches_alone() -> TrainingBar {
        TrainingBar { batches_alone: true, ..TrainingBar::new() }
    }

    /// Prints a line, above the bar if there is one.
    pub fn line(&self, line: &str) {
        if self.bar.is_hidden() {
            out::say(line);
        } else {
            self.bar.println(escape::word(&out::spelled(line)));
        }
    }

    /// Removes the bar. Lines stay.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Batches per second of the pass that `progress` belongs to.
    fn measure(&mut self, progress: &RunProgress, now: Instant) -> f64 {
        let (split, epoch, batch) = (progress.split, progress.epoch, progress.batch);
        let pass = match &self.pass {
            Some(pass) if (pass.split, pass.epoch) == (split, epoch) => pass,
            // The first batch of a pass includes its start-up, so the count begins after it.
            _ => self.pass.insert(Pass { split, epoch, first_batch: batch, since: now }),
        };
        let seconds = now.duration_since(pass.since).as_secs_f64();
        if seconds > 0.0 { batch.saturating_sub(pass.first_batch) as f64 / seconds } else { 0.0 }
    }
}

impl Observer for TrainingBar {
    fn event(&mut self, event: &Event) -> Result<(), RuntimeError> {
        match event {
            Event::Epoch(epoch) => self.line(&epoch_line(epoch, self.epochs, self.rate)),
            Event::End(_) => self.finish(),
            Event::Start(_) | Event::InForce(_) | Event::Batch(_) => {}
        }
        Ok(())
    }

    fn progress(&mut self, progress: &RunProgress, busiest: &str) {
        let now = Instant::now();
        let rate = self.measure(progress, now);
        self.timed.observe(progress, now);
        self.epochs = progress.epochs;
        if progress.split == Split::Train {
            self.rate = rate;
        }
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_length(progress.batches);
        self.bar.set_position(progress.batch);
        self.bar.set_prefix(prefix(progress));
        let left = remaining(progress, rate, self.timed.known());
        let message = match self.batches_alone {
            true => message_of_batches(rate, left, busiest),
            false => message(progress, rate, left, busiest),
        };
        self.bar.set_message(message);
    }

    fn note(&mut self, line: &str) {
        self.line(line);
    }
}

fn prefix(progress: &RunProgress) -> String {
    match progress.split {
        Split::Train if progress.epochs == 0 => format!("epoch {}", progress.epoch + 1),
        Split::Train => format!("epoch {}/{}", progress.epoch + 1, progress.epochs),
        Split::Valid => "validating".to_owned(),
        Split::Test => "testing".to_owned(),
    }
}

/// One figure per pass, so that the rest fits in a terminal of 80 columns: in training the loss (the epoch's line has
/// the accuracy), in an evaluation the accuracy, or the loss for regression.
fn message(progress: &RunProgress, rate: f64, left: Option<f64>, busiest: &str) -> String {
    let figure = match progress.split {
        Split::Train => format!("loss {:.4}", progress.loss),
        Split::Valid | Split::Test => match progress.regression_loss {
            Some(loss) => format!("loss {}", format::error(loss)),
            None => format!("acc {}", format::percent(progress.accuracy)),
        },
    };
    format!("{figure}  {}", message_of_batches(rate, left, busiest))
}

fn message_of_batches(rate: f64, left: Option<f64>, busiest: &str) -> String {
    // Before the second batch there is no speed to show.
    let speed = if rate > 0.0 { format!("{rate:.1} batches/s  ") } else { String::new() };
    let left = left.map_or(String::new(), |seconds| format!("{} left  ", format::clock(seconds)));
    format!("{speed}{left}bottleneck {busiest}")
}

/// The line of an epoch, of at most 80 columns.
fn epoch_line(epoch: &EpochEvent, epochs: u32, rate: f64) -> String {
    let width = epochs.to_string().len();
    let mut line = format!("epoch {:>width$}/{epochs}", epoch.epoch + 1);
    match epoch.train_accuracy {
        None => line += &format!("  loss {}", format::error(epoch.train_loss)),
        Some(right) => line += &format!("  loss {:.4}  train {}", epoch.train_loss, format::percent(right)),
    }
    if let (Some(mse), Some(mae)) = (epoch.valid_mse, epoch.valid_mae) {
        line += &format!("  valid MSE {}  MAE {}", format::error(mse), format::error(mae));
    }
    if let Some(valid) = epoch.valid_accuracy {
        line += &format!("  valid {}", format::percent(valid));
    }
    if let Some(area) = epoch.valid_roc_auc {
        line += &format!("  ROC-AUC {}", format::percent(area));
    }
    line += &format!("  {}", format::seconds(epoch.seconds));
    if rate > 0.0 {
        line += &format!("  {rate:.1} batches/s");
    }
    line
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn progress(split: Split, epoch: u32, batch: u64) -> RunProgress {
        RunProgress {
            split,
            epoch,
            epochs: 12,
            batch,
            batches: 100,
            loss: 1.25,
            accuracy: 0.5,
            regression_loss: None,
        }
    }

    #[test]
    fn speed_counts_from_the_first_batch_seen_also_after_a_resume() {
        let mut view = TrainingBar::new();
        let start = Instant::now();
        let later = |s| start + Duration::from_secs(s);
        assert_eq!(view.measure(&progress(Split::Train, 0, 40), start), 0.0);
        assert_eq!(view.measure(&progress(Split::Train, 0, 60), later(2)), 10.0);
        // Another pass starts from zero.
        assert_eq!(view.measure(&progress(Split::Valid, 0, 1), later(3)), 0.0);
        assert_eq!(view.measure(&progress(Split::Valid, 0, 5), later(4)), 4.0);
        assert_eq!(view.measure(&progress(Split::Train, 1, 1), later(5)), 0.0);
    }

    #[test]
    fn an_epochs_line_counts_from_one_and_omits_unknown_values() {
        let mut epoch = EpochEvent {
            epoch: 0,
            train_loss: 2.103_44,
            train_accuracy: Some(0.451),
            valid_accuracy: Some(0.612),
            valid_roc_auc: None,
            regression: false,
            valid_mse: None,
            valid_mae: None,
            seconds: 12.3,
        };
        assert_eq!(
            epoch_line(&epoch, 12, 45.23),
            "epoch  1/12  loss 2.1034  train 45.1 %  valid 61.2 %  12.3 s  45.2 batches/s"
        );
        epoch.valid_roc_auc = Some(0.75);
        assert!(epoch_line(&epoch, 12, 0.0).contains("valid 61.2 %  ROC-AUC 75.0 %  12.3 s"));
        (epoch.valid_accuracy, epoch.valid_roc_auc) = (None, None);
        assert_eq!(epoch_line(&epoch, 3, 0.0), "epoch 1/3  loss 2.1034  train 45.1 %  12.3 s");
    }

    #[test]
    fn the_bar_has_loss_accuracy_speed_time_left_and_bottleneck_in_80_columns() {
        let text = message(&progress(Split::Train, 0, 10), 33.33, Some(185.0), "producer");
        assert_eq!(text, "loss 1.2500  33.3 batches/s  3:05 left  bottleneck producer");
        // With its prefix, a bar of two columns and the batches.
        assert!("epoch 1/12 ━╸ 10/99  ".chars().count() + text.len() <= 80);
        let text = message(&progress(Split::Valid, 0, 10), 0.0, None, "producer");
        assert_eq!(text, "acc 50.0 %  bottleneck producer");
        assert_eq!(prefix(&progress(Split::Train, 0, 10)), "epoch 1/12");
        assert_eq!(prefix(&progress(Split::Test, 0, 10)), "testing");
    }

    #[test]
    fn a_bar_of_batches_alone_has_no_loss_and_no_last_epoch() {
        assert_eq!(message_of_batches(33.33, None, "producer"), "33.3 batches/s  bottleneck producer");
        let unknown = RunProgress { epochs: 0, ..progress(Split::Train, 4, 10) };
        assert_eq!(prefix(&unknown), "epoch 5");
    }
}
