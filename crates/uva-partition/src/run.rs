//! The methods put together.

use uva_graph::{Dataset, GraphError, Progress};

use crate::graphs::counts::edge_cut;
use crate::graphs::graph::OriginalGraph;
use crate::graphs::limits::PartSizes;
use crate::graphs::order;
use crate::graphs::weighted::WeightedGraph as _;
use crate::options::{Method, PartitionOptions};
use crate::result::NodePartition;
use crate::task::{PartitionTask, StageSeconds, name};
use crate::{auto, memory};

/// Partitions the nodes of a dataset. Uses the current rayon pool; the result does not depend on it.
///
/// # Errors
/// As [`PartitionOptions::check`]; if a method would take too much time, or more memory than the options allow; if the
/// dataset is a part of another.
pub fn partition(
    dataset: &Dataset,
    options: &PartitionOptions,
    progress: &dyn Fn(Progress),
) -> Result<NodePartition, GraphError> {
    options.check(dataset)?;
    memory::check(dataset, options)?;
    let mut seconds = StageSeconds::default();
    let order = seconds.of("order", || order::by_key(dataset.nodes(), options.seed));
    let graph = seconds.of("lists", || OriginalGraph::of(dataset, progress))?;
    let task = PartitionTask { dataset, graph, order, options, progress };
    let mut candidates = Vec::new();
    let (method, made) = match options.method {
        Method::Auto => auto::best(&task, &mut seconds, &mut candidates)?,
        method => (method, task.refined(method, &mut seconds)?),
    };
    let PartitionTask { graph, .. } = &task;
    let sizes = PartSizes::of(&made.of, options.parts, |node| graph.size(node));
    let edge_cut = seconds.of("count", || edge_cut(graph, &made.of));
    Ok(NodePartition {
        parts: options.parts,
        method: name(method, options),
        nodes: sizes.nodes,
        train: sizes.train,
        blocks: made.blocks,
        edge_cut,
        candidates,
        seconds: seconds.0,
        of: made.of,
    })
}

#[cfg(test)]
mod tests;
