//! Readers over real files: the same bytes as plain reads, whatever the table's shape, and errors by the file's name.

mod readers;
mod refused;
