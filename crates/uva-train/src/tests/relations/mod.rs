//! Models over the relations of a typed graph.

mod batches;
mod embeddings;
mod formulas;
mod refusals;
mod whole_graphs;
