//! Writes all parts of a dataset, and the description beside them.

use std::cell::Cell;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use uva_mem::files;

use super::arrays::Arrays;
use super::options::PartOptions;
use super::outline::{Outline, WrittenPart};
use crate::disk_space::{self, BytesOnDisk};
use crate::npy::{NpyType, write_array};
use crate::part_of::{self, DESCRIPTION, PartOf, PartSource};
use crate::staged::{StagedDirectory, flush};
use crate::{Dataset, GraphError, Labels, Progress};

/// The name of the map beside the parts: uint16, the part of each node of the whole dataset.
pub const MAP: &str = "partition.npy";

/// The name of a part's directory.
pub fn directory_name(number: usize) -> String {
    format!("part-{number}")
}

/// Cuts `dataset` into parts and writes them into the directory `out`, which must not exist, with the map and a
/// description. `description` holds what the caller knows of the map, as its seed; keys of the parts are added to it.
///
/// | file | content |
/// |---|---|
/// | `part-0`, `part-1`, … | datasets |
/// | `partition.npy` | the part of each node, uint16 |
/// | `partition.json` | the description |
///
/// `progress` is called now and then, from this thread. Besides the map it takes 2 bytes of memory a node of the whole
/// graph, and 8 a node of one part.
///
/// # Errors
/// If an option is wrong, the dataset is a part itself, `out` exists, an id of the dataset is no node (its stamp is older
/// than the file), the disk has no room for the parts, or the system refuses to write. Nothing is left behind then.
///
/// # Panics
/// If the dataset was opened with [`Verify::HeadersOnly`](crate::Verify::HeadersOnly) and its content is wrong.
pub fn write_parts(
    dataset: &Dataset,
    options: &PartOptions<'_>,
    description: Map<String, Value>,
    out: &Path,
    progress: &dyn Fn(Progress),
) -> Result<Vec<WrittenPart>, GraphError> {
    options.check(dataset)?;
    let staged = StagedDirectory::new(out)?;
    let written = stage_parts(dataset, options, description, staged.path(), progress)?;
    staged.commit()?;
    Ok(written)
}

/// The same into `directory`, which exists and holds none of these files: for callers that add others to it before it
/// gets its name.
///
/// # Errors
/// As [`write_parts`], but files are left behind.
///
/// # Panics
/// As [`write_parts`].
pub fn stage_parts(
    dataset: &Dataset,
    options: &PartOptions<'_>,
    description: Map<String, Value>,
    directory: &Path,
    progress: &dyn Fn(Progress),
) -> Result<Vec<WrittenPart>, GraphError> {
    options.check(dataset)?;
    dataset.check_edges()?;
    let written = sizes(dataset, options, progress);
    let bytes: u64 = written.iter().map(|part| part.bytes).sum::<u64>() + 2 * dataset.nodes() as u64;
    let hops = options.hops;
    disk_space::check(
        directory,
        bytes,
        format_args!(
            "{} parts with all that is within {hops} in-hops take {}: fewer hops or parts take less",
            options.parts,
            BytesOnDisk(bytes)
        ),
    )?;
    let source = PartSource { name: dataset.name().to_owned(), fingerprint: dataset.fingerprint() };
    let text = described(dataset, options, description, &source, &written)?;
    let partition = part_of::fingerprint_of(text.as_bytes());
    write_array(&directory.join(MAP), NpyType::U16, &[], options.owners)?;
    let done = Cell::new(0);
    let wrote = |more: usize| {
        done.set(bytes.min(done.get() + more as u64));
        progress(Progress { stage: "parts", done: done.get(), total: bytes });
    };
    for (number, part) in written.iter().enumerate() {
        let directory = directory.join(&part.dir);
        fs::create_dir(&directory).map_err(GraphError::io(&directory, "create"))?;
        // Made a second time, as all of them together could take more memory than there is.
        let outline = Outline::of(dataset, options, number);
        Arrays { outline: &outline, directory: &directory, wrote: &wrote }.write()?;
        let of = PartOf {
            number: number as u32,
            parts: options.parts as u32,
            hops,
            method: options.method.to_owned(),
            halo: part.halo,
            dataset: source.clone(),
            partition: partition.clone(),
        };
        write_meta(dataset, &outline, of, &directory)?;
        flush(&directory)?;
    }
    let path = directory.join(DESCRIPTION);
    files::write_new(&path, text.as_bytes()).map_err(GraphError::io(&path, "write"))?;
    progress(Progress { stage: "parts", done: bytes, total: bytes });
    Ok(written)
}

/// The sizes of all parts.
fn sizes(dataset: &Dataset, options: &PartOptions<'_>, progress: &dyn Fn(Progress)) -> Vec<WrittenPart> {
    let total = options.parts as u64;
    progress(Progress { stage: "closures", done: 0, total });
    (0..options.parts)
        .map(|number| {
            let sizes = Outline::of(dataset, options, number).sizes(directory_name(number));
            progress(Progress { stage: "closures", done: number as u64 + 1, total });
            sizes
        })
        .collect()
}

/// The text of the description.
fn described(
    dataset: &Dataset,
    options: &PartOptions<'_>,
    mut description: Map<String, Value>,
    source: &PartSource,
    written: &[WrittenPart],
) -> Result<String, GraphError> {
    for (key, value) in [
        ("format", json!(1)),
        ("dataset", json!(source)),
        ("parts", json!(options.parts)),
        ("method", json!(options.method)),
        ("hops", json!(options.hops)),
        ("layout", json!("closure")),
        ("split_eval", json!(options.split_eval)),
        ("nodes", json!(options.node_counts())),
        ("train", json!(options.train_counts(dataset))),
        ("written", json!(written)),
    ] {
        description.insert(key.to_owned(), value);
    }
    let text = serde_json::to_string_pretty(&description);
    let mut text = text.map_err(|error| GraphError::invalid(Path::new(DESCRIPTION), error))?;
    text.push('\n');
    Ok(text)
}

fn write_meta(
    dataset: &Dataset,
    outline: &Outline<'_>,
    of: PartOf,
    directory: &Path,
) -> Result<(), GraphError> {
    let mut meta = dataset.meta().clone();
    meta.name = Some(format!("{}-{}", dataset.name(), directory_name(outline.number)));
    // The largest label may be in another part.
    if let (Labels::Single(_), classes @ 1..) = (dataset.labels(), dataset.classes()) {
        meta.classes = Some(classes as u64);
    }
    meta.part = Some(of);
    meta.write(directory)
}
