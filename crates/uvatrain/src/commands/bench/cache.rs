//! `uvatrain bench cache`: what caches of several sizes hit, policy by policy, counted and not timed; and the
//! allocator's division of a budget beside eleven others.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use serde_json::Value;
use uva_graph::Dataset;
use uva_plan::{
    CachePolicy, ComparedPolicy, Hotness, PolicyHits, PolicyPoint, Prediction, SweepPoint, compare_policies,
    count,
};
use uva_runtime::backend::Backend;
use uva_runtime::seed_order::MadeOrder;
use uva_runtime::spec::Spelling;
use uva_runtime::{LoaderOptions, planning};

use crate::flags::CacheBenchFlags;
use crate::ui::table::Table;
use crate::ui::work::Work;
use crate::ui::{format, out};
use uva_runtime::spec::ByteSize;

/// Epochs that presampling counts; hits are counted in those behind them.
const BEFOREHAND: u32 = 2;

/// The epochs that hits are counted over.
fn behind(flags: &CacheBenchFlags) -> Range<u32> {
    BEFOREHAND..BEFOREHAND + flags.epochs
}

/// Measures and prints.
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
    let epochs = f64::from(flags.epochs);
    let (rows, row_bytes) =
        (measured.total_feature_reads() as f64 / epochs, dataset.features().row_bytes() as f64);
    let report = Report {
        dataset: dataset.name().to_owned(),
        nodes: dataset.nodes(),
        edges: dataset.edges(),
        row_bytes: dataset.features().row_bytes(),
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
        note: loader.made_order.as_ref().map(|order| Spelling::CommandLine.sentence(&order.note())),
        policies: hits.into_iter().map(|hits| PolicyReport::of(hits, rows, row_bytes)).collect(),
        allocation,
    };
    if flags.json { out::json(&report) } else { out::text(&report.text()) }
}

/// A cache of one size under one policy.
#[derive(Serialize)]
struct Point {
    /// Per cent of the rows, and of the bytes of all lists.
    size_percent: u32,
    row_hit_rate: f64,
    /// Rows that miss, an epoch: what caches are compared by where orders differ, since an order that makes the rows of a
    /// batch coincide lowers the share that hits.
    rows_missed_per_epoch: f64,
    /// Bytes of rows that still cross the link in an epoch.
    feature_bytes_per_epoch: f64,
    /// Absent where no lists are cached.
    #[serde(skip_serializing_if = "Option::is_none")]
    list_hit_rate: Option<f64>,
}

#[derive(Serialize)]
struct PolicyReport {
    policy: ComparedPolicy,
    /// Seconds it took to rank, the epochs sampled beforehand among them.
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

/// The allocator's division of a budget, judged by the epochs that were measured, beside others.
#[derive(Serialize)]
struct AllocationReport {
    budget_bytes: u64,
    lists: u64,
    rows: u64,
    /// The cost of a batch with it: milliseconds, or bytes over the link where no line fits (`in_bytes`).
    cost: f64,
    in_bytes: bool,
    prediction: Prediction,
    sweep: Vec<SweepPoint>,
    /// Its cost over that of the best of the sweep: below 1 where it is better than all of them.
    over_best: f64,
    /// And over that of the better single cache.
    over_single: f64,
    /// Upper bound of the value that a partially cached list could add, as a share of the value of both caches.
    partial_list_gain: f64,
    /// Why lines did not fit, if they did not.
    notes: Vec<String>,
    planned_seconds: f64,
}

fn allocation(
    dataset: &Arc<Dataset>,
    loader: &LoaderOptions,
    budget: u64,
    measured: &Hotness,
) -> anyhow::Result<Option<AllocationReport>> {
    let (plan, profile) =
        planning::plan(dataset, loader, &Backend::Cpu, budget, CachePolicy::PRESAMPLE, &|line| {
            out::say(line)
        })?;
    let Some(profile) = profile else { return Ok(None) };
    let (lists, rows) = (plan.lists.count as usize, plan.rows.count as usize);
    let prediction = profile.predict_by(&plan.model, lists, rows, measured);
    let cost = plan.model.cost(prediction.list_hit_rate, prediction.row_hit_rate);
    let sweep = profile.sweep(budget, &plan.model, measured);
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
        partial_list_gain,
        sweep,
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
    fanouts: Vec<i32>,
    batch_size: usize,
    batch_dependency: u32,
    seed: u64,
    /// Absent where seeds are shuffled, as they are unless asked otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed_order: Option<Value>,
    epochs: u32,
    batches: u64,
    epoch_seconds: f64,
    rows_per_epoch: f64,
    list_reads_per_epoch: f64,
    feature_bytes_per_epoch: f64,
    policies: Vec<PolicyReport>,
    /// The order of the seeds, for people.
    #[serde(skip)]
    note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocation: Option<Option<AllocationReport>>,
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
        if let Some(Some(allocation)) = &self.allocation {
            text.push('\n');
            text += &allocation.text();
        }
        text.push('\n');
        let mut facts = Table::of_facts();
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
                "{} batches of epochs {} to {}, behind those that presample counts; optimal counts these themselves",
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

    /// Cells by size, a line a policy.
    fn table(&self, what: &str, cell: impl Fn(&Point) -> Option<String>) -> String {
        let sizes = self.policies.first().map(|report| report.points.as_slice()).unwrap_or_default();
        let heading: Vec<String> = std::iter::once(what.to_owned())
            .chain(sizes.iter().map(|point| format!("{} %", point.size_percent)))
            .collect();
        let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
        let mut table = Table::with_heading(&heading);
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
            Table::with_heading(&["for lists", "lists hit", "rows hit", &format!("a batch, {unit}")]);
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
            "\n{:.4} of the best division's cost, {:.4} of the better single cache's; a list cached in part could add \
             {:.4} %\n",
            self.over_best,
            self.over_single,
            100.0 * self.partial_list_gain
        );
        text
    }
}
