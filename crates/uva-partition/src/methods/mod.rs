//! The methods of partitioning.
//!
//! | module | method |
//! |---|---|
//! | `blocks` | `bgl` |
//! | `levels` | `multilevel` |
//! | `stream` | `ldg`: nodes one after the other, each to the part with most of its neighbours |
//! | `closures` | `pagraph`: training nodes to the part that has most of their closure |
//! | `simple` | `range` and `random` |

pub(crate) mod blocks;
pub(crate) mod closures;
pub(crate) mod levels;
pub(crate) mod simple;
pub(crate) mod stream;
