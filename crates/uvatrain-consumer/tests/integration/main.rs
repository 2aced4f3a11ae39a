//! The consumer's session, driven by the loader's threads. One program, with a module per subject.

mod on_gpu;
mod predicting;
mod training;
