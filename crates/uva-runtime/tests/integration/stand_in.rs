//! The GPU of the stand-in driver, as a backend.

use uva_runtime::backend::{
    Backend, CudaBackend, GatherChoice, GpuSlots, IpcKind, Kernel, Partition, PinPages, PreflightPolicy,
    SamplerChoice, SignalKind,
};

/// A backend with this gather and sampler, and the defaults of a run.
pub fn on_gpu(gather: GatherChoice, sampler: SamplerChoice) -> Backend {
    Backend::Cuda(CudaBackend {
        ordinal: 0,
        gather,
        kernel: Kernel::Wide,
        sampler,
        partition: Partition::None,
        ipc: IpcKind::Auto,
        ipc_signals: SignalKind::Auto,
        gpu_slots: GpuSlots::Largest,
        nvrtc: None,
        preflight: PreflightPolicy::Warn,
        table_pages: PinPages::InPlace,
        other_pages: true,
        split_share: None,
    })
}
