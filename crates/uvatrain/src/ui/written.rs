//! The message after a dataset was written.

use std::path::Path;
use std::time::Duration;

use uva_graph::{Dataset, Labels, Split, TypedDataset, Verify};

use super::{format, out, shell};
use uva_runtime::spec::ByteSize;

/// Prints the contents of `path`, the time taken, and the next steps.
pub fn say(path: &Path, took: Duration) -> anyhow::Result<()> {
    let dataset = TypedDataset::open_verified(path, Verify::HeadersOnly)?;
    if dataset.metagraph().is_named() {
        say_types(&dataset, took);
        return Ok(());
    }
    let dataset = dataset.single_type()?;
    let count = |n: usize| format::count(n as u64);
    let size = bytes(path).map_or_else(String::new, |bytes| format!("{} ", ByteSize::from_bytes(bytes)));
    let labels = match dataset.labels() {
        Labels::Absent => "no labels".to_owned(),
        Labels::Regression { columns, .. } => format!("{} targets", columns.unwrap_or(1)),
        Labels::Single(_) | Labels::Multi { .. } => format!("{} classes", dataset.classes()),
    };
    out::say(&format!(
        "{}: {} nodes, {} edges, {} features, {labels}",
        path.display(),
        count(dataset.nodes()),
        count(dataset.edges()),
        dataset.table().dim,
    ));
    let [train, valid, test] = Split::ALL.map(|split| count(dataset.split(split).len()));
    let seconds = format::seconds(took.as_secs_f64());
    out::say(&format!("splits: {train} train, {valid} valid, {test} test; {size}written in {seconds}"));
    dataset.overlaps().iter().for_each(|overlap| out::say(&format!("splits: {overlap}")));
    next(&dataset, path).iter().for_each(|line| out::say(line));
    Ok(())
}

/// Prints the contents of a typed graph.
fn say_types(dataset: &TypedDataset, took: Duration) {
    let (metagraph, path) = (dataset.metagraph(), dataset.path());
    let count = |n: usize| format::count(n as u64);
    out::say(&format!(
        "{}: {} nodes of {} types, {} edges of {} relations",
        path.display(),
        count(dataset.nodes()),
        metagraph.type_count(),
        count(dataset.edges()),
        metagraph.relation_count(),
    ));
    for node_type in metagraph.types() {
        let [train, valid, test] = Split::ALL.map(|split| dataset.split_of(node_type, split).len());
        if train + valid + test > 0 {
            let (name, [train, valid, test]) =
                (metagraph.type_name(node_type), [train, valid, test].map(count));
            out::say(&format!("splits of {name}: {train} train, {valid} valid, {test} test"));
        }
        for overlap in dataset.overlaps_of(node_type) {
            out::say(&format!("splits of {}: {overlap}", metagraph.type_name(node_type)));
        }
    }
    let size = bytes(path).map_or_else(String::new, |bytes| format!("{} ", ByteSize::from_bytes(bytes)));
    out::say(&format!("{size}written in {}", format::seconds(took.as_secs_f64())));
    out::say(&format!("next: uvatrain info {}", shell::path(path)));
}

/// The possible next steps with a dataset, and the steps for which it lacks labels or training nodes.
fn next(dataset: &Dataset, path: &Path) -> Vec<String> {
    let (file, path) = (path.display(), shell::path(path));
    let labelled = match dataset.labels() {
        Labels::Absent => false,
        Labels::Single(labels) => labels.iter().any(|&label| label >= 0),
        Labels::Multi { .. } | Labels::Regression { .. } => true,
    };
    let trains = !dataset.split(Split::Train).is_empty();
    let mut lines = Vec::new();
    if !labelled {
        lines.push(format!(
            "no node has a label, which only `uvatrain train` needs: give them in an import (--arrays for an edge list), or \
             write {file}/label.npy"
        ));
    }
    if !trains {
        lines.push(format!(
            "no node is in the training split: write {file}/train_idx.npy with the ids of those to make batches for"
        ));
    }
    lines.push(match (labelled, trains) {
        (true, true) => format!("next: uvatrain info {path}, uvatrain train {path}"),
        (false, true) => format!(
            "next: uvatrain info {path}, uvatrain bench pipeline {path}, uvatrain run {path} -- COMMAND"
        ),
        (_, false) => format!("next: uvatrain info {path}"),
    });
    lines
}

/// Bytes of the files in a directory, at any depth, or `None` if they cannot be read.
fn bytes(directory: &Path) -> Option<u64> {
    let of_entry = |entry: std::fs::DirEntry| {
        let metadata = entry.metadata().ok()?;
        if metadata.is_dir() { bytes(&entry.path()) } else { Some(metadata.len()) }
    };
    std::fs::read_dir(directory).ok()?.map(|entry| of_entry(entry.ok()?)).sum()
}
