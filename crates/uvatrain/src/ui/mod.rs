//! The user interface: lines and bars on stderr, tables and JSON on stdout.

pub mod bottleneck;
pub mod format;
pub mod listen;
pub mod log;
pub mod out;
pub mod progress;
pub mod remaining;
pub mod shell;
pub mod summary;
pub mod table;
pub mod work;
pub mod written;
