//! `uvatrain bench cache`: hit rates of caches of several sizes under each policy, counted and not timed, and the
//! allocator's division of a budget compared with eleven others.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use serde_json::Value;
use uva_graph::Dataset;
use uva_plan::{
    CachePolicy, ComparedPolicy, Hotness, PolicyHits, PolicyPoint, Prediction, READ_SHARES, ShareBytes,
    Sizes, SweepPoint, TimedBy, TimedFit, bytes_for_shares, compare_policies, count, rank_lists, rank_rows,
};
use uva_runtime::backend::Backend;
use uva_runtime::options::seed_order::MadeOrder;
use uva_runtime::spec::Spelling;
use uva_runtime::tune::planning;
use uva_runtime::tune::planning::PlanAsked;
use uva_runtime::{FanoutSpec, LoaderOptions};

use crate::flags::bench::CacheBenchFlags;
use crate::ui::table::TextTable;
use crate::ui::work::Work;
use crate::ui::{format, out};
use uva_runtime::spec::ByteSize;

/// Epochs that presampling counts. Hits are counted in the epochs after them.
const BEFOREHAND: u32 = 2;

/// The epochs in which hits are counted.
fn behind(flags: &CacheBenchFlags) -> Range<u32> {
    BEFOREHAND..BEFOREHAND + flags.epochs
}

/// Measures and prints the result.
pub fn run(flags: &CacheBenchFlags) -> anyhow::Result<()> {
    flags.loader.check()?;
    let dataset = Arc::new(Dataset::open(&flags.data)?);
    let loader = flags.loader.options();
    loader.check_dataset(&dataset)?;
    let loader = loader.with_order(&dataset)?;
    let work = Work::of_unknown_length("sampling epochs");
    let workload = planning::workload(&dataset, &loader)?;
    let began = Instant::now();
    let measured = count(&workload, behind(flags))?;
    let epoch_seconds = began.elapsed().as_secs_f64() / f64::from(flags.epochs);
    let hits = compare_policies(&workload, &flags.policy, behind(flags), &measured, &flags.size)?;
    drop(work);
    let allocation = match flags.gpu_cache {
        Some(budget) => Some(allocation(&dataset, &loader, budget.bytes(), &measured)?),
        None => None,
    };
    let time_of_stages = match flags.stage_times {
        true => Some(StagesReport::of_all(&dataset, &loader)?),
        false => None,
    };
    let epochs = f64::from(flags.epochs);
    let (rows, row_bytes) =
        (measured.total_feature_reads() as f64 / epochs, dataset.table().row_bytes() as f64);
    let report = Report {
        dataset: dataset.name().to_owned(),
        nodes: dataset.nodes(),
        edges: dataset.edges(),
        row_bytes: dataset.table().row_bytes(),
        train_nodes: workload.train.len(),
        fanouts: loader.fanouts.clone(),
        batch_size: loader.batch_size,
        batch_dependency: loader.batch_dependency,
        seed: loader.seed,
        seed_order: loader.made_order.as_ref().map(MadeOrder::in_force),
        epochs: flags.epochs,
        batches: measured.batches,
        epoch_seconds,
        rows_per_epoch: rows,
        list_reads_per_epoch: measured.total_list_reads() as f64 / epochs,
        feature_bytes_per_epoch: rows * row_bytes,
        bytes_for_share: SharesReport::of(&dataset, &loader, &measured),
        note: loader.made_order.as_ref().map(|order| Spelling::CommandLine.sentence(&order.note())),
        policies: hits.into_iter().map(|hits| PolicyReport::of(hits, rows, row_bytes)).collect(),
        allocation,
        time_of_stages,
    };
    if flags.json { out::json(&report) } else { out::text(&report.text()) }
}

/// A cache of one size under one policy.
#[derive(Serialize)]
struct Point {
    /// Size in per cent of the rows, and of the bytes of all lists.
    size_percent: u32,
    row_hit_rate: f64,
    /// Rows that miss in an epoch. It compares caches across orders, since an order that makes the rows of a batch
    /// coincide lowers the hit rate.
    rows_missed_per_epoch: f64,
    /// Bytes of rows that cross the link in an epoch.
    feature_bytes_per_epoch: f64,
    /// Absent where no lists are cached.
    #[serde(skip_serializing_if = "Option::is_none")]
    list_hit_rate: Option<f64>,
}

/// The fewest bytes that cover given shares of the measured reads: how unevenly rows and lists are read.
#[derive(Serialize)]
struct SharesReport {
    rows: Vec<ShareBytes>,
    lists: Vec<ShareBytes>,
}

impl SharesReport {
    fn of(dataset: &Dataset, loader: &LoaderOptions, measured: &Hotness) -> Self {
        let sizes = Sizes::new(&dataset.csc(), dataset.table().row_bytes()).read_by(&loader.sampling());
        let (rows, lists) = (rank_rows(measured), rank_lists(measured, &sizes));
        Self {
            rows: bytes_for_shares(&rows, &measured.feature_reads, |_| sizes.row_bytes, &READ_SHARES),
            lists: bytes_for_shares(
                &lists,
                &measured.list_reads,
                |node| sizes.list_bytes(node),
                &READ_SHARES,
            ),
        }
    }

    fn text(&self) -> String {
        let heading: Vec<String> = std::iter::once("bytes that take".to_owned())
            .chain(READ_SHARES.iter().map(|percent| format!("{percent} % of reads")))
            .collect();
        let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
        let mut table = TextTable::with_heading(&heading);
        for (what, needs) in [("of rows", &self.rows), ("of lists", &self.lists)] {
            let needs = needs.iter().map(|need| {
                format!("{} ({})", ByteSize::from_bytes(need.bytes), format::percent(need.of_all_bytes))
            });
            let cells: Vec<String> = std::iter::once(what.to_owned()).chain(needs).collect();
            table.row(&cells);
        }
        table.render()
    }
}

#[derive(Serialize)]
struct PolicyReport {
    policy: ComparedPolicy,
    /// Seconds that the ranking took, with the epochs sampled for it.
    seconds: f64,
    points: Vec<Point>,
}

impl PolicyReport {
    /// `rows` and `row_bytes` describe the gathers of an epoch.
    fn of(hits: PolicyHits, rows: f64, row_bytes: f64) -> Self {
        let point = |point: &PolicyPoint| Point {
            size_percent: point.percent,
            row_hit_rate: point.rows,
            rows_missed_per_epoch: point.missed,
            feature_bytes_per_epoch: rows * (1.0 - point.rows) * row_bytes,
            list_hit_rate: point.lists,
        };
        Self { policy: hits.policy, seconds: hits.seconds, points: hits.points.iter().map(point).collect() }
    }
}

/// The allocator's division of a budget, evaluated on the measured epochs and compared with other divisions.
#[derive(Serialize)]
struct AllocationReport {
    budget_bytes: u64,
    lists: u64,
    rows: u64,
    /// The cost of a batch with this division: milliseconds, or bytes over the link if no line fits (`in_bytes`).
    cost: f64,
    in_bytes: bool,
    prediction: Prediction,
    sweep: Vec<SweepPoint>,
    /// The cost divided by that of the best division of the sweep: below 1 if it is better than all of them.
    over_best: f64,
    /// The cost divided by that of the better single cache.
    over_single: f64,
    /// What a further GiB of rows would save per batch, in the unit of `cost`, measured over the next tenth of the
    /// budget.
    marginal: f64,
    /// Upper bound of the value that a partially cached list could add, as a share of the value of both caches.
    partial_list_gain: f64,
    /// Quality of the linear fits of time against hit rate, with caches of the most-read entries, whose lines give the
    /// value of a hit, and with random caches.
    fits: Vec<TimedFit>,
    /// Why a line did not fit, for each that did not.
    notes: Vec<String>,
    planned_seconds: f64,
}

fn allocation(
    dataset: &Arc<Dataset>,
    loader: &LoaderOptions,
    budget: u64,
    measured: &Hotness,
) -> anyhow::Result<Option<AllocationReport>> {
    let presampled = PlanAsked::new(budget, CachePolicy::PRESAMPLE);
    let asked = PlanAsked { timed_also: Some(TimedBy::Random), ..presampled };
    let (plan, profile) =
        planning::plan_asked(dataset, loader, &Backend::Cpu, &asked, &|line| out::say(line))?;
    let Some(profile) = profile else { return Ok(None) };
    let (lists, rows) = (plan.lists.count as usize, plan.rows.count as usize);
    let prediction = profile.predict_by(&plan.model, lists, rows, measured);
    let cost = plan.model.cost(prediction.list_hit_rate, prediction.row_hit_rate);
    let sweep = profile.sweep(budget, &plan.model, measured);
    let row_bytes = dataset.table().row_bytes().max(1);
    let more = (budget as usize / 10 / row_bytes).clamp(1, profile.rows.len().saturating_sub(rows).max(1));
    let with_more = profile.predict_by(&plan.model, lists, (rows + more).min(profile.rows.len()), measured);
    let saved = cost - plan.model.cost(with_more.list_hit_rate, with_more.row_hit_rate);
    let marginal = saved / (more * row_bytes) as f64 * (1_u64 << 30) as f64;
    let cost_of = |points: &[SweepPoint]| points.iter().map(|point| point.cost).fold(f64::INFINITY, f64::min);
    let single = sweep.first().into_iter().chain(sweep.last()).map(|point| point.cost);
    let chosen = profile.allocate(budget, &plan.model);
    // Picks are uniform over a list, so each of its bytes has the same value. Partial caching could add at most the
    // part of the list that still fits.
    let partial_list_gain = chosen.misfit.map_or(0.0, |(list, left)| {
        list.value as f64 * left as f64 / list.bytes.max(1) as f64 / chosen.value.max(1) as f64
    });
    Ok(Some(AllocationReport {
        budget_bytes: budget,
        lists: plan.lists.count,
        rows: plan.rows.count,
        cost,
        in_bytes: !plan.model.benefits().milliseconds,
        prediction,
        over_best: cost / cost_of(&sweep),
        over_single: cost / single.fold(f64::INFINITY, f64::min),
        marginal,
        partial_list_gain,
        sweep,
        fits: plan.fits.clone(),
        notes: plan.notes.clone(),
        planned_seconds: plan.profile.seconds,
    }))
}

#[derive(Serialize)]
struct Report {
    dataset: String,
    nodes: usize,
    edges: usize,
    row_bytes: usize,
    train_nodes: usize,
    fanouts: FanoutSpec,
    batch_size: usize,
    batch_dependency: u32,
    seed: u64,
    /// Absent if seeds are shuffled, the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed_order: Option<Value>,
    epochs: u32,
    batches: u64,
    epoch_seconds: f64,
    rows_per_epoch: f64,
    list_reads_per_epoch: f64,
    feature_bytes_per_epoch: f64,
    bytes_for_share: SharesReport,
    policies: Vec<PolicyReport>,
    /// The order of the seeds as text.
    #[serde(skip)]
    note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocation: Option<Option<AllocationReport>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_of_stages: Option<Vec<StagesReport>>,
}

/// The fanouts whose stages are timed, those of DUCATI: sampling's share of a batch's time depends on them.
const TIMED_FANOUTS: [[i32; 3]; 3] = [[2, 2, 2], [5, 5, 5], [15, 10, 5]];

/// The division of the time that one thread needs to make a batch.
#[derive(Serialize)]
struct StagesReport {
    fanouts: FanoutSpec,
    sample_ms: f64,
    gather_ms: f64,
    /// The share of sampling in the time of both.
    sample_share: f64,
}

impl StagesReport {
    fn of_all(dataset: &Dataset, loader: &LoaderOptions) -> anyhow::Result<Vec<Self>> {
        let timed = TIMED_FANOUTS.iter().map(|fanouts| {
            let loader = LoaderOptions { fanouts: fanouts.into(), ..loader.clone() };
            loader.check()?;
            let times = planning::time_stages(dataset, &loader, &[1])?;
            let [sample_ms, gather_ms] = times.map(|points| points.first().map_or(0.0, |point| point.ms));
            let sample_share = sample_ms / (sample_ms + gather_ms);
            Ok(Self { fanouts: (*fanouts).into(), sample_ms, gather_ms, sample_share })
        });
        timed.collect()
    }

    fn table(stages: &[Self]) -> String {
        let mut table = TextTable::with_heading(&["fanouts", "sampling", "gathering", "sampling's share"]);
        for of in stages {
            table.row(&[
                of.fanouts.to_string(),
                format!("{:.3} ms", of.sample_ms),
                format!("{:.3} ms", of.gather_ms),
                format::percent(of.sample_share).to_string(),
            ]);
        }
        table.render()
    }
}

impl Report {
    fn text(&self) -> String {
        let mut text = String::new();
        let share = |rate: f64| format!("{:.1}", 100.0 * rate);
        text += &self.table("rows that hit", |point| Some(share(point.row_hit_rate)));
        text.push('\n');
        text += &self.table("lists that hit", |point| point.list_hit_rate.map(share));
        text.push('\n');
        text += &self.table("rows that miss, an epoch", |point| {
            Some(format::count(point.rows_missed_per_epoch.round() as u64))
        });
        text.push('\n');
        text += &self.bytes_for_share.text();
        if let Some(Some(allocation)) = &self.allocation {
            text.push('\n');
            text += &allocation.text();
        }
        if let Some(stages) = &self.time_of_stages {
            text.push('\n');
            text += &StagesReport::table(stages);
        }
        text.push('\n');
        let mut facts = TextTable::of_facts();
        facts.row(&["dataset", &self.dataset]);
        let bytes = |bytes: f64| ByteSize::from_bytes(bytes as u64).to_string();
        facts.row(&[
            "an epoch",
            &format!(
                "{} rows, {} without a cache; sampled in {}",
                format::count(self.rows_per_epoch as u64),
                bytes(self.feature_bytes_per_epoch),
                format::seconds(self.epoch_seconds)
            ),
        ]);
        facts
            .row(&["judged by", &format!(
                "{} batches of epochs {} to {}, after those that presample counts; optimal counts these batches",
                format::count(self.batches),
                BEFOREHAND + 1,
                BEFOREHAND + self.epochs
            )]);
        if let Some(order) = &self.note {
            facts.row(&["order", order]);
        }
        text += &facts.render();
        text
    }

    /// A table of cells by size, with one line per policy.
    fn table(&self, what: &str, cell: impl Fn(&Point) -> Option<String>) -> String {
        let sizes = self.policies.first().map(|report| report.points.as_slice()).unwrap_or_default();
        let heading: Vec<String> = std::iter::once(what.to_owned())
            .chain(sizes.iter().map(|point| format!("{} %", point.size_percent)))
            .collect();
        let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
        let mut table = TextTable::with_heading(&heading);
        for report in &self.policies {
            let points = report.points.iter().map(|point| cell(point).unwrap_or_else(|| "–".to_owned()));
            let cells: Vec<String> = std::iter::once(report.policy.to_string()).chain(points).collect();
            table.row(&cells);
        }
        table.render()
    }
}

impl AllocationReport {
    fn text(&self) -> String {
        let unit = if self.in_bytes { "bytes" } else { "ms" };
        let mut table =
            TextTable::with_heading(&["for lists", "lists hit", "rows hit", &format!("a batch, {unit}")]);
        let mut row = |name: String, of: &Prediction, cost: f64| {
            let cost = if self.in_bytes { format::count(cost as u64) } else { format!("{cost:.4}") };
            table.row(&[
                name,
                format::percent(of.list_hit_rate).to_string(),
                format::percent(of.row_hit_rate).to_string(),
                cost,
            ]);
        };
        for point in &self.sweep {
            row(format!("{:.0} %", 100.0 * point.list_share), &point.prediction, point.cost);
        }
        row("as allocated".to_owned(), &self.prediction, self.cost);
        let mut text = table.render();
        text += &format!(
            "\n{:.4} of the best division's cost, {:.4} of the better single cache's; a further GiB of rows would save \
             {} a batch; a list cached in part could add {:.4} %\n",
            self.over_best,
            self.over_single,
            if self.in_bytes {
                format!("{} bytes", format::count(self.marginal as u64))
            } else {
                format!("{:.4} ms", self.marginal)
            },
            100.0 * self.partial_list_gain
        );
        text
    }
}
