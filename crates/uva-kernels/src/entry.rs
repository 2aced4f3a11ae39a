//! The kernels' entry points and their parameters.

use crate::block::{BLOCK_PREPARE, BatchBlocks};
use crate::cache::{CACHE_INSERT, InsertArguments};
use crate::copies::{COPY_ARRAYS, CopyArguments};
use crate::gather::{GATHER_BEGIN, GatherArguments, IdWidth, Kernel, SPIN_UNTIL, finish_entry};
use crate::order::{ORDER_STEPS, OrderArguments};
use crate::sample::{SampleArguments, SampleKernel};
use crate::sums::{ContinuedArguments, SumArguments, SummedType};
use crate::tables::{FINISH_TABLES, TablesArguments};
use crate::verdict::{BATCH_VERDICT, VerdictArguments};

/// A kernel that can be launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryPoint {
    /// Its name in the module.
    pub name: &'static str,
    /// Its parameters.
    pub takes: Takes,
}

/// Parameters of an entry point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// The address of a [`crate::gather::GatherReport`].
    Report,
    /// The address of a [`crate::gather::GatherReport`], the address of the ids, and the report stamp.
    Finish,
    /// The address of a word that the kernel waits for.
    Flag,
    /// [`GatherArguments`], with ids of this width, and with or without a cache.
    Gather(IdWidth, bool),
    /// [`TablesArguments`].
    Tables,
    /// [`TablesArguments`], and the report stamp.
    FinishTables,
    /// [`InsertArguments`].
    Insert,
    /// [`CopyArguments`].
    Copies,
    /// [`OrderArguments`].
    Order,
    /// [`SumArguments`] of rows of these values.
    Sums(SummedType),
    /// [`ContinuedArguments`] of rows of these values.
    Continued(SummedType),
    /// [`BatchBlocks`].
    Blocks,
    /// [`VerdictArguments`].
    Verdict,
    /// [`SampleArguments`]; the width if the kernel reads neighbour ids.
    Sample(Option<IdWidth>),
}

impl Takes {
    /// Bytes of each parameter, in order.
    pub fn sizes(self) -> &'static [usize] {
        match self {
            Self::Report | Self::Flag => &[8],
            Self::Finish => &[8, 8, 8],
            Self::Gather(..) => &[GatherArguments::BYTES],
            Self::Tables => &[TablesArguments::BYTES],
            Self::FinishTables => &[TablesArguments::BYTES, 8],
            Self::Insert => &[InsertArguments::BYTES],
            Self::Copies => &[CopyArguments::BYTES],
            Self::Order => &[OrderArguments::BYTES],
            Self::Sums(_) => &[SumArguments::BYTES],
            Self::Continued(_) => &[ContinuedArguments::BYTES],
            Self::Blocks => &[BatchBlocks::BYTES],
            Self::Verdict => &[VerdictArguments::BYTES],
            Self::Sample(_) => &[SampleArguments::BYTES],
        }
    }
}

/// Every entry point of every source.
pub fn entry_points() -> Vec<EntryPoint> {
    let mut all = vec![
        EntryPoint { name: GATHER_BEGIN, takes: Takes::Report },
        EntryPoint { name: FINISH_TABLES, takes: Takes::FinishTables },
        EntryPoint { name: CACHE_INSERT, takes: Takes::Insert },
        EntryPoint { name: COPY_ARRAYS, takes: Takes::Copies },
        EntryPoint { name: BLOCK_PREPARE, takes: Takes::Blocks },
        EntryPoint { name: BATCH_VERDICT, takes: Takes::Verdict },
        EntryPoint { name: SPIN_UNTIL, takes: Takes::Flag },
    ];
    all.extend(Kernel::ALL.map(|kernel| EntryPoint { name: kernel.tables_entry(), takes: Takes::Tables }));
    all.extend(ORDER_STEPS.map(|name| EntryPoint { name, takes: Takes::Order }));
    for values in SummedType::ALL {
        all.push(EntryPoint { name: values.entry(), takes: Takes::Sums(values) });
        all.push(EntryPoint { name: values.continuing_entry(), takes: Takes::Continued(values) });
    }
    for width in IdWidth::ALL {
        all.push(EntryPoint { name: finish_entry(width), takes: Takes::Finish });
        for kernel in Kernel::ALL {
            all.extend([false, true].map(|cached| EntryPoint {
                name: kernel.entry(width, cached),
                takes: Takes::Gather(width, cached),
            }));
        }
    }
    all.extend(
        SampleKernel::ALL
            .iter()
            .map(|kernel| EntryPoint { name: kernel.name(), takes: Takes::Sample(kernel.width()) }),
    );
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SOURCES;

    #[test]
    fn the_entry_points_are_those_of_the_sources() {
        let mut defined: Vec<&str> = SOURCES
            .iter()
            .flat_map(|source| source.text.lines())
            .filter_map(|line| {
                let marks = ["__global__ void ", "UVA_GATHER ", "UVA_SAMPLE ", "UVA_BLOCK "];
                marks.iter().find_map(|mark| line.strip_prefix(mark))?.split_once('(').map(|parts| parts.0)
            })
            .collect();
        let mut named: Vec<&str> = entry_points().iter().map(|entry| entry.name).collect();
        defined.sort_unstable();
        named.sort_unstable();
        assert_eq!(defined, named);
    }
}
