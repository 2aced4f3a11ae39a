//! `uvatrain bench aggregate`: the first layer's sums on the consumer and on the producer, with their CPU time and the
//! bytes that they would move over a link.

use serde::Serialize;
use uva_graph::Dataset;
use uva_plan::{CachePolicy, Sizes, SumCounts, rank_rows, row_link_bytes};
use uva_runtime::sampler::cache::CacheContents;
use uva_runtime::tune::planning::{self, SumTimes, SumsToTime, TimedBatch, time_sums};
use uva_runtime::{Aggregation, FanoutSpec, LoaderOptions, is_summed};

use crate::exit;
use crate::flags::bench::{AggregateBenchFlags, BenchSums};
use crate::ui::table::TextTable;
use crate::ui::work::Work;
use crate::ui::{format, out};
use uva_runtime::spec::ByteSize;

/// Measures both and prints the result.
pub fn run(flags: &AggregateBenchFlags) -> anyhow::Result<()> {
    flags.loader.check()?;
    let dataset = Dataset::open(&flags.data)?;
    let loader = flags.loader.options();
    loader.check_dataset(&dataset)?;
    let features = dataset.features();
    if !is_summed(features.element) {
        let file = dataset.path().join("feat.npy");
        let reason = format!("{}: it has {}, and only floats are summed", file.display(), features.element);
        return Err(exit::usage(reason).into());
    }
    let work = Work::of_unknown_length("summing batches");
    let loader = loader.with_order(&dataset)?;
    let (policy, cached) = cached_rows(flags, &dataset, &loader)?;
    let mut is_cached = vec![false; dataset.nodes()];
    cached.iter().for_each(|&node| is_cached[node as usize] = true);
    let contents = CacheContents::of_rows(&cached)?;
    let aggregation = match flags.aggregate {
        BenchSums::Mean => Aggregation::Mean,
        BenchSums::Gcn => Aggregation::Degrees,
    };
    let asked = SumsToTime { aggregation, contents: &contents, batches: flags.batches as usize };
    let mut counts = SumCounts::default();
    let times = time_sums(&dataset, &loader, &asked, &mut |batch| {
        let TimedBatch { nodes, indptr, indices } = batch;
        counts += SumCounts::of(nodes, indptr, indices, |node| is_cached[node as usize]);
    })?;
    drop(work);
    let cache = policy.map(|policy| Cache { policy, rows: cached.len() });
    let report = Report::of(&dataset, &loader, aggregation, cache, &counts, times);
    if flags.json { out::json(&report) } else { out::text(&report.text()) }
}

/// The nodes whose rows are cached, and the policy that ranked them.
fn cached_rows(
    flags: &AggregateBenchFlags,
    dataset: &Dataset,
    loader: &LoaderOptions,
) -> anyhow::Result<(Option<CachePolicy>, Vec<i64>)> {
    let row_bytes = dataset.table().row_bytes();
    let rows = match (flags.cached_rows, flags.gpu_cache) {
        (Some(percent), _) => (dataset.nodes() as f64 * percent / 100.0) as usize,
        (None, Some(budget)) => {
            let map = Sizes::new(&dataset.csc(), row_bytes).row_map_bytes;
            let Some(bytes) = budget.bytes().checked_sub(map) else {
                let reason =
                    format!("--gpu-cache {budget}: the map of the rows' places alone takes {map} bytes");
                return Err(exit::usage(reason).into());
            };
            usize::try_from(bytes).unwrap_or(usize::MAX) / row_bytes.max(1)
        }
        (None, None) => {
            return match flags.cache_policy {
                None => Ok((None, Vec::new())),
                Some(policy) => Err(exit::usage(format!(
                    "--cache-policy {policy}: say how many rows it chooses, with --cached-rows or --gpu-cache"
                ))
                .into()),
            };
        }
    };
    let policy = flags.cache_policy.unwrap_or(CachePolicy::DEGREE);
    if policy.is_dynamic() {
        return Err(exit::usage(format!(
            "--cache-policy {policy}: its rows change with every batch, and what crosses a link is counted for rows that \
             stay: take one that ranks, such as degree"
        ))
        .into());
    }
    let hotness = policy.hotness_policy()?.hotness(&planning::workload(dataset, loader)?)?;
    let ranked = rank_rows(&hotness);
    Ok((Some(policy), ranked.into_iter().take(rows).map(i64::from).collect()))
}

/// The cached rows.
#[derive(Serialize)]
struct Cache {
    policy: CachePolicy,
    rows: usize,
}

/// Means over the measured batches.
#[derive(Serialize)]
struct PerBatch {
    destinations: f64,
    sources: f64,
    entries: f64,
    misses: f64,
    listed_misses: f64,
    missed_entries: f64,
    missing_sums: f64,
    own_misses: f64,
    missing_sums_with_own: f64,
}

/// Bytes of a batch, by where it is aggregated: rows for the consumer, sums of sage with own rows, sums of gcn.
#[derive(Serialize)]
struct Bytes {
    off: f64,
    mean: f64,
    gcn: f64,
}

/// Bytes of rows and sums that are copied over a link.
#[derive(Serialize)]
struct LinkBytes {
    #[serde(flatten)]
    copied: Bytes,
    /// Bytes of rows that a GPU reads one by one, in whole lines.
    off_zero_copy: f64,
}

/// Ratio of the bytes of rows to the bytes of sums. Absent if no sum would cross the link.
#[derive(Serialize)]
struct Ratios {
    /// The ratio without the destinations' own rows.
    neighbors: Option<f64>,
    mean: Option<f64>,
    gcn: Option<f64>,
}

#[derive(Serialize)]
struct Rates {
    /// Milliseconds to gather the rows.
    gather: f64,
    /// Milliseconds to add up gathered rows, each as often as a list names it.
    sum: f64,
    /// Milliseconds to add up the table's rows, own rows among them.
    host: f64,
}

#[derive(Serialize)]
struct Report {
    dataset: String,
    nodes: usize,
    edges: usize,
    row_bytes: usize,
    fanouts: FanoutSpec,
    batch_size: usize,
    seed: u64,
    aggregate: &'static str,
    cache: Option<Cache>,
    per_batch: PerBatch,
    link_bytes: LinkBytes,
    link_ratios: Ratios,
    slot_bytes: Bytes,
    /// Milliseconds per batch.
    times: SumTimes,
    gb_per_second: Rates,
    /// `off` divided by `host`.
    speedup: f64,
}

impl Report {
    fn of(
        dataset: &Dataset,
        loader: &LoaderOptions,
        aggregation: Aggregation,
        cache: Option<Cache>,
        counts: &SumCounts,
        times: SumTimes,
    ) -> Self {
        let features = dataset.features();
        let row_bytes = features.row_bytes() as u64;
        let sum_bytes = (features.dim * size_of::<f32>()) as u64;
        let of_batch = |total: u64| total as f64 / times.batches as f64;
        // The slots of a run on the CPU have float32.
        let slot_bytes = Bytes {
            off: of_batch(counts.sources * sum_bytes),
            mean: of_batch(counts.destinations * 2 * sum_bytes),
            gcn: of_batch(counts.destinations * sum_bytes),
        };
        let rate = |bytes: u64, ms: f64| of_batch(bytes) / (ms * 1e-3) / 1e9;
        Self {
            dataset: dataset.name().to_owned(),
            nodes: dataset.nodes(),
            edges: dataset.edges(),
            row_bytes: features.row_bytes(),
            fanouts: loader.fanouts.clone(),
            batch_size: loader.batch_size,
            seed: loader.seed,
            aggregate: aggregation.name(),
            cache,
            per_batch: PerBatch {
                destinations: of_batch(counts.destinations),
                sources: of_batch(counts.sources),
                entries: of_batch(counts.entries),
                misses: of_batch(counts.misses),
                listed_misses: of_batch(counts.listed_misses),
                missed_entries: of_batch(counts.missed_entries),
                missing_sums: of_batch(counts.missing_sums),
                own_misses: of_batch(counts.own_misses),
                missing_sums_with_own: of_batch(counts.missing_sums_with_own),
            },
            link_bytes: LinkBytes {
                copied: Bytes {
                    off: of_batch(counts.raw_bytes(row_bytes)),
                    mean: of_batch(counts.mean_bytes(row_bytes, sum_bytes)),
                    gcn: of_batch(counts.gcn_bytes(sum_bytes)),
                },
                off_zero_copy: of_batch(counts.raw_bytes(row_link_bytes(row_bytes))),
            },
            link_ratios: Ratios {
                neighbors: counts.listed_ratio(row_bytes, sum_bytes),
                mean: counts.mean_ratio(row_bytes, sum_bytes),
                gcn: counts.gcn_ratio(row_bytes, sum_bytes),
            },
            slot_bytes,
            gb_per_second: Rates {
                gather: rate(counts.sources * row_bytes, times.gather_ms),
                sum: rate(counts.entries * sum_bytes, times.sum_ms),
                host: rate((counts.entries + counts.destinations) * row_bytes, times.host_ms),
            },
            speedup: times.off_ms / times.host_ms,
            times,
        }
    }

    fn text(&self) -> String {
        let bytes = |bytes: f64| ByteSize::from_bytes(bytes as u64).to_string();
        let times = |ratio: Option<f64>| ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"));
        let mut ways = TextTable::with_heading(&["a batch", "rows", "sums of sage", "sums of gcn"]);
        for (name, of) in [("over a link", &self.link_bytes.copied), ("in a slot", &self.slot_bytes)] {
            ways.row(&[name.to_owned(), bytes(of.off), bytes(of.mean), bytes(of.gcn)]);
        }
        ways.row(&[
            "rows over sums, link".to_owned(),
            "1.00".to_owned(),
            times(self.link_ratios.mean),
            times(self.link_ratios.gcn),
        ]);
        let count = |mean: f64| format::count(mean.round() as u64);
        let of = &self.per_batch;
        ways.row(&[
            "sums over the link".to_owned(),
            count(0.0),
            count(of.missing_sums),
            count(of.missing_sums_with_own),
        ]);
        let mut work = TextTable::with_heading(&["the CPU", "ms a batch", "GB/s"]);
        let SumTimes { gather_ms, sum_ms, off_ms, host_ms, batches, threads } = self.times;
        let Rates { gather, sum, host } = self.gb_per_second;
        for (name, ms, rate) in [
            ("gather", gather_ms, Some(gather)),
            ("sum the gathered rows", sum_ms, Some(sum)),
            ("both", off_ms, None),
            ("sum while reading", host_ms, Some(host)),
        ] {
            let rate = rate.map_or_else(String::new, |rate| format!("{rate:.2}"));
            work.row(&[name.to_owned(), format!("{ms:.3}"), rate]);
        }
        let mut facts = TextTable::of_facts();
        let mut fact = |name: &str, value: String| facts.row(&[name.to_owned(), value]);
        fact("dataset", self.dataset.clone());
        fact(
            "a batch",
            format!(
                "{} destinations, {} nodes, {} entries",
                count(of.destinations),
                count(of.sources),
                count(of.entries)
            ),
        );
        if let Some(cache) = &self.cache {
            fact("cached", format!("{} rows by {}", format::count(cache.rows as u64), cache.policy));
            fact(
                "missed",
                format!(
                    "{} nodes, {} entries of {} destinations, {} own rows",
                    count(of.misses),
                    count(of.missed_entries),
                    count(of.missing_sums),
                    count(of.own_misses)
                ),
            );
        }
        fact(
            "neighbours alone",
            format!(
                "{} times as many bytes of rows as of sums over a link",
                times(self.link_ratios.neighbors)
            ),
        );
        fact("speedup", format!("{:.2}, of sums by {}", self.speedup, self.aggregate));
        fact("measured", format!("median of {batches} batches, threads: {threads}, verified"));
        format!("{}\n{}\n{}", ways.render(), work.render(), facts.render())
    }
}
