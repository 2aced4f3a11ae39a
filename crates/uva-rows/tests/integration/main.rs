//! Every backend of the gather against the conformance checks, and its own refusals. One program, one module a backend.

mod cuda;
mod disk;
mod host;
mod remote;
