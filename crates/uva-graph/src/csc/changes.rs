//! Changes made to edges before they enter the lists.

/// Treatment of self-loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelfLoops {
    /// Keep them unchanged.
    Keep,
    /// Give every node exactly one self-loop.
    Add,
    /// Remove them.
    Remove,
}

impl SelfLoops {
    /// Parses `keep`, `add` or `remove`.
    pub fn from_name(name: &str) -> Option<SelfLoops> {
        Some(match name {
            "keep" => SelfLoops::Keep,
            "add" => SelfLoops::Add,
            "remove" => SelfLoops::Remove,
            _ => return None,
        })
    }
}

/// The changes to the edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changes {
    /// Add the reverse of every edge.
    pub symmetrise: bool,
    /// Keep one of each set of equal edges.
    pub deduplicate: bool,
    /// Treatment of self-loops.
    pub self_loops: SelfLoops,
}

impl Changes {
    /// No changes: edges as in the source.
    pub const NONE: Changes = Changes { symmetrise: false, deduplicate: false, self_loops: SelfLoops::Keep };

    /// Whether the lists are unchanged.
    pub fn is_none(self) -> bool {
        self == Changes::NONE
    }

    /// Whether each list is sorted afterwards.
    pub(super) fn sorts(self) -> bool {
        self.symmetrise || self.deduplicate
    }
}
