//! Checks before a partition is made: options without effect and missing memory are refused.

use anyhow::Context;
use uva_cuda::memory::HostMemory;
use uva_files::disk_space::BytesOnDisk;
use uva_graph::{Dataset, part, ranges};
use uva_partition::Method;

use crate::exit;
use crate::flags::data::{PartLayout, PartitionFlags};

/// Refuses options that have no effect in this combination.
pub fn fits(flags: &PartitionFlags) -> anyhow::Result<()> {
    let refuse = |message: String| Err(exit::usage(message).into());
    let layout = flags.layout();
    if flags.parts == Some(1)
        && let Some(layout) = layout
    {
        let option = if flags.write_parts { "--write-parts" } else { "--layout" };
        let only = match layout {
            PartLayout::Closure => "the only part would be a copy of the dataset",
            PartLayout::Ranges => "the only part would have the rows of the whole dataset",
        };
        return refuse(format!("--parts 1 with {option}: {only}"));
    }
    match layout {
        None if flags.cut.split_eval => {
            return refuse("--split-eval: requires --write-parts".to_owned());
        }
        Some(PartLayout::Ranges) if flags.cut.split_eval => {
            let message =
                "--split-eval: not supported with --layout ranges, where every node is in exactly one part";
            return refuse(message.to_owned());
        }
        Some(PartLayout::Ranges) if flags.map.is_some() && flags.cut.hops.is_some() => {
            let message =
                "--hops: not supported with --map and --layout ranges, which contain no neighbourhoods";
            return refuse(message.to_owned());
        }
        _ => {}
    }
    let method = flags.method;
    if flags.scan.is_some() && method != Method::Pagraph {
        return refuse(format!("--scan: only valid with --method pagraph, not with --method {method}"));
    }
    if method.makes_blocks() {
        return Ok(());
    }
    let of_blocks = [
        ("--block-nodes", flags.block_nodes.is_some()),
        ("--sources", flags.sources.is_some()),
        ("--count", flags.count.is_some()),
    ];
    match of_blocks.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option, _)) => {
            refuse(format!("{option}: only valid with --method bgl or auto, not with --method {method}"))
        }
    }
}

/// The bytes of memory that the command may use.
pub fn memory_allowed(flags: &PartitionFlags) -> anyhow::Result<u64> {
    Ok(match flags.memory {
        Some(memory) => memory.bytes(),
        None => {
            HostMemory::read().context("cannot determine the available memory: give --memory")?.to_be_had()
        }
    })
}

/// Refuses parts whose writing would use more memory than allowed.
pub fn memory_of_parts(flags: &PartitionFlags, dataset: &Dataset, allowed: u64) -> anyhow::Result<()> {
    let needed = match flags.layout() {
        None => return Ok(()),
        Some(PartLayout::Closure) => part::memory_bytes(dataset),
        Some(PartLayout::Ranges) => ranges::memory_bytes(dataset),
    };
    if needed <= allowed {
        return Ok(());
    }
    let (needed, allowed) = (BytesOnDisk(needed), BytesOnDisk(allowed));
    Err(exit::usage(format!(
        "--memory: writing the parts takes about {needed} of memory, and {allowed} are allowed: allow more on a machine that \
         has it"
    ))
    .into())
}
