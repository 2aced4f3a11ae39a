//! `uvatrain fetch`: a directory of an object store on the local disk, before training starts.

use std::path::Path;

use anyhow::anyhow;
use serde::Serialize;
use uva_fetch::{FetchOptions, Fetched, fetch};
use uva_graph::partition_map::is_partition;
use uva_graph::{Dataset, GraphError, Meta, PartitionSummary};
use uva_propagate::HopSet;
use uva_runtime::spec::ByteSize;

use crate::flags::FetchFlags;
use crate::ui::work::Work;
use crate::ui::{format, out};

/// Fetches it, opens it if it is something of ours, and says how long it took.
pub fn run(flags: &FetchFlags) -> anyhow::Result<()> {
    super::clean_up_on_signals()?;
    let options = FetchOptions { only: flags.only.clone(), ..FetchOptions::default() };
    let work = Work::with_remaining_time();
    let fetched = fetch(&flags.url, &flags.out, &options, &|progress| work.show(progress))?;
    drop(work);
    let path = flags.out.display();
    // The files are there and stay, so it is no bad input any more, whatever the cause's own exit code is.
    let kind = kind_of(&flags.out)
        .map_err(|error| anyhow!("{path}: all of it was fetched, and it cannot be opened: {error}"))?;
    if flags.json {
        return out::json(&Made::of(flags, fetched, kind));
    }
    let Fetched { files, bytes, seconds } = fetched;
    out::say(&format!(
        "{path}: {}{} files, {}, in {} ({:.2} GB/s)",
        kind.map(|kind| format!("{}, ", kind.replace('_', " "))).unwrap_or_default(),
        format::count(files),
        ByteSize::from_bytes(bytes),
        format::seconds(seconds),
        rate(fetched)
    ));
    Ok(())
}

/// What `--json` prints.
#[derive(Serialize)]
struct Made<'a> {
    path: String,
    url: &'a str,
    /// What it is, if it is something of ours.
    kind: Option<&'static str>,
    files: u64,
    bytes: u64,
    seconds: f64,
    gigabytes_per_second: f64,
}

impl<'a> Made<'a> {
    fn of(flags: &'a FetchFlags, fetched: Fetched, kind: Option<&'static str>) -> Made<'a> {
        let Fetched { files, bytes, seconds } = fetched;
        let path = flags.out.display().to_string();
        Made { path, url: &flags.url, kind, files, bytes, seconds, gigabytes_per_second: rate(fetched) }
    }
}

/// Gigabytes (10⁹ bytes) a second.
fn rate(fetched: Fetched) -> f64 {
    fetched.bytes as f64 / 1e9 / fetched.seconds.max(1e-9)
}

/// Opens what has come. `None` where it is nothing of ours. Of a partition, parts may be missing.
fn kind_of(path: &Path) -> Result<Option<&'static str>, Box<dyn std::error::Error>> {
    if HopSet::is_at(path) {
        HopSet::open(path)?;
        return Ok(Some("hop_set"));
    }
    if is_partition(path) {
        PartitionSummary::read(path)?;
        return Ok(Some("partition"));
    }
    Ok(of_dataset(path)?)
}

fn of_dataset(path: &Path) -> Result<Option<&'static str>, GraphError> {
    match Meta::read(path)?.ranges {
        // These open with their partition, which is not here.
        Some(of) => Ok(Some(if of.part.is_some() { "range_part" } else { "range_graph" })),
        None if path.join("indptr.npy").is_file() => Dataset::open(path).map(|_| Some("dataset")),
        None => Ok(None),
    }
}
