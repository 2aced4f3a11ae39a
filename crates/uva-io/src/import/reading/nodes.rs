//! The valid ids of a source, and what defines them, for messages about invalid ids.

use std::fmt;

/// The ids `0..count`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeRange {
    pub(crate) count: u64,
    /// The origin of the count: `feat.npy has 6 rows`.
    from: String,
}

impl NodeRange {
    pub(crate) fn new(count: u64, from: impl Into<String>) -> NodeRange {
        NodeRange { count, from: from.into() }
    }

    /// Whether `id` is one of them.
    #[inline]
    pub(crate) fn has(&self, id: i64) -> bool {
        id.cast_unsigned() < self.count
    }
}

/// `outside the ids 0 to 5 (feat.npy has 6 rows)`: the end of a message about an id out of range.
impl fmt::Display for NodeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", uva_graph::verify::outside(self.count), self.from)
    }
}

/// The end and the number of the edge at `position`, if sources come first, then destinations, `edges` of each.
pub(crate) fn end_in_rows(position: u64, edges: u64) -> String {
    match position.checked_sub(edges) {
        None => format!("the source of edge {position}"),
        Some(edge) => format!("the destination of edge {edge}"),
    }
}

/// The end and the number of the edge at `position` of pairs of source and destination.
pub(crate) fn end_in_pairs(position: u64) -> String {
    let end = if position.is_multiple_of(2) { "source" } else { "destination" };
    format!("the {end} of edge {}", position / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_out_of_range_are_shown_with_both_bounds_and_positions_with_the_end() {
        let nodes = NodeRange::new(6, "feat.npy has 6 rows");
        assert_eq!(nodes.to_string(), "outside the ids 0 to 5 (feat.npy has 6 rows)");
        assert_eq!([-1, 0, 5, 6].map(|id| nodes.has(id)), [false, true, true, false]);
        assert_eq!(NodeRange::new(0, "`nodes=0`").to_string(), "and there are no nodes (`nodes=0`)");
        assert_eq!(end_in_rows(3, 4), "the source of edge 3");
        assert_eq!(end_in_rows(4, 4), "the destination of edge 0");
        assert_eq!([4, 5].map(end_in_pairs), ["the source of edge 2", "the destination of edge 2"]);
    }
}
