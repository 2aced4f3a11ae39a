//! What a cache is worth: the benefit model, the allocator, and measured times against them.

pub(crate) mod allocate;
pub(crate) mod model;
pub(crate) mod profile;
pub(crate) mod sums;
pub(crate) mod timing;
