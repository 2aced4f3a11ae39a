//! Tests of the whole crate: compared with finite differences, a dense reference, an interrupted run and another
//! device, and with bad input.

mod blocks;
mod dense_reference;
mod devices;
mod hop_sets;
mod relations;
mod support;
mod trainer;
