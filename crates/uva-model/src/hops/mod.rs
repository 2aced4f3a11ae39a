//! Models over a hop set: what they read, and their networks.

pub(crate) mod hop_model;
pub(crate) mod hop_networks;
