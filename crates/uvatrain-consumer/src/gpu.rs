//! The trainer's device, and how its work is ordered behind the producer's.

use std::sync::Arc;

use uva_cuda::kernels::block::BlockKernel;
use uva_cuda::{Context, Driver, Module, ModuleOptions, Stream};
use uva_train::cuda::TorchCuda;
use uva_train::{TrainDevice, Trainer};

use uva_runtime::RuntimeError;
use uva_runtime::roles::BatchReceiver;

/// Where a model computes.
pub(crate) struct Prepared {
    pub(crate) device: TrainDevice,
    /// The stream on which batches in device memory are used, if there are such.
    pub(crate) stream: Option<Arc<Stream>>,
    /// Prepares their blocks. Without it, libtorch's operations do: where NVRTC is missing, and under the stand-in, whose
    /// kernels know the driver's memory only.
    kernel: Option<BlockKernel>,
}

impl Prepared {
    /// Has the trainer prepare blocks by our kernel, where there is one.
    pub(crate) fn prepare_blocks(&self, trainer: &mut Trainer) {
        if let (Some(kernel), Some(stream)) = (&self.kernel, &self.stream) {
            trainer.prepare_blocks_by(kernel.clone(), Arc::clone(stream));
        }
    }
}

/// Makes the device of the run's backend ready for training, before anything else of libtorch is used.
///
/// Device memory that is host memory (the stand-in driver of the tests) is trained on by the CPU, in place. Where the
/// stand-in says so, all is then done as on a GPU: batches stay where they are, and dropout differs from the CPU's.
pub(crate) fn prepare(receiver: &mut BatchReceiver) -> Result<Prepared, RuntimeError> {
    let no_slots = |device| Ok(Prepared { device, stream: None, kernel: None });
    let Some(cuda) = receiver.backend().cuda().cloned() else { return no_slots(TrainDevice::Cpu) };
    let driver = Driver::load().map_err(|error| RuntimeError::Missing(error.to_string()))?;
    if driver.device_memory_is_host_memory() {
        if !driver.simulates_device_draws() {
            return no_slots(TrainDevice::Cpu);
        }
        let Some(slots) = receiver.device_slots() else { return no_slots(TrainDevice::StandIn) };
        // In place of libtorch's.
        let stream = Arc::new(Stream::new(slots.context())?);
        slots.use_stream(Arc::clone(&stream));
        return Ok(Prepared { device: TrainDevice::StandIn, stream: Some(stream), kernel: None });
    }
    let torch = TorchCuda::load().map_err(|error| RuntimeError::Missing(error.to_string()))?;
    let device = TrainDevice::Cuda(cuda.ordinal);
    let Some(slots) = receiver.device_slots() else {
        // Only to report an unusable GPU now, under its own name.
        Context::primary(cuda.ordinal)?;
        return no_slots(device);
    };
    let context = slots.context();
    let stream = torch.current_stream(context).map_err(|error| RuntimeError::Failed(error.to_string()))?;
    let stream = Arc::new(stream);
    slots.use_stream(Arc::clone(&stream));
    let options = ModuleOptions { nvrtc: cuda.nvrtc.clone(), ..ModuleOptions::default() };
    let kernel = Module::block(context, &options).and_then(|module| BlockKernel::new(&module));
    let kernel = kernel
        .inspect_err(|error| tracing::info!("libtorch's operations prepare the blocks of batches: {error}"))
        .ok();
    Ok(Prepared { device, stream: Some(stream), kernel })
}

/// Whether libtorch can use a GPU.
///
/// # Errors
/// What it lacks, and the command that fixes it.
pub fn torch_on_gpu() -> Result<(), String> {
    TorchCuda::load().map(drop).map_err(|error| error.to_string())
}
