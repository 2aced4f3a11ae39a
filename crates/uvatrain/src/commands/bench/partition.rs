//! `uvatrain bench partition`: the reads of other parts by batches of a partition's parts, counted and not timed.

use anyhow::Error;
use serde::Serialize;
use uva_graph::{Dataset, PartitionMap, Split};
use uva_partition::over_mean;
use uva_partition::visits::{self, Batches, VisitError, Visits};
use uva_runtime::spec::{ByteSize, Options};
use uva_runtime::{FanoutSpec, RuntimeError};

use crate::exit;
use crate::flags::bench::PartitionBenchFlags;
use crate::ui::table::TextTable;
use crate::ui::work::Work;
use crate::ui::{format, out};

/// Counts and prints the result.
pub fn run(flags: &PartitionBenchFlags) -> anyhow::Result<()> {
    let loader = flags.sampling.given.options();
    loader.check_ranges().map_err(RuntimeError::from)?;
    flags.sampling.given.check_use(&loader).map_err(RuntimeError::from)?;
    let sampling = loader.sampling();
    if !visits::counts(&sampling) {
        return Err(exit::usage(format!(
            "--sampler-kind {}: it does not pick in one neighbour list at a time, so no part can answer for its own \
             lists alone: take neighbor, labor or weighted",
            sampling.kind
        ))
        .into());
    }
    let dataset = Dataset::open(&flags.data)?;
    loader.check_dataset(&dataset)?;
    if dataset.split(Split::Train).is_empty() {
        let file = dataset.path().join(Split::Train.file_name());
        let message = format!("{}: the training split is empty: there are no batches", file.display());
        return Err(exit::usage(message).into());
    }
    let map = PartitionMap::open(&flags.map, &dataset)?;
    let batches = Batches { sampling, batch_size: loader.batch_size, epochs: 0..flags.epochs, most: None };
    let work = Work::of_unknown_length("sampling epochs");
    let visits = visits::count(&dataset, &map, &batches).map_err(|error| match error {
        VisitError::Map(error) => Error::from(error),
        VisitError::Sample(error) => Error::from(error),
    })?;
    drop(work);
    let mut train = vec![0; map.parts as usize];
    map.split(&dataset, Split::Train)?.iter().for_each(|part| train[usize::from(*part)] += 1);
    let report = Report::of(flags, &dataset, &map, &train, &visits);
    if flags.json { out::json(&report) } else { out::text(&report.text()) }
}

#[derive(Serialize)]
struct Report {
    dataset: String,
    parts: u32,
    /// How the map was made. Absent for a map without a partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    sampler_kind: &'static str,
    fanouts: FanoutSpec,
    batch_size: usize,
    expand: String,
    seed: u64,
    epochs: u32,
    batches: u64,
    list_visits: u64,
    remote_list_visits: u64,
    rows: u64,
    remote_rows: u64,
    /// Lists visited, by the part of the batch and the part of the list. Empty for more than 1,024 parts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    by_pair: Vec<Vec<u64>>,
    requests_per_batch: f64,
    bytes_per_batch: f64,
    balance: Balance,
}

/// The largest part's count divided by the mean.
#[derive(Serialize)]
struct Balance {
    nodes: f64,
    train: f64,
}

impl Report {
    fn of(
        flags: &PartitionBenchFlags,
        dataset: &Dataset,
        map: &PartitionMap,
        train: &[u64],
        visits: &Visits,
    ) -> Report {
        let loader = flags.sampling.given.options();
        let a_batch = |sum: u64| sum as f64 / visits.batches.max(1) as f64;
        Report {
            dataset: dataset.name().to_owned(),
            parts: map.parts,
            method: map.summary.as_ref().map(|summary| summary.method.clone()),
            sampler_kind: loader.sampler_kind.name(),
            batch_size: loader.batch_size,
            expand: loader.expand.to_string(),
            seed: loader.seed,
            fanouts: loader.fanouts,
            epochs: flags.epochs,
            batches: visits.batches,
            list_visits: visits.list_visits,
            remote_list_visits: visits.remote_list_visits,
            rows: visits.rows,
            remote_rows: visits.remote_rows,
            by_pair: visits.by_pair.chunks(map.parts as usize).map(<[u64]>::to_vec).collect(),
            requests_per_batch: a_batch(visits.requests),
            bytes_per_batch: a_batch(visits.bytes),
            balance: Balance { nodes: over_mean(&map.sizes()), train: over_mean(train) },
        }
    }

    fn text(&self) -> String {
        let mut facts = TextTable::of_facts();
        let remote = |of: u64, all: u64| {
            format!(
                "{} of {} ({})",
                format::count(of),
                format::count(all),
                format::percent(of as f64 / all.max(1) as f64)
            )
        };
        let by = self.method.as_ref().map_or_else(String::new, |method| format!(" by {method}"));
        facts.row(&["dataset", &format!("{}, {} parts{by}", self.dataset, self.parts)]);
        facts.row(&["lists of other parts", &remote(self.remote_list_visits, self.list_visits)]);
        facts.row(&["rows of other parts", &remote(self.remote_rows, self.rows)]);
        facts.row(&[
            "a batch",
            &format!(
                "{:.1} requests to other parts, {} between parts",
                self.requests_per_batch,
                ByteSize::from_bytes(self.bytes_per_batch as u64)
            ),
        ]);
        facts.row(&[
            "most over the mean",
            &format!("nodes {:.3}, training nodes {:.3}", self.balance.nodes, self.balance.train),
        ]);
        facts.row(&[
            "counted",
            &format!(
                "{} batches of {} seeds of one part, fanouts {}, epochs: {}",
                format::count(self.batches),
                self.batch_size,
                self.fanouts,
                self.epochs
            ),
        ]);
        facts.render()
    }
}
