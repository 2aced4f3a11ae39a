//! Commands about the machine and this program, and those that the launcher starts.

pub mod doctor;
pub mod mps;
pub mod probe;
pub mod role;
pub mod shell;
pub mod top;
