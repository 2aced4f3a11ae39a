//! Loops over rows of a table, compiled for each set of instructions: copied, or widened to float32.
//!
//! [`copy_rows`] reads rows by id from a [`RowAddresses`] of addresses and writes them one after another, by the widest
//! instructions that [`RowCopy`] allows.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
mod copy;
mod ids;
mod portable;
mod sink;
mod source;
mod widening;

pub use copy::{CopyMethod, RowCopy, RowKind, copy_rows};
pub use ids::any_outside;
pub use sink::LINE;
pub use source::{CachedTable, JoinedTables, RowAddresses, TableRows};
pub use widening::NarrowFloat;
#[cfg(target_arch = "x86_64")]
pub(crate) use widening::each_narrow;
