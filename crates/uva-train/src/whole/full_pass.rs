//! A model over a whole graph, layer by layer: the rows after each layer are a table of all nodes, and those after the
//! last are passed on chunk by chunk.

use crate::TrainError;
use crate::graph::full_table::{Table, TableWriter, Tables};
use crate::graph::whole_data::{WholeData, check_offsets};
use crate::graph::whole_graph::{Graph, chunks, slice};
use crate::layer::convolution::Convolution;
use crate::nn::activation::Activation;
use crate::nn::rowwise::{LayerNorm, Linear};
use crate::step::{Named, Step};
use crate::torch::borrowed::Borrowed;
use crate::train::trainer::Trainer;
use crate::whole::full_layer::{RowsOf, Stream, Ticks, columns_of_tables, full_layer, ticks_of_a_layer};
use crate::whole::relation_pass::{PIECE_VALUES, RelationPass};
use std::ops::Range;
use tch::{Device, Tensor};
use uva_graph::FeatureTable;

/// The input of a layer: the dataset's features, or the layer before. `None` for a graph without nodes.
enum Rows<'a> {
    Features(FeatureTable<'a>),
    Hidden(Option<Table>),
}

/// The results requested from a pass over the whole graph.
pub(crate) struct Wishes<'s> {
    /// The rows after this layer, counted from 1.
    pub(crate) hidden: Option<(usize, &'s mut dyn Stream)>,
    pub(crate) logits: Option<&'s mut dyn Stream>,
}

/// Two receivers of the same rows.
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

/// Row-wise steps, on the host.
struct Rowwise(Vec<RowStep>);

enum RowStep {
    Given(Convolution),
    Linear(Linear),
    Norm(LayerNorm),
    Activate(Activation),
}

impl Rowwise {
    /// `None` if one of the steps is not row-wise.
    fn of(steps: &[Named], activation: Activation) -> Result<Option<Self>, TrainError> {
        let mut own = Vec::new();
        for named in steps {
            own.push(match &named.step {
                Step::Given(layer) => RowStep::Given(layer.on(Device::Cpu)?),
                Step::Linear(linear) => RowStep::Linear(linear.on(Device::Cpu)?),
                Step::Norm(norm) => RowStep::Norm(norm.on(Device::Cpu)?),
                Step::Activate => RowStep::Activate(activation),
                // Without training nothing is dropped.
                Step::Drop => continue,
                Step::Hop(_) | Step::Residual(_) => return Ok(None),
                // Only models over a hop set have this step, and these make no such pass.
                Step::Prelu(_) => return Ok(None),
            });
        }
        Ok(Some(Self(own)))
    }

    /// Applies the steps to rows of a table, which does not change.
    fn apply_to_table(&self, rows: Tensor) -> Result<Tensor, TrainError> {
        match self.0.first() {
            Some(RowStep::Activate(_)) => {
                let mut own = rows.f_empty_like()?;
                own.f_copy_(&rows)?;
                self.apply(own)
            }
            _ => self.apply(rows),
        }
    }

    /// Applies the steps. A leading activation may write to `rows`.
    fn apply(&self, mut rows: Tensor) -> Result<Tensor, TrainError> {
        for step in &self.0 {
            rows = match step {
                RowStep::Given(layer) => layer.forward_given(&rows)?,
                RowStep::Linear(linear) => linear.forward(&rows)?,
                RowStep::Norm(norm) => norm.forward(rows)?.0,
                RowStep::Activate(activation) => activation.apply(rows)?,
            };
        }
        Ok(rows)
    }
}

/// The steps after a layer: the rest of its branch, the rows that the branch is added to, and the steps after these.
struct Behind<'s> {
    branch: Rowwise,
    added_to: Option<RowsOf<'s>>,
    end: Rowwise,
    stream: &'s mut dyn Stream,
}

impl Stream for Behind<'_> {
    fn wants(&self, chunk: &Range<usize>) -> bool {
        self.stream.wants(chunk)
    }

    fn take(&mut self, chunk: &Range<usize>, rows: Tensor) -> Result<(), TrainError> {
        let mut rows = self.branch.apply(rows)?;
        if let Some(rows_of) = self.added_to {
            rows = rows_of(chunk)?.f_add(&rows)?;
        }
        self.stream.take(chunk, self.end.apply(rows)?)
    }
}

/// Rows that become a table. The first of them determine its width.
struct ToTable<'g> {
    graph: &'g Graph<'g>,
    table: Option<TableWriter>,
}

impl Stream for ToTable<'_> {
    fn wants(&self, _: &Range<usize>) -> bool {
        true
    }

    fn take(&mut self, chunk: &Range<usize>, rows: Tensor) -> Result<(), TrainError> {
        let table = match &mut self.table {
            Some(table) => table,
            empty => empty.insert(self.graph.table(rows.size2()?.1)?),
        };
        table.put(chunk, &rows)
    }
}

fn is_layer(named: &Named) -> bool {
    matches!(named.step, Step::Hop(_) | Step::Residual(_))
}

/// The number of steps in a stage: a layer and the row-wise steps after it, or only such steps.
fn first_stage(steps: &[Named]) -> usize {
    let next = steps.iter().skip(1).position(is_layer);
    next.map_or(steps.len(), |next| next + 1)
}

impl Trainer {
    /// The pass over a typed graph, if the model is over relations.
    fn relation_pass<'p>(&'p self, data: &'p WholeData<'p>, tables: Tables<'p>) -> Option<RelationPass<'p>> {
        let network = self.model.relations()?;
        Some(RelationPass { trainer: self, network, data, tables, piece_values: PIECE_VALUES })
    }

    /// Number of ticks of a pass over these data, if all rows are requested.
    pub(crate) fn ticks_of_a_pass(&self, data: &WholeData<'_>) -> u64 {
        match self.relation_pass(data, Tables::Memory) {
            Some(pass) => pass.ticks(),
            None => self.options().blocks() as u64 * ticks_of_a_layer(self.answered_nodes(data)),
        }
    }

    /// Number of nodes of the type that the model answers for.
    pub(crate) fn answered_nodes(&self, data: &WholeData<'_>) -> usize {
        let target = self.model.relations().map_or(0, |network| network.wiring().target);
        data.types.get(target).map_or(0, |of_type| of_type.nodes)
    }

    /// Refuses data that contradict themselves or the model.
    pub(crate) fn check_data(&self, data: &WholeData<'_>) -> Result<(), TrainError> {
        self.model.input.check_full_pass(self.options().model)?;
        if let Some(pass) = self.relation_pass(data, Tables::Memory) {
            return pass.check();
        }
        let (graph, features) = data.single()?;
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
                "{rows} rows of {dim} edge features, where {edges} rows of {edge_dim} are needed"
            )));
        }
        check_offsets(&graph.csc)
    }

    /// The maximum number of bytes that the tables of a pass use at a time; `nodes` are those of each type.
    ///
    /// # Errors
    /// If libtorch does not return a tensor's shape.
    pub fn bytes_of_tables(&self, nodes: &[usize]) -> Result<u64, TrainError> {
        let bytes = self.kind().elt_size_in_bytes() as u64;
        if self.model.relations().is_some() {
            let values = self.options().values_between_relations(nodes, self.task().outputs);
            return Ok(values.saturating_mul(bytes));
        }
        let mut columns = 0;
        let layers = self.model.steps.iter().flat_map(|named| match &named.step {
            Step::Residual(branch) => &branch[..],
            _ => std::slice::from_ref(named),
        });
        for named in layers {
            if let Step::Hop(layer) = &named.step {
                columns = columns.max(columns_of_tables(layer)?);
            }
        }
        // A stage reads one table and writes another.
        let columns = columns as u64 + 2 * self.options().hidden as u64;
        Ok(columns * nodes.iter().sum::<usize>() as u64 * bytes)
    }

    /// Computes the requested results, for all nodes and with their whole neighbourhoods. The data have been checked.
    pub(crate) fn full_pass(
        &self,
        (data, tables): (&WholeData<'_>, Tables<'_>),
        wishes: Wishes<'_>,
        ticks: Ticks<'_>,
    ) -> Result<(), TrainError> {
        if let Some(pass) = self.relation_pass(data, tables) {
            return wishes.logits.map_or(Ok(()), |stream| pass.run(stream, ticks));
        }
        let (whole, features) = data.single()?;
        let (csc, edge_features) = (&whole.csc, whole.edge_features);
        let graph = Graph { csc, edge_features, kind: self.kind(), tables };
        let (steps, rows) = (&self.model.steps[..], Rows::Features(features));
        match wishes {
            Wishes { hidden: None, logits: None } => Ok(()),
            Wishes { hidden: None, logits: Some(stream) } => {
                self.stream_steps(steps, rows, &graph, stream, ticks)
            }
            Wishes { hidden: Some((layer, stream)), logits: None } => {
                self.stream_steps(&steps[..self.model.behind(layer)], rows, &graph, stream, ticks)
            }
            Wishes { hidden: Some((layer, hidden)), logits: Some(logits) } => {
                let (before, behind) = steps.split_at(self.model.behind(layer));
                if behind.is_empty() {
                    let mut both = Both { first: hidden, second: logits };
                    return self.stream_steps(steps, rows, &graph, &mut both, ticks);
                }
                let mut to_table = ToTable { graph: &graph, table: None };
                self.stream_steps(before, rows, &graph, &mut to_table, ticks)?;
                let rows = Rows::Hidden(to_table.table.map(TableWriter::complete).transpose()?);
                for chunk in chunks(csc.nodes()).filter(|chunk| hidden.wants(chunk)).collect::<Vec<_>>() {
                    hidden.take(&chunk, self.full_rows(&rows, &chunk)?)?;
                }
                self.stream_steps(behind, rows, &graph, logits, ticks)
            }
        }
    }

    /// The steps for all nodes, stage by stage. Rows between stages are tables, those after the last are passed on.
    fn stream_steps(
        &self,
        mut steps: &[Named],
        mut rows: Rows<'_>,
        graph: &Graph<'_>,
        stream: &mut dyn Stream,
        ticks: Ticks<'_>,
    ) -> Result<(), TrainError> {
        loop {
            let (stage, behind) = steps.split_at(first_stage(steps));
            if behind.is_empty() {
                return self.stage(stage, &rows, graph, stream, ticks);
            }
            if let Some((table, done)) = self.with_whole_activation(stage, &rows, graph, ticks)? {
                rows = Rows::Hidden(table);
                steps = &steps[done..];
                continue;
            }
            let mut to_table = ToTable { graph, table: None };
            self.stage(stage, &rows, graph, &mut to_table, ticks)?;
            rows = Rows::Hidden(to_table.table.map(TableWriter::complete).transpose()?);
            steps = behind;
        }
    }

    /// A stage up to its activation, in memory and by ELU, and its number of steps; otherwise `None`.
    ///
    /// libtorch computes the last few elements of a thread's share of ELU by another function than the rest, which
    /// rounds differently. Evaluation has always called it for a whole table, and keeps these bits.
    fn with_whole_activation(
        &self,
        steps: &[Named],
        rows: &Rows<'_>,
        graph: &Graph<'_>,
        ticks: Ticks<'_>,
    ) -> Result<Option<(Option<Table>, usize)>, TrainError> {
        let is_activation = |named: &Named| matches!(named.step, Step::Activate);
        if self.model.activation != Activation::Elu || !matches!(graph.tables, Tables::Memory) {
            return Ok(None);
        }
        let activated = |steps: &[Named], ticks: Ticks<'_>| -> Result<Option<Table>, TrainError> {
            let mut to_table = ToTable { graph, table: None };
            self.stage(steps, rows, graph, &mut to_table, ticks)?;
            let Some(mut table) = to_table.table else { return Ok(None) };
            table.replace(|rows| Ok(rows.f_elu()?))?;
            Ok(Some(table.complete()?))
        };
        let Some(Step::Residual(branch)) = steps.first().map(|named| &named.step) else {
            let Some(place) = steps.iter().position(is_activation) else { return Ok(None) };
            return Ok(Some((activated(&steps[..place], ticks)?, place + 1)));
        };
        let Some(place) = branch.iter().position(is_activation) else { return Ok(None) };
        let rest = Rowwise::of(&branch[place + 1..], self.model.activation)?.ok_or_else(no_layer)?;
        let hidden = Rows::Hidden(activated(&branch[..place], ticks)?);
        let mut sums = ToTable { graph, table: None };
        for chunk in chunks(graph.csc.nodes()) {
            let added = rest.apply_to_table(self.full_rows(&hidden, &chunk)?)?;
            sums.take(&chunk, self.full_rows(rows, &chunk)?.f_add(&added)?)?;
        }
        Ok(Some((sums.table.map(TableWriter::complete).transpose()?, 1)))
    }

    /// One stage for all nodes, chunk by chunk.
    fn stage(
        &self,
        steps: &[Named],
        rows: &Rows<'_>,
        graph: &Graph<'_>,
        stream: &mut dyn Stream,
        ticks: Ticks<'_>,
    ) -> Result<(), TrainError> {
        let activation = self.model.activation;
        let rowwise = |steps: &[Named]| {
            Rowwise::of(steps, activation)?.ok_or_else(|| TrainError::Input("a layer in a layer".to_owned()))
        };
        let rows = |chunk: &Range<usize>| self.full_rows(rows, chunk);
        let Some(place) = steps.iter().position(is_layer) else {
            let end = rowwise(steps)?;
            for chunk in chunks(graph.csc.nodes()) {
                if stream.wants(&chunk) {
                    stream.take(&chunk, end.apply_to_table(rows(&chunk)?)?)?;
                }
            }
            return Ok(());
        };
        let (first, end) = (&steps[place], rowwise(&steps[place + 1..])?);
        let (before, layer, branch, added_to) = match &first.step {
            // The beginning of a branch, without the sum.
            Step::Hop(_) => (&steps[..place], &first.step, &[][..], None),
            Step::Residual(branch) => {
                let place = branch.iter().position(is_layer).ok_or_else(no_layer)?;
                let added_to: RowsOf<'_> = &rows;
                (&branch[..place], &branch[place].step, &branch[place + 1..], Some(added_to))
            }
            _ => return Err(no_layer()),
        };
        let Step::Hop(layer) = layer else { return Err(no_layer()) };
        let (before, branch) = (rowwise(before)?, rowwise(branch)?);
        let of_chunk = |chunk: &Range<usize>| before.apply_to_table(rows(chunk)?);
        let mut behind = Behind { branch, added_to, end, stream };
        full_layer(&layer.on(Device::Cpu)?, &of_chunk, graph, &mut behind, ticks)
    }

    fn full_rows(&self, rows: &Rows<'_>, chunk: &Range<usize>) -> Result<Tensor, TrainError> {
        match rows {
            Rows::Hidden(hidden) => slice(hidden.as_ref().ok_or_else(no_layer)?.tensor()?.tensor(), chunk),
            Rows::Features(table) => {
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
