//! A block prepared by one launch of our own kernel, in place of the operations in `tensor_block.rs`.

#![allow(unsafe_code)]

use crate::TrainError;
use crate::tensor_block::{TensorBlock, refuse_weights};
use std::sync::Arc;
use tch::{Device, Kind, Tensor};
use uva_cuda::Stream;
use uva_cuda::kernels::block::{BlockArguments, BlockKernel, EdgeWeights};
use uva_model::{ModelKind, Weighting};

/// Launches `kernels/block.cu`.
pub(crate) enum BlockPreparer {
    /// On the stream on which libtorch computes.
    Device(BlockKernel, Arc<Stream>),
    /// On the host, by the kernel as it is compiled for tests.
    #[cfg(test)]
    Host,
}

impl BlockPreparer {
    /// The block, the weight of each edge, and for GCN that of each destination's own row, [destinations, 1]: as
    /// [`TensorBlock::new`] and [`TensorBlock::weights`] give them. `indptr` and `indices` are i32 and contiguous, and so
    /// are `degrees`; `sampled` is f32.
    pub(crate) fn prepare(
        &self,
        model: ModelKind,
        sources: usize,
        (indptr, indices): (&Tensor, &Tensor),
        sampled: Option<&Tensor>,
        degrees: Option<&Tensor>,
        kind: Kind,
    ) -> Result<(TensorBlock, Tensor, Option<Tensor>), TrainError> {
        let weighting = match (model.row().weighting, degrees) {
            (Weighting::Mean, _) => EdgeWeights::Mean,
            (Weighting::Degrees, Some(_)) => EdgeWeights::Degrees,
            (Weighting::Degrees, None) => {
                return Err(TrainError::Input("a GCN's batch without degrees".to_owned()));
            }
            (Weighting::Sum, _) => EdgeWeights::Sum,
            // Computed from the rows.
            (Weighting::Attention, _) => EdgeWeights::None,
        };
        if matches!(weighting, EdgeWeights::Sum | EdgeWeights::None) {
            refuse_weights(model, sampled.is_some())?;
        }
        let (destinations, edges, device) = (indptr.numel() - 1, indices.numel(), indptr.device());
        let empty = |count: usize, kind| Tensor::f_empty([count as i64], (kind, device));
        let offsets = empty(destinations + 1, Kind::Int)?;
        let (of_edges, destination_of_edge) = (empty(edges, Kind::Int)?, empty(edges, Kind::Int)?);
        let weights = empty(if weighting == EdgeWeights::None { 0 } else { edges }, kind)?;
        let degrees = degrees.filter(|_| weighting == EdgeWeights::Degrees);
        let own = degrees.map(|_| empty(destinations, kind)).transpose()?;
        let arguments = BlockArguments {
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
        };
        self.launch(&arguments, device)?;
        let own = own.map(|own| own.f_unsqueeze(1)).transpose()?;
        Ok((TensorBlock::prepared(offsets, of_edges, destination_of_edge, sources), weights, own))
    }

    fn launch(&self, arguments: &BlockArguments, device: Device) -> Result<(), TrainError> {
        match self {
            Self::Device(kernel, stream) => {
                debug_assert!(device.is_cuda());
                // SAFETY: the sizes are those of the tensors, which are contiguous and of these kinds. The prepared ones
                // are new and nobody else's. libtorch takes back the memory of a tensor in the order of this stream, and
                // the caller of the trainer orders writes to the batch behind it.
                Ok(unsafe { kernel.prepare(stream, arguments) }?)
            }
            #[cfg(test)]
            Self::Host => {
                use uva_kernel_sim::launch;
                use uva_kernels::block::{BLOCK_PREPARE, BLOCK_THREADS};
                assert_eq!(device, Device::Cpu);
                arguments.check().map_err(TrainError::Input)?;
                let (mut copy, blocks) = (*arguments, arguments.useful_blocks() as u32);
                let parameters = [std::ptr::from_mut(&mut copy).cast()];
                // SAFETY: as above, in host memory; one parameter of the kernel's type.
                unsafe {
                    launch(BLOCK_PREPARE, [blocks, 1, 1], [BLOCK_THREADS, 1, 1], 0, parameters.as_ptr())
                }
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
