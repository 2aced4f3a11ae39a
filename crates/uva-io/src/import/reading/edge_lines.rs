//! Edges as lines of `source,destination` without a header.

use std::path::Path;

use uva_graph::GraphError;

use super::nodes::NodeRange;
use super::text::{LineError, Position, each_line, integer};

/// The number of lines with an edge.
pub(crate) fn count(path: &Path) -> Result<u64, GraphError> {
    let mut count = 0;
    each_line(path, &|_| {}, |_, text| {
        count += u64::from(!text.is_empty());
        Ok(())
    })?;
    Ok(count)
}

/// Passes both ends of each edge, which have been checked: the first by `sources`, the second by `destinations`.
pub(crate) fn each_edge(
    path: &Path,
    report: &dyn Fn(Position),
    [sources, destinations]: [&NodeRange; 2],
    mut push: impl FnMut(u64, u64) -> Result<(), GraphError>,
) -> Result<(), GraphError> {
    each_line(path, report, |_, text| {
        if text.is_empty() {
            return Ok(());
        }
        let wrong = || LineError::Line("expected source,destination".to_owned());
        let end = |text: &[u8], end: &str, nodes: &NodeRange| match integer(text.trim_ascii()) {
            Some(id) if nodes.has(id) => Ok(id.cast_unsigned()),
            Some(id) => Err(LineError::Line(format!("its {end} is {id}, {nodes}"))),
            None => Err(wrong()),
        };
        let comma = memchr::memchr(b',', text).ok_or_else(wrong)?;
        let source = end(&text[..comma], "source", sources)?;
        let destination = end(&text[comma + 1..], "destination", destinations)?;
        push(source, destination).map_err(Into::into)
    })
}
