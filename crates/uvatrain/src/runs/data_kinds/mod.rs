//! The kinds of data that commands train on and predict for, and the choice of the kind at a path.
//!
//! | file | holds |
//! |---|---|
//! | `kind` | the interface |
//! | `graph` | datasets with a graph |
//! | `hop_set` | hop sets |

mod graph;
mod hop_set;
mod kind;

use std::path::Path;

use uva_propagate::HopSet;

use self::graph::GraphData;
use self::hop_set::HopSetData;

pub use kind::DataKind;

/// The kind of the data at this path.
pub fn kind_at(path: &Path) -> &'static dyn DataKind {
    if HopSet::is_at(path) { &HopSetData } else { &GraphData }
}
