//! Models over the relations of a typed graph.

mod batches;
mod formulas;
mod refusals;
