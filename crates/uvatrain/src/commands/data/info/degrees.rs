//! The lengths of neighbour lists.

use uva_graph::Csc;

/// The lengths of the lists of a graph, or of a relation.
pub(super) struct ListLengths {
    pub(super) max: i64,
    /// Nodes whose list is empty.
    pub(super) isolated: usize,
}

impl ListLengths {
    pub(super) fn of(csc: Csc<'_>) -> ListLengths {
        csc.indptr.windows(2).map(|ends| ends[1] - ends[0]).fold(
            ListLengths { max: 0, isolated: 0 },
            |seen, degree| ListLengths {
                max: seen.max.max(degree),
                isolated: seen.isolated + usize::from(degree == 0),
            },
        )
    }
}
