//! Assignment of CPU cores and GPUs to stages.

pub(crate) mod cores;
pub(crate) mod roles;
pub(crate) mod switch;
