//! The driver, its devices and their contexts, and a report on them.

pub(crate) mod context;
pub(crate) mod device;
pub(crate) mod driver;
pub(crate) mod probe;
