//! Readers over real files: the same bytes as plain reads for tables of any shape, and errors with the file's name.

mod readers;
mod refused;
