//! Random draws that generators share.

pub(crate) mod binomial;
pub(crate) mod permutation;
pub(crate) mod random;
