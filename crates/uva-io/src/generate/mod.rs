//! Generated graphs, with planted classes so that a model can learn them. A generator has one file and one row of
//! [`GENERATORS`].

mod binomial;
mod citation;
mod common;
mod estimate;
mod generators;
mod permutation;
mod planted;
mod power_law;
mod preset;
mod random;
mod recipe;
mod rmat;
mod sbm;
mod shape_options;
#[cfg(test)]
mod testing;
mod train_by;
mod web;

pub use citation::Citation;
pub use common::Common;
pub use estimate::GeneratorEstimate;
pub use generators::{GENERATORS, estimate, shape, write};
pub use power_law::PowerLaw;
pub use preset::{PRESETS, Preset};
pub use recipe::{Generator, Recipe};
pub use rmat::Rmat;
pub use sbm::{Mixing, Sbm};
pub use shape_options::ShapeOptions;
pub use train_by::TrainBy;
pub use web::Web;
