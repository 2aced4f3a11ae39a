//! Rows that the device keeps: tables and caches, and what uploads them.

pub(crate) mod cache;
pub(crate) mod table;
pub(crate) mod tables;
pub(crate) mod upload;
