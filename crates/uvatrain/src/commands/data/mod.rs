//! Commands about datasets: they make, convert, divide and describe them.

pub mod export;
pub mod generate;
pub mod import;
pub mod info;
pub mod order;
pub mod partition;
pub mod propagate;
