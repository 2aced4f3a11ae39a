//! Which cores and which GPU does which work.

pub(crate) mod cores;
pub(crate) mod roles;
pub(crate) mod switch;
