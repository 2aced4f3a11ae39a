//! Commands that concern the machine and this program, and commands that the launcher starts.

pub mod doctor;
pub mod mps;
pub mod probe;
pub mod role;
pub mod shell;
pub mod top;
