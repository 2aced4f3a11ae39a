//! Datasets as other crates see them: opening, refusing, reordering, stamps. One program, one module a subject.

// Where uva-io's tests find it too.
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
