//! The place where features are gathered and batches used, as requested and as this machine allows.

mod asked;
mod choose;
mod chosen;
mod cufile;
mod granted;
pub(crate) mod obstacle;
mod probe;
pub(crate) mod widening;

pub use asked::{
    BackendOptions, DeviceChoice, GatherChoice, GpuShare, GpuSlots, MpsChoice, PartitionChoice,
    SamplerChoice, SignalKind, TablePagesChoice,
};
pub use choose::{BackendDecision, MpsRequest, OpenChoices, decide};
pub use chosen::TransferChoice;
pub use cufile::CufileReport;
pub use granted::{Backend, CudaBackend, Partition, SamplerShare};
pub use probe::{NvrtcReport, Probe};
pub use uva_cuda::kernels::gather::Kernel;
pub use uva_cuda::memory::{IpcKind, PinPages, PreflightPolicy};
