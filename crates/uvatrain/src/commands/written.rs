//! What is said after a dataset was written.

use std::path::Path;

use uva_graph::generate::Summary;

use crate::flags::ByteSize;
use crate::ui::{format, out};

/// Says what lies in `path` now, and what to do with it.
pub fn say(path: &Path, summary: &Summary) {
    let Summary { nodes, edges, feature_dim, classes, split_sizes: [train, valid, test], seconds } = summary;
    let size = bytes(path).map_or_else(String::new, |bytes| format!(", {}", ByteSize::from_bytes(bytes)));
    let count = |n: &u64| format::count(*n);
    out::say(&format!(
        "{}: {} nodes, {} edges, {feature_dim} features, {classes} classes{size}, in {}",
        path.display(),
        count(nodes),
        count(edges),
        format::seconds(*seconds)
    ));
    out::say(&format!("splits: {} train, {} valid, {} test", count(train), count(valid), count(test)));
    out::say(&format!("next: uvatrain train {}", path.display()));
}

/// Bytes of the files in a directory, or nothing where that cannot be told.
fn bytes(directory: &Path) -> Option<u64> {
    std::fs::read_dir(directory).ok()?.map(|entry| Some(entry.ok()?.metadata().ok()?.len())).sum()
}
