//! Sources of rows for a slot, and the balance between two of them; sets of tables.

pub(crate) mod balance;
pub(crate) mod kernel_read;
pub(crate) mod no_rows;
pub(crate) mod splice;
pub(crate) mod split;
pub(crate) mod staging;
pub(crate) mod table_set;
