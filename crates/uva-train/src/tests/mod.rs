//! Tests of the crate as a whole: against finite differences, a dense reference, itself interrupted, another device,
//! and bad input.

mod blocks;
mod dense_reference;
mod devices;
mod hop_sets;
mod support;
mod trainer;
