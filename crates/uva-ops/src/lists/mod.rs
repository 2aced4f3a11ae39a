//! Loops over lists of rows: the computations of a block of a sampled graph, and their gradients.
//!
//! List `v` refers to rows of a table by its edges. [`WeightedSums`] adds them up, gathered before or directly from the
//! table. [`Largest`] and [`maxima`] take the largest of each column, [`attention`] turns scores into weights. Each
//! list is computed by one thread in the order of its edges. So results repeat bit for bit, with all vectors and for
//! any number of threads. [`projects_first`] decides whether a layer sums rows or their products.

pub mod attention;
mod checked_lists;
mod column_maxima;
mod degree_weights;
mod dots;
mod layer_order;
pub mod maxima;
mod row_selection;
mod scaled_rows;
mod self_lists;
mod sums;
mod tasks;
#[cfg(test)]
mod tests;
mod transpose;

pub use checked_lists::{Id, Lists, ListsError};
pub use column_maxima::Largest;
pub use degree_weights::{degree_weights, inverse_root};
pub use dots::dots;
pub use layer_order::projects_first;
pub use row_selection::{Dense, IndexedRows, ListedRows};
pub use scaled_rows::add_scaled;
pub use self_lists::{OwnedLists, with_own};
pub use sums::{SumElement, WeightedSums, Weights};
pub use transpose::{offsets, transpose};
