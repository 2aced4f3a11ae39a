//! The contents of a partition.

use std::path::Path;

use serde::Serialize;
use uva_graph::{PartitionMap, PartitionSummary};
use uva_partition::over_mean;

use crate::ui::table::Table;
use crate::ui::{format, out};

/// `partition.json`, and what follows from it.
#[derive(Serialize)]
struct Facts<'a> {
    kind: &'static str,
    path: String,
    #[serde(flatten)]
    summary: &'a PartitionSummary,
}

/// Opens the partition, compares its map with its description, and prints that.
pub fn run(path: &Path, json: bool) -> anyhow::Result<()> {
    let map = PartitionMap::open_alone(path, None)?;
    // A directory is a partition by its description.
    let Some(summary) = &map.summary else { return Ok(()) };
    if json {
        return out::json(&Facts { kind: "partition", path: path.display().to_string(), summary });
    }
    let mut facts = Table::of_facts();
    let mut fact = |name: &str, value: String| facts.row(&[name.to_owned(), value]);
    let nodes: u64 = summary.nodes.iter().sum();
    fact("partition", format!("{} ({})", summary.dataset.name, path.display()));
    fact("nodes", format!("{} in {} parts", format::count(nodes), summary.parts));
    fact("method", format!("{}, seed {}", summary.method, summary.seed));
    if let Some([before, after]) = summary.blocks {
        fact("blocks", format!("{}, merged to {}", format::count(before), format::count(after)));
    }
    fact("edges between parts", format::count(summary.edge_cut));
    fact(
        "most over the mean",
        format!("nodes {:.3}, training nodes {:.3}", over_mean(&summary.nodes), over_mean(&summary.train)),
    );
    fact("hops", summary.hops.to_string());
    fact("dataset", format!("fingerprint {}", summary.dataset.fingerprint));
    let mut parts = Table::with_heading(&["part", "nodes", "training nodes"]);
    for (part, (nodes, train)) in summary.nodes.iter().zip(&summary.train).enumerate() {
        parts.row(&[part.to_string(), format::count(*nodes), format::count(*train)]);
    }
    out::text(&format!("{}\n{}", facts.render(), parts.render()))
}
