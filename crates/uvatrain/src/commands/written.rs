//! What is said after a dataset was written.

use std::path::Path;
use std::time::Duration;

use uva_graph::{Dataset, Split, Verify};

use crate::flags::ByteSize;
use crate::ui::{format, out};

/// Says what lies in `path` now, how long it took, and what to do with it.
pub fn say(path: &Path, took: Duration) -> anyhow::Result<()> {
    let dataset = Dataset::open_verified(path, Verify::HeadersOnly)?;
    let count = |n: usize| format::count(n as u64);
    let size = bytes(path).map_or_else(String::new, |bytes| format!(", {}", ByteSize::from_bytes(bytes)));
    out::say(&format!(
        "{}: {} nodes, {} edges, {} features, {} classes{size}, in {}",
        path.display(),
        count(dataset.nodes()),
        count(dataset.edges()),
        dataset.features().dim,
        dataset.classes(),
        format::seconds(took.as_secs_f64())
    ));
    let [train, valid, test] = Split::ALL.map(|split| count(dataset.split(split).len()));
    out::say(&format!("splits: {train} train, {valid} valid, {test} test"));
    out::say(&format!("next: uvatrain info {0}, uvatrain train {0}", path.display()));
    Ok(())
}

/// Bytes of the files in a directory, or nothing where that cannot be told.
fn bytes(directory: &Path) -> Option<u64> {
    std::fs::read_dir(directory).ok()?.map(|entry| Some(entry.ok()?.metadata().ok()?.len())).sum()
}
