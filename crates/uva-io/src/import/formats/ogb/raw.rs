//! The common part of OGB's two layouts.

use std::path::Path;

use uva_graph::{ElementType, GraphError};

use crate::import::reading::nodes::NodeRange;
use crate::import::reading::text::{LineError, each_line, float, integer};
use crate::import::reading::values;
use crate::import::request::ImportRequest;
use crate::import::writing::output::{DatasetOutput, DatasetSizes};

#[derive(Debug, thiserror::Error)]
pub(super) enum OgbProblem {
    #[error("it counts {found} {what}, but {needed} are required")]
    Count { what: &'static str, found: u64, needed: u64 },
    #[error("it names node {id} more than once")]
    Twice { id: i64 },
}

/// The common part of the two layouts.
pub(super) trait Raw {
    /// The sizes known before anything is written.
    fn sizes(&self) -> Result<DatasetSizes, GraphError>;

    /// Writes edges, features and labels. Returns the features' type.
    fn write(
        self: Box<Self>,
        request: &ImportRequest<'_>,
        output: &DatasetOutput<'_>,
    ) -> Result<ElementType, GraphError>;
}

/// The node ids, whose number is in a file next to the edges.
pub(super) fn ids_of(nodes: u64) -> NodeRange {
    NodeRange::new(nodes, format!("there are {nodes} nodes"))
}

/// The single number in a file that counts nodes or edges of each graph; nothing if there is not such a file.
pub(super) fn count(path: &Path, what: &'static str) -> Result<Option<u64>, GraphError> {
    if !path.exists() {
        return Ok(None);
    }
    let mut counts = Vec::new();
    each_line(path, &|_| {}, |_, text| {
        let number = integer(text).and_then(|number| u64::try_from(number).ok());
        counts.push(number.ok_or_else(|| LineError::Line(format!("expected a number of {what}")))?);
        Ok(())
    })?;
    match counts.as_slice() {
        [count] => Ok(Some(*count)),
        counts => {
            let problem = OgbProblem::Count { what: "graphs", found: counts.len() as u64, needed: 1 };
            Err(GraphError::invalid(path, problem))
        }
    }
}

/// A label as text: an integer, a float that is a whole number, or nothing.
pub(super) fn label(text: &[u8]) -> Option<i64> {
    match integer(text) {
        Some(label) => Some(label),
        // pandas writes a missing value that is alone on its line as "".
        None if text.is_empty() || text == b"\"\"" => Some(-1),
        None => float::<f64>(text).and_then(values::class),
    }
}
