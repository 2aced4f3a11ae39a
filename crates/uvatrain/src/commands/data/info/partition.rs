//! The contents of a partition.

use std::path::Path;

use serde::Serialize;
use uva_graph::part::verify_parts;
use uva_graph::ranges::{RANGES, RangesSummary, check_sizes, verify_ranges};
use uva_graph::{Dataset, GraphError, PartitionMap, PartitionSummary};
use uva_partition::over_mean;
use uva_runtime::spec::ByteSize;

use crate::commands::data::partition::parts::of_ranges;
use crate::flags::data::InfoFlags;
use crate::ui::table::TextTable;
use crate::ui::{format, out};

/// The contents of `partition.json`, and values derived from it.
#[derive(Serialize)]
struct Facts<'a> {
    kind: &'static str,
    path: String,
    /// The checks of the parts. Absent without `--verify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<Checked>,
    #[serde(flatten)]
    summary: &'a PartitionSummary,
}

/// The checks of the parts.
#[derive(Clone, Serialize)]
struct Checked {
    parts: Vec<usize>,
    absent: Vec<usize>,
    with_source: bool,
}

impl Checked {
    /// Checks all of a partition in this layout.
    fn of(flags: &InfoFlags, layout: Option<&str>) -> Result<Checked, GraphError> {
        let source = flags.source.as_deref().map(Dataset::open).transpose()?;
        Ok(match layout {
            Some(RANGES) => {
                let checked = verify_ranges(&flags.data, source.as_ref())?;
                Checked { parts: checked.parts, absent: checked.absent, with_source: checked.with_source }
            }
            _ => {
                let checked = verify_parts(&flags.data, source.as_ref())?;
                Checked { parts: checked.parts, absent: checked.absent, with_source: checked.with_source }
            }
        })
    }

    /// The checks as text.
    fn words(&self, has_parts: bool) -> String {
        let named = |parts: &[usize]| match parts {
            [only] => format!("part {only}"),
            parts => format!("{} parts", parts.len()),
        };
        let source = if self.with_source { ", against the dataset that was divided" } else { "" };
        let absent = match &self.absent[..] {
            [] => String::new(),
            absent => format!("; {} not here", named(absent)),
        };
        match has_parts {
            true => format!("all counts, and all values of {}{source}{absent}", named(&self.parts)),
            false => format!("all counts{source}; no parts are written"),
        }
    }
}

/// Opens the partition, compares its map with its description and, if requested, its parts with both, and prints the
/// description.
pub fn run(flags: &InfoFlags) -> anyhow::Result<()> {
    let path: &Path = &flags.data;
    let map = PartitionMap::open_alone(path, None)?;
    // A directory is a partition only with a description.
    let Some(summary) = &map.summary else { return Ok(()) };
    let (layout, ranges) = (summary.layout(), summary.ranges());
    if let Some(ranges) = ranges {
        check_sizes(ranges, path)?;
    }
    let verified = flags.verify.then(|| Checked::of(flags, layout)).transpose()?;
    if flags.json {
        return out::json(&Facts { kind: "partition", path: path.display().to_string(), verified, summary });
    }
    let mut facts = TextTable::of_facts();
    let mut fact = |name: &str, value: String| facts.row(&[name.to_owned(), value]);
    let nodes: u64 = summary.nodes.iter().sum();
    fact("partition", format!("{} ({})", summary.dataset.name, path.display()));
    fact("nodes", format!("{} in {} parts", format::count(nodes), summary.parts));
    match (layout, ranges) {
        (_, Some(RangesSummary { graph, .. })) => fact(
            "layout",
            format!(
                "ranges: each part has the feature rows of its own ids; {} has the whole graph, {}",
                graph.dir,
                ByteSize::from_bytes(graph.bytes)
            ),
        ),
        (Some(_), None) => fact("layout", "closure: each part is a dataset that asks no other".to_owned()),
        (None, None) => fact("layout", "a map alone, no parts are written".to_owned()),
    }
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
    fact(
        "checked",
        match &verified {
            Some(checked) => checked.words(layout.is_some()),
            None => "map and description; the parts: info --verify".to_owned(),
        },
    );
    let parts = ranges.map_or_else(|| of_map(summary), of_ranges);
    out::text(&format!("{}\n{parts}", facts.render()))
}

/// The nodes and training nodes of each part.
fn of_map(summary: &PartitionSummary) -> String {
    let mut parts = TextTable::with_heading(&["part", "nodes", "training nodes"]);
    for (part, (nodes, train)) in summary.nodes.iter().zip(&summary.train).enumerate() {
        parts.row(&[part.to_string(), format::count(*nodes), format::count(*train)]);
    }
    parts.render()
}
