//! What METIS is given.

/// An undirected graph: every edge is in the lists of both its ends, once, and no node is in its own.
#[derive(Clone, Copy, Debug)]
pub struct Lists<'g> {
    /// Where each node's list begins in `entries`, and the end of the last.
    pub begins: &'g [usize],
    /// The other end of each edge.
    pub entries: &'g [u32],
    /// What it costs that the ends are in different parts; as many as entries, and the same in both lists.
    pub weights: &'g [u32],
    /// Which nodes are balanced besides all of them: one mark a node.
    pub marks: &'g [bool],
}
