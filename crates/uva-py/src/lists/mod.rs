//! Lists of neighbours as calls: made of edges, and the loops over them. And the loops over tables of trained rows.

pub mod edges;
mod given;
pub mod loops;
pub mod trained;
