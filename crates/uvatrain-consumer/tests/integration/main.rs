//! The consumer's session, driven by the loader's threads. One program, one module a subject.

mod on_gpu;
mod predicting;
mod training;
