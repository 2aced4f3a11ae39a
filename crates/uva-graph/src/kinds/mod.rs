//! The dataset kinds: the content of each, and its implementation of `Kind`.
//!
//! | file | kind |
//! |---|---|
//! | `graph` | a graph with features and labels of its nodes, of one type or several: a directory of `.npy` files |
//! | `ranges` | the same with the feature rows of one range of its nodes, where ranks divide them |
//! | `hops` | rows of several hops in place of a graph: a hop set |
//!
//! `hop_rows` and `own_rows` have the files of the last two kinds, and views of them.

mod graph;
pub(crate) mod hop_rows;
mod hops;
mod kind;
pub(crate) mod own_rows;
mod ranges;

pub(crate) use kind::Kind;
pub use kind::KindWords;
