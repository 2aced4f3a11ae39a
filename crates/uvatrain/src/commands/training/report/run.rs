//! A run as recorded in its metrics, reduced to what the page requires.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use uva_runtime::telemetry::metrics::{BatchEvent, CacheTotals, End, EpochEvent, Event, Start};

use super::histogram::Histogram;
use super::stretches::{SeriesSummary, Stretches, Sum};
use super::timeline::Timeline;

/// Stretches that are kept for the losses of batches, and for the epochs.
const MOST: usize = 1024;
/// More layers than any model has.
const MOST_LAYERS: usize = 64;
/// More samplers than a machine starts.
const MOST_SAMPLERS: u64 = 4096;

/// A run. The page's template sees all fields that are not skipped.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The path of its file.
    pub path: String,
    /// Its start record; for a resumed run, the last one.
    pub start: Start,
    /// How often the run was resumed.
    pub resumed: u32,
    /// The number of the last line, if the line is truncated.
    pub cut: Option<u64>,
    /// Lines with events that this version does not recognise.
    pub unknown: u64,
    pub totals: Totals,
    /// How the roles spent the run's time.
    #[serde(skip)]
    pub timeline: Timeline,
    /// The losses of batches, by the number of earlier training batches.
    #[serde(skip)]
    pub losses: Stretches<SeriesSummary>,
    /// The number of training batches up to the end of the last one.
    pub trained: u64,
    #[serde(skip)]
    pub epochs: Stretches<EpochStatistics>,
    pub last_epoch: Option<EpochEvent>,
    #[serde(skip)]
    pub input_nodes: Histogram,
    /// Edges of each layer, the hop at the seeds first.
    #[serde(skip)]
    pub edges: Vec<Histogram>,
    /// The end record, if the run has one.
    pub end: Option<End>,
}

/// Totals of a run's training batches. Batches trained again after a resume count twice.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Totals {
    pub batches: u64,
    pub input_nodes: u64,
    /// Absent in a run without caches.
    pub cache: Option<CacheTotals>,
}

/// Statistics of one epoch or of several merged ones: loss and accuracy of training, accuracy and ROC-AUC of
/// validation, seconds, and the errors of regression in validation.
pub type EpochStatistics = [SeriesSummary; 7];
pub const TRAIN_ACCURACY: usize = 1;
pub const VALID_ACCURACY: usize = 2;
pub const VALID_ROC_AUC: usize = 3;
pub const VALID_MSE: usize = 5;

impl Run {
    /// A run of which only the start is known.
    ///
    /// # Errors
    /// The inconsistency in the start record.
    pub fn new(path: &Path, start: Start) -> Result<Self, String> {
        Ok(Self {
            path: path.display().to_string(),
            resumed: 0,
            cut: None,
            unknown: 0,
            totals: Totals::default(),
            timeline: Timeline::new(samplers(&start)?),
            losses: Stretches::new(MOST),
            trained: 0,
            epochs: Stretches::new(MOST),
            last_epoch: None,
            input_nodes: Histogram::default(),
            edges: Vec::new(),
            end: None,
            start,
        })
    }

    /// Adds the next event.
    ///
    /// # Errors
    /// The inconsistency in the event.
    pub fn take(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Start(start) => self.resume(start),
            Event::InForce(changed) => {
                changed.replace_in(&mut self.start.in_force);
                Ok(())
            }
            Event::Batch(batch) => self.batch(&batch),
            Event::Epoch(epoch) => {
                let EpochEvent { train_loss, train_accuracy, seconds, .. } = epoch;
                let all = [
                    Some(train_loss),
                    train_accuracy,
                    epoch.valid_accuracy,
                    epoch.valid_roc_auc,
                    Some(seconds),
                    epoch.valid_mse,
                    epoch.valid_mae,
                ];
                let seen = all.map(|value| value.map(SeriesSummary::one).unwrap_or_default());
                self.epochs.at(epoch.epoch.into()).add(&seen);
                self.last_epoch = Some(epoch);
                Ok(())
            }
            Event::End(end) => {
                self.end = Some(*end);
                Ok(())
            }
        }
    }

    fn resume(&mut self, start: Start) -> Result<(), String> {
        let fingerprint = |start: &Start| start.dataset["fingerprint"].clone();
        if fingerprint(&start) != fingerprint(&self.start) {
            return Err(
                "another run on another dataset begins here: use a separate file for each run".to_owned()
            );
        }
        self.timeline.resume(samplers(&start)?);
        self.start = start;
        self.resumed = self.resumed.saturating_add(1);
        // Batches after the checkpoint are trained again, and the later line counts.
        let from = |name: &str| self.start.in_force["start"][name].as_u64().unwrap_or(0);
        let (epoch, batch) = (from("epoch"), from("batch"));
        self.losses.cut(self.place(epoch, batch));
        self.epochs.cut(epoch);
        self.end = None;
        Ok(())
    }

    fn batch(&mut self, batch: &BatchEvent) -> Result<(), String> {
        if batch.edges.len() > MOST_LAYERS {
            return Err(format!("a batch of {} layers: expected at most {MOST_LAYERS}", batch.edges.len()));
        }
        self.timeline.take(batch);
        let place = self.place(batch.epoch.into(), batch.batch.into());
        self.trained = self.trained.max(place.saturating_add(1));
        if let Some(loss) = batch.loss.map(f64::from) {
            self.losses.at(place).add(&SeriesSummary::one(loss));
        }
        self.input_nodes.add(batch.input_nodes as u64);
        if self.edges.len() < batch.edges.len() {
            self.edges.resize_with(batch.edges.len(), Histogram::default);
        }
        let counted = self.counted_epochs();
        let totals = &mut self.totals;
        for (histogram, &edges) in self.edges.iter_mut().zip(&batch.edges) {
            histogram.add(edges as u64);
        }
        totals.batches += 1;
        totals.input_nodes = totals.input_nodes.saturating_add(batch.input_nodes as u64);
        if let Some(counts) = batch.cache {
            totals.cache.get_or_insert_default().add(counts, batch.epoch, counted);
        }
        Ok(())
    }

    /// The number of training batches before this one.
    fn place(&self, epoch: u64, batch: u64) -> u64 {
        let an_epoch = self.batches_an_epoch().unwrap_or(1);
        epoch.saturating_mul(an_epoch).saturating_add(batch.min(an_epoch.saturating_sub(1)))
    }

    /// The number of first epochs by which the run's caches were chosen.
    pub fn counted_epochs(&self) -> u32 {
        let epochs = self.start.in_force["caches"]["counted_epochs"].as_u64().unwrap_or(0);
        u32::try_from(epochs).unwrap_or(u32::MAX)
    }

    /// The loss of the last batches.
    pub fn last_loss(&self) -> Option<f64> {
        self.losses.at_most(usize::MAX).1.iter().rev().find_map(SeriesSummary::mean)
    }

    /// Training batches of an epoch.
    pub fn batches_an_epoch(&self) -> Option<u64> {
        self.start.in_force["train_batches"].as_u64().filter(|batches| *batches > 0)
    }

    /// The user's command that consumed the batches, if there was one.
    pub fn command(&self) -> Option<String> {
        let words = self.start.in_force["command"].as_array()?;
        Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
    }

    /// The dataset's name.
    pub fn dataset(&self) -> &str {
        self.start.dataset["name"].as_str().filter(|name| !name.is_empty()).unwrap_or("unnamed dataset")
    }

    /// Options by name with the values in force. Those of the loader are one level deeper.
    pub fn options(&self) -> BTreeMap<&str, &Value> {
        let Start { options, in_force, .. } = &self.start;
        let parts = [&options["backend"], &options["loader"], options, in_force];
        let fields = parts.into_iter().filter_map(Value::as_object).flatten();
        fields.filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.as_str(), value)).collect()
    }

    /// Bytes of a feature row, if the dataset's type is known.
    pub fn row_bytes(&self) -> Option<u64> {
        let bytes = match self.start.dataset["feature_dtype"].as_str()? {
            "f32" => 4,
            "f16" | "bf16" => 2,
            "e4m3" | "u8" | "i8" => 1,
            _ => return None,
        };
        self.start.dataset["feature_dim"].as_u64()?.checked_mul(bytes)
    }
}

fn samplers(start: &Start) -> Result<usize, String> {
    match start.in_force["samplers"].as_u64().unwrap_or(1) {
        samplers @ 0..=MOST_SAMPLERS => Ok(samplers.max(1) as usize),
        samplers => Err(format!("\"samplers\" is {samplers}: expected at most {MOST_SAMPLERS}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn start(epoch: u64, batch: u64) -> Start {
        Start {
            version: String::new(),
            dataset: json!({ "fingerprint": "a", "feature_dim": 24, "feature_dtype": "f16" }),
            options: json!({ "model": "sage", "loader": { "batch_size": 100 } }),
            in_force: json!({ "train_batches": 10, "samplers": 2,
                "start": { "epoch": epoch, "batch": batch } }),
        }
    }

    fn batch(epoch: u32, batch: u32, loss: Option<f64>) -> Event {
        let text = json!({ "event": "batch", "epoch": epoch, "batch": batch, "hash": "", "seeds": 100,
            "loss": loss, "input_nodes": 500, "edges": [300, 700], "sample_us": 1, "gather_us": 1, "train_us": 1,
            "cache": { "list_reads": 10, "list_hits": 5, "rows": 500, "row_hits": 20 } });
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn a_fall_back_shows_in_place_of_what_the_start_says() {
        let mut run = Run::new(Path::new("f"), start(0, 0)).unwrap();
        run.start.in_force["partition"] = json!("green");
        let event = json!({ "event": "in_force", "in_force": { "partition": "grid" } });
        run.take(serde_json::from_value(event).unwrap()).unwrap();
        assert_eq!(run.options()["partition"], &json!("grid"));
        assert_eq!(run.start.in_force["train_batches"], json!(10), "all else stays");
    }

    #[test]
    fn a_run_is_the_sums_of_its_batches() {
        let mut run = Run::new(Path::new("f"), start(0, 0)).unwrap();
        for number in 0..10 {
            run.take(batch(0, number, Some(f64::from(number)))).unwrap();
        }
        run.take(batch(1, 0, None)).unwrap();
        let totals = run.totals;
        assert_eq!((totals.batches, totals.input_nodes), (11, 5500));
        assert_eq!(totals.cache.unwrap().all().row_hits, 220);
        let (width, losses) = run.losses.at_most(5);
        assert_eq!((width, losses[1].mean()), (2, Some(2.5)));
        assert_eq!(run.row_bytes(), Some(48));
        assert_eq!(run.options()["batch_size"], &json!(100));
        assert_eq!(run.edges[1].range(), Some((700, 700)));
    }

    #[test]
    fn what_a_resumed_run_trains_again_counts_by_its_later_line() {
        let mut run = Run::new(Path::new("f"), start(0, 0)).unwrap();
        for number in 0..8 {
            run.take(batch(0, number, Some(7.0))).unwrap();
        }
        run.take(Event::Start(start(0, 5))).unwrap();
        for number in 5..9 {
            run.take(batch(0, number, Some(1.0))).unwrap();
        }
        let losses: Vec<_> = run.losses.at_most(99).1.iter().map(|seen| seen.mean().unwrap()).collect();
        assert_eq!(losses, [7.0, 7.0, 7.0, 7.0, 7.0, 1.0, 1.0, 1.0, 1.0]);
        assert_eq!((run.resumed, run.totals.batches), (1, 12));
    }

    #[test]
    fn a_start_on_another_dataset_is_another_run() {
        let mut run = Run::new(Path::new("f"), start(0, 0)).unwrap();
        let other = Start { dataset: json!({ "fingerprint": "b" }), ..start(0, 0) };
        assert!(run.take(Event::Start(other)).unwrap_err().contains("a separate file"));
    }
}
