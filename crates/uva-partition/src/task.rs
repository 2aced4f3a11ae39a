//! A graph to partition, and the result of one method.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Instant;

use uva_graph::{Dataset, GraphError, Progress};

use crate::graphs::graph::OriginalGraph;
use crate::methods::blocks::block_graph::BlockGraph;
use crate::methods::blocks::search::Caps;
use crate::methods::blocks::{assign, merge, search};
use crate::methods::levels::{multilevel, refine};
use crate::methods::{closures, simple, stream};
use crate::options::{Method, PartitionOptions, Scan};

/// The method as `partition.json` names it.
pub(crate) fn name(method: Method, options: &PartitionOptions) -> String {
    let refined = if options.passes_of(method) > 0 { "+refine" } else { "" };
    format!("{method}{refined}")
}

/// The wall-clock time of stages.
#[derive(Default)]
pub(crate) struct StageSeconds(pub(crate) BTreeMap<String, f64>);

impl StageSeconds {
    pub(crate) fn of<T>(&mut self, stage: &str, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        *self.0.entry(stage.to_owned()).or_default() += start.elapsed().as_secs_f64();
        done
    }
}

/// The result of one method.
pub(crate) struct MethodResult {
    pub(crate) of: Vec<u16>,
    pub(crate) blocks: Option<[u64; 2]>,
}

/// A graph to partition.
pub(crate) struct PartitionTask<'t> {
    pub(crate) dataset: &'t Dataset,
    pub(crate) graph: OriginalGraph<'t>,
    pub(crate) order: Vec<u32>,
    pub(crate) options: &'t PartitionOptions,
    pub(crate) progress: &'t dyn Fn(Progress),
}

impl PartitionTask<'_> {
    /// The result of a method, refined as the options specify.
    pub(crate) fn refined(
        &self,
        method: Method,
        seconds: &mut StageSeconds,
    ) -> Result<MethodResult, GraphError> {
        let mut made = self.made(method, seconds)?;
        let PartitionOptions { parts, .. } = *self.options;
        let passes = self.options.passes_of(method);
        if passes > 0 {
            let (graph, order) = (&self.graph, &self.order);
            seconds.of("refine", || refine::refine(graph, order, &mut made.of, parts, passes, self.progress));
        }
        Ok(made)
    }

    fn made(&self, method: Method, seconds: &mut StageSeconds) -> Result<MethodResult, GraphError> {
        let PartitionTask { graph, order, options, progress, .. } = self;
        let parts = options.parts;
        let of = match method {
            Method::Bgl | Method::Auto => return self.of_blocks(seconds),
            Method::Pagraph => {
                let train = self.scanned();
                seconds.of("closures", || closures::assign(graph, &train, parts, options.hops, progress))?
            }
            Method::Multilevel => {
                seconds.of("levels", || multilevel::assign(graph, order, parts, options.seed, progress))?
            }
            Method::Ldg => seconds.of("stream", || stream::assign(graph, parts, progress)),
            Method::Range => simple::range(graph.nodes(), parts),
            Method::Random => simple::random(order, parts),
        };
        Ok(MethodResult { of, blocks: None })
    }

    /// The training nodes in the order in which pagraph assigns them.
    fn scanned(&self) -> Cow<'_, [u32]> {
        match self.options.scan {
            Scan::File => Cow::Borrowed(self.graph.train()),
            Scan::Shuffled => self.order.iter().copied().filter(|&node| self.graph.trains(node)).collect(),
        }
    }

    fn of_blocks(&self, seconds: &mut StageSeconds) -> Result<MethodResult, GraphError> {
        let PartitionTask { graph, order, options, progress, .. } = self;
        let caps = caps(options, graph);
        let (merged, grown) = seconds.of("blocks", || {
            let blocks = search::grow(graph, order, options.sources as usize, caps, progress);
            let merged = merge::merge(&blocks, &BlockGraph::of(graph, &blocks), caps);
            (merged, blocks.count())
        });
        let of = seconds.of("assign", || {
            let between = BlockGraph::of(graph, &merged);
            let order = assign::largest_first(&merged);
            assign::assign(&merged, &between, &order, options.parts, options.count, progress)
        })?;
        let of = merged.of_nodes(&of);
        Ok(MethodResult { of, blocks: Some([grown as u64, merged.count() as u64]) })
    }
}

/// The limits of a block: an eighth of a part's training nodes, and a number of nodes.
pub(crate) fn caps(options: &PartitionOptions, graph: &OriginalGraph<'_>) -> Caps {
    let train = graph.train().len() as u64 / (8 * u64::from(options.parts));
    Caps { nodes: options.nodes_a_block(graph.nodes()), train: train.max(1) }
}
