//! `uvatrain batch`: one batch as a run makes it, for comparison with other implementations, and to find the nodes of a
//! batch that a message names.

use serde::Serialize;
use uva_graph::Dataset;
use uva_runtime::sampler::order_making::epoch_order;
use uva_runtime::spec::ByteSize;
use uva_runtime::{LoaderOptions, RuntimeError};
use uva_sample::{BatchBounds, BatchKey, BlockRef, EpochOrder, GraphView, MiniBatch, sampler};

use crate::exit;
use crate::flags::data::BatchFlags;
use crate::runs::pipeline::with_input_nodes;
use crate::ui::table::TextTable;
use crate::ui::{format, out};

/// Makes the batch and prints it.
pub fn run(flags: &BatchFlags) -> anyhow::Result<()> {
    let options = flags.sampling.options();
    options.check()?;
    flags.sampling.given.check_use(&options).map_err(RuntimeError::from)?;
    let dataset = Dataset::open(&flags.data)?;
    let (dataset, options) = with_input_nodes(dataset, options, flags.input_nodes.as_slice())?;
    options.check_dataset(&dataset)?;
    let options = options.with_order(&dataset)?;
    let mut order = epoch_order(&dataset, &options, flags.split)?;
    let key = key(flags, &dataset, &options, &order)?;
    order.prepare(key.epoch)?;
    let batch = sampled(&dataset, &options, key, order.batch(key.batch as usize))?;
    let report = Report::of(flags, &dataset, (key, order.batches()), &batch);
    if flags.json { out::json(&report) } else { out::text(&report.text(key)) }
}

/// The batch's key, if the epoch has this batch.
fn key(
    flags: &BatchFlags,
    dataset: &Dataset,
    options: &LoaderOptions,
    order: &EpochOrder,
) -> anyhow::Result<BatchKey> {
    let BatchFlags { split, epoch, number, .. } = *flags;
    let (seeds, size, batches) = (dataset.split(split).len(), options.batch_size, order.batches());
    let refused = |problem: String| Err(exit::usage(problem).into());
    if seeds == 0 {
        let file = dataset.path().join(split.file_name());
        return refused(format!("{}: the {split} split is empty: it has no batches", file.display()));
    }
    if batches == 0 {
        return refused(format!(
            "--drop-last: the {split} split has no batch, since its {seeds} nodes are fewer than --batch-size {size}"
        ));
    }
    if number as usize > batches {
        return refused(format!(
            "--number {number}: an epoch of the {split} split has {batches} batches with --batch-size {size}"
        ));
    }
    Ok(BatchKey { split, epoch: epoch - 1, batch: number - 1 })
}

/// Samples the batch around the nodes at these positions of its split.
fn sampled(
    dataset: &Dataset,
    options: &LoaderOptions,
    key: BatchKey,
    positions: &[u32],
) -> anyhow::Result<MiniBatch> {
    let split = dataset.split(key.split);
    let seeds: Vec<i64> = positions.iter().map(|position| split[*position as usize]).collect();
    let sampling = options.sampling();
    // A repeated node has its own row and edges. No slot limits this memory.
    let again = dataset.repeats();
    let (nodes, edges) = (dataset.nodes() + again.rows, dataset.edges() + again.edges);
    let bytes = options.fanouts.hop_of_all().map(|_| usize::MAX);
    let bounds = BatchBounds::for_options(&sampling, seeds.len(), nodes, edges, bytes)?;
    let graph = GraphView { weights: dataset.weights(), ..dataset.csc().into() };
    let mut batch = MiniBatch::with_bounds(&bounds);
    sampler(graph, &sampling)?.sample_into(key, &seeds, &mut batch)?;
    Ok(batch)
}

/// The batch in the shape of its JSON. Epoch and number count from 0 there.
#[derive(Serialize)]
struct Report<'b> {
    dataset: &'b str,
    split: &'static str,
    epoch: u32,
    batch: u32,
    /// Batches of the epoch.
    batches: usize,
    hash: String,
    seeds: usize,
    input_nodes: usize,
    /// The blocks, from the seeds outward.
    layers: Vec<Layer>,
    /// Bytes of the input nodes' rows in the feature table.
    feature_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ids: Option<Arrays<'b>>,
}

#[derive(Serialize)]
struct Layer {
    destinations: usize,
    sources: usize,
    edges: usize,
}

/// The arrays of a batch. Nodes are ids of the dataset.
#[derive(Serialize)]
struct Arrays<'b> {
    seeds: &'b [i64],
    input_nodes: &'b [i64],
    layers: Vec<LayerArrays<'b>>,
}

/// The arrays of a block. `indices` are positions among the input nodes.
#[derive(Serialize)]
struct LayerArrays<'b> {
    indptr: &'b [i32],
    indices: &'b [i32],
    /// Absent for kinds of sampler that do not weigh edges.
    #[serde(skip_serializing_if = "<[f32]>::is_empty")]
    weights: &'b [f32],
}

impl<'b> LayerArrays<'b> {
    fn of(BlockRef { indptr, indices, weights, .. }: BlockRef<'b>) -> Self {
        Self { indptr, indices, weights }
    }
}

impl<'b> Report<'b> {
    fn of(
        flags: &BatchFlags,
        dataset: &'b Dataset,
        (key, batches): (BatchKey, usize),
        batch: &'b MiniBatch,
    ) -> Self {
        let counts = batch.counts();
        let layers = counts.blocks().iter().map(|layer| Layer {
            destinations: layer.destinations,
            sources: layer.sources,
            edges: layer.edges,
        });
        let arrays = || Arrays {
            seeds: batch.seeds(),
            input_nodes: batch.nodes(),
            layers: batch.blocks().map(LayerArrays::of).collect(),
        };
        Self {
            dataset: dataset.name(),
            split: key.split.name(),
            epoch: key.epoch,
            batch: key.batch,
            batches,
            hash: format!("{:016x}", batch.hash()),
            seeds: counts.seeds(),
            input_nodes: counts.nodes(),
            layers: layers.collect(),
            feature_bytes: counts.nodes() as u64 * dataset.table().row_bytes() as u64,
            ids: flags.ids.then(arrays),
        }
    }

    fn text(&self, key: BatchKey) -> String {
        let count = |number: usize| format::count(number as u64);
        let mut facts = TextTable::of_facts();
        facts.row(&["dataset", self.dataset]);
        facts.row(&["batch", &format!("{key} ({} batches)", count(self.batches))]);
        facts.row(&["seeds", &count(self.seeds)]);
        for (number, Layer { destinations, sources, edges }) in self.layers.iter().enumerate() {
            let [destinations, sources, edges] = [destinations, sources, edges].map(|size| count(*size));
            let sizes = format!("{destinations} destinations, {sources} sources, {edges} edges");
            facts.row(&[&format!("layer {number}"), &sizes]);
        }
        facts.row(&["input nodes", &count(self.input_nodes)]);
        facts.row(&["feature rows", &ByteSize::from_bytes(self.feature_bytes).to_string()]);
        facts.row(&["hash", &self.hash]);
        facts.render()
    }
}
