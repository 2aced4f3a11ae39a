//! The trainer's device, and how its work is ordered after the producer's.

use std::sync::Arc;

use uva_cuda::kernels::train::TrainKernels;
use uva_cuda::{Context, CudaStream, Driver, Module, ModuleOptions};
use uva_train::TrainDevice;
use uva_train::cuda::TorchCuda;

use uva_runtime::RuntimeError;
use uva_runtime::backend::CudaBackend;
use uva_runtime::feed::device::DeviceSlots;
use uva_runtime::pipeline::roles::BatchReceiver;

/// The device of a model.
pub(crate) struct ModelDevice {
    pub(crate) device: TrainDevice,
    /// For batches in device memory: the kernels of a training step, and the stream on which these and libtorch use the
    /// batches.
    pub(crate) ahead: Option<(TrainKernels, Arc<CudaStream>)>,
}

/// Prepares the device of the run's backend for training, before any other use of libtorch.
///
/// Device memory that is host memory (the stand-in driver of the tests) is used by the CPU in place. If the stand-in
/// requests it, everything else is done as on a GPU: batches stay where they are, and dropout differs from the CPU's.
pub(crate) fn prepare(receiver: &mut BatchReceiver) -> Result<ModelDevice, RuntimeError> {
    let no_slots = |device| Ok(ModelDevice { device, ahead: None });
    let Some(cuda) = receiver.backend().cuda().cloned() else { return no_slots(TrainDevice::Cpu) };
    let driver = Driver::load().map_err(|error| RuntimeError::missing(error.to_string()))?;
    if driver.device_memory_is_host_memory() {
        if !driver.simulates_device_draws() {
            return no_slots(TrainDevice::Cpu);
        }
        let Some(slots) = receiver.device_slots() else { return no_slots(TrainDevice::StandIn) };
        // Replaces libtorch's own stream.
        let stream = CudaStream::new(slots.context())?;
        return on_stream(slots, stream, TrainDevice::StandIn, &cuda);
    }
    let torch = TorchCuda::load().map_err(|error| RuntimeError::missing(error.to_string()))?;
    let device = TrainDevice::Cuda(cuda.ordinal);
    let Some(slots) = receiver.device_slots() else {
        // Only to report an unusable GPU now, with its own error.
        Context::primary(cuda.ordinal)?;
        return no_slots(device);
    };
    let stream = torch.current_stream(slots.context());
    let stream = stream.map_err(|error| RuntimeError::failed(error.to_string()))?;
    on_stream(slots, stream, device, &cuda)
}

/// Uses batches on this stream, which is libtorch's.
fn on_stream(
    slots: &DeviceSlots,
    stream: CudaStream,
    device: TrainDevice,
    cuda: &CudaBackend,
) -> Result<ModelDevice, RuntimeError> {
    let stream = Arc::new(stream);
    slots.use_stream(Arc::clone(&stream));
    let options = ModuleOptions { nvrtc: cuda.nvrtc.clone(), ..ModuleOptions::default() };
    let kernels = TrainKernels::new(&Module::train(slots.context(), &options)?)?;
    Ok(ModelDevice { device, ahead: Some((kernels, stream)) })
}

/// Whether libtorch can use a GPU.
///
/// # Errors
/// What libtorch lacks, and the command that fixes it.
pub fn torch_on_gpu() -> Result<(), String> {
    TorchCuda::load().map(drop).map_err(|error| error.to_string())
}
