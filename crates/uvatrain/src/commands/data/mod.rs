//! Commands that make, convert, divide and describe datasets.

pub mod export;
pub mod generate;
pub mod import;
pub mod info;
pub mod order;
pub mod partition;
pub mod propagate;
