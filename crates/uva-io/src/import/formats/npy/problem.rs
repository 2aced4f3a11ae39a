//! What is wrong with an array of the source.

use crate::import::reading::nodes::NodeRange;

#[derive(Debug, thiserror::Error)]
pub(super) enum ImportProblem {
    #[error("entry {position} is {value}, too large for a signed 64-bit integer")]
    TooLarge { position: usize, value: u64 },
    #[error("the label of node {node} is {value}, neither a class nor NaN")]
    NoClass { node: usize, value: f64 },
    #[error(
        "the target of node {node}, column {column}, is {value}, and targets of regression have to be finite float32: \
         give a node without one any number, and omit it from the splits"
    )]
    NoTarget { node: usize, column: usize, value: f64 },
    #[error("entry {position} at offset {at}, {end}, is {value}, {nodes}")]
    Id { position: usize, at: usize, end: String, value: i64, nodes: NodeRange },
    #[error("it names {found} nodes, the features have {nodes} rows")]
    Names { found: u64, nodes: u64 },
    #[error("the type of edge {position} is {value}, it has to be 0 to 65535")]
    NoType { position: usize, value: i64 },
    #[error("entry {position} is {value}, neither 0 nor 1")]
    NoMark { position: usize, value: f64 },
}
