//! A model over a whole graph, layer by layer: the rows behind each layer are a table of all nodes, and those behind
//! the last are handed on chunk by chunk.

use crate::TrainError;
use crate::activation::Activation;
use crate::borrowed::Borrowed;
use crate::full_layer::{
    Results, RowsOf, Stream, Ticks, WholeGraph, chunks, full_layer, slice, ticks_of_a_layer,
};
use crate::model::{Named, Step};
use crate::rowwise::{LayerNorm, Linear};
use crate::trainer::Trainer;
use std::ops::Range;
use tch::{Device, Tensor};
use uva_graph::{Csc, FeatureTable};

/// The input of a layer: the dataset's table, or the layer before.
enum Rows<'a> {
    Table(FeatureTable<'a>),
    Hidden(Tensor),
}

/// What a pass over the whole graph is for.
pub(crate) struct Wishes<'s> {
    /// The rows behind this layer, counted from 1.
    pub(crate) hidden: Option<(usize, &'s mut dyn Stream)>,
    pub(crate) logits: Option<&'s mut dyn Stream>,
}

/// Two that take the same rows.
struct Both<'s> {
    first: &'s mut dyn Stream,
    second: &'s mut dyn Stream,
}

impl Stream for Both<'_> {
    fn wants(&self, chunk: &Range<usize>) -> bool {
        self.first.wants(chunk) || self.second.wants(chunk)
    }

    fn take(&mut self, chunk: &Range<usize>, rows: Tensor) -> Result<(), TrainError> {
        if self.first.wants(chunk) {
            self.first.take(chunk, rows.shallow_clone())?;
        }
        if self.second.wants(chunk) { self.second.take(chunk, rows) } else { Ok(()) }
    }
}

/// Steps that look at one row at a time, on the host.
struct Rowwise(Vec<RowStep>);

enum RowStep {
    Linear(Linear),
    Norm(LayerNorm),
    Activate(Activation),
}

impl Rowwise {
    /// `None` where one of the steps looks at neighbours.
    fn of(steps: &[Named], activation: Activation) -> Result<Option<Self>, TrainError> {
        let mut own = Vec::new();
        for named in steps {
            own.push(match &named.step {
                Step::Linear(linear) => RowStep::Linear(linear.on(Device::Cpu)?),
                Step::Norm(norm) => RowStep::Norm(norm.on(Device::Cpu)?),
                Step::Activate => RowStep::Activate(activation),
                // Nothing is dropped where nothing is trained.
                Step::Drop => continue,
                Step::Hop(_) | Step::Residual(_) => return Ok(None),
            });
        }
        Ok(Some(Self(own)))
    }

    /// An activation that comes first may write to `rows`.
    fn apply(&self, mut rows: Tensor) -> Result<Tensor, TrainError> {
        for step in &self.0 {
            rows = match step {
                RowStep::Linear(linear) => linear.forward(&rows)?,
                RowStep::Norm(norm) => norm.forward(rows)?.0,
                RowStep::Activate(activation) => activation.apply(rows)?,
            };
        }
        Ok(rows)
    }
}

/// What follows the last layer: the rest of its branch, the rows that the branch is added to, and the model's end.
struct Behind<'s> {
    branch: Rowwise,
    added_to: Option<Tensor>,
    end: Rowwise,
    stream: &'s mut dyn Stream,
}

impl Stream for Behind<'_> {
    fn wants(&self, chunk: &Range<usize>) -> bool {
        self.stream.wants(chunk)
    }

    fn take(&mut self, chunk: &Range<usize>, rows: Tensor) -> Result<(), TrainError> {
        let mut rows = self.branch.apply(rows)?;
        if let Some(x) = &self.added_to {
            rows = slice(x, chunk)?.f_add(&rows)?;
        }
        self.stream.take(chunk, self.end.apply(rows)?)
    }
}

impl Trainer {
    /// How often a pass over a graph of this many nodes ticks, if all rows are wanted.
    pub(crate) fn ticks_of_a_pass(&self, nodes: usize) -> u64 {
        self.options().layers as u64 * ticks_of_a_layer(nodes)
    }

    /// Refuses tables that contradict each other or the model.
    pub(crate) fn check_tables(
        &self,
        graph: &WholeGraph<'_>,
        features: &FeatureTable<'_>,
    ) -> Result<(), TrainError> {
        let (nodes, edges, edge_dim) = (graph.csc.nodes(), graph.csc.edges(), self.options().edge_dim);
        if features.rows != nodes {
            return Err(TrainError::Input(format!("{nodes} nodes with {} feature rows", features.rows)));
        }
        if features.dim != self.input_dim() {
            return Err(TrainError::Input(format!(
                "{} feature columns for a model of {}",
                features.dim,
                self.input_dim()
            )));
        }
        let of_edges = graph.edge_features.map(|table| (table.rows, table.dim));
        if edge_dim > 0 && of_edges != Some((edges, edge_dim)) {
            let (rows, dim) = of_edges.unwrap_or_default();
            return Err(TrainError::Input(format!(
                "{rows} rows of {dim} features of edges, where {edges} rows of {edge_dim} are needed"
            )));
        }
        check_offsets(&graph.csc)
    }

    /// Computes what is wished for, of all nodes and with their whole neighbourhoods. The tables have been checked.
    pub(crate) fn full_pass(
        &self,
        features: FeatureTable<'_>,
        graph: &WholeGraph<'_>,
        wishes: Wishes<'_>,
        ticks: Ticks<'_>,
    ) -> Result<(), TrainError> {
        let (steps, rows) = (&self.model.steps[..], Rows::Table(features));
        match wishes {
            Wishes { hidden: None, logits: None } => Ok(()),
            Wishes { hidden: None, logits: Some(stream) } => {
                self.stream_steps(steps, rows, graph, stream, ticks)
            }
            Wishes { hidden: Some((layer, stream)), logits: None } => {
                self.stream_steps(&steps[..self.model.behind(layer)], rows, graph, stream, ticks)
            }
            Wishes { hidden: Some((layer, hidden)), logits: Some(logits) } => {
                let (before, behind) = steps.split_at(self.model.behind(layer));
                if behind.is_empty() {
                    let mut both = Both { first: hidden, second: logits };
                    return self.stream_steps(steps, rows, graph, &mut both, ticks);
                }
                let rows = self.full_steps(before, rows, graph, ticks)?;
                for chunk in chunks(graph.csc.nodes()).filter(|chunk| hidden.wants(chunk)).collect::<Vec<_>>()
                {
                    hidden.take(&chunk, self.full_rows(&rows, &chunk)?)?;
                }
                self.stream_steps(behind, rows, graph, logits, ticks)
            }
        }
    }

    /// The steps for all nodes, the last layer's results handed on instead of kept.
    fn stream_steps(
        &self,
        steps: &[Named],
        rows: Rows<'_>,
        graph: &WholeGraph<'_>,
        stream: &mut dyn Stream,
        ticks: Ticks<'_>,
    ) -> Result<(), TrainError> {
        let activation = self.model.activation;
        let rowwise = |steps: &[Named]| {
            Rowwise::of(steps, activation)?.ok_or_else(|| TrainError::Input("a layer in a layer".to_owned()))
        };
        let is_layer = |named: &Named| matches!(named.step, Step::Hop(_) | Step::Residual(_));
        let Some(last) = steps.iter().rposition(is_layer) else {
            let end = rowwise(steps)?;
            for chunk in chunks(graph.csc.nodes()) {
                if stream.wants(&chunk) {
                    stream.take(&chunk, end.apply(self.full_rows(&rows, &chunk)?)?)?;
                }
            }
            return Ok(());
        };
        let rows = self.full_steps(&steps[..last], rows, graph, ticks)?;
        let end = rowwise(&steps[last + 1..])?;
        let (before, layer, branch, added_to) = match (&steps[last].step, &rows) {
            (Step::Residual(branch), Rows::Hidden(x)) => {
                let place = branch.iter().position(is_layer).ok_or_else(no_layer)?;
                (&branch[..place], &branch[place].step, &branch[place + 1..], Some(x.shallow_clone()))
            }
            (step, _) => (&[][..], step, &[][..], None),
        };
        let Step::Hop(layer) = layer else { return Err(no_layer()) };
        let (before, branch) = (rowwise(before)?, rowwise(branch)?);
        let of_chunk = |chunk: &Range<usize>| before.apply(self.full_rows(&rows, chunk)?);
        let mut behind = Behind { branch, added_to, end, stream };
        let mut results = Results::Stream(&mut behind);
        full_layer(&layer.on(Device::Cpu)?, &of_chunk, graph, self.kind(), &mut results, ticks)
    }

    /// The steps one after the other, each for all nodes.
    fn full_steps<'a>(
        &self,
        steps: &[Named],
        mut rows: Rows<'a>,
        graph: &WholeGraph<'_>,
        ticks: Ticks<'_>,
    ) -> Result<Rows<'a>, TrainError> {
        for named in steps {
            let of_chunk = |chunk: &Range<usize>| self.full_rows(&rows, chunk);
            rows = Rows::Hidden(match (&named.step, &rows) {
                (Step::Hop(layer), _) => self.full_hop(&layer.on(Device::Cpu)?, &of_chunk, graph, ticks)?,
                (Step::Linear(linear), _) => {
                    let linear = linear.on(Device::Cpu)?;
                    let size = [graph.csc.nodes() as i64, linear.outputs()];
                    let out = Tensor::f_zeros(size, (self.kind(), Device::Cpu))?;
                    for chunk in chunks(graph.csc.nodes()) {
                        slice(&out, &chunk)?.f_copy_(&linear.forward(&of_chunk(&chunk)?)?)?;
                    }
                    out
                }
                (Step::Drop, _) => continue,
                // These stand behind a step of the above.
                (_, Rows::Table(_)) => return Err(no_layer()),
                (Step::Norm(norm), Rows::Hidden(x)) => norm.on(Device::Cpu)?.forward(x.shallow_clone())?.0,
                (Step::Activate, Rows::Hidden(x)) => self.model.activation.apply(x.shallow_clone())?,
                (Step::Residual(branch), Rows::Hidden(x)) => {
                    match self.full_steps(branch, Rows::Hidden(x.shallow_clone()), graph, ticks)? {
                        Rows::Hidden(added) => x.f_add(&added)?,
                        Rows::Table(_) => continue,
                    }
                }
            });
        }
        Ok(rows)
    }

    /// A layer's results as a table.
    fn full_hop(
        &self,
        layer: &crate::layer::Layer,
        rows: RowsOf<'_>,
        graph: &WholeGraph<'_>,
        ticks: Ticks<'_>,
    ) -> Result<Tensor, TrainError> {
        let size = [graph.csc.nodes() as i64, layer.outputs()?];
        let table = Tensor::f_zeros(size, (self.kind(), Device::Cpu))?;
        let mut results = Results::Table(table.shallow_clone());
        full_layer(layer, rows, graph, self.kind(), &mut results, ticks)?;
        Ok(table)
    }

    fn full_rows(&self, rows: &Rows<'_>, chunk: &Range<usize>) -> Result<Tensor, TrainError> {
        match rows {
            Rows::Hidden(hidden) => slice(hidden, chunk),
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

fn no_layer() -> TrainError {
    TrainError::Input("a model without a layer".to_owned())
}

/// Refuses offsets that don't form lists: views of a dataset are checked, but callers can build their own.
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
