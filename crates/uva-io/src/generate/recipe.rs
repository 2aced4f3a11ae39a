//! A graph to be made, whatever its shape.

use std::path::Path;

use uva_graph::{GraphError, Progress, Summary};

use super::{Citation, Common, GeneratorEstimate, PowerLaw, Rmat, Sbm, Web};
use super::{citation, power_law, rmat, sbm, web};

/// One of the shapes with its options.
#[derive(Debug, Clone, PartialEq)]
pub enum Recipe {
    /// Few nodes with very many neighbours, many with few.
    PowerLaw(PowerLaw),
    /// Nodes in order of time that cite older ones of their field.
    Citation(Citation),
    /// Pages of hosts.
    Web(Web),
    /// Graph500's.
    Rmat(Rmat),
    /// Communities.
    Sbm(Sbm),
}

impl Recipe {
    /// The options that all shapes share.
    pub fn common(&self) -> Common {
        match self {
            Recipe::PowerLaw(options) => options.common(),
            Recipe::Citation(options) => options.common.clone(),
            Recipe::Web(options) => options.common.clone(),
            Recipe::Rmat(options) => options.common.clone(),
            Recipe::Sbm(options) => options.effective_common(),
        }
    }

    /// The same shape with other options of those that all share.
    pub fn with_common(self, common: Common) -> Recipe {
        match self {
            Recipe::PowerLaw(options) => Recipe::PowerLaw(options.with_common(common)),
            Recipe::Citation(options) => Recipe::Citation(Citation { common, ..options }),
            Recipe::Web(options) => Recipe::Web(Web { common, ..options }),
            Recipe::Rmat(options) => Recipe::Rmat(Rmat { common, ..options }),
            Recipe::Sbm(options) => Recipe::Sbm(Sbm { common, ..options }),
        }
    }

    /// What making it will take.
    ///
    /// # Errors
    /// Where an option is out of its range for every shape.
    pub fn estimate(&self) -> Result<GeneratorEstimate, GraphError> {
        let common = self.common();
        common.check()?;
        Ok(GeneratorEstimate::of(&common))
    }

    /// Why a graph of this shape may have fewer edges than its mean degree asks for.
    pub fn why_fewer_edges(&self) -> &'static str {
        match self {
            Recipe::Rmat(_) => {
                "most edges are drawn among few nodes, and one that repeats, or leads from a node to itself, is drawn anew \
                 three times and then left out"
            }
            Recipe::Web(_) => {
                "a link that repeats, leads past its host's end or back to its own page is drawn anew three times and then \
                 left out"
            }
            Recipe::Citation(_) => {
                "a node cites older ones only, of which the first nodes have few, and a citation that repeats is drawn anew \
                 three times and then left out"
            }
            Recipe::PowerLaw(_) | Recipe::Sbm(_) => {
                "a neighbour that repeats is drawn anew three times and then left out"
            }
        }
    }

    /// Writes the graph to the directory `out`, as the shape's own function does.
    ///
    /// # Errors
    /// Where an option is out of its range, `out` exists, or the system refuses to write; nothing is left behind then.
    pub fn write(&self, out: &Path, progress: &dyn Fn(Progress)) -> Result<Summary, GraphError> {
        match self {
            Recipe::PowerLaw(options) => power_law(out, options, progress),
            Recipe::Citation(options) => citation(out, options, progress),
            Recipe::Web(options) => web(out, options, progress),
            Recipe::Rmat(options) => rmat(out, options, progress),
            Recipe::Sbm(options) => sbm(out, options, progress),
        }
    }
}
