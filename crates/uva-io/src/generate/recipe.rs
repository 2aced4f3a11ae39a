//! A generator, and the options of one graph that it makes.

use std::fmt;

use uva_graph::GraphError;

use super::common::Common;
use super::planted::Shape;
use super::shape_options::{ShapeOption, ShapeOptions};

/// A shape of graph that can be made: a row of [`GENERATORS`](super::GENERATORS).
pub struct Generator {
    /// The name on the command line and in `meta.json`.
    pub name: &'static str,
    /// One line of help, without a full stop.
    pub help: &'static str,
    /// Why a graph of this shape may have fewer edges than its mean degree asks for.
    pub why_fewer_edges: &'static str,
    /// The options it takes beside those that all take.
    pub(super) takes: &'static [ShapeOption],
    /// Its options at their defaults.
    pub(super) defaults: fn() -> Box<dyn Recipe>,
}

impl Generator {
    /// Its options at their defaults.
    pub fn defaults(&self) -> Box<dyn Recipe> {
        (self.defaults)()
    }
}

impl PartialEq for Generator {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Generator {}

impl fmt::Debug for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The options of one generator.
pub trait Recipe: fmt::Debug {
    /// The generator.
    fn generator(&self) -> &'static Generator;

    /// The options that all shapes share.
    fn common(&self) -> &Common;

    /// The same, to be changed.
    fn common_mut(&mut self) -> &mut Common;

    /// The same with what follows from other options.
    fn effective_common(&self) -> Common {
        self.common().clone()
    }

    /// Takes over the given options; those that its generator does not take have been refused.
    fn shape(&mut self, _: &ShapeOptions) {}

    /// Checks the options and computes what follows from them.
    ///
    /// # Errors
    /// An option that is out of its range.
    fn plan(&self) -> Result<Box<dyn Shape + '_>, GraphError>;
}
