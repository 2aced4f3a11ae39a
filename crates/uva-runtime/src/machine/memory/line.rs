//! Items of a run's memory.

use serde::Serialize;

/// A kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryKind {
    /// Host memory that the system may swap out.
    Host,
    /// Host memory that is pinned for a GPU.
    Pinned,
    /// A GPU's memory.
    Device,
    /// Pages of files, which all processes of the machine have in common. The system drops them if memory is short, and
    /// reads them again.
    Mapped,
}

impl MemoryKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Host, Self::Pinned, Self::Device, Self::Mapped];

    /// The name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Pinned => "pinned",
            Self::Device => "device",
            Self::Mapped => "mapped",
        }
    }
}

/// An item of memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryLine {
    /// Its use.
    pub item: String,
    /// Its kind.
    pub kind: MemoryKind,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its holder, if ranks divide the epochs.
    #[serde(skip)]
    pub held: MemoryHolder,
}

impl MemoryLine {
    /// An item that each rank has.
    #[must_use]
    pub fn new(item: &str, kind: MemoryKind, bytes: u64) -> Self {
        Self { item: item.to_owned(), kind, bytes, held: MemoryHolder::ByRank }
    }

    /// An item that all ranks share, such as pages of a file that each maps.
    #[must_use]
    pub fn once(item: &str, kind: MemoryKind, bytes: u64) -> Self {
        Self { held: MemoryHolder::Once, ..Self::new(item, kind, bytes) }
    }
}

/// The holder of an item of memory in a run with ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryHolder {
    /// Each rank.
    #[default]
    ByRank,
    /// All ranks together.
    Once,
    /// The samplers of a rank; if ranks share samplers, those of all ranks, for two epochs.
    BySamplers,
    /// Each GPU that trains or samples.
    ByGpu,
}
