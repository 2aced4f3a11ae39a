//! The sampler: its memory, and the kernels that make a batch.

use std::ops::Range;

use crate::{
    BatchCounts, BatchKey, BatchMut, BlockSize, Capacity, Expand, InvalidOption, ListReads, MAX_EPOCH,
    MAX_LAYERS, SampleError, SamplerKind, SamplerOptions,
};
use uva_cuda::kernels::gather::GridBound;
use uva_cuda::kernels::sample::{PickKind, SampleArguments, SampleKernels, SampleReport, WHOLE_LISTS};
use uva_cuda::memory::{DeviceBuffer, PinnedBuffer, SharedBuffer, device_to_host, fill, host_to_device};
use uva_cuda::{CudaError, CudaEvent, CudaStream, DeviceSlice};
use uva_graph::Csc;

use crate::cuda::arena::Arena;
use crate::cuda::batch_place::{BatchPlace, BlockPlace};
use crate::cuda::cached_lists::CachedLists;
use crate::cuda::cuda_error::CudaSampleError;
use crate::cuda::cuda_options::{CudaSamplerOptions, DeviceBytes};
use crate::cuda::device_batch::{CudaBatch, CudaBlock};
use crate::cuda::failure;
use crate::cuda::layout::{ArrayLayout, Extras, LayerPlace};
use crate::cuda::names::Names;
use crate::cuda::source::{GraphSource, PinnedArray};
use crate::cuda::upload::copy_of;

/// Samples the neighbours of batches of seeds on a GPU.
///
/// Each call waits for the device before it returns, so no work is in flight between calls.
#[derive(Debug)]
pub struct CudaSampler {
    kernels: SampleKernels,
    stream: CudaStream,
    kind: PickKind,
    options: SamplerOptions,
    /// Whether in-degrees are requested.
    degrees: bool,
    grid: GridBound,
    /// The arguments shared by all batches; those of each layer are derived from them.
    common: SampleArguments,
    layers: Vec<LayerPlace>,
    /// Arguments of the current batch, one per layer.
    launched: Vec<SampleArguments>,
    counts: BatchCounts,
    report: SampleReport,
    stamp: u32,
    seeds: PinnedBuffer,
    report_host: PinnedBuffer,
    batch: DeviceBuffer,
    local_ids: DeviceBuffer,
    original: Option<Names>,
    dataset: Option<Names>,
    whole_degrees: Option<DeviceBuffer>,
    cache: Option<CachedLists>,
    /// Must be the last field, so that the memory is unpinned only after all of its readers are dropped.
    graph: GraphSource,
}

impl CudaSampler {
    /// Creates a sampler over `graph` that works on `stream`. The stream and the kernels' module belong to the graph's
    /// context or to a green context of its device. Copies the cached lists and the node ids to the device, and waits
    /// for these copies.
    ///
    /// # Errors
    /// - The errors of [`SamplerOptions::check`].
    /// - [`InvalidOption::KindOnDevice`] for a kind without kernels.
    /// - [`InvalidOption::NoWeights`] for a kind that needs weights, if there are none.
    /// - [`SampleError::LayerMismatch`] if `bounds` and the fanouts have different numbers of layers.
    /// - [`SampleError::InvalidList`] if the cached lists are not a prefix of the graph's, or their weights are to be
    ///   cached and the dataset lacks those of a list.
    /// - [`CudaError::OutOfMemory`] with the free memory.
    /// - [`CudaError::Refused`] if the numbers of dataset ids or in-degrees and of nodes differ, and for a reordered
    ///   graph without dataset ids.
    pub fn new(
        kernels: SampleKernels,
        stream: CudaStream,
        graph: GraphSource,
        options: &CudaSamplerOptions<'_>,
    ) -> Result<Self, CudaSampleError> {
        let CudaSamplerOptions { sampler, bounds, .. } = options;
        let csc = graph.csc();
        sampler.check(&Csc { original_ids: options.original_ids, ..csc })?;
        if sampler.trees.is_some() {
            return Err(InvalidOption::TreesOnDevice.into());
        }
        let Some(kind) = sampler.kind.kernels() else {
            let instead = SamplerKind::names_of(|kind| kind.kernels().is_some());
            return Err(InvalidOption::KindOnDevice { kind: sampler.kind, instead }.into());
        };
        if bounds.blocks.len() != sampler.fanouts.hops() {
            let (expected, given) = (sampler.fanouts.hops(), bounds.blocks.len());
            return Err(SampleError::LayerMismatch { expected, given }.into());
        }
        if let Some(ids) = options.dataset_ids
            && ids.len() != csc.nodes()
        {
            let (given, nodes) = (ids.len(), csc.nodes());
            return Err(CudaError::Refused(format!("{given} ids for the {nodes} nodes of the graph")).into());
        }
        if graph.home().is_some() && options.dataset_ids.is_none() {
            let what = "a graph in another order than the dataset's needs the dataset's id of each node";
            return Err(CudaError::Refused(what.to_owned()).into());
        }
        let context = graph.context();
        let cache = match options.cached_lists.min(csc.nodes()) {
            0 => None,
            lists => Some(CachedLists::new(&stream, &graph, lists, options)?),
        };
        let original =
            options.original_ids.map(|ids| Names::new(&stream, ids, "the original ids of the nodes"));
        let original = original.transpose()?;
        // An array with two roles is copied once.
        let same =
            matches!((options.original_ids, options.dataset_ids), (Some(a), Some(b)) if std::ptr::eq(a, b));
        let dataset = options.dataset_ids.filter(|_| !same);
        let dataset =
            dataset.map(|ids| Names::new(&stream, ids, "the dataset's ids of the nodes")).transpose()?;

        let whole_degrees = options.whole_degrees.filter(|_| options.degrees);
        if let Some(degrees) = whole_degrees
            && degrees.len() != csc.nodes()
        {
            let (given, nodes) = (degrees.len(), csc.nodes());
            let what = format!("{given} in-degrees for the {nodes} nodes of the graph");
            return Err(CudaError::Refused(what).into());
        }
        let of_whole =
            |degrees| copy_of(&stream, bytemuck::cast_slice(degrees), "the in-degrees in the whole graph");
        let whole_degrees = whole_degrees.map(of_whole).transpose()?;

        let mut local_ids_bytes = Arena::default();
        local_ids_bytes.take(csc.nodes(), 8);
        let local_ids =
            DeviceBuffer::new(context, local_ids_bytes.bytes(), "the map from nodes to local ids")?;
        // SAFETY: the buffer is owned by this function and not shared yet. The fill is waited for whether or not it was
        // enqueued.
        let cleared = unsafe { fill(&stream, local_ids.address(), 0xff, local_ids.bytes()) };
        cleared.and(stream.synchronize())?;

        let weights = match graph.weights() {
            _ if !sampler.kind.needs_weights() => 0,
            Some(weights) => weights.address(),
            None => return Err(InvalidOption::NoWeights { kind: sampler.kind }.into()),
        };
        let extras = Extras {
            degrees: options.degrees,
            homes: graph.home().is_some(),
            weights: sampler.kind.needs_weights(),
            batch: options.own_batch,
        };
        let blocks = kernels.blocks(options.grid) as usize;
        let layout = |address| ArrayLayout::at(address, sampler, bounds, blocks, extras);
        let batch = DeviceBuffer::new(context, layout(0).bytes, "the batches of a sampler")?;
        let ArrayLayout { arguments, layers, .. } = layout(batch.address());

        let (original_ids, original_ids_wide) = original.as_ref().map_or((0, 0), Names::place);
        let (dataset_ids, dataset_ids_wide) = match &dataset {
            Some(names) => names.place(),
            None if same => (original_ids, original_ids_wide),
            None => (0, 0),
        };
        let common = SampleArguments {
            indptr: graph.indptr().address(),
            indices: graph.indices().address(),
            nodes: csc.nodes() as u64,
            edges: csc.edges() as u64,
            cached_indptr: cache.as_ref().map_or(0, |cache| cache.indptr.address()),
            cached_indices: cache.as_ref().map_or(0, |cache| cache.indices.address()),
            cached_lists: cache.as_ref().map_or(0, |cache| cache.lists as u64),
            cached_edges: cache.as_ref().map_or(0, |cache| cache.edges as u64),
            cached_homes: address_of(cache.as_ref().and_then(|cache| cache.homes.as_ref())),
            cached_weights: address_of(cache.as_ref().and_then(|cache| cache.weights.as_ref())),
            original_ids,
            dataset_ids,
            original_ids_wide,
            dataset_ids_wide,
            home_indptr: graph.home().map_or(0, PinnedArray::address),
            weights,
            whole_degrees: address_of(whole_degrees.as_ref()),
            seed: sampler.seed,
            batch_dependency: sampler.batch_dependency,
            replace: sampler.replace.into(),
            reads_whole_lists: sampler.kind.reads_whole_lists().into(),
            local_ids: local_ids.address(),
            ..arguments
        };
        let seeds = PinnedBuffer::new(
            context,
            bounds.seeds().min(common.nodes_room as usize) * 8,
            "the seeds of a batch",
        )?;
        let report_host = PinnedBuffer::new(context, SampleReport::BYTES, "the report of a batch")?;
        Ok(Self {
            kernels,
            stream,
            kind,
            options: sampler.clone(),
            degrees: options.degrees,
            grid: options.grid,
            common,
            launched: Vec::with_capacity(layers.len()),
            layers,
            counts: BatchCounts::default(),
            report: SampleReport::default(),
            stamp: 0,
            seeds,
            report_host,
            batch,
            local_ids,
            original,
            dataset,
            whole_degrees,
            cache,
            graph,
        })
    }

    /// The sampler's options.
    pub fn options(&self) -> &SamplerOptions {
        &self.options
    }

    /// Lists in the cache.
    pub fn cached_lists(&self) -> usize {
        self.cache.as_ref().map_or(0, |cache| cache.lists)
    }

    /// Its device memory.
    pub fn device_bytes(&self) -> DeviceBytes {
        let names = |names: &Option<Names>| names.as_ref().map_or(0, Names::bytes);
        DeviceBytes {
            lists: self.cache.as_ref().map_or(0, CachedLists::bytes),
            names: names(&self.original)
                + names(&self.dataset)
                + self.whole_degrees.as_ref().map_or(0, DeviceBuffer::bytes),
            local_ids: self.local_ids.bytes(),
            batch: self.batch.bytes(),
        }
    }

    /// Nanoseconds by the device's clock from the beginning to the end of the last batch, without its copy to the host.
    pub fn device_ns(&self) -> u64 {
        self.report.ended_ns.saturating_sub(self.report.began_ns)
    }

    /// Samples the batch `key` around `seeds` (nodes of the graph). The batch stays on the device: see
    /// [`CudaSampler::batch`] and [`CudaSampler::read_into`].
    ///
    /// # Errors
    /// As `NeighborSampler::sample`, for memory of the bounds that the sampler was made with. After such an error the
    /// sampler stays usable, and its batch is empty. [`CudaSampleError::Cuda`] if the device or the driver fails.
    pub fn sample(&mut self, key: BatchKey, seeds: &[i64]) -> Result<BatchCounts, CudaSampleError> {
        self.sample_within(key, seeds, None, None)
    }

    /// Samples the batch `key` like [`sample`](Self::sample), to the caller's memory. The batch is complete when this
    /// returns, and only its counts cross the link. [`CudaSampler::batch`] is empty then.
    ///
    /// # Errors
    /// As [`sample`](Self::sample), for the smaller of that memory and the bounds that the sampler was made with. The
    /// content of the memory is unspecified then. [`SampleError::LayerMismatch`]; [`CudaError::Refused`] for a place
    /// that lacks an array, or does not lie in its memory.
    pub fn sample_to(
        &mut self,
        key: BatchKey,
        seeds: &[i64],
        place: &BatchPlace<'_>,
    ) -> Result<BatchCounts, CudaSampleError> {
        let counts = self.sample_within(key, seeds, None, Some(place));
        // The last batch is not in our memory.
        self.counts = BatchCounts::default();
        counts
    }

    /// [`sample`](Self::sample), then [`read_into`](Self::read_into) the caller's memory, whose lengths bound the batch
    /// too.
    ///
    /// # Errors
    /// As `NeighborSampler::sample`, for the smaller of that memory and the bounds that the sampler was made with. The
    /// content of `out` is unspecified then. [`CudaSampleError::Cuda`] if the device or the driver fails.
    pub fn sample_into(
        &mut self,
        key: BatchKey,
        seeds: &[i64],
        out: &mut BatchMut<'_, '_>,
        degrees: &mut [i32],
    ) -> Result<BatchCounts, CudaSampleError> {
        let counts = self.sample_within(key, seeds, Some(out), None)?;
        self.read_into(out, degrees)?;
        Ok(counts)
    }

    /// Copies parts of a batch that [`sample_to`](Self::sample_to) has sampled to the host, each from its bytes of the
    /// memory, and waits for them.
    ///
    /// # Errors
    /// [`CudaError::Refused`] for bytes outside the memory, or another number of them; [`CudaError::Call`].
    pub fn read_back(
        &self,
        memory: &SharedBuffer,
        parts: &mut [(Range<usize>, &mut [u8])],
    ) -> Result<(), CudaSampleError> {
        Ok(memory.read_back(&self.stream, parts)?)
    }

    /// The last batch, on the device, valid until the next one is sampled.
    pub fn batch(&self) -> CudaBatch<'_> {
        let device = self.stream.context().device().ordinal() as i32;
        let slice = |address: u64, count: usize, each: usize| {
            // SAFETY: within our own buffer, which lives as long as the borrow. The kernels keep counts within its
            // arrays.
            unsafe { DeviceSlice::from_raw(address, count * each, device) }
        };
        let nodes = self.counts.nodes();
        let degrees = self.common.node_degrees;
        CudaBatch {
            nodes: slice(self.common.batch_nodes, nodes, 8),
            degrees: (degrees != 0).then(|| slice(degrees, nodes, 4)),
            blocks: (self.layers.iter().zip(self.counts.blocks()))
                .map(|(place, counts)| CudaBlock {
                    indptr: slice(place.indptr, counts.destinations + 1, 4),
                    indices: slice(place.indices, counts.edges, 4),
                    edge_ids: (place.edge_ids != 0).then(|| slice(place.edge_ids, counts.edges, 8)),
                })
                .collect(),
        }
    }

    /// Copies the last batch to the host, and waits for it. Nodes and blocks are written to `out`, which must be large
    /// enough. If the sampler's options request degrees, as many as fit are written to `degrees`. The copy reaches the
    /// link's full speed if the memory is page-locked.
    ///
    /// # Errors
    /// [`SampleError::LayerMismatch`]; [`CudaError::Refused`] if `out` is too small; [`CudaError::Call`].
    pub fn read_into(&self, out: &mut BatchMut<'_, '_>, degrees: &mut [i32]) -> Result<(), CudaSampleError> {
        let batch = self.batch();
        if out.blocks.len() != self.layers.len() {
            let (expected, given) = (self.layers.len(), out.blocks.len());
            return Err(SampleError::LayerMismatch { expected, given }.into());
        }
        check_types(out)?;
        let BatchMut { nodes, blocks, .. } = out;
        let mut copies = vec![(batch.nodes, bytemuck::cast_slice_mut::<i64, u8>(nodes[0]))];
        for (block, to) in batch.blocks.iter().zip(blocks.iter_mut()) {
            copies.push((block.indptr, bytemuck::cast_slice_mut(to.indptr)));
            copies.push((block.indices, bytemuck::cast_slice_mut(to.indices)));
            if let Some(edge_ids) = block.edge_ids {
                copies.push((edge_ids, bytemuck::cast_slice_mut(to.edge_ids)));
            }
        }
        if let Some(slice) = batch.degrees {
            let wanted = degrees.len().min(self.counts.nodes());
            copies.push((slice.sub(0..wanted * 4)?, bytemuck::cast_slice_mut(degrees)));
        }
        if let Some((from, to)) = copies.iter().find(|(from, to)| from.bytes() > to.len()) {
            let (needed, given) = (from.bytes(), to.len());
            let what = format!("an array of {given} bytes has no room for {needed} bytes of a batch");
            return Err(CudaError::Refused(what).into());
        }
        let mut enqueued = Ok(());
        for (from, to) in copies {
            let to = &mut to[..from.bytes()];
            // SAFETY: the batch is complete and does not change while `self` is borrowed. `to` is borrowed until the
            // copies have been waited for, below, whether or not all of them were enqueued.
            enqueued = enqueued.and_then(|()| unsafe { device_to_host(&self.stream, from.address(), to) });
        }
        let waited = self.stream.synchronize();
        Ok(enqueued.and(waited)?)
    }

    fn sample_within(
        &mut self,
        key: BatchKey,
        seeds: &[i64],
        out: Option<&BatchMut<'_, '_>>,
        place: Option<&BatchPlace<'_>>,
    ) -> Result<BatchCounts, CudaSampleError> {
        self.counts = BatchCounts::default();
        let (common, layers) = self.targets(place)?;
        if let Some(out) = out
            && out.blocks.len() != self.layers.len()
        {
            let (expected, given) = (self.layers.len(), out.blocks.len());
            return Err(SampleError::LayerMismatch { expected, given }.into());
        }
        if key.epoch > MAX_EPOCH {
            return Err(InvalidOption::Epoch { epoch: key.epoch }.into());
        }
        out.map_or(Ok(()), check_types)?;
        let nodes_room = (common.nodes_room as usize).min(out.map_or(usize::MAX, |out| out.nodes[0].len()));
        if seeds.len() > nodes_room {
            let (what, capacity) = (Capacity::Nodes, nodes_room);
            return Err(SampleError::BatchTooLarge { key, what, capacity }.into());
        }
        let seed_bytes: &[u8] = bytemuck::cast_slice(seeds);
        if seed_bytes.len() > self.seeds.bytes() {
            self.seeds = PinnedBuffer::new(self.stream.context(), seed_bytes.len(), "the seeds of a batch")?;
        }
        self.seeds.as_mut_slice()[..seed_bytes.len()].copy_from_slice(seed_bytes);

        let first = SampleArguments {
            seeds: seeds.len() as u64,
            nodes_room: nodes_room as u64,
            batch: key.batch,
            epoch_and_split: key.epoch | (key.split as u32) << 30,
            stamp: self.next_stamp()?,
            ..common
        };
        self.launched.clear();
        let keeps = self.options.expand == Expand::New;
        for (layer, place) in layers.iter().enumerate() {
            let room = out.map(|out| &out.blocks[layer]);
            let destinations = room.map_or(usize::MAX, |room| room.indptr.len().saturating_sub(1));
            let edges = room.map_or(usize::MAX, |room| match place.edge_ids {
                0 => room.indices.len(),
                _ => room.indices.len().min(room.edge_ids.len()),
            });
            let kept = self.launched.last().filter(|_| keeps).copied().unwrap_or_default();
            self.launched.push(SampleArguments {
                layer: layer as u32,
                kept_indptr: kept.block_indptr,
                kept_indices: kept.block_indices,
                kept_edge_ids: kept.edge_ids,
                // A limit is at most 65,536.
                fanout: place.shape.limit.map_or(WHOLE_LISTS, |limit| limit as u32),
                group: place.shape.group as u32,
                block_indptr: place.indptr,
                destinations_room: place.destinations.min(destinations) as u64,
                block_indices: place.indices,
                edges_room: place.edges.min(edges) as u64,
                edge_ids: place.edge_ids,
                ..first
            });
        }
        // SAFETY: waited for below, whether or not all of it was enqueued.
        let enqueued = unsafe { self.enqueue(seed_bytes.len(), place.and_then(|place| place.after)) };
        let waited = self.stream.synchronize();
        enqueued.and(waited)?;

        let mut bytes = [0; SampleReport::BYTES];
        bytes.copy_from_slice(&self.report_host.as_slice()[..SampleReport::BYTES]);
        self.report = SampleReport::from_bytes(&bytes);
        let csc = self.graph.csc();
        if let Some(error) = failure::of_report(&self.report, key, seeds, &csc, &self.launched) {
            return Err(error.into());
        }
        self.counts = counts_of(&self.report, seeds.len(), self.layers.len());
        Ok(self.counts.clone())
    }

    /// The destination of the next batch: its arguments, and its layers. This is the sampler's own memory, unless a
    /// place is given.
    fn targets(
        &self,
        place: Option<&BatchPlace<'_>>,
    ) -> Result<(SampleArguments, Vec<LayerPlace>), CudaSampleError> {
        let refuse = |what: &str| Err(CudaError::Refused(what.to_owned()).into());
        let Some(place) = place else {
            return match self.common.batch_nodes {
                0 => refuse("a sampler without memory of its own samples to given memory only"),
                _ => Ok((self.common, self.layers.clone())),
            };
        };
        place.check()?;
        if place.blocks.len() != self.layers.len() {
            let (expected, given) = (self.layers.len(), place.blocks.len());
            return Err(SampleError::LayerMismatch { expected, given }.into());
        }
        let nodes_room = (place.nodes.len() / 8).min(self.common.nodes_room as usize);
        let lacks_degrees = self.degrees && place.degrees.len() / 4 < nodes_room;
        let lacks_edge_ids = |block: &BlockPlace| {
            self.options.edge_ids && block.edge_ids.is_empty() && !block.indices.is_empty()
        };
        if lacks_degrees || place.blocks.iter().any(lacks_edge_ids) {
            return refuse("a place for a batch lacks an array that was requested from the sampler");
        }
        let common = SampleArguments {
            batch_nodes: place.address(&place.nodes),
            nodes_room: nodes_room as u64,
            node_degrees: if self.degrees { place.address(&place.degrees) } else { 0 },
            ..self.common
        };
        let layers = self.layers.iter().zip(&place.blocks).map(|(own, block)| {
            let edge_ids = self.options.edge_ids;
            let edges = block.indices.len() / 4;
            LayerPlace {
                shape: own.shape,
                indptr: place.address(&block.indptr),
                destinations: own.destinations.min((block.indptr.len() / 4).saturating_sub(1)),
                indices: place.address(&block.indices),
                edges: own.edges.min(if edge_ids { edges.min(block.edge_ids.len() / 8) } else { edges }),
                edge_ids: if edge_ids { place.address(&block.edge_ids) } else { 0 },
            }
        });
        Ok((common, layers.collect()))
    }

    /// Enqueues the whole batch, including the copy of its report. The device begins after `after`.
    ///
    /// # Safety
    /// The stream is waited for before any field of `self` is touched, also after an error.
    unsafe fn enqueue(&mut self, seed_bytes: usize, after: Option<&CudaEvent>) -> Result<(), CudaError> {
        let Self { kernels, stream, kind, grid, launched, seeds, report_host, graph, common, .. } = self;
        let (Some(first), Some(last)) = (launched.first(), launched.last()) else {
            return Err(CudaError::Refused("a sampler without layers".to_owned()));
        };
        if let Some(after) = after {
            stream.wait(after)?;
        }
        // SAFETY: the arrays are our own buffers, sized by `new` for bounds that no layer exceeds, or lie in memory
        // that the caller borrows until it has waited (`targets`), where no other work uses them after `after`. Graph
        // and ids live in fields of `self` and are never written. The local ids are from earlier batches, with smaller
        // stamps. The caller promises to wait for all of it.
        unsafe {
            host_to_device(stream, &seeds.as_slice()[..seed_bytes], first.batch_nodes)?;
            kernels.begin(stream, first, *grid)?;
            for arguments in launched.iter() {
                kernels.layer(stream, *kind, graph.width(), arguments, *grid)?;
            }
            kernels.finish(stream, last, *grid)?;
            device_to_host(stream, common.report, &mut report_host.as_mut_slice()[..SampleReport::BYTES])
        }
    }

    /// The number of the next batch; when it wraps, the local ids are cleared.
    fn next_stamp(&mut self) -> Result<u32, CudaError> {
        if self.stamp == u32::MAX {
            // SAFETY: the buffer is owned by `self`, and no work in flight uses it. The fill is waited for whether or
            // not it was enqueued.
            let cleared =
                unsafe { fill(&self.stream, self.local_ids.address(), 0xff, self.local_ids.bytes()) };
            cleared.and(self.stream.synchronize())?;
            self.stamp = 0;
        }
        self.stamp += 1;
        Ok(self.stamp)
    }
}

fn address_of(buffer: Option<&DeviceBuffer>) -> u64 {
    buffer.map_or(0, DeviceBuffer::address)
}

fn counts_of(report: &SampleReport, seeds: usize, layers: usize) -> BatchCounts {
    let blocks = report.layers[..layers.min(MAX_LAYERS)].iter().map(|of_layer| BlockSize {
        destinations: of_layer.destinations as usize,
        sources: of_layer.sources as usize,
        edges: of_layer.edges as usize,
    });
    let mut counts = BatchCounts::of_blocks(seeds, blocks);
    counts.hash = report.hash;
    counts.list_reads = ListReads { all: report.reads, cached: report.cached_reads };
    counts
}

/// The kernels sample graphs of one node type and one relation.
fn check_types(out: &BatchMut<'_, '_>) -> Result<(), SampleError> {
    match out.nodes.len() {
        1 => Ok(()),
        given => Err(SampleError::TypeMismatch { expected: 1, given }),
    }
}

#[cfg(test)]
mod tests;
