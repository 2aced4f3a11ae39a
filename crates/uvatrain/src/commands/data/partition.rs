//! `uvatrain partition`: assigns each node of a dataset to a part, and writes the parts.

mod check;
pub mod parts;

use std::time::Instant;

use serde::Serialize;
use uva_files::staging::{self, StagedDirectory};
use uva_graph::{Csc, DATASET, Dataset, GraphError, PartitionMap, PartitionSummary, Split, ranges};
use uva_partition::{Candidate, NodePartition, PartitionOptions, over_mean, partition};

use self::parts::{PartitionJob, PartitionResult};
use crate::exit;
use crate::flags::data::{PartLayout, PartitionFlags};
use crate::runs::pipeline::check_paths;
use crate::signals::ending::clean_up_on_signals;
use crate::ui::work::Work;
use crate::ui::{format, out, shell};

/// Default number of hops.
const USUAL_HOPS: u32 = 2;

/// Partitions the nodes or reads a map of them, and writes the map and, if requested, the parts.
pub fn run(flags: &PartitionFlags) -> anyhow::Result<()> {
    check_paths(&[("DATA", Some(flags.data.as_path())), ("OUT", Some(flags.out.as_path()))])?;
    check::fits(flags)?;
    match (&flags.map, flags.parts) {
        (Some(map), _) => {
            clean_up_on_signals()?;
            staging::refuse_existing(&flags.out).map_err(GraphError::from)?;
            let dataset = Dataset::open(&flags.data)?;
            let map = PartitionMap::open(map, &dataset)?;
            check::memory_of_parts(flags, &dataset, check::memory_allowed(flags)?)?;
            let of_map = map.summary.as_ref().map(|summary| summary.hops).filter(|hops| *hops > 0);
            let hops = flags.cut.hops.or(of_map).unwrap_or(USUAL_HOPS);
            let start = Instant::now();
            let work = Work::with_remaining_time();
            if flags.layout() == Some(PartLayout::Ranges) {
                ranges::check_space(&dataset, map.parts, &flags.out)?;
            }
            let made = NodePartition::of_map(&dataset, &map)?;
            let staged = StagedDirectory::new(&flags.out, &DATASET).map_err(GraphError::from)?;
            write(flags, &dataset, (&map, &made, hops), staged, (work, start))
        }
        (None, parts) => divide(flags, parts.unwrap_or(1)),
    }
}

/// Partitions the nodes, writes the map, and prints its balance and cut.
fn divide(flags: &PartitionFlags, parts: u32) -> anyhow::Result<()> {
    let hops = flags.cut.hops.unwrap_or(USUAL_HOPS);
    let method = flags.method;
    let usual = PartitionOptions::of_parts(parts);
    let options = PartitionOptions {
        method,
        refine: flags.refine,
        hops,
        block_nodes: flags.block_nodes,
        sources: flags.sources.unwrap_or(usual.sources),
        count: flags.count.unwrap_or(usual.count),
        scan: flags.scan.unwrap_or(usual.scan),
        seed: flags.seed,
        memory: check::memory_allowed(flags)?,
        ..usual
    };
    staging::refuse_existing(&flags.out).map_err(GraphError::from)?;
    let dataset = Dataset::open(&flags.data)?;
    options.check(&dataset)?;
    check::memory_of_parts(flags, &dataset, options.memory)?;
    if flags.layout() == Some(PartLayout::Ranges) {
        // The space needed does not depend on the result, so it is checked before hours of work.
        ranges::check_space(&dataset, parts, &flags.out)?;
    }
    if let Some(line) = unreached(&dataset) {
        out::say(&line);
    }
    clean_up_on_signals()?;
    let start = Instant::now();
    let staged = StagedDirectory::new(&flags.out, &DATASET).map_err(GraphError::from)?;
    let work = Work::new();
    let made = partition(&dataset, &options, &|progress| work.show(progress))?;
    let map = made.clone().into_map(&dataset, &options);
    if flags.layout() == Some(PartLayout::Closure)
        && let Some(empty) = made.train.iter().position(|nodes| *nodes == 0)
    {
        let method = &made.method;
        // With auto, every other method that was tried has at least as many such parts.
        let others = if made.candidates.is_empty() { "pagraph or auto" } else { "pagraph" };
        return Err(exit::usage(format!(
            "--method {method}: part {empty} got no training node: take {others}, or fewer --parts"
        ))
        .into());
    }
    write(flags, &dataset, (&map, &made, hops), staged, (work, start))
}

/// Writes the map and, if requested, the parts, and prints a summary.
fn write(
    flags: &PartitionFlags,
    dataset: &Dataset,
    (map, made, hops): (&PartitionMap, &NodePartition, u32),
    staged: StagedDirectory,
    (work, start): (Work, Instant),
) -> anyhow::Result<()> {
    let written = match flags.layout() {
        None => {
            map.write(staged.path())?;
            PartitionResult::Map
        }
        Some(layout) => {
            let cut = PartitionJob { dataset, map, hops, split_eval: flags.cut.split_eval, layout };
            cut.stage((staged.path(), &flags.out), &|progress| work.show(progress))?
        }
    };
    drop(work);
    staged.commit().map_err(GraphError::from)?;
    say(flags, dataset, (made, &written), start.elapsed().as_secs_f64())
}

/// The JSON output: `partition.json`, and the path.
#[derive(Serialize)]
struct PartitionReport<'a> {
    path: String,
    /// Nodes, and training nodes, of the largest part divided by the mean.
    balance: Balance,
    all_seconds: f64,
    /// Nodes of all parts divided by the nodes of the dataset, if parts were written.
    #[serde(skip_serializing_if = "Option::is_none")]
    copies: Option<f64>,
    /// Approximate bytes of the parts, and of the shared graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(flatten)]
    summary: &'a PartitionSummary,
}

/// The largest part's count divided by the mean.
#[derive(Serialize)]
struct Balance {
    nodes: f64,
    train: f64,
}

fn say(
    flags: &PartitionFlags,
    dataset: &Dataset,
    (made, written): (&NodePartition, &PartitionResult),
    seconds: f64,
) -> anyhow::Result<()> {
    let summary = PartitionSummary::read(&flags.out)?;
    let balance = Balance { nodes: over_mean(&summary.nodes), train: over_mean(&summary.train) };
    let path = flags.out.display();
    if flags.json {
        let (copies, bytes) = (written.copies(dataset), written.bytes());
        let path = path.to_string();
        return out::json(&PartitionReport {
            path,
            balance,
            all_seconds: seconds,
            copies,
            bytes,
            summary: &summary,
        });
    }
    for Candidate { method, list_visits, remote_list_visits, train_balance, .. } in &made.candidates {
        out::say(&format!(
            "{method}: {} of list visits are of other parts; most training nodes over the mean: {train_balance:.2}",
            format::percent(*remote_list_visits as f64 / (*list_visits).max(1) as f64),
        ));
    }
    out::say(&format!(
        "{path}: {} parts by {}, {} of {} edges between parts ({}); most over the mean: nodes {:.2}, training nodes \
         {:.2}; in {}",
        summary.parts,
        summary.method,
        format::count(summary.edge_cut),
        format::count(dataset.edges() as u64),
        format::percent(summary.edge_cut as f64 / dataset.edges().max(1) as f64),
        balance.nodes,
        balance.train,
        format::seconds(seconds)
    ));
    if let PartitionResult::Map = written {
        let [data, path] = [&flags.data, &flags.out].map(|path| shell::path(path));
        out::say(&format!("next: uvatrain info {path}, uvatrain bench partition {data} --map {path}"));
        return Ok(());
    }
    written.say(dataset, summary.hops, &flags.out)
}

/// A line about a graph in which no training node has neighbours. All partitions of it are then equally good.
fn unreached(dataset: &Dataset) -> Option<String> {
    let csc: Csc<'_> = dataset.csc();
    let reaches = |node: &i64| csc.degree(*node as usize) > 0;
    let none = dataset.edges() > 0 && !dataset.split(Split::Train).iter().any(reaches);
    none.then(|| {
        "no training node has neighbours: batches read no other node, whatever the parts are".to_owned()
    })
}
