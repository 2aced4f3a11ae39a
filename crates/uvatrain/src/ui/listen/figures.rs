//! The served figures, in Prometheus' format.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use uva_graph::Split;
use uva_runtime::telemetry::gauges::Gauges;
use uva_runtime::telemetry::metrics::{BatchEvent, CacheCounts, EpochEvent, Event, RunProgress};

/// The served figures.
#[derive(Default)]
pub struct ServedFigures {
    /// Version and dataset, once the run has begun.
    info: Option<(String, String)>,
    batches: u64,
    seeds: u64,
    input_nodes: u64,
    /// Feature rows by node type, in a run over a typed graph.
    rows_by_type: BTreeMap<String, u64>,
    edges: u64,
    /// Seconds of sampling, gathering and training.
    stages: [f64; 3],
    last: Option<BatchEvent>,
    epochs: u64,
    last_epoch: Option<EpochEvent>,
    cache: Option<CacheCounts>,
    /// The progress of the current pass.
    pub progress: Option<RunProgress>,
    /// The states of the roles, once these exist.
    pub gauges: Option<Gauges>,
}

impl ServedFigures {
    /// Adds an event of the run.
    pub fn take(&mut self, event: &Event) {
        match event {
            Event::Start(start) => {
                let name = start.dataset["name"].as_str().unwrap_or_default().to_owned();
                self.info = Some((start.version.clone(), name));
            }
            Event::Batch(batch) => {
                self.batches += 1;
                self.seeds += batch.seeds as u64;
                self.input_nodes += batch.input_nodes as u64;
                for (name, rows) in &batch.rows_by_type {
                    *self.rows_by_type.entry(name.clone()).or_default() += rows.as_u64().unwrap_or(0);
                }
                self.edges += batch.edges.iter().sum::<usize>() as u64;
                for (sum, took) in
                    self.stages.iter_mut().zip([batch.sample_us, batch.gather_us, batch.train_us])
                {
                    *sum += took as f64 / 1e6;
                }
                if let Some(counts) = batch.cache {
                    *self.cache.get_or_insert_default() += counts;
                }
                self.last = Some(BatchEvent::clone(batch));
            }
            Event::Epoch(epoch) => {
                self.epochs += 1;
                self.last_epoch = Some(epoch.clone());
            }
            Event::InForce(_) | Event::End(_) => {}
        }
    }

    /// The figures in Prometheus' text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, samples: &[(&str, f64)]| {
            if samples.is_empty() {
                return;
            }
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# HELP uvatrain_{name} {help}\n# TYPE uvatrain_{name} {kind}");
            for (labels, value) in samples {
                let _ = writeln!(text, "uvatrain_{name}{labels} {value}");
            }
        };
        if let Some((version, dataset)) = &self.info {
            let labels = format!("{{version=\"{}\",dataset=\"{}\"}}", label(version), label(dataset));
            family("info", "gauge", "What runs, on what.", &[(&labels, 1.0)]);
        }
        family("batches_total", "counter", "Training batches used.", &[("", self.batches as f64)]);
        family("seeds_total", "counter", "Seeds of training batches.", &[("", self.seeds as f64)]);
        family(
            "input_nodes_total",
            "counter",
            "Input nodes of training batches.",
            &[("", self.input_nodes as f64)],
        );
        family("edges_total", "counter", "Edges sampled, of all layers.", &[("", self.edges as f64)]);
        let [sample, gather, train] = self.stages;
        let stages =
            [("{stage=\"sample\"}", sample), ("{stage=\"gather\"}", gather), ("{stage=\"train\"}", train)];
        family(
            "stage_seconds_total",
            "counter",
            "Seconds that each stage worked on training batches.",
            &stages,
        );
        if let Some(batch) = &self.last {
            let queue = [("", f64::from(batch.queue))];
            family("ready_batches", "gauge", "Batches that waited for the consumer.", &queue);
            let loss: Vec<_> = batch.loss.map(|loss| ("", f64::from(loss))).into_iter().collect();
            family("batch_loss", "gauge", "Loss of the last batch.", &loss);
        }
        family("epochs_total", "counter", "Epochs ended.", &[("", self.epochs as f64)]);
        if let Some(epoch) = &self.last_epoch {
            family("epoch_loss", "gauge", "Mean loss of the last epoch.", &[("", epoch.train_loss)]);
            let mut valid = Vec::new();
            valid.extend(epoch.valid_accuracy.map(|value| ("{metric=\"accuracy\"}", value)));
            valid.extend(epoch.valid_roc_auc.map(|value| ("{metric=\"roc_auc\"}", value)));
            valid.extend(epoch.valid_mse.map(|value| ("{metric=\"mse\"}", value)));
            valid.extend(epoch.valid_mae.map(|value| ("{metric=\"mae\"}", value)));
            family("validation", "gauge", "Validation of the last epoch.", &valid);
        }
        if let Some(cache) = &self.cache {
            let reads =
                [("{cache=\"lists\"}", cache.list_reads as f64), ("{cache=\"rows\"}", cache.rows as f64)];
            family("cache_reads_total", "counter", "What was asked of the caches.", &reads);
            let hits =
                [("{cache=\"lists\"}", cache.list_hits as f64), ("{cache=\"rows\"}", cache.row_hits as f64)];
            family("cache_hits_total", "counter", "What they had.", &hits);
        }
        if let Some(progress) = &self.progress {
            let loss = self.last.as_ref().and_then(|batch| batch.loss);
            of_progress(progress, loss.is_some(), &mut family);
        }
        if let Some(gauges) = &self.gauges {
            let bytes = gauges.gathered_bytes(self.input_nodes, &self.rows_by_type);
            family(
                "gathered_bytes_total",
                "counter",
                "Bytes of feature rows gathered.",
                &[("", bytes as f64)],
            );
            of_roles(gauges, &mut family);
        }
        text
    }
}

/// Takes a family's name, kind and help, and its samples with their labels.
type Family<'f> = &'f mut dyn FnMut(&str, &str, &str, &[(&str, f64)]);

/// The position in the current pass. Loss and accuracy if the trainer reports them.
fn of_progress(progress: &RunProgress, trains: bool, family: Family<'_>) {
    let split = format!("{{split=\"{}\"}}", progress.split.name());
    family("epoch", "gauge", "Epoch under way, from 1.", &[("", f64::from(progress.epoch) + 1.0)]);
    if progress.epochs > 0 {
        family("epochs", "gauge", "Epochs in all.", &[("", f64::from(progress.epochs))]);
    }
    family("pass_batch", "gauge", "Batches done of the pass under way.", &[(&split, progress.batch as f64)]);
    family("pass_batches", "gauge", "Batches of the pass under way.", &[(&split, progress.batches as f64)]);
    if trains {
        if progress.split == Split::Train {
            family("pass_loss", "gauge", "Mean loss of the pass under way.", &[(&split, progress.loss)]);
        }
        match progress.regression_loss {
            None => family(
                "pass_accuracy",
                "gauge",
                "Accuracy of the pass under way.",
                &[(&split, progress.accuracy)],
            ),
            Some(loss) if progress.split != Split::Train => {
                family("pass_loss", "gauge", "Mean loss of the pass under way.", &[(&split, loss)]);
            }
            Some(_) => {}
        }
    }
}

/// The roles' current state.
fn of_roles(gauges: &Gauges, family: Family<'_>) {
    let mut samples: Vec<(String, f64)> = Vec::new();
    let mut give = |name: &str, kind: &str, help: &str, samples: &mut Vec<(String, f64)>| {
        let all: Vec<_> = samples.iter().map(|(labels, value)| (labels.as_str(), *value)).collect();
        family(name, kind, help, &all);
        samples.clear();
    };
    let roles = gauges.roles();
    for (role, times) in roles.each() {
        let doings = [
            ("working", times.working_s),
            ("waiting_input", times.waiting_input_s),
            ("waiting_output", times.waiting_output_s),
        ];
        samples.extend(
            doings.map(|(doing, seconds)| (format!("{{role=\"{role}\",doing=\"{doing}\"}}"), seconds)),
        );
    }
    let help = "Seconds of each role by what it did; of samplers the mean.";
    give("role_seconds_total", "counter", help, &mut samples);
    for (role, times) in roles.each() {
        samples.push((format!("{{role=\"{role}\"}}"), times.processes as f64));
    }
    give("role_processes", "gauge", "Processes of each role, or threads.", &mut samples);
    for (ring, states) in gauges.slots() {
        let each = states.each().into_iter();
        samples.extend(
            each.map(|(state, slots)| (format!("{{ring=\"{ring}\",state=\"{state}\"}}"), slots as f64)),
        );
    }
    give("slots", "gauge", "Slots of the rings by state.", &mut samples);
    for (process, bytes) in gauges.resident() {
        let labels = format!("{{role=\"{}\",process=\"{}\"}}", label(&process.role), process.pid);
        samples.push((labels, bytes as f64));
    }
    let help = "Memory of each process; shared memory counts in each.";
    give("resident_bytes", "gauge", help, &mut samples);
}

/// A label's value, in the format's own escapes.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_labels_are_escaped() {
        let figures =
            ServedFigures { info: Some(("1".into(), "a\"b\\c\nd".into())), ..ServedFigures::default() };
        assert!(figures.text().contains(r#"dataset="a\"b\\c\nd"} 1"#), "{}", figures.text());
    }
}
