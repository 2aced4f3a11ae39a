//! The blocks of a batch prepared by one launch of a kernel, instead of the operations in `tensor_block.rs`.

#![allow(unsafe_code)]

use crate::TrainError;
use crate::block::tensor_block::{TensorBlock, refuse_weights};
use std::sync::Arc;
use tch::{Device, Kind, Tensor};
use uva_cuda::CudaStream;
use uva_cuda::kernels::train::{BlockArguments, EdgeWeights, TrainKernels};
use uva_model::{ModelKind, Weighting};

/// Launches `block_prepare` of `kernels/train.cu`.
pub(crate) enum BlockPreparer {
    /// On the stream on which libtorch computes.
    Device(TrainKernels, Arc<CudaStream>),
    /// On the host, by the kernel compiled for tests.
    #[cfg(test)]
    Host,
}

/// A block as stored in a slot: contiguous tensors on one device.
#[derive(Clone, Copy)]
pub(crate) struct RawBlock<'t> {
    pub(crate) sources: usize,
    /// i32: offsets and sources.
    pub(crate) lists: (&'t Tensor, &'t Tensor),
    /// f32: the sampler's weights of the edges, if it made any.
    pub(crate) sampled: Option<&'t Tensor>,
}

/// A prepared block, the weight of each edge, and for GCN that of each destination's own row, [destinations, 1].
pub(crate) type PreparedBlock = (TensorBlock, Tensor, Option<Tensor>);

impl BlockPreparer {
    /// Prepares the blocks like [`TensorBlock::new`] and [`TensorBlock::weights`]. `degrees` are i32, for the sources
    /// of every block, as only GCN reads them.
    pub(crate) fn prepare(
        &self,
        model: ModelKind,
        blocks: &[RawBlock<'_>],
        degrees: Option<&Tensor>,
        kind: Kind,
    ) -> Result<Vec<PreparedBlock>, TrainError> {
        let weighting = match (model.row().weighting, degrees) {
            (Weighting::Mean, _) => EdgeWeights::Mean,
            (Weighting::Degrees, Some(_)) => EdgeWeights::Degrees,
            (Weighting::Degrees, None) => {
                return Err(TrainError::Input("a GCN's batch without degrees".to_owned()));
            }
            (Weighting::Sum, _) => EdgeWeights::Sum,
            // Weights are computed from the rows, or do not exist: a model over a hop set gets no block.
            (Weighting::Attention | Weighting::Beforehand, _) => EdgeWeights::None,
        };
        if blocks.is_empty() {
            // The batch has one layer, and the sums of its only block came with it.
            return Ok(Vec::new());
        }
        let degrees = degrees.filter(|_| weighting == EdgeWeights::Degrees);
        let mut arguments = Vec::with_capacity(blocks.len());
        let mut prepared = Vec::with_capacity(blocks.len());
        for &RawBlock { sources, lists: (indptr, indices), sampled } in blocks {
            if matches!(weighting, EdgeWeights::Sum | EdgeWeights::None) {
                refuse_weights(model, sampled.is_some())?;
            }
            let (destinations, edges, device) = (indptr.numel() - 1, indices.numel(), indptr.device());
            let empty = |count: usize, kind| Tensor::f_empty([count as i64], (kind, device));
            let offsets = empty(destinations + 1, Kind::Int)?;
            let (of_edges, destination_of_edge) = (empty(edges, Kind::Int)?, empty(edges, Kind::Int)?);
            let weights = empty(if weighting == EdgeWeights::None { 0 } else { edges }, kind)?;
            let own = degrees.map(|_| empty(destinations, kind)).transpose()?;
            arguments.push(BlockArguments {
                indptr: address(indptr),
                indices: address(indices),
                sampled: sampled.map_or(0, address),
                degrees: degrees.map_or(0, address),
                destinations: destinations as u64,
                edges: edges as u64,
                sources: sources as u64,
                weighting: weighting.number(),
                wide: u64::from(kind == Kind::Double),
                offsets: address(&offsets),
                sources_of_edges: address(&of_edges),
                destinations_of_edges: address(&destination_of_edge),
                weights: address(&weights),
                own: own.as_ref().map_or(0, address),
            });
            let own = own.map(|own| own.f_unsqueeze(1)).transpose()?;
            prepared.push((
                TensorBlock::prepared(offsets, of_edges, destination_of_edge, sources),
                weights,
                own,
            ));
        }
        let device = blocks.first().map_or(Device::Cpu, |block| block.lists.0.device());
        self.launch(&arguments, device)?;
        Ok(prepared)
    }

    fn launch(&self, arguments: &[BlockArguments], device: Device) -> Result<(), TrainError> {
        match self {
            Self::Device(kernels, stream) => {
                debug_assert!(device.is_cuda());
                // SAFETY: the sizes are those of the tensors, which are contiguous and of these kinds. The prepared
                // ones are new and not shared. libtorch takes back the memory of a tensor in the order of this stream,
                // and the caller of the trainer orders writes to the batch after it.
                Ok(unsafe { kernels.prepare(stream, arguments) }?)
            }
            #[cfg(test)]
            Self::Host => {
                use uva_kernel_sim::launch;
                use uva_kernels::block::{BLOCK_PREPARE, BLOCK_THREADS, BatchBlocks};
                assert_eq!(device, Device::Cpu);
                arguments.iter().try_for_each(BlockArguments::check).map_err(TrainError::Input)?;
                let mut batch = BatchBlocks::new(arguments);
                let grid = [batch.grid() as u32, 1, 1];
                let parameters = [std::ptr::from_mut(&mut batch).cast()];
                // SAFETY: as above, in host memory; one parameter of the kernel's type.
                unsafe { launch(BLOCK_PREPARE, grid, [BLOCK_THREADS, 1, 1], 0, parameters.as_ptr()) }
                    .unwrap();
                Ok(())
            }
        }
    }
}

/// Where a tensor's memory begins, if it has any.
fn address(tensor: &Tensor) -> u64 {
    if tensor.numel() == 0 { 0 } else { tensor.data_ptr() as u64 }
}
