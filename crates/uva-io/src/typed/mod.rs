//! The writer of typed graphs, datasets of format 2, in memory bounded by the caller.
//!
//! Importers, generators and the Python module write through [`TypedWriter`]. It takes a [`GraphPlan`] (types and
//! relations), arrays of nodes as files, and edges relation by relation, each through one builder of `uva-graph`. Values of
//! edges are [`EdgeColumns`], in the order of the edges.

mod edge_column;
mod plan;
mod reverse;
mod writer;

pub use edge_column::{EdgeColumn, EdgeColumns};
pub(crate) use plan::metagraph_of;
pub use plan::{GraphPlan, RelationPlan, Reversal};
pub use writer::TypedWriter;
