//! Every backend of the gather under the conformance checks, and its own refusals. One program, with a module per
//! backend.

mod cuda;
mod disk;
mod host;
mod remote;
