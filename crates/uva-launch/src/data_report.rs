//! What the metrics and people read about the data of a run.

use serde_json::{Value, json};
use uva_graph::Dataset;
use uva_options::Spelling;
use uva_runtime::options::hop_options::HopRowsPlace;
use uva_runtime::options::hop_run::HopRun;
use uva_runtime::{FeatureChoice, LoaderOptions};

/// The parts of a report that depend on the kind of data.
pub(crate) trait DataReport {
    /// Adds values in force to the metrics' first line. `features` is the place of rows.
    fn add_in_force(&self, _in_force: &mut Value, _features: Option<&FeatureChoice>) {}

    /// Adds to the dataset's description in the metrics' first line.
    fn add_to_dataset(&self, _described: &mut Value) {}

    /// The opened dataset and the cost of its check, as a line for people.
    fn opened(&self) -> String;
}

/// The report of a run with these options over this dataset.
pub(crate) fn data_report<'r>(dataset: &'r Dataset, options: &'r LoaderOptions) -> Box<dyn DataReport + 'r> {
    match HopRun::of(dataset, options) {
        Some(run) => Box::new(HopReport { dataset, run }),
        None => Box::new(GraphReport { dataset }),
    }
}

struct GraphReport<'r> {
    dataset: &'r Dataset,
}

impl DataReport for GraphReport<'_> {
    fn opened(&self) -> String {
        let dataset = self.dataset;
        let verification = dataset.verification();
        format!(
            "{}: {} nodes, {} edges; checked in {:.2} s{}",
            dataset.name(),
            dataset.nodes(),
            dataset.edges(),
            verification.seconds,
            if verification.from_stamp { ", edges by an earlier run" } else { "" }
        )
    }
}

struct HopReport<'r> {
    dataset: &'r Dataset,
    run: HopRun<'r>,
}

impl DataReport for HopReport<'_> {
    fn add_in_force(&self, in_force: &mut Value, features: Option<&FeatureChoice>) {
        let batches = self.run.batches;
        let place = features.map(|choice| (choice.place(), Spelling::CommandLine.sentence(choice.reason())));
        let (place, reason) = place.unzip();
        let reader = features.and_then(FeatureChoice::reader);
        in_force["hops"] = json!({
            "tables": batches.tables, "chunk": batches.chunk, "place": place.map(HopRowsPlace::name), "reason": reason,
            "reader": reader,
        });
    }

    fn add_to_dataset(&self, described: &mut Value) {
        let hops = self.run.hops;
        described["hop_set"] = json!({ "hops": hops.per_operator(), "operators": hops.operators() });
    }

    fn opened(&self) -> String {
        let (dataset, HopRun { hops, batches }) = (self.dataset, self.run);
        let order = match batches.chunk {
            1 => "rows shuffled".to_owned(),
            chunk => format!("chunks of {chunk} rows shuffled"),
        };
        format!(
            "{}: {} rows, {} of {} tables read, {order}; checked in {:.2} s",
            dataset.name(),
            dataset.nodes(),
            batches.tables.len(),
            hops.count(),
            dataset.verification().seconds,
        )
    }
}
