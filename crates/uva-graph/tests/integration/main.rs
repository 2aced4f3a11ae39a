//! Datasets through the public interface: opening, refusing, reordering, stamps. One program, with a module per
//! subject.

// At a path that uva-io's tests use as well.
#[path = "../common/mod.rs"]
mod common;

mod node_file;
mod open;
mod partition_texts;
mod parts;
mod ranges;
mod reorder;
mod stamp;
mod stamp_elsewhere;
mod typed;
mod typed_refusals;
