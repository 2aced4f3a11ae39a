//! Datasets made from what other programs left: [`npy`] and [`planetoid`].
//!
//! An import writes beside its final name and renames at the end, so that one that fails leaves nothing.

mod npy;
mod pickle;
mod planetoid;
mod scipy;

use std::path::Path;

pub use npy::npy;
pub use planetoid::planetoid;

use crate::adjacency::{Changes, Lists};
use crate::files::{Files, names};
use crate::npy::{NpyType, NpyWriter};
use crate::{GraphError, verify};

/// What to do with edges from a node to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelfLoops {
    /// Leave them as they are.
    Keep,
    /// Give every node exactly one.
    Add,
    /// Take them out.
    Remove,
}

impl SelfLoops {
    /// The choice that `name` means: `keep`, `add` or `remove`.
    pub fn from_name(name: &str) -> Option<SelfLoops> {
        Some(match name {
            "keep" => SelfLoops::Keep,
            "add" => SelfLoops::Add,
            "remove" => SelfLoops::Remove,
            _ => return None,
        })
    }
}

/// What to change on the way in. `None` does what suits the source: `npy` leaves the edges as they are, `planetoid`
/// symmetrises, deduplicates and removes self-loops, as every user of those graphs does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// Give every edge its other direction. Neighbours then ascend in each list.
    pub symmetrise: Option<bool>,
    /// Keep one of several equal edges. Neighbours then ascend in each list.
    pub deduplicate: Option<bool>,
    /// What to do with edges from a node to itself.
    pub self_loops: Option<SelfLoops>,
    /// The name in `meta.json`; for `planetoid` also which of several graphs in the directory is meant.
    pub name: Option<String>,
}

impl ImportOptions {
    fn changes(&self, default: Changes) -> Changes {
        Changes {
            symmetrise: self.symmetrise.unwrap_or(default.symmetrise),
            deduplicate: self.deduplicate.unwrap_or(default.deduplicate),
            self_loops: self.self_loops.unwrap_or(default.self_loops),
        }
    }
}

/// Writes `indptr.npy` and `indices.npy`, the latter in 32 bits where ids fit.
fn write_lists(directory: &Path, lists: &Lists) -> Result<(), GraphError> {
    crate::npy::write_array(&directory.join(names::INDPTR), NpyType::I64, &[], &lists.indptr)?;
    let path = directory.join(names::INDICES);
    if lists.indptr.len() - 1 > i32::MAX as usize {
        return crate::npy::write_array(&path, NpyType::I64, &[], &lists.indices);
    }
    let mut writer = NpyWriter::create(&path, NpyType::I32, &[])?;
    for ids in lists.indices.chunks(1 << 16) {
        let narrow: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
        writer.write(&narrow)?;
    }
    writer.finish().map(drop)
}

/// Opens what was written as any reader would, and checks all of it but feature values. The sources have been checked
/// before, so that their own names and offsets are in the messages; what is found here is a mistake of ours.
fn check(directory: &Path) -> Result<(), GraphError> {
    let files = Files::open(directory)?;
    verify::nodes(&files)?;
    verify::edges(&files)
}
