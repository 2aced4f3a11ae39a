//! Memory of a process, of a program without data, and the items of a run's memory.

mod line;
pub mod program;
mod resident;

pub use line::{MemoryHolder, MemoryKind, MemoryLine};
pub use resident::{ProcessMemory, Resident};
