//! The parts that `uvatrain partition` writes.

use std::path::Path;
use std::time::Instant;

use serde_json::json;
use uva_graph::part::{PartOptions, WrittenPart, write_parts};
use uva_graph::{Dataset, PartitionMap};
use uva_runtime::spec::ByteSize;

use crate::flags::{PartLayout, PartsFlags};
use crate::ui::table::Table;
use crate::ui::work::Work;
use crate::ui::{format, out};

/// Cuts the dataset by the map, and says what each part holds.
pub fn write(
    dataset: &Dataset,
    map: &PartitionMap,
    (flags, hops): (&PartsFlags, u32),
    path: &Path,
    as_json: bool,
) -> anyhow::Result<()> {
    let PartLayout::Closure = flags.layout;
    let began = Instant::now();
    let options = PartOptions { map, hops, split_eval: flags.split_eval };
    let work = Work::with_remaining_time();
    let written = write_parts(dataset, &options, path, &|progress| work.show(progress))?;
    drop(work);
    say(dataset, &written, (flags, hops), (path, began.elapsed().as_secs_f64()), as_json)
}

/// Says what each part at `path` holds, which took `seconds` to write.
fn say(
    dataset: &Dataset,
    written: &[WrittenPart],
    (flags, hops): (&PartsFlags, u32),
    (path, seconds): (&Path, f64),
    as_json: bool,
) -> anyhow::Result<()> {
    let bytes: u64 = written.iter().map(|part| part.bytes).sum();
    if as_json {
        return out::json(&json!({
            "path": path,
            "parts": written.len(),
            "hops": hops,
            "layout": "closure",
            "split_eval": flags.split_eval,
            "written": written,
            "copies": copies(dataset, written),
            "bytes": bytes,
            "seconds": seconds,
        }));
    }
    say_written(dataset, written, hops, path)?;
    out::say(&format!("in {}", format::seconds(seconds)));
    Ok(())
}

/// Says for people what each part at `path` holds.
pub fn say_written(dataset: &Dataset, written: &[WrittenPart], hops: u32, path: &Path) -> anyhow::Result<()> {
    let bytes: u64 = written.iter().map(|part| part.bytes).sum();
    out::text(&table(written))?;
    out::say(&format!(
        "{}: {} parts, whole within {} in-hops; {:.2} copies of a node; about {}",
        path.display(),
        written.len(),
        hops,
        copies(dataset, written),
        ByteSize::from_bytes(bytes),
    ));
    let first = path.join(&written[0].dir);
    out::say(&format!("next: uvatrain info {}, uvatrain.Loader({path:?}, part=\"rank\")", first.display()));
    Ok(())
}

/// Nodes of all parts over the nodes of the dataset.
fn copies(dataset: &Dataset, written: &[WrittenPart]) -> f64 {
    let nodes: u64 = written.iter().map(|part| part.nodes).sum();
    nodes as f64 / dataset.nodes() as f64
}

fn table(written: &[WrittenPart]) -> String {
    let mut table = Table::with_heading(&["part", "nodes", "halo", "edges", "train", "validation", "test"]);
    for part in written {
        let counts = [part.nodes, part.halo, part.edges, part.train, part.valid, part.test];
        let row: Vec<String> =
            std::iter::once(part.dir.clone()).chain(counts.into_iter().map(format::count)).collect();
        table.row(&row);
    }
    table.render()
}
