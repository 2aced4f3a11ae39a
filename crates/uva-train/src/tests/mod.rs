//! Tests of the crate as a whole: against finite differences, a dense reference, itself interrupted, another device,
//! and bad input.

mod checkpoints;
mod class_weights;
mod confirmation;
mod cuda;
mod dense_reference;
mod device_input;
mod edge_weights;
mod footprint;
mod given;
mod gradients;
mod hop_models;
mod hop_rows;
mod hop_training;
mod late;
mod on_device;
mod padding;
mod regression;
mod rehearsal;
mod summed;
mod sums;
mod support;
mod tasks;
mod tensor_blocks;
mod training;
