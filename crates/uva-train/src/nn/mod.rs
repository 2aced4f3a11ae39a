//! The components of layers.

pub(crate) mod activation;
pub(crate) mod dropout;
pub(crate) mod initial;
pub(crate) mod product;
pub(crate) mod random;
pub(crate) mod rowwise;
