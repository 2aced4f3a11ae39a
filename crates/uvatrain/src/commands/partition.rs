//! `uvatrain partition`: which part each node of a dataset belongs to.

mod picture;

use std::time::Instant;

use serde::Serialize;
use uva_graph::part::{PartOptions, WrittenPart, stage_parts};
use uva_graph::staged::{self, StagedDirectory};
use uva_graph::{Csc, Dataset, GraphError, PartitionMap, PartitionSummary, Split};
use uva_mem::files::write_new;
use uva_partition::{Candidate, Options, over_mean, partition};

use super::partition_parts;
use super::pipeline::check_paths;
use crate::exit;
use crate::flags::PartitionFlags;
use crate::ui::work::Work;
use crate::ui::{format, out};

/// Hops, unless they are given.
const USUAL_HOPS: u32 = 2;

/// The picture's name in OUT.
const PICTURE: &str = "partition.svg";

/// Divides the nodes, or takes a map of them, and writes the map and, as far as they are wanted, the parts.
pub fn run(flags: &PartitionFlags) -> anyhow::Result<()> {
    check_paths(&[("DATA", Some(flags.data.as_path())), ("OUT", Some(flags.out.as_path()))])?;
    match (&flags.map, flags.parts) {
        (Some(map), _) => {
            super::clean_up_on_signals()?;
            let dataset = Dataset::open(&flags.data)?;
            let map = PartitionMap::open(map, &dataset)?;
            let of_map = map.summary.as_ref().map(|summary| summary.hops).filter(|hops| *hops > 0);
            let hops = flags.cut.hops.or(of_map).unwrap_or(USUAL_HOPS);
            partition_parts::write(&dataset, &map, (&flags.cut, hops), &flags.out, flags.json)
        }
        (None, parts) => divide(flags, parts.unwrap_or(1)),
    }
}

/// Divides the nodes, writes the map, and says what it comes to.
fn divide(flags: &PartitionFlags, parts: u32) -> anyhow::Result<()> {
    if parts == 1 && flags.write_parts {
        return Err(exit::usage(
            "--parts 1 with --write-parts: the only part would be a copy of the dataset",
        )
        .into());
    }
    if flags.cut.split_eval && !flags.write_parts {
        return Err(
            exit::usage("--split-eval: it is about parts that are written: give --write-parts").into()
        );
    }
    let hops = flags.cut.hops.unwrap_or(USUAL_HOPS);
    let Some(method) = flags.method.0 else {
        let message =
            "--method metis: this program is built without METIS: --method bgl has the same purpose";
        return Err(exit::lacking(message).into());
    };
    let options = Options {
        parts,
        method,
        refine: flags.refine,
        hops,
        block_nodes: flags.block_nodes,
        sources: flags.sources,
        count: flags.count,
        seed: flags.seed,
    };
    staged::refuse_existing(&flags.out)?;
    let dataset = Dataset::open(&flags.data)?;
    options.check(&dataset)?;
    if let Some(line) = unreached(&dataset) {
        out::say(&line);
    }
    super::clean_up_on_signals()?;
    let start = Instant::now();
    let staged = StagedDirectory::new(&flags.out)?;
    let work = Work::new();
    let made = partition(&dataset, &options, &|progress| work.show(progress))?;
    let picture = picture::svg(dataset.name(), &made);
    let candidates = made.candidates.clone();
    let map = made.into_map(&dataset, &options);
    if let (true, Some(summary)) = (flags.write_parts, &map.summary)
        && let Some(empty) = summary.train.iter().position(|nodes| *nodes == 0)
    {
        let method = &summary.method;
        return Err(exit::usage(format!(
            "--method {method}: part {empty} got no training node: take pagraph or auto, or fewer --parts"
        ))
        .into());
    }
    let written = match flags.write_parts {
        true => {
            let cut = PartOptions { map: &map, hops, split_eval: flags.cut.split_eval };
            stage_parts(&dataset, &cut, staged.path(), &|progress| work.show(progress))?
        }
        false => {
            map.write(staged.path())?;
            Vec::new()
        }
    };
    drop(work);
    let path = staged.path().join(PICTURE);
    write_new(&path, picture.as_bytes()).map_err(GraphError::io(&path, "write"))?;
    staged.commit()?;
    // `into_map` describes what it makes.
    let Some(summary) = &map.summary else { return Ok(()) };
    say(flags, &dataset, (summary, &written), &candidates, start.elapsed().as_secs_f64())
}

/// What `--json` prints: `partition.json`, and where it is.
#[derive(Serialize)]
struct Made<'a> {
    path: String,
    /// The most nodes, and training nodes, of a part over the mean.
    balance: Balance,
    all_seconds: f64,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    written: &'a [WrittenPart],
    #[serde(flatten)]
    summary: &'a PartitionSummary,
}

/// The most of a part over the mean.
#[derive(Serialize)]
struct Balance {
    nodes: f64,
    train: f64,
}

fn say(
    flags: &PartitionFlags,
    dataset: &Dataset,
    (summary, written): (&PartitionSummary, &[WrittenPart]),
    candidates: &[Candidate],
    seconds: f64,
) -> anyhow::Result<()> {
    let balance = Balance { nodes: over_mean(&summary.nodes), train: over_mean(&summary.train) };
    let path = flags.out.display();
    if flags.json {
        return out::json(&Made { path: path.to_string(), balance, all_seconds: seconds, written, summary });
    }
    for Candidate { method, list_visits, remote_list_visits, train_balance } in candidates {
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
    if !written.is_empty() {
        return partition_parts::say_written(dataset, written, summary.hops, &flags.out);
    }
    let data = flags.data.display();
    out::say(&format!("next: uvatrain info {path}, uvatrain bench partition {data} --map {path}"));
    Ok(())
}

/// A line about a graph in which no training node has neighbours. Parts are then as good as any others.
fn unreached(dataset: &Dataset) -> Option<String> {
    let csc: Csc<'_> = dataset.csc();
    let reaches = |node: &i64| csc.degree(*node as usize) > 0;
    let none = dataset.edges() > 0 && !dataset.split(Split::Train).iter().any(reaches);
    none.then(|| {
        "no training node has neighbours: batches read no other node, whatever the parts are".to_owned()
    })
}
