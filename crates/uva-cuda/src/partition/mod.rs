//! Partitions of the multiprocessors: the number that a gather needs, the shares of roles, and green contexts.
//!
//! Three mechanisms limit a role's share. MPS caps a process from outside (not here: see the runtime). A [bounded
//! grid](crate::kernels::gather) launches no more blocks than a given number of multiprocessors holds. A
//! [`GreenPartition`] owns multiprocessors, disjoint from those of other partitions of the same split, within one
//! process.

mod green;
mod reach;
mod shares;

pub use green::{GreenPartition, GreenSplit, RestOfSplit};
pub use reach::{LARGEST_READ, Reach, mps_multiprocessors, mps_percentage, reads_in_flight};
pub use shares::{Division, ShareSteps, Shares};
