//! Evaluation on full neighbourhoods: layer by layer over all nodes, in chunks.

use crate::TrainError;
use crate::aggregate::{inverse_root, weighted_sums};
use crate::borrowed::Borrowed;
use crate::input::{count_labelled, single_labels};
use crate::layer::{Layer, linear};
use crate::options::ModelKind;
use crate::trainer::{Trainer, evaluate_logits};
use std::ops::Range;
use tch::{Device, Tensor};
use uva_graph::{Csc, FeatureTable, Labels};

/// Destination nodes in a chunk, and the edges that end one early: about 100 MB of intermediates together at 256
/// columns. A node with more edges than that is a chunk of its own.
const CHUNK_NODES: usize = 1 << 15;
const CHUNK_EDGES: usize = 1 << 22;

/// What an evaluation found. Those of several batches add up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// Cross-entropy summed over the labelled nodes.
    pub loss_sum: f64,
    /// Labelled nodes whose class had the largest logit.
    pub correct: usize,
    /// Nodes with a label.
    pub labelled: usize,
}

impl Evaluation {
    /// Share of the labelled nodes that were right, or `None` without any.
    pub fn accuracy(&self) -> Option<f64> {
        (self.labelled > 0).then(|| self.correct as f64 / self.labelled as f64)
    }

    /// Mean loss of the labelled nodes, or `None` without any.
    pub fn mean_loss(&self) -> Option<f64> {
        (self.labelled > 0).then(|| self.loss_sum / self.labelled as f64)
    }
}

impl std::ops::AddAssign for Evaluation {
    fn add_assign(&mut self, other: Self) {
        self.loss_sum += other.loss_sum;
        self.correct += other.correct;
        self.labelled += other.labelled;
    }
}

/// What a layer reads: the dataset's table, or the layer before.
enum Rows<'a> {
    Table(FeatureTable<'a>),
    Hidden(Tensor),
}

impl Trainer {
    /// Loss and hits on the nodes `ids`, with every node's whole neighbourhood at every layer.
    ///
    /// `csc`, `features` and `labels` are those of a whole dataset; `ids` are its node ids. Each layer is computed for
    /// all nodes before the next, so the cost is layers × edges whatever the number of ids. Memory: two to three
    /// tables of nodes × hidden f32; the feature table is read once, front to back, in chunks.
    ///
    /// It is computed on the CPU, by a trainer on a CUDA device too (with copies of its parameters): these tables are
    /// as large as the graph, and need not fit a device.
    ///
    /// # Errors
    /// [`TrainError::Input`] for tables that contradict each other or the model, or an id or neighbour out of range;
    /// [`TrainError::Unsupported`] for multi-label data.
    pub fn evaluate_full(
        &self,
        csc: Csc<'_>,
        features: FeatureTable<'_>,
        labels: Labels<'_>,
        ids: &[i64],
    ) -> Result<Evaluation, TrainError> {
        self.use_threads();
        let _no_grad = tch::no_grad_guard();
        let nodes = csc.nodes();
        let labels = single_labels(&labels)?;
        if features.rows != nodes || labels.len() != nodes {
            return Err(TrainError::Input(format!(
                "{nodes} nodes with {} feature rows and {} labels",
                features.rows,
                labels.len()
            )));
        }
        if features.dim != self.input_dim() {
            return Err(TrainError::Input(format!(
                "{} feature columns for a model of {}",
                features.dim,
                self.input_dim()
            )));
        }
        check_offsets(&csc)?;
        if let Some(id) = ids.iter().find(|&&id| id < 0 || id >= nodes as i64) {
            return Err(TrainError::Input(format!("node id {id} in a graph of {nodes} nodes")));
        }
        let wanted: Vec<i64> = ids.iter().map(|&id| labels[id as usize]).collect();
        if count_labelled(&wanted, self.classes())? == 0 {
            return Ok(Evaluation::default());
        }
        let mut rows = Rows::Table(features);
        for (index, layer) in self.model.layers.iter().enumerate() {
            let last = index + 1 == self.model.layers.len();
            rows = Rows::Hidden(self.full_layer(&layer.on(Device::Cpu)?, &rows, &csc, last)?);
        }
        let Rows::Hidden(logits) = rows else { return Ok(Evaluation::default()) };
        let targets = Borrowed::vector(&wanted)?;
        evaluate_logits(&logits.f_index_select(0, Borrowed::vector(ids)?.tensor())?, targets.tensor())
    }

    /// One layer for all nodes: [nodes, inputs] to [nodes, outputs], with ReLU unless it is the last.
    ///
    /// Rows are multiplied by the neighbours' weight first and then aggregated: with as many sources as destinations
    /// that is never more work than the other order unless the layer widens, and the table is then read front to
    /// back instead of at random.
    fn full_layer(
        &self,
        layer: &Layer,
        rows: &Rows<'_>,
        csc: &Csc<'_>,
        last: bool,
    ) -> Result<Tensor, TrainError> {
        let nodes = csc.nodes();
        let (Layer::Sage { neighbours: weight, .. } | Layer::Gcn { weight, .. }) = layer;
        let outputs = weight.size2()?.0;
        let empty = || Tensor::f_zeros([nodes as i64, outputs], (self.kind(), Device::Cpu));
        let (projected, result) = (empty()?, empty()?);
        let slice =
            |table: &Tensor, chunk: &Range<usize>| table.f_narrow(0, chunk.start as i64, chunk.len() as i64);

        let mut start = 0;
        while start < nodes {
            let chunk = start..nodes.min(start + CHUNK_NODES);
            let x = self.full_rows(rows, &chunk)?;
            slice(&projected, &chunk)?.f_copy_(&linear(&x, weight)?)?;
            if let Layer::Sage { own, bias, .. } = layer {
                slice(&result, &chunk)?.f_copy_(&x.f_linear(own, Some(bias))?)?;
            }
            start = chunk.end;
        }
        start = 0;
        while start < nodes {
            let chunk = next_chunk(csc, start);
            let lists = Lists::new(self.options().model, csc, &chunk)?;
            let weights = Tensor::f_from_slice(&lists.weights)?.f_to_kind(self.kind())?;
            let (indices, offsets) = (Borrowed::vector(&lists.indices)?, Borrowed::vector(&lists.offsets)?);
            let sums = weighted_sums(&projected, indices.tensor(), offsets.tensor(), &weights)?;
            let mut target = slice(&result, &chunk)?;
            let _ = target.f_add_(&sums)?;
            if let Layer::Gcn { bias, .. } = layer {
                let own = Tensor::f_from_slice(&lists.own)?.f_to_kind(self.kind())?.f_unsqueeze(1)?;
                let _ = target.f_add_(&slice(&projected, &chunk)?.f_mul(&own)?)?.f_add_(bias)?;
            }
            if !last {
                let _ = target.f_relu_()?;
            }
            start = chunk.end;
        }
        Ok(result)
    }

    fn full_rows(&self, rows: &Rows<'_>, chunk: &Range<usize>) -> Result<Tensor, TrainError> {
        match rows {
            Rows::Hidden(hidden) => Ok(hidden.f_narrow(0, chunk.start as i64, chunk.len() as i64)?),
            Rows::Table(table) => {
                let row_bytes = table.row_bytes();
                let bytes =
                    table.bytes.get(chunk.start * row_bytes..chunk.end * row_bytes).ok_or_else(|| {
                        TrainError::Input(format!(
                            "feature table of {} bytes ends before row {}",
                            table.bytes.len(),
                            chunk.end
                        ))
                    })?;
                let borrowed = Borrowed::table(bytes, table.element, chunk.len(), table.dim)?;
                self.features(&borrowed)
            }
        }
    }
}

/// Refuses offsets that are no lists: the views of a dataset are checked, but anybody can make one.
fn check_offsets(csc: &Csc<'_>) -> Result<(), TrainError> {
    let ends_fit =
        csc.indptr.first() == Some(&0) && csc.indptr.last().copied() == i64::try_from(csc.edges()).ok();
    match csc.indptr.windows(2).position(|pair| pair[0] > pair[1]) {
        Some(v) => Err(TrainError::Input(format!("the graph's offsets fall at node {v}"))),
        None if !ends_fit => Err(TrainError::Input(format!(
            "the graph's offsets do not go from 0 to its {} edges",
            csc.edges()
        ))),
        None => Ok(()),
    }
}

/// The destinations from `start` that make one chunk: at least one.
fn next_chunk(csc: &Csc<'_>, start: usize) -> Range<usize> {
    let first = csc.indptr[start];
    let mut end = start + 1;
    while end < csc.nodes() && end - start < CHUNK_NODES && csc.indptr[end + 1] - first <= CHUNK_EDGES as i64
    {
        end += 1;
    }
    start..end
}

/// The neighbour lists of a chunk with their weights, as `aggregate.rs` defines them for whole neighbourhoods.
struct Lists {
    offsets: Vec<i64>,
    indices: Vec<i64>,
    weights: Vec<f64>,
    /// GCN: the weight of each node's own row.
    own: Vec<f64>,
}

impl Lists {
    fn new(model: ModelKind, csc: &Csc<'_>, chunk: &Range<usize>) -> Result<Self, TrainError> {
        let nodes = csc.nodes();
        let first = csc.indptr[chunk.start];
        let edges = first as usize..csc.indptr[chunk.end] as usize;
        let offsets: Vec<i64> =
            csc.indptr[chunk.start..=chunk.end].iter().map(|offset| offset - first).collect();
        let mut indices = Vec::with_capacity(edges.len());
        for edge in edges {
            let source = csc.indices.get(edge);
            if source < 0 || source >= nodes as i64 {
                return Err(TrainError::Input(format!(
                    "neighbour {source} at edge {edge} in a graph of {nodes} nodes"
                )));
            }
            indices.push(source);
        }
        let degree = |v: usize| csc.indptr[v + 1] - csc.indptr[v];
        let mut weights = Vec::with_capacity(indices.len());
        let mut own = Vec::new();
        for (v, list) in chunk.clone().zip(offsets.windows(2)) {
            let list = &indices[list[0] as usize..list[1] as usize];
            match model {
                ModelKind::Sage => weights.extend(std::iter::repeat_n(1.0 / list.len() as f64, list.len())),
                ModelKind::Gcn => {
                    let root = inverse_root(degree(v));
                    weights.extend(list.iter().map(|&u| root * inverse_root(degree(u as usize))));
                    own.push(root * root);
                }
            }
        }
        Ok(Self { offsets, indices, weights, own })
    }
}
