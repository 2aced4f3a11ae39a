//! `Batch`: a batch in its slot, whose arrays are lent to Python one by one.

use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use uva_batch::schema::Presence;
use uva_batch::{Aggregation, COLUMNS, Column, ColumnError, ColumnKey, RawArray};
use uva_runtime::telemetry::metrics::{BatchEvent, Event};
use uva_runtime::{Batch as RuntimeBatch, LoaderOptions};

use crate::arrays::array::Array;
use crate::arrays::dlpack::{DlpackDevice, DlpackType};
use crate::arrays::elements::of_batch;
use crate::errors::{BatchGone, OrRaise, UvatrainError};
use crate::process::fork::OwnProcess;

/// A batch, alive until the last view into its slot is dropped. Then the slot is given back, on the thread that drops
/// it.
pub struct SharedBatch {
    batch: ManuallyDrop<RuntimeBatch>,
    process: OwnProcess,
    /// The stream on which its memory on a GPU is ordered.
    stream: Option<u64>,
}

impl SharedBatch {
    pub fn new(batch: RuntimeBatch, stream: Option<u64>) -> Self {
        Self { batch: ManuallyDrop::new(batch), process: OwnProcess::here(), stream }
    }

    pub fn batch(&self) -> &RuntimeBatch {
        &self.batch
    }
}

impl Drop for SharedBatch {
    fn drop(&mut self) {
        // A fork of this process has a copy of every tensor, but shares the slot's memory with the parent. Giving the
        // slot back there would take it away from the parent.
        if self.process.is_here() {
            // SAFETY: dropped here only, and never used again.
            unsafe { ManuallyDrop::drop(&mut self.batch) };
        }
    }
}

/// A batch of the runtime. uvatrain.Batch, in Python, makes tensors of it.
#[pyclass(frozen, name = "Batch", module = "uvatrain._core")]
pub struct PyBatch {
    /// Cleared when the next batch is requested.
    held: Mutex<Option<Arc<SharedBatch>>>,
    process: OwnProcess,
    #[pyo3(get)]
    split: &'static str,
    #[pyo3(get)]
    epoch: u32,
    /// The number of the batch in its epoch, over all ranks.
    #[pyo3(get)]
    index: u32,
    hash: u64,
    /// The nodes whose neighbours hops drew: "all" or "new".
    #[pyo3(get)]
    expand: &'static str,
    /// The kind of sampler that made the batch.
    #[pyo3(get)]
    sampler_kind: &'static str,
    /// Whether blocks have weights.
    #[pyo3(get)]
    weighs_edges: bool,
    /// Whether this kind of sampler can expand new nodes only.
    #[pyo3(get)]
    expands_new: bool,
    /// Whether this kind of sampler makes one subgraph for all layers.
    #[pyo3(get)]
    draws_one_subgraph: bool,
    #[pyo3(get)]
    num_seeds: usize,
    #[pyo3(get)]
    num_nodes: usize,
    /// Destinations, sources and edges of each layer's block; layer 0 is the hop at the seeds.
    #[pyo3(get)]
    counts: Vec<(usize, usize, usize)>,
    /// Whether the batch is padded to the loader's static shapes.
    #[pyo3(get)]
    padded: bool,
    /// The producer's aggregation of the outermost hop's rows: "mean", "sum", "max" or "gcn"; None: no aggregation.
    #[pyo3(get)]
    aggregate: Option<&'static str>,
    /// Whether the batch has feature rows.
    #[pyo3(get)]
    has_x: bool,
    /// Nodes of each level without padding, the seeds first.
    #[pyo3(get)]
    real_nodes: Vec<usize>,
    /// Edges of each layer's block without padding.
    #[pyo3(get)]
    real_edges: Vec<usize>,
}

impl PyBatch {
    pub fn new(held: &Arc<SharedBatch>, options: &LoaderOptions) -> Self {
        let batch = held.batch();
        let counts = (0..batch.layers())
            .map(|layer| batch.counts(layer))
            .map(|counts| (counts.destinations, counts.sources, counts.edges))
            .collect();
        let real: Vec<_> = (0..batch.layers()).map(|layer| batch.real_counts(layer)).collect();
        // With one node type, sources begin with the destinations. A typed batch counts by type elsewhere.
        let found = real.iter().map(|counts| counts.sources.saturating_sub(counts.destinations));
        let real_nodes = std::iter::once(batch.real_seed_count()).chain(found).collect();
        Self {
            held: Mutex::new(Some(Arc::clone(held))),
            process: held.process,
            split: batch.split().name(),
            epoch: batch.epoch(),
            index: batch.index(),
            hash: batch.hash(),
            expand: options.expand.name(),
            sampler_kind: options.sampler_kind.name(),
            weighs_edges: options.sampler_kind.weighs_edges(),
            expands_new: options.sampler_kind.expands_new(),
            draws_one_subgraph: options.sampler_kind.draws_one_subgraph(),
            num_seeds: batch.seed_count(),
            num_nodes: batch.node_count(),
            counts,
            padded: batch.is_padded(),
            aggregate: Some(batch.layout().aggregation())
                .filter(|&sums| sums != Aggregation::None)
                .map(Aggregation::name),
            has_x: batch.layout().place(Column::X).is_some(),
            real_nodes,
            real_edges: real.iter().map(|counts| counts.edges).collect(),
        }
    }

    fn held(&self) -> PyResult<Arc<SharedBatch>> {
        self.check_process()?;
        // No code panics while the lock is held.
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).clone();
        held.ok_or_else(|| {
            BatchGone::new_err(format!(
                "batch {} of epoch {} ({}) is gone: its slot was returned when the next batch was requested. Take its \
                 tensors before that, and .clone() those that are needed longer",
                self.index, self.epoch, self.split
            ))
        })
    }

    fn lend(&self, name: &str, layer: Option<usize>, part: usize) -> PyResult<Array> {
        if name == "edge_index" {
            return self.edges(layer, part);
        }
        let held = self.held()?;
        let raw = self.column(&held, name, layer, part)?;
        let device = match raw.device {
            None => DlpackDevice::HOST,
            Some(ordinal) => DlpackDevice::cuda(i32::try_from(ordinal).unwrap_or(i32::MAX)),
        };
        let stream = held.stream.filter(|_| raw.device.is_some());
        let pointer = raw.address as *mut u8;
        // SAFETY: the array is in the slot, which `held` keeps from being given back and its memory from being
        // unmapped; the runtime says how long it is. Any bytes are values of these types. The slot is the consumer's
        // alone while it is held, to write to as well; this module reads its arrays through these pointers only.
        let array =
            unsafe { Array::new(pointer, raw.rows, raw.columns, of_batch(raw.element), device, held) };
        let array = array.in_slot_of(self.process);
        Ok(match stream {
            Some(stream) => array.ordered_on(stream),
            None => array,
        })
    }

    /// A copy of a layer's edges as int64 [2, edges]: sources, then destinations. For batches in host memory.
    fn edges(&self, layer: Option<usize>, part: usize) -> PyResult<Array> {
        let held = self.held()?;
        let (indptr, indices) =
            (self.column(&held, "indptr", layer, part)?, self.column(&held, "indices", layer, part)?);
        if indptr.device.is_some() {
            return Err(PyValueError::new_err("edge_index is only supported for batches in host memory"));
        }
        let edges = indices.rows;
        let mut pair: Vec<i64> = Vec::new();
        pair.try_reserve_exact(2 * edges)
            .map_err(|_| PyMemoryError::new_err(format!("no memory for the {edges} edges of a layer")))?;
        let read = |array: RawArray, position: usize| {
            assert!(position < array.rows);
            // SAFETY: within the array, whose rows are int32 and aligned, in the slot that `held` keeps. Tensors over
            // it may be written to meanwhile, by another thread: so no reference is made, and any value will do.
            unsafe { (array.address as *const i32).add(position).read_volatile() }
        };
        pair.extend((0..edges).map(|edge| i64::from(read(indices, edge))));
        let mut begin = 0;
        for destination in 0..indptr.rows - 1 {
            // It was made to grow from 0 to the number of edges, but a caller may have changed it.
            let end = usize::try_from(read(indptr, destination + 1)).unwrap_or(0).clamp(begin, edges);
            pair.extend(std::iter::repeat_n(destination as i64, end - begin));
            begin = end;
        }
        pair.resize(2 * edges, 0);
        let pointer = pair.as_mut_ptr().cast();
        // SAFETY: the vector has that many values, and is moved into the owner, which moves none of them; no other code
        // has its address.
        Ok(unsafe {
            Array::new(pointer, 2, Some(edges), DlpackType::I64, DlpackDevice::HOST, Arc::new(pair))
        })
    }

    /// The address of the column of this name, of the node type or relation with the number `part`.
    fn column(
        &self,
        held: &SharedBatch,
        name: &str,
        layer: Option<usize>,
        part: usize,
    ) -> PyResult<RawArray> {
        let value = |message: String| Err(PyValueError::new_err(message));
        let Some(column) = Column::from_name(if name == LABELS { "labels" } else { name }) else {
            let names: Vec<_> = COLUMNS.iter().map(|spec| spec.name).collect();
            return value(format!(
                "a batch has no array {name:?}: expected one of {}, {LABELS} and edge_index",
                names.join(", ")
            ));
        };
        // In a hop set, the feature rows of each hop have a separate table, a part of `x`.
        let parts = held.batch().layout().parts(column);
        if let (Some(parts), Some(part)) = (parts, layer)
            && part >= parts
        {
            return value(format!("this batch has the hops 0 to {}", parts - 1));
        }
        let key = match (column.spec().is_of_layers(), layer) {
            (_, part) if parts.is_some() => column.part(part.unwrap_or(0)),
            (true, None) => {
                return value(format!("{name} is an array of a layer: give its number as layer="));
            }
            (false, Some(_)) => return value(format!("{name} is an array of the batch, not of a layer")),
            (_, layer) => ColumnKey { part, ..column.at(layer.unwrap_or(0)) },
        };
        match held.batch().column_of(key) {
            Ok(column) => Ok(column.raw()),
            Err(ColumnError::NoSuchLayer { layer, layers }) => {
                value(format!("layer {layer}: this batch has the layers 0 to {}", layers - 1))
            }
            Err(ColumnError::Absent { .. }) => value(match column.spec().presence {
                Presence::WeighedEdges => format!(
                    "this batch has no {name}: sampler_kind=\"{}\" weighs no edges, and the mean of its picks estimates \
                     the mean of all neighbours",
                    self.sampler_kind
                ),
                Presence::Labelled => format!("this batch has no {name}: the dataset has no labels"),
                Presence::ForModel => format!(
                    "this batch has no {name}: only built-in models that need it and Loader(..., aggregate=\"gcn\") have \
                     it"
                ),
                Presence::Padded => {
                    format!("this batch has no {name}: Loader(..., pad=\"auto\") makes batches with it")
                }
                Presence::Rows => format!(
                    "this batch has no {name}: with aggregate=\"gcn\" the destinations' own rows are among the sums, \
                     batch.aggregated"
                ),
                Presence::Summed => format!(
                    "this batch has no {name}: Loader(..., aggregate=\"mean\"), \"sum\", \"max\" or \"gcn\" makes \
                     batches with it"
                ),
                Presence::Asked if column == Column::Argmax => format!(
                    "this batch has no {name}: Loader(..., aggregate=\"max\", aggregate_argmax=True) makes batches with it"
                ),
                Presence::Asked if column == Column::EdgeAttr && held.batch().layout().has_edge_attr() => {
                    let relation = held.batch().metagraph().full_name(key.relation());
                    format!("this batch has no {name} of {relation}: the relation has no feat.npy")
                }
                Presence::Asked | Presence::Always => {
                    format!("this batch has no {name}: Loader(..., {name}=True) makes batches with it")
                }
            }),
            Err(error) => value(error.to_string()),
        }
    }
}

/// PyG's name for the labels.
const LABELS: &str = "y";

#[pymethods]
impl PyBatch {
    /// An array of the batch by its column's name, or y for the labels; of a layer also edge_index, a copy. For x in a
    /// batch of a hop set, layer is the number of the table. part is the number of the node type or relation.
    #[pyo3(signature = (name, layer=None, part=0))]
    fn array(&self, name: &str, layer: Option<usize>, part: usize) -> PyResult<Array> {
        self.lend(name, layer, part)
    }

    /// Numbers of seeds and nodes of each node type.
    #[getter]
    fn type_sizes(&self) -> PyResult<Vec<(usize, usize)>> {
        let held = self.held()?;
        let batch = held.batch();
        let sizes = batch.metagraph().types().map(|of| batch.sizes_of(of));
        Ok(sizes.map(|size| (size.seeds, size.nodes)).collect())
    }

    /// Numbers of seeds and nodes of each node type without padding.
    #[getter]
    fn real_type_sizes(&self) -> PyResult<Vec<(usize, usize)>> {
        let held = self.held()?;
        let batch = held.batch();
        let sizes = batch.metagraph().types().map(|of| batch.header().real_of_type(of));
        Ok(sizes.map(|size| (size.seeds, size.nodes)).collect())
    }

    /// Destinations, sources and edges of the block of each relation without padding, layer by layer.
    #[getter]
    fn real_block_sizes(&self) -> PyResult<Vec<Vec<(usize, usize, usize)>>> {
        let held = self.held()?;
        let batch = held.batch();
        let of_layer = |layer| {
            let blocks = batch.metagraph().relations().map(|of| batch.header().real_block(layer, of));
            blocks.map(|block| (block.destinations, block.sources, block.edges)).collect()
        };
        Ok((0..batch.layers()).map(of_layer).collect())
    }

    /// Destinations, sources and edges of the block of each relation, layer by layer.
    #[getter]
    fn block_sizes(&self) -> PyResult<Vec<Vec<(usize, usize, usize)>>> {
        let held = self.held()?;
        let batch = held.batch();
        let of_layer = |layer| {
            let blocks = batch.metagraph().relations().map(|of| batch.header().block(layer, of));
            blocks.map(|block| (block.destinations, block.sources, block.edges)).collect()
        };
        Ok((0..batch.layers()).map(of_layer).collect())
    }

    /// Whether the batch has a column for the node type or relation with the number `part`.
    fn has(&self, name: &str, part: usize) -> PyResult<bool> {
        let held = self.held()?;
        let column = Column::from_name(if name == LABELS { "labels" } else { name });
        Ok(column
            .is_some_and(|column| held.batch().layout().place(ColumnKey { part, ..column.at(0) }).is_some()))
    }

    /// The array for torch.from_dlpack, in one call: a capsule if the array is in host memory. On a GPU it is the array
    /// itself, since torch passes its stream.
    #[pyo3(signature = (name, layer=None, part=0))]
    fn exported<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        layer: Option<usize>,
        part: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = self.lend(name, layer, part)?;
        // The layout before version 1: it describes writable memory completely, and torch reads the other one only
        // since 2.8.
        if array.is_on_host() { array.legacy_capsule(py) } else { Ok(Bound::new(py, array)?.into_any()) }
    }

    /// Whether the batch has the seeds' positions in their split.
    #[getter]
    fn has_input_id(&self) -> PyResult<bool> {
        Ok(self.held()?.batch().layout().place(Column::InputId).is_some())
    }

    /// Number of tables of feature rows: one, or one for each hop of a hop set.
    #[getter]
    fn tables(&self) -> PyResult<usize> {
        Ok(self.held()?.batch().layout().tables())
    }

    /// Whether the dataset, and so the batch, has labels.
    #[getter]
    fn has_labels(&self) -> PyResult<bool> {
        Ok(self.held()?.batch().layout().place(Column::Labels).is_some())
    }

    /// Whether the loader pads, so that the batch has a mask of real (non-padding) seeds.
    #[getter]
    fn has_seed_mask(&self) -> PyResult<bool> {
        Ok(self.held()?.batch().layout().place(Column::SeedMask).is_some())
    }

    /// Whether blocks have edge ids.
    #[getter]
    fn has_edge_ids(&self) -> PyResult<bool> {
        Ok(self.held()?.batch().layout().place(Column::EdgeIds).is_some())
    }

    /// Whether blocks have the feature rows of their edges.
    #[getter]
    fn has_edge_attr(&self) -> PyResult<bool> {
        Ok(self.held()?.batch().layout().has_edge_attr())
    }

    /// Whether its blocks have the types of their edges.
    #[getter]
    fn has_edge_type(&self) -> PyResult<bool> {
        Ok(self.held()?.batch().layout().place(Column::EdgeType).is_some())
    }

    /// Whether the arrays are in host memory.
    #[getter]
    fn on_host(&self) -> PyResult<bool> {
        Ok(!self.held()?.batch().is_on_device())
    }

    /// Raises in a fork, in which tensors of the batch cannot be used either.
    fn check_process(&self) -> PyResult<()> {
        self.process.check_slot(|| format!("batch {} of epoch {} ({})", self.index, self.epoch, self.split))
    }

    /// The hash of the batch's content, 16 hex digits (docs/spec/reproducible-batches.md).
    #[getter]
    fn hash(&self) -> String {
        format!("{:016x}", self.hash)
    }

    /// The batch's line of metrics, as JSON, without the consumer's part.
    fn event(&self) -> PyResult<String> {
        let event = Event::Batch(Box::new(BatchEvent::of(self.held()?.batch(), false)));
        serde_json::to_string(&event).map_err(|error| UvatrainError::new_err(format!("metrics: {error}")))
    }

    /// Raises PeerDied if the batch, on a GPU, was incomplete when it was used. Call it after the work on the batch has
    /// completed; in host memory a batch is always complete.
    fn confirm(&self) -> PyResult<()> {
        self.held()?.batch().confirm().or_raise()
    }

    /// Releases the slot. Remaining tensors keep it.
    fn release(&self) {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Outside of the lock, since this may be the last reference.
        drop(held);
    }

    /// Whether `release` was called.
    #[getter]
    fn gone(&self) -> bool {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}
