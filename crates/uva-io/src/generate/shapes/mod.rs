//! The shapes of generated graphs, one file each.

pub(crate) mod citation;
pub(crate) mod mag;
pub(crate) mod power_law;
pub(crate) mod rmat;
pub(crate) mod sbm;
pub(crate) mod typed;
pub(crate) mod web;
