//! Loops over lists of rows: what a block of a sampled graph computes, and the way back for gradients.
//!
//! List `v` names rows of a table, its edges. [`WeightedSums`] adds them up, [`maxima`] takes the largest of each
//! column, [`attention`] turns scores into weights. Each list is computed by one thread in the order of its edges. So
//! results repeat bit for bit, with all vectors and for any number of threads.

pub mod attention;
mod checked;
mod dots;
pub mod maxima;
mod own;
mod sums;
mod tasks;
#[cfg(test)]
mod tests;
mod transpose;

pub use checked::{Id, Lists, ListsError};
pub use dots::dots;
pub use own::{Own, with_own};
pub use sums::{Element, WeightedSums, Weights};
pub use transpose::{offsets, transpose};
