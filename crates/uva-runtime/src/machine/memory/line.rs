//! Items of memory that a run takes.

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
    /// Pages of files, which all processes of the machine have in common. The system drops them where memory is short,
    /// and reads them again.
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
    /// What uses it.
    pub item: String,
    /// Where it is.
    pub kind: MemoryKind,
    /// How much.
    pub bytes: u64,
    /// Who has it, where ranks divide the epochs.
    #[serde(skip)]
    pub held: MemoryHolder,
}

impl MemoryLine {
    /// Memory that each rank has.
    #[must_use]
    pub fn new(item: &str, kind: MemoryKind, bytes: u64) -> Self {
        Self { item: item.to_owned(), kind, bytes, held: MemoryHolder::ByRank }
    }

    /// Memory that all ranks have together, as pages of a file that each maps.
    #[must_use]
    pub fn once(item: &str, kind: MemoryKind, bytes: u64) -> Self {
        Self { held: MemoryHolder::Once, ..Self::new(item, kind, bytes) }
    }
}

/// Who has an item of memory in a run with ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryHolder {
    /// Each rank.
    #[default]
    ByRank,
    /// All together.
    Once,
    /// The samplers of a rank, and of all ranks where they share them: then for two epochs.
    BySamplers,
    /// Each GPU, whether it trains or samples.
    ByGpu,
}
