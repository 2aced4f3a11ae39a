//! Compares a partition in ranges with its source dataset, value by value.

use std::ops::Range;

use rayon::prelude::*;

use super::directory::RangeRows;
use super::parts::RangeParts;
use crate::comparison::{row, values_of};
use crate::description::edge_values::EDGE_VALUES;
use crate::description::{meta, names};
use crate::{Csc, Dataset, FeatureTable, GraphError, Split};

/// A difference. The file in the message is that of the partition.
#[derive(Debug, thiserror::Error)]
enum CompareProblem {
    #[error(
        "the {what} of node {node}, by its original id {id}, differ from those of the dataset that was divided"
    )]
    Differs { what: &'static str, node: usize, id: i64 },
    #[error("entry {entry} is another node than in the dataset that was divided")]
    Split { entry: usize },
    #[error("there are {found} {what}, and {wanted} in the dataset that was divided")]
    Counts { what: &'static str, found: usize, wanted: usize },
    #[error(
        "rows have {found_columns} × {found}, and {wanted_columns} × {wanted} in the dataset that was divided"
    )]
    Rows { found: &'static str, found_columns: usize, wanted: &'static str, wanted_columns: usize },
}

/// Both sides of a comparison.
struct Compared<'a> {
    parts: &'a RangeParts,
    dataset: &'a Dataset,
    /// The dataset's id of each original id; `None` if they are the same.
    node_of: Option<Vec<usize>>,
}

/// Compares everything present with `dataset`. The partition has a map of `dataset`, so the number of nodes and the
/// original ids are equal. Uses the current rayon pool.
///
/// # Errors
/// The first value that differs.
pub(super) fn with_source(parts: &RangeParts, dataset: &Dataset) -> Result<(), GraphError> {
    dataset.check_edges()?;
    let compared = Compared { parts, dataset, node_of: dataset.nodes_by_original_id() };
    compared.counts()?;
    compared.graph()?;
    parts.here().filter_map(|part| parts.rows(part)).try_for_each(|rows| compared.rows(rows))
}

impl Compared<'_> {
    /// The dataset's id of the partition's `node`.
    fn source(&self, node: usize) -> usize {
        let original = self.parts.graph().original_ids()[node] as usize;
        self.node_of.as_ref().map_or(original, |nodes| nodes[original])
    }

    fn counts(&self) -> Result<(), GraphError> {
        let (graph, dataset) = (self.parts.graph(), self.dataset);
        let counts = [
            (names::INDPTR, "nodes", graph.csc().nodes(), dataset.nodes()),
            (names::INDICES, "edges", graph.csc().edges(), dataset.edges()),
            (names::INDICES, "bytes an id", graph.csc().indices.id_bytes(), dataset.csc().indices.id_bytes()),
            (meta::FILE_NAME, "classes", graph.classes(), dataset.classes()),
            (names::LABELS, "bytes a label", graph.labels().row_bytes(), dataset.labels().row_bytes()),
        ];
        let of_edges = EDGE_VALUES.iter().map(|spec| {
            let [found, wanted] = [graph.edge_array(spec.values), dataset.edge_array(spec.values)]
                .map(|array| array.map_or(0, |array| array.shape()[0]));
            (spec.file, spec.name, found, wanted)
        });
        match counts.into_iter().chain(of_edges).find(|(.., found, wanted)| found != wanted) {
            None => Ok(()),
            Some((file, what, found, wanted)) => {
                let problem = CompareProblem::Counts { what, found, wanted };
                Err(GraphError::invalid(&graph.path().join(file), problem))
            }
        }
    }

    /// The entries of a list as original ids.
    fn list<'c>(csc: &Csc<'c>, node: usize) -> impl Iterator<Item = i64> + use<'c> {
        let csc = *csc;
        entries(&csc, node).map(move |entry| {
            let id = csc.indices.get(entry);
            csc.original_ids.map_or(id, |ids| ids[id as usize])
        })
    }

    fn graph(&self) -> Result<(), GraphError> {
        let (graph, dataset) = (self.parts.graph(), self.dataset);
        let (ours, theirs) = (graph.csc(), dataset.csc());
        let label = graph.labels().row_bytes();
        let differs = |node: usize| {
            let source = self.source(node);
            let what = if !Self::list(&ours, node).eq(Self::list(&theirs, source)) {
                (names::INDICES, "neighbours")
            } else if let Some(spec) = EDGE_VALUES.iter().find(|spec| {
                values_of(graph.edge_array(spec.values), entries(&ours, node))
                    != values_of(dataset.edge_array(spec.values), entries(&theirs, source))
            }) {
                (spec.file, spec.name)
            } else if row(graph.labels().bytes(), label, node) != row(dataset.labels().bytes(), label, source)
            {
                (names::LABELS, "labels")
            } else {
                return None;
            };
            Some((node, what))
        };
        if let Some((node, (file, what))) = (0..ours.nodes()).into_par_iter().find_map_first(differs) {
            let problem = CompareProblem::Differs { what, node, id: graph.original_ids()[node] };
            return Err(GraphError::invalid(&graph.path().join(file), problem));
        }
        for split in Split::ALL {
            let file = graph.path().join(split.file_name());
            let (found, wanted) = (graph.split(split), dataset.split(split));
            if found.len() != wanted.len() {
                let problem =
                    CompareProblem::Counts { what: "nodes", found: found.len(), wanted: wanted.len() };
                return Err(GraphError::invalid(&file, problem));
            }
            let differs = |(&found, &wanted): (&i64, &i64)| self.source(found as usize) as i64 != wanted;
            if let Some(entry) = found.iter().zip(wanted).position(differs) {
                return Err(GraphError::invalid(&file, CompareProblem::Split { entry }));
            }
        }
        Ok(())
    }

    /// Compares the rows of one part.
    fn rows(&self, rows: &RangeRows) -> Result<(), GraphError> {
        let first = rows.of().first as usize;
        let (ours, theirs) = (rows.features(), self.dataset.features());
        let file = rows.file(names::FEATURES);
        check_shape(&ours, &theirs).map_err(|problem| GraphError::invalid(&file, problem))?;
        let size = ours.row_bytes();
        let differs =
            |at: &usize| row(ours.bytes, size, *at) != row(theirs.bytes, size, self.source(first + at));
        if let Some(at) = (0..ours.rows).into_par_iter().find_first(differs) {
            return Err(self.differs(&file, "features", first + at));
        }
        let file = rows.file(names::EDGE_FEATURES);
        let (ours, theirs) = match (rows.edge_features(), self.dataset.edge_features()) {
            (None, None) => return Ok(()),
            (Some(ours), Some(theirs)) => (ours, theirs),
            (ours, theirs) => {
                let of = |table: Option<FeatureTable<'_>>| table.map_or(0, |table| table.dim);
                let problem = CompareProblem::Counts { what: "columns", found: of(ours), wanted: of(theirs) };
                return Err(GraphError::invalid(&file, problem));
            }
        };
        check_shape(&ours, &theirs).map_err(|problem| GraphError::invalid(&file, problem))?;
        let (size, csc, of_source) = (ours.row_bytes(), self.parts.csc(), self.dataset.csc());
        let begin = csc.indptr[first] as usize;
        let differs = |node: &usize| {
            let [from, to] = [*node, node + 1].map(|node| (csc.indptr[node] as usize - begin) * size);
            let at = of_source.indptr[self.source(*node)] as usize * size;
            ours.bytes[from..to] != theirs.bytes[at..at + to - from]
        };
        match (first..first + rows.of().nodes as usize).into_par_iter().find_first(differs) {
            None => Ok(()),
            Some(node) => Err(self.differs(&file, "edge features", node)),
        }
    }

    fn differs(&self, file: &std::path::Path, what: &'static str, node: usize) -> GraphError {
        let id = self.parts.graph().original_ids()[node];
        GraphError::invalid(file, CompareProblem::Differs { what, node, id })
    }
}

/// The position of a node's list.
fn entries(csc: &Csc<'_>, node: usize) -> Range<usize> {
    csc.indptr[node] as usize..csc.indptr[node + 1] as usize
}

fn check_shape(ours: &FeatureTable<'_>, theirs: &FeatureTable<'_>) -> Result<(), CompareProblem> {
    if (ours.dim, ours.element) == (theirs.dim, theirs.element) {
        return Ok(());
    }
    Err(CompareProblem::Rows {
        found: ours.element.name(),
        found_columns: ours.dim,
        wanted: theirs.element.name(),
        wanted_columns: theirs.dim,
    })
}
