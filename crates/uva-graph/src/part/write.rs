//! Writes all parts of a dataset, and the partition next to them.

use std::cell::Cell;
use std::fs;
use std::path::Path;

use uva_mem::files::read_regular;

use super::arrays::Arrays;
use super::options::{Cut, PartOptions};
use super::outline::Outline;
use crate::description::part_of::{MOST_BYTES, PartOf, fingerprint_of};
use crate::partition::parts::{CLOSURE, ClosureSummary, WrittenPart, WrittenParts};
use crate::partition::summary::PARTITION_SUMMARY;
use crate::{DATASET, Dataset, GraphError, Labels, PartitionMap, PartitionSummary, Progress};
use uva_files::disk_space::{self, BytesOnDisk};
use uva_files::staging::{StagedDirectory, flush};

/// The name of a part's directory.
pub fn directory_name(number: usize) -> String {
    format!("part-{number}")
}

/// Cuts `dataset` into parts and writes them into the directory `out`, which must not exist, with the partition.
///
/// | file | content |
/// |---|---|
/// | `part-0`, `part-1`, … | datasets |
/// | `partition.npy` | the map |
/// | `partition.json` | its description, with `hops` and what was written |
///
/// `progress` is called periodically, on this thread. In addition to the map, this takes 4 bytes of memory per node of
/// the whole graph and 8 per node of one part.
///
/// # Errors
/// If an option is wrong, the dataset is a part itself, `out` exists, an id of the dataset is not a node (its stamp is
/// older than the file), the disk has too little space, or a write fails. No files remain after an error.
///
/// # Panics
/// If the dataset was opened with [`Verify::HeadersOnly`](crate::Verify::HeadersOnly) and its content is wrong.
pub fn write_parts(
    dataset: &Dataset,
    options: &PartOptions<'_>,
    out: &Path,
    progress: &dyn Fn(Progress),
) -> Result<Vec<WrittenPart>, GraphError> {
    let cut = options.of(dataset)?;
    let staged = StagedDirectory::new(out, &DATASET)?;
    let written = stage(&cut, options, (staged.path(), out), progress)?;
    staged.commit()?;
    Ok(written)
}

/// Like [`write_parts`], but writes into the existing `directory`, which has none of these files. For callers that add
/// files before they rename it to `out`.
///
/// # Errors
/// As [`write_parts`], but files remain.
///
/// # Panics
/// As [`write_parts`].
pub fn stage_parts(
    dataset: &Dataset,
    options: &PartOptions<'_>,
    (directory, out): (&Path, &Path),
    progress: &dyn Fn(Progress),
) -> Result<Vec<WrittenPart>, GraphError> {
    stage(&options.of(dataset)?, options, (directory, out), progress)
}

/// Peak memory of cutting, in bytes: owners, distances and members of the whole graph, and 8 bytes per node of one
/// part.
#[must_use]
pub fn memory_bytes(dataset: &Dataset) -> u64 {
    14 * dataset.nodes() as u64
}

/// Writes into `directory`, which is later renamed to `out`.
fn stage(
    cut: &Cut<'_>,
    options: &PartOptions<'_>,
    (directory, out): (&Path, &Path),
    progress: &dyn Fn(Progress),
) -> Result<Vec<WrittenPart>, GraphError> {
    let (dataset, parts) = (cut.dataset, cut.train.len());
    dataset.check_edges()?;
    dataset.check_copy()?;
    let written = sizes(cut, progress);
    let bytes: u64 = written.iter().map(|part| part.bytes).sum::<u64>() + 2 * dataset.nodes() as u64;
    let hops = options.hops;
    disk_space::check(
        out,
        bytes,
        format_args!(
            "{parts} parts with all that is within {hops} in-hops take {}: fewer hops or fewer parts take less",
            BytesOnDisk(bytes)
        ),
    )?;
    let summary = summary(cut, options, &written);
    let method = summary.method.clone();
    PartitionMap { summary: Some(summary), ..options.map.clone() }.write(directory)?;
    let description = directory.join(PARTITION_SUMMARY);
    let text = read_regular(&description, MOST_BYTES).map_err(GraphError::io(&description, "read"))?;
    let of = PartOf {
        number: 0,
        parts: parts as u32,
        hops,
        method,
        halo: 0,
        dataset: dataset.name().to_owned(),
        fingerprint: dataset.fingerprint(),
        partition: fingerprint_of(&text),
    };
    let done = Cell::new(0);
    let wrote = |more: usize| {
        done.set(bytes.min(done.get() + more as u64));
        progress(Progress { stage: "parts", done: done.get(), total: bytes });
    };
    for (number, part) in (0..).zip(&written) {
        let directory = directory.join(&part.dir);
        fs::create_dir(&directory).map_err(GraphError::io(&directory, "create"))?;
        // Outlines are computed a second time, since all of them together may exceed the memory.
        let outline = Outline::of(cut, number as usize);
        Arrays { outline: &outline, directory: &directory, wrote: &wrote }.write()?;
        write_meta(dataset, PartOf { number, halo: part.halo, ..of.clone() }, &directory)?;
        flush(&directory)?;
    }
    progress(Progress { stage: "parts", done: bytes, total: bytes });
    Ok(written)
}

/// The sizes of all parts.
fn sizes(cut: &Cut<'_>, progress: &dyn Fn(Progress)) -> Vec<WrittenPart> {
    let total = cut.train.len();
    let told = |done: usize| Progress { stage: "closures", done: done as u64, total: total as u64 };
    progress(told(0));
    (0..total)
        .map(|number| {
            let sizes = Outline::of(cut, number).sizes(directory_name(number));
            progress(told(number + 1));
            sizes
        })
        .collect()
}

/// The description for a partition with written parts.
fn summary(cut: &Cut<'_>, options: &PartOptions<'_>, written: &[WrittenPart]) -> PartitionSummary {
    let summary = options.map.described(cut.dataset, &cut.owners, options.hops);
    let parts = ClosureSummary {
        layout: CLOSURE.to_owned(),
        split_eval: options.split_eval,
        written: written.to_vec(),
    };
    PartitionSummary { hops: options.hops, written: Some(WrittenParts::Closure(parts)), ..summary }
}

fn write_meta(dataset: &Dataset, of: PartOf, directory: &Path) -> Result<(), GraphError> {
    let mut meta = dataset.meta().in_format_1();
    meta.name = Some(format!("{}-{}", dataset.name(), directory_name(of.number as usize)));
    // The largest label may be in another part.
    if let (Labels::Single(_), classes @ 1..) = (dataset.labels(), dataset.classes()) {
        meta.classes = Some(classes as u64);
    }
    meta.part = Some(of);
    meta.write(directory)
}
