//! What the metrics and people read about the data of a run.

use serde_json::{Value, json};
use uva_graph::{Dataset, NodeType, TableSchema};
use uva_options::Spelling;
use uva_runtime::options::hop_options::HopRowsPlace;
use uva_runtime::options::hop_run::HopRun;
use uva_runtime::{FeatureChoice, LoaderOptions};

/// The parts of a report that depend on the kind of data.
pub(crate) trait DataReport {
    /// Adds values in force to the metrics' first line. `features` is the place of rows.
    fn add_in_force(&self, _in_force: &mut Value, _features: Option<&FeatureChoice>) {}

    /// The part of the dataset's description in the metrics' first line that follows the numbers of nodes and edges: the
    /// feature rows, and what has them if that is not every node.
    fn content(&self) -> Vec<(&'static str, Value)>;

    /// Adds to the dataset's description in the metrics' first line.
    fn add_to_dataset(&self, _described: &mut Value) {}

    /// The opened dataset and the cost of its check, as a line for people.
    fn opened(&self) -> String;
}

/// The report of a run with these options over this dataset.
pub(crate) fn data_report<'r>(dataset: &'r Dataset, options: &'r LoaderOptions) -> Box<dyn DataReport + 'r> {
    match HopRun::of(dataset, options) {
        Some(run) => Box::new(HopReport { dataset, run }),
        None if dataset.is_homogeneous() => Box::new(GraphReport { dataset }),
        None => Box::new(TypesReport { dataset }),
    }
}

struct GraphReport<'r> {
    dataset: &'r Dataset,
}

impl DataReport for GraphReport<'_> {
    fn content(&self) -> Vec<(&'static str, Value)> {
        rows_of(self.dataset, NodeType::ONLY)
    }

    fn opened(&self) -> String {
        let dataset = self.dataset;
        format!(
            "{}: {} nodes, {} edges; {}",
            dataset.name(),
            dataset.nodes(),
            dataset.edges(),
            checked(dataset)
        )
    }
}

struct TypesReport<'r> {
    dataset: &'r Dataset,
}

impl DataReport for TypesReport<'_> {
    fn content(&self) -> Vec<(&'static str, Value)> {
        let (dataset, metagraph) = (self.dataset, self.dataset.metagraph());
        let of_type = |of| {
            let mut described = json!({ "type": metagraph.type_name(of), "nodes": dataset.nodes_of(of) });
            for (name, value) in rows_of(dataset, of) {
                described[name] = value;
            }
            described
        };
        let of_relation = |of| json!({ "type": metagraph.names(of), "edges": dataset.edges_of(of) });
        vec![
            ("target", json!(dataset.target().map(|of| metagraph.type_name(of)))),
            ("types", metagraph.types().map(of_type).collect()),
            ("relations", metagraph.relations().map(of_relation).collect()),
        ]
    }

    fn opened(&self) -> String {
        let (dataset, metagraph) = (self.dataset, self.dataset.metagraph());
        format!(
            "{}: {} nodes of {} types, {} edges of {} relations; {}",
            dataset.name(),
            dataset.nodes(),
            metagraph.type_count(),
            dataset.edges(),
            metagraph.relation_count(),
            checked(dataset)
        )
    }
}

/// Shape and type of the feature rows of a node type, if it has them.
fn rows_of(dataset: &Dataset, of: NodeType) -> Vec<(&'static str, Value)> {
    let described = |table: TableSchema| {
        [("feature_dim", table.dim.into()), ("feature_dtype", table.element.name().into())]
    };
    dataset.table_of(of).into_iter().flat_map(described).collect()
}

/// The cost of the check that opened the dataset.
fn checked(dataset: &Dataset) -> String {
    let verification = dataset.verification();
    let by_stamp = if verification.from_stamp { ", edges by an earlier run" } else { "" };
    format!("checked in {:.2} s{by_stamp}", verification.seconds)
}

struct HopReport<'r> {
    dataset: &'r Dataset,
    run: HopRun<'r>,
}

impl DataReport for HopReport<'_> {
    fn content(&self) -> Vec<(&'static str, Value)> {
        rows_of(self.dataset, NodeType::ONLY)
    }

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
