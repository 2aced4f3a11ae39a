//! The arrays of a relation.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use uva_graph::csc::{Changes, CscBuilder};
use uva_graph::npy::{NpyArray, NpyType};
use uva_graph::typed_meta::{EdgeRowOf, EntryOrder, RelationMeta};
use uva_graph::{GraphError, Progress, Relation, names};

use super::super::edges::{EdgeEnds, Edges};
use super::super::elements::{integers_of, types_of, weights_of};
use super::super::source::{FeatureArray, SourceArrays};
use super::arrays::{others, write_features};
use crate::import::options::refuse_changes_of_weighted;
use crate::import::reading::nodes::NodeRange;
use crate::import::reading::text::Position;
use crate::import::reading::{edge_lines, values};
use crate::import::request::{ImportRequest, ImportWatch};
use crate::import::writing::output::CHUNK;
use crate::import::writing::typed_changes::RelationChanges;
use crate::import::writing::typed_output::RelationSizes;
use crate::typed::{EdgeColumn, EdgeColumns, Reversal, TypedWriter};

/// A file of edge features while their rows are moved.
const UNORDERED: &str = "feat.temporary";

/// The edges of a relation.
enum EdgeSource {
    Arrays(Box<Edges>),
    /// Lines of `source,destination`.
    Lines {
        path: PathBuf,
        count: usize,
    },
}

impl EdgeSource {
    fn count(&self) -> usize {
        match self {
            EdgeSource::Arrays(edges) => edges.count(),
            EdgeSource::Lines { count, .. } => *count,
        }
    }

    /// Passes all edges to `lists`, checked. Weights are columns of their own, and only checked here.
    fn push_into(
        &self,
        lists: &mut CscBuilder,
        weights: Option<&NpyArray>,
        ends: &EdgeEnds<'_>,
        progress: &dyn Fn(Progress),
    ) -> Result<(), GraphError> {
        let (path, count) = match self {
            EdgeSource::Arrays(edges) => return edges.push_into(lists, weights, ends, progress),
            EdgeSource::Lines { path, count } => (path, *count),
        };
        if let Some(weights) = weights {
            for first in (0..count).step_by(CHUNK) {
                weights_of(weights, first, (first + CHUNK).min(count))?;
            }
        }
        let report = |Position { done, total }| progress(Progress { stage: "edges", done, total });
        let nodes = [&ends.sources, &ends.destinations];
        edge_lines::each_edge(path, &report, nodes, |source, destination| {
            lists.push(source, destination, 0.0)
        })
    }
}

/// The arrays of a relation, found and checked.
pub(crate) struct EdgeArrays {
    edges: EdgeSource,
    /// The nodes at both ends, and the name of the destination's type.
    ends: [NodeRange; 2],
    owner: String,
    features: Option<FeatureArray>,
    /// Whether the rows of the features, which may be another relation's, are those of `edge_id.npy`.
    by_id: bool,
    /// A relation that finds its features in this one's by the order of the source.
    shared_by: Option<String>,
    weights: Option<NpyArray>,
    types: Option<NpyArray>,
    times: Option<NpyArray>,
    is_ordered: bool,
    edge_ids: Option<NpyArray>,
    others: Vec<(String, NpyArray)>,
}

impl EdgeArrays {
    /// Opens the arrays of `source`. `lines` is a text with the edges in place of an array, `all` the entries of all
    /// relations.
    pub(super) fn open(
        (entry, all): (&RelationMeta, &[RelationMeta]),
        source: SourceArrays,
        lines: Option<PathBuf>,
        ends: [NodeRange; 2],
        watch: &ImportWatch<'_>,
    ) -> Result<Self, GraphError> {
        let owner = entry.names[2].clone();
        let edges = match lines {
            Some(path) => EdgeSource::Lines { count: edge_lines::count(&path)? as usize, path },
            None => {
                let nodes = usize::try_from(ends[1].count).unwrap_or(usize::MAX);
                EdgeSource::Arrays(Box::new(source.edges(nodes, &format!("there are nodes of {owner}"))?))
            }
        };
        let count = edges.count();
        let weights = source.weights(count, Changes::NONE)?;
        let types = source.edge_types(Some(count), Changes::NONE)?;
        let by_id = entry.feat_rows == Some(EdgeRowOf::EdgeId) || entry.feat_of.is_some();
        let shared_by = all.iter().find(|other| other.feat_of.as_ref() == Some(&entry.names));
        let shared_by = shared_by.filter(|_| !by_id).map(|other| other.names.join("__"));
        let features = source.edge_features_of(
            &["feat", "edge_feat", "edge_attr", "edge_features"],
            (!by_id).then_some(count),
        )?;
        let times = source.optional_column(names::TIMES, count)?;
        let edge_ids = source.optional_column(names::EDGE_IDS, count)?;
        let others = others(&source, count, watch)?;
        let is_ordered = entry.order == Some(EntryOrder::Time);
        Ok(Self {
            edges,
            ends,
            owner,
            features,
            by_id,
            shared_by,
            weights,
            types,
            times,
            is_ordered,
            edge_ids,
            others,
        })
    }

    /// Sets the keys of the relation's entry in `meta.json` that follow from its arrays.
    pub(super) fn describe(&self, entry: &mut RelationMeta) {
        entry.feat_dtype = self.features.as_ref().map(|features| features.element.name().to_owned());
    }

    /// Refuses changes that values of the edges do not follow.
    pub(super) fn check_changes(
        &self,
        RelationChanges { reversal, changes }: RelationChanges,
    ) -> Result<(), GraphError> {
        let features = self.features.as_ref().map(|features| &features.array);
        let values = [
            features,
            self.weights.as_ref(),
            self.types.as_ref(),
            self.times.as_ref(),
            self.edge_ids.as_ref(),
        ];
        let others = self.others.iter().map(|(_, array)| array);
        if let Some(array) = values.into_iter().flatten().chain(others).next() {
            refuse_changes_of_weighted(changes, &array.path().display().to_string())?;
        }
        match (features, &self.edge_ids) {
            // Both directions would share one table by the ids, which name other rows.
            (Some(_), Some(ids)) if reversal != Reversal::None && !self.by_id => {
                let message = format!(
                    "not supported with features whose rows {} does not name: set \"feat_rows\" to \"edge_id\", or \
                     remove the file",
                    ids.path().display()
                );
                Err(GraphError::usage("`reverse` or `symmetrise`", message))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn sizes(&self, change: RelationChanges) -> RelationSizes {
        let features = self.features.as_ref().map_or(0, FeatureArray::row_bytes);
        let present = |is_present: bool, bytes: u64| if is_present { bytes } else { 0 };
        let others: usize =
            self.others.iter().map(|(_, array)| array.bytes().len() / self.edges.count().max(1)).sum();
        let sizes = RelationSizes {
            lists: self.ends[1].count,
            entries: self.edges.count() as u64,
            row_bytes: features
                + present(self.weights.is_some(), 4)
                + present(self.types.is_some(), 2)
                + present(self.times.is_some(), 8)
                + present(self.edge_ids.is_some(), 8)
                + others as u64,
            temporary_row_bytes: present(!self.by_id, features),
        };
        sizes.changed(self.ends[0].count, change)
    }

    pub(super) fn write(
        self,
        request: &ImportRequest<'_>,
        writer: &mut TypedWriter,
        relation: Relation,
        change: RelationChanges,
    ) -> Result<(), GraphError> {
        let file = |name: &str| writer.relation_file(relation, name);
        // Rows found by an id keep their places.
        let unordered = file(if self.by_id { names::FEATURES } else { UNORDERED });
        if let Some(features) = &self.features {
            write_features(features, &unordered, None, request.watch)?;
        }
        let rows = match &self.features {
            Some(_) if !self.by_id => Some(NpyArray::open(&unordered)?),
            _ => None,
        };
        let mut columns = Vec::new();
        if let Some(weights) = &self.weights {
            if weights.kind() == NpyType::F64 {
                (request.watch.note)(&format!("{}: float64 becomes float32", weights.path().display()));
            }
            columns.push(weight_column(weights));
        }
        columns.extend(self.types.as_ref().map(type_column));
        columns.extend(self.edge_ids.as_ref().map(|ids| integer_column(names::EDGE_IDS, ids)));
        columns.extend(self.others.iter().map(|(name, array)| EdgeColumn::of_array(name.as_str(), array)));
        let times = self.times.as_ref().map(|times| integer_column(names::TIMES, times));
        let (times, unsorted) = if self.is_ordered { (times, None) } else { (None, times) };
        columns.extend(unsorted);
        let features = rows.as_ref().map(|rows| match &self.shared_by {
            Some(other) => shared_column(rows, other, writer.metagraph().full_name(relation)),
            None => EdgeColumn::of_array(names::FEATURES, rows),
        });
        let values = EdgeColumns { columns, features, times, edge_ids: false };
        let [sources, destinations] = self.ends.clone();
        let ends = EdgeEnds { sources, destinations, owner: &self.owner };
        let progress = request.watch.progress;
        writer.relation_with(relation, change.changes, &values, progress, &mut |lists| {
            self.edges.push_into(lists, self.weights.as_ref(), &ends, progress)
        })?;
        if let Some(reverse) = writer.added_reverse(relation).filter(|_| self.by_id) {
            let entry = writer.relation_meta(relation);
            let table = entry.feat_of.clone().unwrap_or_else(|| entry.names.clone());
            writer.relation_meta(reverse).feat_of = Some(table);
        }
        if rows.is_some() {
            std::fs::remove_file(&unordered).map_err(GraphError::io(&unordered, "remove"))?;
        }
        Ok(())
    }
}

/// Features that the relation `other` finds by the order of the source, which has to be that of the lists.
fn shared_column<'a>(rows: &'a NpyArray, other: &str, relation: &str) -> EdgeColumn<'a> {
    let (shape, row_bytes) = (&rows.shape()[1..], rows.bytes().len() / rows.shape()[0].max(1));
    let edges = rows.shape()[0];
    let message = format!(
        "\"feat_of\" of {other} finds rows of {relation}/feat.npy by the order of its edges, which is not that of the \
         lists: set \"feat_rows\" of {relation} to \"edge_id\", with numpy.arange({edges}) as edge_id.npy"
    );
    let place = AtomicU64::new(0);
    EdgeColumn::new(names::FEATURES, rows.kind(), shape, edges as u64, move |number, row| {
        // Rows are read one after the other.
        if place.fetch_add(1, Ordering::Relaxed) != number {
            return Err(GraphError::usage("meta.json", message.clone()));
        }
        let at = number as usize * row_bytes;
        row.extend_from_slice(&rows.bytes()[at..at + row_bytes]);
        Ok(())
    })
}

/// Weights, narrowed to float32 if they are wider. They are checked as edges are pushed.
fn weight_column(weights: &NpyArray) -> EdgeColumn<'_> {
    if weights.kind() == NpyType::F32 {
        return EdgeColumn::of_array(names::WEIGHTS, weights);
    }
    let bytes = weights.kind().bytes();
    EdgeColumn::new(names::WEIGHTS, NpyType::F32, &[], weights.shape()[0] as u64, move |number, row| {
        let at = number as usize * bytes;
        let values = values::floats(weights.kind(), &weights.bytes()[at..at + bytes]);
        values.iter().for_each(|&value| row.extend_from_slice(&(value as f32).to_le_bytes()));
        Ok(())
    })
}

/// Integers, widened to int64 if they are narrower.
fn integer_column<'a>(name: &'static str, array: &'a NpyArray) -> EdgeColumn<'a> {
    if array.kind() == NpyType::I64 {
        return EdgeColumn::of_array(name, array);
    }
    EdgeColumn::new(name, NpyType::I64, &[], array.shape()[0] as u64, move |number, row| {
        let values = integers_of(array, number as usize, number as usize + 1)?;
        values.iter().for_each(|value| row.extend_from_slice(&value.to_le_bytes()));
        Ok(())
    })
}

/// Edge types, narrowed to uint16 if they are wider.
fn type_column(types: &NpyArray) -> EdgeColumn<'_> {
    if types.kind() == NpyType::U16 {
        return EdgeColumn::of_array(names::EDGE_TYPES, types);
    }
    EdgeColumn::new(names::EDGE_TYPES, NpyType::U16, &[], types.shape()[0] as u64, move |number, row| {
        let values = types_of(types, number as usize, number as usize + 1)?;
        values.iter().for_each(|value| row.extend_from_slice(&value.to_le_bytes()));
        Ok(())
    })
}
