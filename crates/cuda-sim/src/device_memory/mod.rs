//! Device memory: allocations, address ranges, memory files, mapped and registered memory, and usage.

pub(crate) mod held_kernels;
pub(crate) mod memory;
pub(crate) mod memory_file;
pub(crate) mod ranges;
pub(crate) mod registration;
mod usage;
pub(crate) mod vmm;
