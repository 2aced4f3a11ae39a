//! The parts that `uvatrain partition` writes.

use std::path::Path;

use uva_graph::part::{PartOptions, WrittenPart, stage_parts};
use uva_graph::ranges::{RangesSummary, stage_ranges};
use uva_graph::{Dataset, GraphError, PartitionMap, Progress};
use uva_runtime::spec::ByteSize;

use crate::flags::data::PartLayout;
use crate::ui::table::TextTable;
use crate::ui::{format, out, shell};

/// The parameters of cutting a dataset into parts.
pub struct PartitionJob<'a> {
    /// The dataset.
    pub dataset: &'a Dataset,
    /// The part of each node.
    pub map: &'a PartitionMap,
    /// In-hops around training nodes within which closures are whole.
    pub hops: u32,
    /// Whether closures divide validation and test nodes too.
    pub split_eval: bool,
    /// The layout of the parts.
    pub layout: PartLayout,
}

/// The result of writing a partition.
pub enum PartitionResult {
    /// The map alone.
    Map,
    /// Closures.
    Parts(Vec<WrittenPart>),
    /// Ranges.
    Ranges(RangesSummary),
}

impl PartitionJob<'_> {
    /// Writes the map and the parts into `directory`, which is renamed to `out` later.
    pub fn stage(
        &self,
        (directory, out): (&Path, &Path),
        progress: &dyn Fn(Progress),
    ) -> Result<PartitionResult, GraphError> {
        let Self { dataset, map, hops, split_eval, layout } = *self;
        match layout {
            PartLayout::Closure => {
                let options = PartOptions { map, hops, split_eval };
                stage_parts(dataset, &options, (directory, out), progress).map(PartitionResult::Parts)
            }
            PartLayout::Ranges => {
                stage_ranges(dataset, map, directory, progress).map(PartitionResult::Ranges)
            }
        }
    }
}

impl PartitionResult {
    /// Nodes of all parts divided by the nodes of the dataset.
    pub fn copies(&self, dataset: &Dataset) -> Option<f64> {
        let nodes: u64 = match self {
            Self::Map => return None,
            Self::Parts(parts) => parts.iter().map(|part| part.nodes).sum(),
            Self::Ranges(ranges) => ranges.written.iter().map(|part| part.rows).sum(),
        };
        Some(nodes as f64 / dataset.nodes() as f64)
    }

    /// Approximate number of bytes written.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Self::Map => None,
            Self::Parts(parts) => Some(parts.iter().map(|part| part.bytes).sum()),
            Self::Ranges(ranges) => {
                Some(ranges.graph.bytes + ranges.written.iter().map(|part| part.bytes).sum::<u64>())
            }
        }
    }

    /// Prints the contents of `path` as text.
    pub fn say(&self, dataset: &Dataset, hops: u32, path: &Path) -> anyhow::Result<()> {
        let size = |bytes: u64| ByteSize::from_bytes(bytes).to_string();
        match self {
            Self::Map => Ok(()),
            Self::Parts(parts) => {
                out::text(&closures(parts))?;
                out::say(&format!(
                    "{}: {} parts, whole within {hops} in-hops; {:.2} copies of a node; about {}",
                    path.display(),
                    parts.len(),
                    self.copies(dataset).unwrap_or(1.0),
                    size(self.bytes().unwrap_or(0)),
                ));
                let first = path.join(&parts[0].dir);
                out::say(&format!(
                    "next: uvatrain info {}, uvatrain.Loader({path:?}, part=\"rank\")",
                    shell::path(&first)
                ));
                Ok(())
            }
            Self::Ranges(ranges) => {
                out::text(&of_ranges(ranges))?;
                let rows: u64 = ranges.written.iter().map(|part| part.bytes).sum();
                out::say(&format!(
                    "{}: {} parts in ranges of ids; {} of feature rows, each once, and a graph of {}",
                    path.display(),
                    ranges.written.len(),
                    size(rows),
                    size(ranges.graph.bytes),
                ));
                out::say(&format!("next: uvatrain info {} --verify", shell::path(path)));
                Ok(())
            }
        }
    }
}

fn closures(written: &[WrittenPart]) -> String {
    let mut table =
        TextTable::with_heading(&["part", "nodes", "halo", "edges", "train", "validation", "test"]);
    for part in written {
        let counts = [part.nodes, part.halo, part.edges, part.train, part.valid, part.test];
        let row: Vec<String> =
            std::iter::once(part.dir.clone()).chain(counts.into_iter().map(format::count)).collect();
        table.row(&row);
    }
    table.render()
}

/// The contents of a partition in ranges, part by part.
pub fn of_ranges(ranges: &RangesSummary) -> String {
    let mut table = TextTable::with_heading(&[
        "part",
        "first id",
        "rows",
        "edges",
        "train",
        "validation",
        "test",
        "bytes",
    ]);
    for (part, first) in ranges.written.iter().zip(&ranges.boundaries) {
        let counts = [*first, part.rows, part.edges, part.train, part.valid, part.test];
        let size = ByteSize::from_bytes(part.bytes).to_string();
        let counts = counts.into_iter().map(format::count);
        let row: Vec<String> = std::iter::once(part.dir.clone()).chain(counts).chain([size]).collect();
        table.row(&row);
    }
    table.render()
}
