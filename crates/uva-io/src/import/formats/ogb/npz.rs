//! The layout of ogbn-papers100M: arrays in two archives.
//!
//! `raw/data.npz` holds `edge_index` [2, E], `node_feat` [N, F], `num_nodes_list` and `num_edges_list`; other arrays
//! are reported. `raw/node-label.npz` holds `node_label` [N, 1], NaN if a node has none. No array is ever completely in
//! memory: the two rows of `edge_index` are read side by side, by two streams over the same bytes.

use uva_graph::{ElementType, GraphError};

use super::raw::Raw;
use crate::import::reading::features::feature_type;
use crate::import::reading::nodes::{NodeRange, end_in_rows};
use crate::import::reading::stream::{Archive, ArrayStream};
use crate::import::reading::unread_parts;
use crate::import::request::ImportRequest;
use crate::import::writing::output::{CHUNK, DatasetOutput, DatasetSizes, feature_columns, label_columns};
use crate::import::writing::read_speed;

pub(super) struct Npz {
    data: Archive,
    labels: ArrayStream,
    label_row_bytes: u64,
    nodes: u64,
    edges: u64,
    features: ArrayStream,
}

impl Npz {
    pub(super) fn open(request: &ImportRequest<'_>) -> Result<Npz, GraphError> {
        let data = Archive::open(&request.file("raw/data.npz"))?;
        let labels = Archive::open(&request.file("raw/node-label.npz"))?.array("node_label")?;
        let features = data.array("node_feat")?;
        let nodes = features.shape().first().map_or(0, |&rows| rows as u64);
        feature_columns(&features, Some(nodes))?;
        let label_row_bytes = label_columns(&labels, nodes)?.map_or(8, |columns| columns as u64);
        let edge_index = data.array("edge_index")?;
        let &[2, edges] = edge_index.shape() else {
            return Err(edge_index.wrong_shape("[2, edges]: sources, then destinations"));
        };
        for (name, count) in [("num_nodes_list", nodes), ("num_edges_list", edges as u64)] {
            let Some(mut list) = data.first(&[name])? else { continue };
            let counts = list.integers(2)?;
            if counts != [count as i64] {
                return Err(list.wrong_entry(
                    counts.len(),
                    format!("{counts:?}"),
                    format!("the arrays are of one graph, and of {count}"),
                ));
            }
        }
        unread_parts::say(request.watch.note, data.path(), &data.unread());
        Ok(Npz { data, labels, label_row_bytes, nodes, edges: edges as u64, features })
    }
}

impl Raw for Npz {
    fn sizes(&self) -> Result<DatasetSizes, GraphError> {
        let pace =
            |name: &str| read_speed::of_array(self.data.array(name)?, self.data.compressed_bytes(name));
        Ok(DatasetSizes {
            nodes: Some(self.nodes),
            edges: Some(self.edges),
            feature_row_bytes: (self.features.shape()[1] * feature_type(self.features.kind(), None).0.bytes())
                as u64,
            label_row_bytes: self.label_row_bytes,
            // The second of the two streams must skip the first row too.
            seconds: read_speed::sum([pace("edge_index")?.map(|once| 1.5 * once), pace("node_feat")?]),
            ..DatasetSizes::default()
        })
    }

    fn write(
        self: Box<Self>,
        _: &ImportRequest<'_>,
        output: &DatasetOutput<'_>,
    ) -> Result<ElementType, GraphError> {
        let mut lists = output.lists(self.nodes, false)?;
        let mut sources = self.data.array("edge_index")?;
        let mut destinations = self.data.array("edge_index")?;
        destinations.skip(self.edges)?;
        let ids = NodeRange::new(self.nodes, format!("node_feat has {} rows", self.nodes));
        let end = |position| end_in_rows(position, self.edges);
        let mut left = self.edges;
        while left > 0 {
            let now = left.min(CHUNK as u64) as usize;
            let (from, to) = (sources.integers(now)?, destinations.integers(now)?);
            sources.check_ids(&from, &ids, end)?;
            destinations.check_ids(&to, &ids, end)?;
            for (source, destination) in from.into_iter().zip(to) {
                lists.push(source as u64, destination as u64, 0.0)?;
            }
            left -= now as u64;
            if (left / CHUNK as u64).is_multiple_of(64) {
                output.progress("edges", self.edges - left, self.edges);
            }
        }
        output.finish_lists(lists)?;
        let element = output.features(self.features, self.nodes, None)?;
        output.labels(self.labels, self.nodes, None)?;
        Ok(element)
    }
}
