//! Rows in device memory: tables, caches and uploads.

pub(crate) mod cache;
pub(crate) mod table;
pub(crate) mod tables;
pub(crate) mod upload;
