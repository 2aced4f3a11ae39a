//! Tests of the crate as a whole: against finite differences, a dense reference, itself interrupted, and bad input.

mod checkpoints;
mod dense_reference;
mod gradients;
mod support;
mod training;
