//! Random draws shared by the generators.

pub(crate) mod binomial;
pub(crate) mod permutation;
pub(crate) mod random;
