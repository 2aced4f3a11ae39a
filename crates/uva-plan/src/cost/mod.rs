//! The value of a cache: the benefit model, the allocator, and a comparison with measured times.

pub(crate) mod allocate;
pub(crate) mod model;
pub(crate) mod profile;
pub(crate) mod sums;
pub(crate) mod timing;
