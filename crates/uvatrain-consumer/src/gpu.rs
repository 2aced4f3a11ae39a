//! The trainer's device, and how its work is ordered behind the producer's.

use std::sync::Arc;

use uva_cuda::kernels::train::TrainKernels;
use uva_cuda::{Context, CudaStream, Driver, Module, ModuleOptions};
use uva_train::TrainDevice;
use uva_train::cuda::TorchCuda;

use uva_runtime::RuntimeError;
use uva_runtime::backend::CudaBackend;
use uva_runtime::feed::device::DeviceSlots;
use uva_runtime::pipeline::roles::BatchReceiver;

/// Where a model computes.
pub(crate) struct ModelDevice {
    pub(crate) device: TrainDevice,
    /// For batches in device memory, if there are such: the kernels of a training step, and the stream on which they and
    /// libtorch use the batches.
    pub(crate) ahead: Option<(TrainKernels, Arc<CudaStream>)>,
}

/// Makes the device of the run's backend ready for training, before anything else of libtorch is used.
///
/// Device memory that is host memory (the stand-in driver of the tests) is trained on by the CPU, in place. Where the
/// stand-in says so, all is then done as on a GPU: batches stay where they are, and dropout differs from the CPU's.
pub(crate) fn prepare(receiver: &mut BatchReceiver) -> Result<ModelDevice, RuntimeError> {
    let no_slots = |device| Ok(ModelDevice { device, ahead: None });
    let Some(cuda) = receiver.backend().cuda().cloned() else { return no_slots(TrainDevice::Cpu) };
    let driver = Driver::load().map_err(|error| RuntimeError::missing(error.to_string()))?;
    if driver.device_memory_is_host_memory() {
        if !driver.simulates_device_draws() {
            return no_slots(TrainDevice::Cpu);
        }
        let Some(slots) = receiver.device_slots() else { return no_slots(TrainDevice::StandIn) };
        // In place of libtorch's.
        let stream = CudaStream::new(slots.context())?;
        return on_stream(slots, stream, TrainDevice::StandIn, &cuda);
    }
    let torch = TorchCuda::load().map_err(|error| RuntimeError::missing(error.to_string()))?;
    let device = TrainDevice::Cuda(cuda.ordinal);
    let Some(slots) = receiver.device_slots() else {
        // Only to report an unusable GPU now, under its own name.
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
/// What it lacks, and the command that fixes it.
pub fn torch_on_gpu() -> Result<(), String> {
    TorchCuda::load().map(drop).map_err(|error| error.to_string())
}
