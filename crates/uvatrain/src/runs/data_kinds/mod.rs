//! The kinds of data that commands train on and predict for.
//!
//! | file | holds |
//! |---|---|
//! | `kind` | the interface |
//! | `graph` | datasets with a graph |
//! | `hop_set` | hop sets |
//! | `found` | the kind at a path |

mod found;
mod graph;
mod hop_set;
mod kind;

pub use found::kind_at;
pub use kind::DataKind;
