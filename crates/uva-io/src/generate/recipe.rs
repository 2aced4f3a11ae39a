//! A generator, and the options of one generated graph.

use std::fmt;

use uva_graph::GraphError;

use super::estimate::GeneratorEstimate;
use super::options::common::Common;
use super::options::shape_options::ShapeOptions;
use super::planted::PlantedGraph;
use super::planted_types::PlantedTypes;

/// A shape of graph: a row of [`GENERATORS`](super::GENERATORS).
#[derive(Debug)]
pub struct Generator {
    /// The name on the command line and in `meta.json`.
    pub name: &'static str,
    /// One line of help, without a full stop.
    pub help: &'static str,
    /// Why a graph of this shape may have fewer edges than its mean degree implies.
    pub why_fewer_edges: &'static str,
    /// The supported [`ShapeOptions`], by their names on the command line.
    pub takes: &'static [&'static str],
    /// The default options.
    pub defaults: fn() -> Box<dyn Recipe>,
}

/// The options of one generator.
pub trait Recipe: fmt::Debug {
    /// The generator.
    fn generator(&self) -> &'static Generator;

    /// The options shared by all shapes, with derived values filled in.
    fn common(&self) -> Common;

    /// The options shared by all shapes as given, for changes.
    fn common_mut(&mut self) -> &mut Common;

    /// Applies the given options; unsupported options have been rejected.
    fn shape(&mut self, _: &ShapeOptions) {}

    /// Checks the options and computes derived values.
    ///
    /// # Errors
    /// If an option is out of range.
    fn plan(&self) -> Result<Planned<'_>, GraphError>;

    /// The cost, for common options that have been checked.
    fn estimate(&self) -> GeneratorEstimate {
        GeneratorEstimate::of(&self.common())
    }
}

/// A checked graph, not yet written.
#[expect(missing_debug_implementations, reason = "a plan is only written")]
pub enum Planned<'r> {
    /// A graph with one type of nodes and edges.
    Graph(Box<dyn PlantedGraph + 'r>),
    /// A typed graph.
    Typed(Box<dyn PlantedTypes + 'r>),
}
