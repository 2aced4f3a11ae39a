//! Memory: of a process, of a program before it has data, and the items that a run takes.

mod line;
pub mod program;
mod resident;

pub use line::{MemoryHolder, MemoryKind, MemoryLine};
pub use resident::{ProcessMemory, Resident};
