//! Opens the GPU of a process for one of its stages.

use std::sync::Arc;

use uva_cuda::Context;

use crate::RuntimeError;
use crate::backend::{CudaBackend, Partition};
use crate::plan::topology::Role;

/// The context of this process's GPU. Checks that the process has the planned share of the GPU.
pub(crate) fn open_device(cuda: &CudaBackend, role: Role) -> Result<Arc<Context>, RuntimeError> {
    let context = Context::primary(cuda.ordinal)?;
    let Partition::Mps { producer_multiprocessors, consumer_multiprocessors, sampler, .. } = cuda.partition
    else {
        return Ok(context);
    };
    let expected = match role {
        // A sampler on the GPU is a thread of the producer's process. Workers use none.
        Role::Producer | Role::Sampler | Role::Worker => {
            producer_multiprocessors + sampler.map_or(0, |share| share.multiprocessors)
        }
        Role::Consumer => consumer_multiprocessors,
    };
    let device = context.device();
    // If CUDA cannot reach the daemon, it runs without MPS and without a message.
    if !device.mps_enabled() {
        return Err(RuntimeError::missing(
            "MPS was requested, but the driver did not connect to its daemon; `uvatrain mps status` shows \
             details, and `partition=green` or grid does not need MPS",
        ));
    }
    if device.multiprocessors() != expected {
        return Err(RuntimeError::failed(format!(
            "MPS gave this process {} multiprocessors instead of {expected}",
            device.multiprocessors()
        )));
    }
    Ok(context)
}
