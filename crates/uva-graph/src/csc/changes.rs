//! Changes to edges on their way into lists.

/// Treatment of self-loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelfLoops {
    /// Leave them as they are.
    Keep,
    /// Give every node exactly one.
    Add,
    /// Take them out.
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
    /// Give every edge its other direction.
    pub symmetrise: bool,
    /// Keep one of several equal edges.
    pub deduplicate: bool,
    /// Treatment of self-loops.
    pub self_loops: SelfLoops,
}

impl Changes {
    /// Edges as they are in the source.
    pub const NONE: Changes = Changes { symmetrise: false, deduplicate: false, self_loops: SelfLoops::Keep };

    /// Whether the lists stay as they are.
    pub fn is_none(self) -> bool {
        self == Changes::NONE
    }

    /// Whether each list ascends afterwards.
    pub(super) fn sorts(self) -> bool {
        self.symmetrise || self.deduplicate
    }
}
