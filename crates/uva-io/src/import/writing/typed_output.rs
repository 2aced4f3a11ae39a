//! The typed output of an import: its cost, and the splits by a rule.

use serde_json::json;
use uva_files::disk_space::{self, BytesOnDisk};
use uva_graph::csc::SelfLoops;
use uva_graph::npy::{NpyType, write_array};
use uva_graph::{GraphError, Meta, NodeType, Progress, Split, verify};

use crate::import::options::ImportOptions;
use crate::import::request::{ImportEstimate, ImportRequest};
use crate::import::writing::typed_changes::RelationChanges;
use crate::typed::{GraphPlan, Reversal, TypedWriter};

/// Bytes of a record in the temporary file: the ends of an edge, and the number of an edge with values.
const RECORD_BYTES: u64 = 8;
const NUMBER_BYTES: u64 = 8;

/// The known sizes of a relation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RelationSizes {
    /// Nodes that have a list, in all directions that are written.
    pub(crate) lists: u64,
    /// Entries of the lists, in all directions.
    pub(crate) entries: u64,
    /// Bytes of the values of an entry; 0 without values.
    pub(crate) row_bytes: u64,
    /// Bytes of an entry's values that are written twice.
    pub(crate) temporary_row_bytes: u64,
}

impl RelationSizes {
    /// With the changes, for `sources` nodes at the other end.
    pub(crate) fn changed(self, sources: u64, change: RelationChanges) -> Self {
        let (lists, directions) = match change.reversal {
            Reversal::None => (self.lists, 1),
            Reversal::Same => (self.lists, 2),
            Reversal::Separate => (self.lists.saturating_add(sources), 2),
        };
        let loops = if change.changes.self_loops == SelfLoops::Add { self.lists } else { 0 };
        let entries = self.entries.saturating_mul(directions).saturating_add(loops);
        Self { lists, entries, ..self }
    }
}

/// The known sizes of the output.
#[derive(Debug, Clone, Default)]
pub(crate) struct TypedSizes {
    pub(crate) nodes: u64,
    /// Bytes of the arrays of nodes.
    pub(crate) node_bytes: u64,
    pub(crate) relations: Vec<RelationSizes>,
}

impl TypedSizes {
    /// What the import takes.
    pub(crate) fn estimate(&self, options: &ImportOptions) -> ImportEstimate {
        let (mut edges, mut disk, mut records, mut rows) = (0_u64, self.node_bytes, 0_u64, 0_u64);
        for sizes in &self.relations {
            edges = edges.saturating_add(sizes.entries);
            disk = disk
                .saturating_add(sizes.lists.saturating_mul(8))
                .saturating_add(sizes.entries.saturating_mul(4 + sizes.row_bytes));
            let number_bytes = if sizes.row_bytes > 0 { NUMBER_BYTES } else { 0 };
            records = records.max(sizes.entries.saturating_mul(RECORD_BYTES + number_bytes));
            rows = rows.max(sizes.entries.saturating_mul(sizes.temporary_row_bytes));
        }
        let in_memory = records <= options.memory / 2;
        ImportEstimate {
            nodes: Some(self.nodes),
            edges: Some(edges),
            disk,
            temporary: rows.saturating_add(if in_memory { 0 } else { records }),
            memory: if in_memory { records.saturating_mul(2).min(options.memory) } else { options.memory },
            seconds: None,
        }
    }
}

/// Reports the estimate, and begins.
///
/// # Errors
/// If the disk has too little space, the output exists, or a name is not valid.
pub(crate) fn begin(
    request: &ImportRequest<'_>,
    plan: GraphPlan,
    sizes: &TypedSizes,
) -> Result<TypedWriter, GraphError> {
    let estimate = sizes.estimate(request.options);
    let writer = TypedWriter::new(request.out, plan, request.options.memory)?;
    (request.watch.estimate)(&estimate);
    let what = format!(
        "the dataset takes {} and its making {} more for a while: make room, name an OUT on another disk, or give more \
         `memory`, so that less goes through the temporary file",
        BytesOnDisk(estimate.disk),
        BytesOnDisk(estimate.temporary),
    );
    disk_space::check(request.out, estimate.disk.saturating_add(estimate.temporary), what)?;
    Ok(writer)
}

/// Writes the splits of a type by the rule of the options. `labels` are classes.
pub(crate) fn split_by_rule(
    request: &ImportRequest<'_>,
    writer: &TypedWriter,
    node_type: NodeType,
    (nodes, labels): (usize, Option<&[i64]>),
    meta: &mut Meta,
) -> Result<(), GraphError> {
    let Some(rule) = request.options.split else { return Ok(()) };
    let splits = rule.divide(nodes, labels, request.options.seed)?;
    for (split, ids) in Split::ALL.into_iter().zip(&splits) {
        write_array(&writer.node_file(node_type, split.file_name()), NpyType::I64, &[], ids)?;
    }
    let [train, valid, test] = splits.each_ref().map(Vec::len);
    let (of, rule) = (writer.metagraph().type_name(node_type), rule.describe(request.options.seed));
    (request.watch.note)(&format!("splits of {of} by {rule}: {train}, {valid} and {test} nodes"));
    meta.other.insert("split".to_owned(), json!(rule));
    Ok(())
}

/// Writes `meta.json`, checks the dataset and gives it its name.
pub(crate) fn finish(
    request: &ImportRequest<'_>,
    writer: TypedWriter,
    mut meta: Meta,
) -> Result<(), GraphError> {
    meta.name = request.name(meta.name);
    (request.watch.progress)(Progress { stage: "checks", done: 0, total: 1 });
    writer.finish(meta, &verify::directory)
}
