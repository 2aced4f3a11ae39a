//! Generated graphs, with planted classes so that a model can learn them. A generator has one file and one row of
//! [`GENERATORS`].

mod draws;
mod estimate;
mod generators;
mod options;
mod planted;
mod planted_types;
mod preset;
mod recipe;
mod shapes;
#[cfg(test)]
mod testing;

pub use estimate::GeneratorEstimate;
pub use generators::{GENERATORS, best_accuracies, estimate, shape, write};
pub use options::common::Common;
pub use options::shape_options::ShapeOptions;
pub use options::train_by::TrainBy;
pub use planted_types::{DrawnAt, PlantedRelation, PlantedType, PlantedTypes};
pub use preset::{PRESETS, Preset};
pub use recipe::{Generator, Planned, Recipe};
pub use shapes::citation::Citation;
pub use shapes::mag::Mag;
pub use shapes::power_law::PowerLaw;
pub use shapes::rmat::Rmat;
pub use shapes::sbm::{Mixing, Sbm};
pub use shapes::typed::TwoRelations;
pub use shapes::web::Web;
