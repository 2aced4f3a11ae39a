//! Edges as the source has them.

use uva_graph::csc::CscBuilder;
use uva_graph::npy::NpyArray;
use uva_graph::{GraphError, Progress};

use super::elements::{integers_of, weights_of};
use super::problem::ImportProblem;
use crate::import::reading::nodes::{NodeRange, end_in_pairs, end_in_rows};
use crate::import::writing::output::CHUNK;

/// Edges as they are in the source.
pub(super) enum Edges {
    Lists {
        ends: Vec<i64>,
        indices: NpyArray,
    },
    /// [2, edges]
    Rows(NpyArray),
    /// [edges, 2]
    Pairs(NpyArray),
    Two {
        sources: NpyArray,
        destinations: NpyArray,
    },
}

/// The name of the end of an edge at a position of an array, for messages.
type EndName<'n> = &'n dyn Fn(u64) -> String;

/// The nodes at both ends of edges.
pub(super) struct EdgeEnds<'o> {
    pub(super) sources: NodeRange,
    pub(super) destinations: NodeRange,
    /// What a destination is called.
    pub(super) owner: &'o str,
}

impl Edges {
    pub(super) fn count(&self) -> usize {
        match self {
            Edges::Lists { indices, .. } => indices.shape()[0],
            Edges::Rows(array) => array.shape()[1],
            Edges::Pairs(array) => array.shape()[0],
            Edges::Two { sources, .. } => sources.shape()[0],
        }
    }

    /// Passes all edges to `lists`, a piece at a time, each checked before.
    pub(super) fn push_into(
        &self,
        lists: &mut CscBuilder,
        weights: Option<&NpyArray>,
        of: &EdgeEnds<'_>,
        progress: &dyn Fn(Progress),
    ) -> Result<(), GraphError> {
        let count = self.count();
        // The node whose list the edges have reached, if they are already lists.
        let mut node = 0;
        for first in (0..count).step_by(CHUNK) {
            let last = (first + CHUNK).min(count);
            let checked = |array: &NpyArray,
                           range: std::ops::Range<usize>,
                           nodes: [&NodeRange; 2],
                           end: EndName<'_>| {
                let (first, values) = (range.start, integers_of(array, range.start, range.end)?);
                let wrong = |(at, id): (usize, &i64)| !nodes[at % 2].has(*id);
                match values.iter().enumerate().position(wrong) {
                    None => Ok(values),
                    Some(wrong) => {
                        let (position, value) = (first + wrong, values[wrong]);
                        let at = array.header().data_offset + position * array.kind().bytes();
                        let (end, nodes) = (end(position as u64), nodes[wrong % 2].clone());
                        let problem = ImportProblem::Id { position, at, end, value, nodes };
                        Err(GraphError::invalid(array.path(), problem))
                    }
                }
            };
            let [from, to] = [[&of.sources; 2], [&of.destinations; 2]];
            let in_rows = |position| end_in_rows(position, count as u64);
            let (sources, destinations) = match self {
                Edges::Lists { ends, indices } => {
                    let in_list = |position: u64| {
                        let lists = ends.partition_point(|&end| end <= position as i64);
                        format!("a neighbour of {} {}", of.owner, lists.saturating_sub(1))
                    };
                    let sources = checked(indices, first..last, from, &in_list)?;
                    let destinations = (first..last).map(|edge| {
                        while ends[node + 1] <= edge as i64 {
                            node += 1;
                        }
                        node as i64
                    });
                    (sources, destinations.collect())
                }
                Edges::Rows(array) => {
                    let destinations = checked(array, count + first..count + last, to, &in_rows);
                    (checked(array, first..last, from, &in_rows)?, destinations?)
                }
                Edges::Pairs(array) => checked(array, 2 * first..2 * last, [from[0], to[0]], &end_in_pairs)?
                    .as_chunks::<2>()
                    .0
                    .iter()
                    .map(|&[from, to]| (from, to))
                    .unzip(),
                Edges::Two { sources, destinations } => (
                    checked(sources, first..last, from, &in_rows)?,
                    checked(destinations, first..last, to, &|edge| {
                        format!("the destination of edge {edge}")
                    })?,
                ),
            };
            let weights = weights.map(|array| weights_of(array, first, last)).transpose()?;
            for (edge, (source, destination)) in sources.into_iter().zip(destinations).enumerate() {
                let weight = weights.as_ref().map_or(0.0, |weights: &Vec<f32>| weights[edge]);
                lists.push(source as u64, destination as u64, weight)?;
            }
            if (first / CHUNK).is_multiple_of(64) {
                progress(Progress { stage: "edges", done: first as u64, total: count as u64 });
            }
        }
        Ok(())
    }
}
