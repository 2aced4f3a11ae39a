//! The trainer's device, and how its work is ordered behind the producer's.

use uva_cuda::{Context, Driver};
use uva_train::TrainDevice;
use uva_train::cuda::TorchCuda;

use uva_runtime::RuntimeError;
use uva_runtime::roles::BatchReceiver;

/// Makes the device of the run's backend ready for training, before anything else of libtorch is used.
///
/// Device memory that is host memory (the stand-in driver of the tests) is trained on by the CPU, in place. Where the
/// stand-in says so, dropout then differs from the CPU's, as it does on a GPU.
pub(crate) fn prepare(receiver: &mut BatchReceiver) -> Result<TrainDevice, RuntimeError> {
    let Some(cuda) = receiver.backend().cuda().cloned() else { return Ok(TrainDevice::Cpu) };
    let driver = Driver::load().map_err(|error| RuntimeError::Missing(error.to_string()))?;
    if driver.device_memory_is_host_memory() {
        let as_a_device = driver.simulates_device_draws();
        return Ok(if as_a_device { TrainDevice::StandIn } else { TrainDevice::Cpu });
    }
    let torch = TorchCuda::load().map_err(|error| RuntimeError::Missing(error.to_string()))?;
    if let Some(slots) = receiver.device_slots() {
        let context = slots.context().clone();
        let stream =
            torch.current_stream(&context).map_err(|error| RuntimeError::Failed(error.to_string()))?;
        slots.use_stream(stream);
    } else {
        // Only to report an unusable GPU now, under its own name.
        Context::primary(cuda.ordinal)?;
    }
    Ok(TrainDevice::Cuda(cuda.ordinal))
}

/// Whether libtorch can use a GPU.
///
/// # Errors
/// What it lacks, and the command that fixes it.
pub fn torch_on_gpu() -> Result<(), String> {
    TorchCuda::load().map(drop).map_err(|error| error.to_string())
}
