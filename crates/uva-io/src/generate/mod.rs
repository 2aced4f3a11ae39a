//! Graphs made up on the spot, with classes planted in them so that there is something to learn.

mod binomial;
mod citation;
mod common;
mod estimate;
mod permutation;
mod planted;
mod power_law;
mod preset;
mod random;
mod recipe;
mod rmat;
mod sbm;
#[cfg(test)]
mod testing;
mod web;

pub use citation::{Citation, citation};
pub use common::Common;
pub use estimate::GeneratorEstimate;
pub use power_law::{PowerLaw, power_law};
pub use preset::{PRESETS, Preset};
pub use recipe::Recipe;
pub use rmat::{Rmat, rmat};
pub use sbm::{Mixing, Sbm, sbm};
pub use web::{Web, web};
