//! The nodes that have a row in a hop set, and their order.

use std::ops::Range;

use rayon::prelude::*;
use uva_graph::{Dataset, GraphError, Labels, Split};
use uva_sample::philox::{RandomPurpose, StreamKey, philox4x32};

use crate::options::{KeptNodes, PropagateOptions, RowOrder};

/// The nodes of the rows: training nodes first, then those of validation and test, then others; or all in the order of
/// their ids, without splits.
pub(crate) struct RowNodes {
    /// The node of each row.
    pub(crate) nodes: Vec<i64>,
    /// The rows of each split.
    pub(crate) splits: [Range<usize>; 3],
}

impl RowNodes {
    /// The nodes that the options select. Uses the current rayon pool; the order does not depend on it.
    ///
    /// # Errors
    /// If there is nothing to keep, or nothing to train on.
    pub(crate) fn of(dataset: &Dataset, options: &PropagateOptions) -> Result<RowNodes, GraphError> {
        if options.row_order == RowOrder::Nodes && dataset.nodes() > 0 {
            // In this order, the rows of a split are not consecutive.
            return Ok(RowNodes { nodes: (0..dataset.nodes() as i64).collect(), splits: [0..0, 0..0, 0..0] });
        }
        let mut nodes = Vec::new();
        let splits = Split::ALL.map(|split| {
            let first = nodes.len();
            let ids = dataset.split(split);
            let has_label = |node: i64| options.nodes != KeptNodes::Labelled || has_label(dataset, node);
            if split == Split::Train && options.row_order == RowOrder::Shuffled {
                let order = shuffled(ids.len(), options.seed);
                nodes.extend(order.into_iter().map(|place| ids[place]).filter(|&node| has_label(node)));
            } else {
                nodes.extend(ids.iter().copied().filter(|&node| has_label(node)));
            }
            first..nodes.len()
        });
        if options.nodes == KeptNodes::All {
            let mut is_there = vec![false; dataset.nodes()];
            nodes.iter().for_each(|&node| is_there[node as usize] = true);
            nodes.extend((0..).zip(is_there).filter(|(_, is_there)| !is_there).map(|(node, _)| node));
        } else if splits[0].is_empty() {
            let what = if options.nodes == KeptNodes::Labelled { "has no labelled node" } else { "is empty" };
            let problem = std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                format!("it {what}: there is nothing to train on. `nodes=all` keeps the rows of all nodes"),
            );
            return Err(GraphError::io(&dataset.path().join(Split::Train.file_name()), "use")(problem));
        }
        if nodes.is_empty() {
            return Err(GraphError::usage("nodes", "the dataset has no nodes: there is no row to keep"));
        }
        Ok(RowNodes { nodes, splits })
    }
}

fn has_label(dataset: &Dataset, node: i64) -> bool {
    match dataset.labels() {
        Labels::Absent => false,
        Labels::Single(labels) => labels[node as usize] >= 0,
        Labels::Multi { .. } | Labels::Regression { .. } => true,
    }
}

/// The positions 0 to `count` − 1 of the training split, in the order of their random keys.
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut keyed: Vec<(u64, usize)> =
        (0..count).into_par_iter().map(|place| (key(seed, place), place)).collect();
    // No two pairs are equal, so an unstable sort has one result.
    keyed.par_sort_unstable();
    keyed.into_iter().map(|(_, place)| place).collect()
}

/// The first 64 bits of a position's stream, low word first.
fn key(seed: u64, place: usize) -> u64 {
    let stream = StreamKey {
        seed,
        node: place as u64,
        purpose: RandomPurpose::HopRows,
        layer: 0,
        batch: 0,
        epoch: 0,
        split: Split::Train,
    };
    let [low, high, ..] = philox4x32(stream.key(), stream.counter(0));
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_those_of_the_second_implementation() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/test-vectors.json");
        let vectors: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let orders = vectors["hop_orders"].as_array().unwrap();
        assert!(orders.len() >= 3);
        for order in orders {
            let number = |name: &str| order[name].as_u64().unwrap();
            let places: Vec<usize> = serde_json::from_value(order["places"].clone()).unwrap();
            assert_eq!(shuffled(number("count") as usize, number("seed")), places);
        }
    }
}
