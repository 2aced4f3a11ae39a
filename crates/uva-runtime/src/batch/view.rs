//! What a consumer sees of a feature slot.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use uva_cuda::DeviceSlice;
use uva_graph::{ElementType, FeatureTable, Labels, Split};
use uva_mem::ring::ReadSlot;
use uva_sample::{BlockRef, LayerCounts, ListReads};

use super::{BatchHeader, BatchLayout};
use crate::RuntimeError;
use crate::device::Loan;
use crate::plan::RunPlan;

/// A batch with its features, in the slot where the producer put them. It owns the slot: dropping it, in whichever
/// thread, gives the slot back, and nothing taken from it can outlive it. Several may be held at once, as long as the
/// next one has a slot to come in ([`RuntimeError::SlotHeld`]).
///
/// Where the slot is on a GPU ([`Batch::on_device`]) its arrays are not in host memory, and the methods that lend them
/// as slices panic; counts, times and hash are there in any case.
#[derive(Debug)]
pub struct Batch {
    loan: Option<Loan>,
    /// There until the batch is dropped.
    slot: Option<ReadSlot>,
    plan: Arc<RunPlan>,
    header: BatchHeader,
    /// Told when the batch is dropped.
    used: Option<Arc<UsedBatch>>,
}

/// What is known of a batch when it is given back, for those who keep account of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    /// When that was.
    pub at: Instant,
    /// How long its gather took. Only now: on a GPU it is known when the work on the batch has been waited for.
    pub gather_time: Duration,
    /// How many of its rows came from the feature cache.
    pub rows_cached: u64,
}

/// Where a batch says so.
#[derive(Debug, Default)]
pub(crate) struct UsedBatch(Mutex<Option<Used>>);

impl UsedBatch {
    /// `None`: the batch is in use still.
    pub fn get(&self) -> Option<Used> {
        // Nothing panics while it is locked.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Batch {
    /// `header` is the slot's own, held against the plan's layout already.
    pub(crate) fn new(slot: ReadSlot, loan: Option<Loan>, plan: Arc<RunPlan>, header: BatchHeader) -> Self {
        Self { loan, slot: Some(slot), plan, header, used: None }
    }

    /// Lets it say when it is given back.
    pub(crate) fn tell(&mut self, used: Arc<UsedBatch>) {
        self.used = Some(used);
    }

    fn layout(&self) -> &BatchLayout {
        &self.plan.layout
    }

    fn bytes(&self, range: Range<usize>) -> &[u8] {
        let Some(loan) = &self.loan else {
            return self.slot.as_ref().map_or(&[], |slot| &slot.payload()[range]);
        };
        match loan.host_bytes(range) {
            Some(bytes) => bytes,
            None => panic!("the batch is on a GPU: `on_device` lends its arrays"),
        }
    }

    fn slice<T: bytemuck::Pod>(&self, range: Range<usize>) -> &[T] {
        bytemuck::cast_slice(self.bytes(range))
    }

    /// The arrays as device memory. `None` where they are in host memory.
    pub fn on_device(&self) -> Option<DeviceView<'_>> {
        let loan = self.loan.as_ref()?;
        loan.host_bytes(0..0).is_none().then_some(DeviceView {
            loan,
            layout: self.layout(),
            header: &self.header,
        })
    }

    /// Whether the batch was whole when it was used. To be asked when the work on it has been waited for, and before
    /// its result counts: the producer of a batch on a GPU may have died over it. In host memory it is whole always.
    ///
    /// # Errors
    /// [`RuntimeError::PeerGone`] when its producer had not finished it; [`RuntimeError::Failed`] when one of its ids
    /// is no row of the table.
    pub fn confirm(&self) -> Result<(), RuntimeError> {
        self.loan.as_ref().map_or(Ok(()), |loan| loan.confirm().map(drop))
    }

    /// Where one of the arrays lies, for those who lend it on: to another language, say.
    ///
    /// The address is good while the batch lives. The bytes are the batch's owner's to write too; whoever lets them be
    /// written keeps [`Batch::features`] and its like from being called meanwhile.
    ///
    /// # Panics
    /// When there is no such layer.
    pub fn raw(&self, array: BatchArray) -> RawArray {
        let (layout, header) = (self.layout(), &self.header);
        let (range, rows, columns, element) = match array {
            BatchArray::InputNodes => (layout.nodes_range(header), header.nodes(), None, RawElement::I64),
            BatchArray::Labels => match layout.label_classes() {
                None => (layout.labels_range(header), header.seeds(), None, RawElement::I64),
                classes => (layout.labels_range(header), header.seeds(), classes, RawElement::U8),
            },
            BatchArray::Degrees => match layout.degrees_range(header) {
                Some(range) => (range, header.nodes(), None, RawElement::I32),
                None => (0..0, 0, None, RawElement::I32),
            },
            BatchArray::Features => {
                let element = RawElement::Feature(layout.element());
                (layout.features_range(header), header.nodes(), Some(layout.dim()), element)
            }
            BatchArray::Indptr(layer) => {
                let destinations = self.counts(layer).destinations;
                (layout.indptr_range(header, layer), destinations + 1, None, RawElement::I32)
            }
            BatchArray::Indices(layer) => {
                (layout.indices_range(header, layer), self.counts(layer).edges, None, RawElement::I32)
            }
            BatchArray::EdgeIds(layer) => match layout.edge_ids_range(header, layer) {
                Some(range) => (range, self.counts(layer).edges, None, RawElement::I64),
                None => (0..0, 0, None, RawElement::I64),
            },
            BatchArray::Weights(layer) => match layout.weights_range(header, layer) {
                Some(range) => (range, self.counts(layer).edges, None, RawElement::F32),
                None => (0..0, 0, None, RawElement::F32),
            },
        };
        let (address, device) = match &self.loan {
            None => {
                let first = self.slot.as_ref().map_or(std::ptr::null_mut(), ReadSlot::payload_address);
                (first.wrapping_add(range.start) as u64, None)
            }
            // Under the stand-in driver device memory is host memory, once the host has waited for it.
            Some(loan) => match loan.host_bytes(range.clone()) {
                Some(bytes) => (bytes.as_ptr() as u64, None),
                None => {
                    (loan.slice(range.clone()).address(), self.plan.backend.cuda().map(|cuda| cuda.ordinal))
                }
            },
        };
        RawArray { address, bytes: range.len(), rows, columns, element, device }
    }

    /// How many seeds it has.
    pub fn seed_count(&self) -> usize {
        self.header.seeds()
    }

    /// How many nodes it has, the seeds included.
    pub fn node_count(&self) -> usize {
        self.header.nodes()
    }

    /// How many destinations, sources and edges the block of a layer has.
    ///
    /// # Panics
    /// When there is no such layer.
    pub fn counts(&self, layer: usize) -> LayerCounts {
        assert!(layer < self.layers(), "layer {layer} of {}", self.layers());
        self.header.layer(layer)
    }

    /// Which split the seeds are of.
    pub fn split(&self) -> Split {
        self.header.key().split
    }

    /// The epoch, from 0; 0 for test batches.
    pub fn epoch(&self) -> u32 {
        self.header.key().epoch
    }

    /// The batch's number within its pass, from 0.
    pub fn index(&self) -> u32 {
        self.header.key().batch
    }

    /// The batch's hash (docs/reproducible-batches.md).
    pub fn hash(&self) -> u64 {
        self.header.hash()
    }

    /// Ids of all nodes of the batch, the seeds first: the nodes whose features [`Batch::features`] holds.
    pub fn input_nodes(&self) -> &[i64] {
        self.slice(self.layout().nodes_range(&self.header))
    }

    /// Ids of the seeds.
    pub fn seeds(&self) -> &[i64] {
        &self.input_nodes()[..self.header.seeds()]
    }

    /// Labels of the seeds.
    pub fn labels(&self) -> Labels<'_> {
        let range = self.layout().labels_range(&self.header);
        match self.layout().label_classes() {
            None => Labels::Single(self.slice(range)),
            Some(classes) => Labels::Multi { classes, values: self.slice(range) },
        }
    }

    /// In-degree of each input node in the whole graph; empty unless the options ask for them.
    pub fn degrees(&self) -> &[i32] {
        self.layout().degrees_range(&self.header).map_or(&[], |range| self.slice(range))
    }

    /// Feature rows, row `i` for `input_nodes()[i]`; 64-byte aligned.
    pub fn features(&self) -> FeatureTable<'_> {
        FeatureTable {
            bytes: self.bytes(self.layout().features_range(&self.header)),
            rows: self.header.nodes(),
            dim: self.layout().dim(),
            element: self.layout().element(),
        }
    }

    /// Layers of the batch, one a fanout.
    pub fn layers(&self) -> usize {
        self.layout().layers().len()
    }

    /// The block of a layer; layer 0 is the hop at the seeds.
    ///
    /// # Panics
    /// When there is no such layer.
    pub fn block(&self, layer: usize) -> BlockRef<'_> {
        let counts = self.header.layer(layer);
        BlockRef {
            destinations: counts.destinations,
            sources: counts.sources,
            indptr: self.slice(self.layout().indptr_range(&self.header, layer)),
            indices: self.slice(self.layout().indices_range(&self.header, layer)),
            edge_ids: self
                .layout()
                .edge_ids_range(&self.header, layer)
                .map_or(&[], |range| self.slice(range)),
            weights: self.layout().weights_range(&self.header, layer).map_or(&[], |range| self.slice(range)),
        }
    }

    /// Which sampler made it, from 0.
    pub fn sampler(&self) -> u32 {
        self.header.sampler()
    }

    /// When its sampling and its gathering began, by a clock that all processes of the machine share
    /// (`CLOCK_MONOTONIC`).
    pub fn began(&self) -> [Duration; 2] {
        self.header.began()
    }

    /// How long the sampler worked on it.
    pub fn sample_time(&self) -> Duration {
        Duration::from_nanos(self.header.sample_ns())
    }

    /// Reads of neighbour lists that sampling it took, and those of cached lists.
    pub fn list_reads(&self) -> ListReads {
        self.header.list_reads()
    }

    /// How many of its rows came from the feature cache. On a GPU that is known once the batch is confirmed, and 0
    /// before.
    pub fn rows_cached(&self) -> u64 {
        match &self.loan {
            None => self.header.rows_cached(),
            Some(loan) => loan.confirm().map_or(0, |gathered| gathered.hits),
        }
    }

    /// Batches that waited for the consumer when the producer turned to this one: what its pace follows.
    pub fn queue(&self) -> u32 {
        self.header.queue()
    }

    /// How many of its threads the producer used for it; 0 where a GPU gathered.
    pub fn pace(&self) -> u32 {
        self.header.pace()
    }

    /// How long the producer worked on it. On a GPU that is known once the batch is confirmed, and 0 before.
    pub fn gather_time(&self) -> Duration {
        match &self.loan {
            None => Duration::from_nanos(self.header.gather_ns()),
            Some(loan) => loan.confirm().map_or(Duration::ZERO, |gathered| gathered.time),
        }
    }
}

/// Names one of a batch's arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchArray {
    /// int64, one a node; the seeds are the first.
    InputNodes,
    /// int64, one a seed; or of a multi-label dataset uint8, a row a seed.
    Labels,
    /// int32, one a node; empty unless the options ask for them.
    Degrees,
    /// The features, a row a node.
    Features,
    /// int32, one more than the layer has destinations.
    Indptr(usize),
    /// int32, one an edge of the layer.
    Indices(usize),
    /// int64, one an edge of the layer: where it stands in the dataset's `indices.npy`; empty unless the options ask
    /// for them.
    EdgeIds(usize),
    /// float32, one an edge of the layer: what it counts in its destination's sum; empty unless the kind of sampler
    /// weighs edges.
    Weights(usize),
}

/// What an array's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawElement {
    /// int64.
    I64,
    /// int32.
    I32,
    /// float32.
    F32,
    /// uint8.
    U8,
    /// One of the types that feature tables have.
    Feature(ElementType),
}

/// Where an array lies and how: rows one behind the other, no gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawArray {
    /// Its first byte, in this process or on the device. Arrays begin on a cache line, features on a page.
    pub address: u64,
    /// Its bytes.
    pub bytes: usize,
    /// Its rows, or values where it has no columns.
    pub rows: usize,
    /// Its columns.
    pub columns: Option<usize>,
    /// Its values.
    pub element: RawElement,
    /// The CUDA device it is on; `None`: host memory.
    pub device: Option<usize>,
}

impl Drop for Batch {
    fn drop(&mut self) {
        if let Some(used) = self.used.take() {
            let (gather_time, rows_cached) = (self.gather_time(), self.rows_cached());
            let now = Used { at: Instant::now(), gather_time, rows_cached };
            *used.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        }
        // What is enqueued on a device is marked as such before the ring gives the slot away; a slot that could not be
        // marked stays taken, and the next batch that is asked for says why.
        let given_back = self.loan.take().is_none_or(Loan::give_back);
        match self.slot.take() {
            Some(slot) if !given_back => slot.abandon(),
            slot => drop(slot),
        }
    }
}

/// The arrays of a batch in device memory, under the names that [`Batch`] has for them.
#[derive(Clone, Copy, Debug)]
pub struct DeviceView<'a> {
    loan: &'a Loan,
    layout: &'a BatchLayout,
    header: &'a BatchHeader,
}

impl<'a> DeviceView<'a> {
    /// int64, one a node.
    pub fn input_nodes(&self) -> DeviceSlice<'a> {
        self.loan.slice(self.layout.nodes_range(self.header))
    }

    /// int64, one a seed; or of a multi-label dataset uint8, a row a seed.
    pub fn labels(&self) -> DeviceSlice<'a> {
        self.loan.slice(self.layout.labels_range(self.header))
    }

    /// int32, one a node; `None` unless the options ask for them.
    pub fn degrees(&self) -> Option<DeviceSlice<'a>> {
        self.layout.degrees_range(self.header).map(|range| self.loan.slice(range))
    }

    /// Feature rows, row `i` for node `i`.
    pub fn features(&self) -> DeviceSlice<'a> {
        self.loan.slice(self.layout.features_range(self.header))
    }

    /// Columns of the features.
    pub fn dim(&self) -> usize {
        self.layout.dim()
    }

    /// Type of the features.
    pub fn element(&self) -> ElementType {
        self.layout.element()
    }

    /// int32, one more than the layer has destinations.
    pub fn indptr(&self, layer: usize) -> DeviceSlice<'a> {
        self.loan.slice(self.layout.indptr_range(self.header, layer))
    }

    /// int64, one an edge of the layer; `None` unless the options ask for them.
    pub fn edge_ids(&self, layer: usize) -> Option<DeviceSlice<'a>> {
        self.layout.edge_ids_range(self.header, layer).map(|range| self.loan.slice(range))
    }

    /// float32, one an edge of the layer; `None` unless the kind of sampler weighs edges.
    pub fn weights(&self, layer: usize) -> Option<DeviceSlice<'a>> {
        self.layout.weights_range(self.header, layer).map(|range| self.loan.slice(range))
    }

    /// int32, one an edge of the layer.
    pub fn indices(&self, layer: usize) -> DeviceSlice<'a> {
        self.loan.slice(self.layout.indices_range(self.header, layer))
    }
}
