//! Lists of neighbours as calls: made of edges, and the loops over them.

pub mod edges;
pub mod loops;
