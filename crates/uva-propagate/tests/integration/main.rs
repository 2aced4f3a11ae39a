//! Hop sets made of small graphs and compared with plain loops.

mod bytes;
mod operators;
mod sets;
mod support;
