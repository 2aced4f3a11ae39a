//! Planning of both caches from dataset, options and budget.

use std::time::Instant;

use uva_graph::Dataset;
use uva_rows::cache::eviction::Eviction;

use crate::cost::timing::{TimedBy, TimedCaches, TimedPoints, Timing, time};
use crate::plan_file::{
    CachePlan, PLAN_VERSION, PlanCurves, PlanDataset, PlanOptions, PlanPredictions, PlanProfile, PlanShare,
};
use crate::{
    Allocation, CacheError, CachePolicy, CostModel, Objective, Profile, ReadsPerBatch, Simulation, Sizes,
    Workload,
};
use uva_options::ByteSize;

/// The input of a plan.
#[derive(Clone)]
pub struct PlanRequest<'g> {
    /// The dataset.
    pub dataset: &'g Dataset,
    /// Its training batches.
    pub workload: Workload<'g>,
    /// The policy that computes the hotness.
    pub policy: CachePolicy,
    /// Bytes for both caches and their maps.
    pub budget_bytes: u64,
    /// Timed sizes of each cache; a line needs at least 3.
    pub timed_points: usize,
    /// The contents of the timed caches, whose lines value hits.
    pub timed_by: TimedBy,
    /// Another way to fill them, timed only to state how well its lines fit.
    pub timed_also: Option<TimedBy>,
    /// Which caches are allowed.
    pub kinds: CachedKinds,
    /// How the times of sampling and gathering combine.
    pub objective: Objective,
}

/// The caches that a run can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedKinds {
    /// A cache of lists.
    pub lists: bool,
    /// A cache of rows.
    pub rows: bool,
}

impl Default for CachedKinds {
    fn default() -> Self {
        Self { lists: true, rows: true }
    }
}

impl<'g> PlanRequest<'g> {
    /// A request with the default policy, five timed sizes, and times that add up.
    #[must_use]
    pub fn new(dataset: &'g Dataset, workload: Workload<'g>, budget_bytes: u64) -> Self {
        Self {
            dataset,
            workload,
            policy: CachePolicy::default(),
            budget_bytes,
            timed_points: 5,
            timed_by: TimedBy::default(),
            timed_also: None,
            kinds: CachedKinds::default(),
            objective: Objective::default(),
        }
    }
}

/// Points of a plan's curves.
const CURVE_POINTS: u64 = 40;

/// Counts reads, ranks nodes, times caches, and allocates the budget. Without `timed`, both caches are valued by the
/// bytes that they keep off the link.
///
/// With the default policy this samples two epochs and a sixteenth (more of short epochs, up to 200 batches), in
/// addition to the runs of `timed`. It uses about 24 bytes per node, and 4 per node and thread while it samples. The
/// plan contains the ids of cached lists and rows. Under [`CachePolicy::Evicting`], which caches rows as they come, it
/// contains only their number.
///
/// # Errors
/// If there is no batch to sample, nothing to cache, or a timed run fails.
pub fn plan(request: &PlanRequest<'_>, timed: Option<&mut dyn TimedCaches>) -> Result<CachePlan, CacheError> {
    plan_and_profile(request, timed).map(|(plan, _)| plan)
}

/// Makes a plan like [`plan`], and returns its profile too. The profile includes the orders of all lists and rows with
/// reads; a dataset is rewritten in the order of lists. It is `None` if the policy does not rank.
///
/// # Errors
/// As [`plan`].
pub fn plan_and_profile<'g>(
    request: &PlanRequest<'g>,
    timed: Option<&mut dyn TimedCaches>,
) -> Result<(CachePlan, Option<Profile<'g>>), CacheError> {
    let start = Instant::now();
    let (mut plan, profile) = if let Some(eviction) = request.policy.eviction() {
        (dynamic(request, eviction)?, None)
    } else {
        let (plan, profile) = ranked(request, timed)?;
        (plan, Some(profile))
    };
    plan.profile.seconds = start.elapsed().as_secs_f64();
    Ok((plan, profile))
}

fn ranked<'g>(
    request: &PlanRequest<'g>,
    timed: Option<&mut dyn TimedCaches>,
) -> Result<(CachePlan, Profile<'g>), CacheError> {
    let PlanRequest { dataset, workload, policy, budget_bytes: budget, .. } = request;
    let row_bytes = dataset.table().row_bytes();
    let profile = Profile::measure(policy.hotness_policy()?, workload, row_bytes)?;
    let reads = profile.reads_per_batch();
    let sampled_seconds = Instant::now();
    let timed = match timed {
        Some(timed) => time(&timing(request), &profile, timed)?,
        None => Vec::new(),
    };
    let fits = timed.iter().map(TimedPoints::fit).collect();
    let (sampling, gathering) =
        timed.into_iter().next().map_or_else(Default::default, |points| (points.sampling, points.gathering));
    let timing_seconds = sampled_seconds.elapsed().as_secs_f64();
    let model = CostModel::new(&sampling, &gathering, reads, row_bytes as u64).by(request.objective);

    let CachedKinds { lists, rows } = request.kinds;
    let all_lists = if lists { profile.allocate_lists(*budget, &model) } else { Allocation::default() };
    let all_rows = if rows { profile.allocate_rows(*budget, &model) } else { Allocation::default() };
    let chosen = match (lists, rows) {
        (true, true) => profile.allocate(*budget, &model),
        (true, false) => all_lists,
        (false, _) => all_rows,
    };
    let predict = |allocation: &Allocation| profile.predict(&model, allocation.lists, allocation.rows);
    let prediction = predict(&chosen);
    let predictions = PlanPredictions {
        none: model.predict(0.0, 0.0),
        chosen: prediction,
        all_lists: predict(&all_lists),
        all_rows: predict(&all_rows),
    };
    let notes = notes(request, &profile, &model, &chosen);
    let curves = curves(&profile, *budget);
    let ids = |nodes: &[u32]| nodes.iter().map(|&node| i64::from(node)).collect();
    let plan = CachePlan {
        version: PLAN_VERSION,
        dataset: PlanDataset::of(dataset, &profile.sizes),
        options: PlanOptions::of(workload),
        policy: *policy,
        budget_bytes: *budget,
        lists: PlanShare {
            count: chosen.lists as u64,
            bytes: chosen.list_bytes,
            map_bytes: chosen.list_map_bytes,
            hit_rate: prediction.list_hit_rate,
            ids: None,
        },
        rows: PlanShare {
            count: chosen.rows as u64,
            bytes: chosen.row_bytes,
            map_bytes: chosen.row_map_bytes,
            hit_rate: prediction.row_hit_rate,
            ids: None,
        },
        model,
        timed_by: request.timed_by,
        timed_sampling: sampling,
        timed_gathering: gathering,
        fits,
        predictions,
        curves,
        profile: PlanProfile {
            counted_batches: profile.hotness.batches,
            observed_batches: profile.observed.batches,
            observed_list_reads: profile.observed.total_list_reads(),
            observed_row_reads: profile.observed.total_feature_reads(),
            ranked_lists: profile.lists.len() as u64,
            ranked_rows: profile.rows.len() as u64,
            timing_seconds,
            seconds: 0.0,
        },
        notes,
        list_ids: ids(&profile.lists[..chosen.lists]),
        row_ids: ids(&profile.rows[..chosen.rows]),
    };
    Ok((plan, profile))
}

fn timing<'r>(request: &PlanRequest<'r>) -> Timing<'r> {
    let PlanRequest { workload, timed_by, timed_also, .. } = request;
    let also = timed_also.filter(|by| by != timed_by);
    Timing {
        ways: std::iter::once(*timed_by).chain(also).collect(),
        points: request.timed_points,
        budget_bytes: request.budget_bytes,
        lists: request.kinds.lists,
        rows: request.kinds.rows,
        seed: workload.options.seed,
        progress: workload.progress,
    }
}

/// Hit rates up to twice the budget, or up to the size of all items, and at the last item.
fn curves(profile: &Profile<'_>, budget: u64) -> PlanCurves {
    let all_lists: u64 = profile.lists.iter().map(|&node| profile.sizes.list_bytes(node)).sum();
    let all_rows = profile.rows.len() as u64 * profile.sizes.row_bytes;
    let targets = |all: u64| -> Vec<u64> {
        let end = all.min(budget.saturating_mul(2));
        let even = |point| (u128::from(end) * u128::from(point) / u128::from(CURVE_POINTS)) as u64;
        let mut targets: Vec<u64> = (0..=CURVE_POINTS).map(even).chain([all]).collect();
        targets.dedup();
        targets
    };
    let mut curves = PlanCurves {
        lists: profile.list_curve(&profile.observed, &targets(all_lists)),
        rows: profile.row_curve(&profile.observed, &targets(all_rows)),
    };
    curves.lists.dedup_by_key(|point| point.count);
    curves.rows.dedup_by_key(|point| point.count);
    curves
}

/// Notes on a plan, for people.
fn notes(
    request: &PlanRequest<'_>,
    profile: &Profile<'_>,
    model: &CostModel,
    chosen: &Allocation,
) -> Vec<String> {
    let mut notes = Vec::new();
    let budget = request.budget_bytes;
    let reasons: Vec<String> = [("sampling", &model.sampling), ("gathering", &model.gathering)]
        .into_iter()
        .filter_map(|(what, basis)| basis.fallback().map(|reason| format!("{what}: {reason}")))
        .collect();
    // With a single cache there is no division to value.
    if !reasons.is_empty() && request.kinds == CachedKinds::default() {
        notes.push(format!(
            "both caches are valued by the bytes they keep off the link, not by time ({})",
            reasons.join("; ")
        ));
    }
    if chosen.lists == 0 && chosen.rows == 0 {
        let sizes = &profile.sizes;
        let first_list = profile.lists.first().map_or(0, |&node| sizes.list_bytes(node));
        notes.push(format!(
            "nothing is cached: a row cache takes {} for its map and {} a row, a list cache {} for its map and {} for its \
             first list, and the budget is {}",
            size(sizes.row_map_bytes),
            size(sizes.row_bytes),
            size(sizes.list_map_bytes),
            size(first_list),
            size(budget)
        ));
    }
    if let Some((list, left)) = chosen.misfit {
        // Picks are uniform over a list, so a part has the same value per byte as the whole list. Caching a list in
        // part could thus add at most the part of this one list that fits.
        let part = list.value as f64 * (left as f64 / list.bytes as f64) / (chosen.value.max(1)) as f64;
        notes.push(format!(
            "lists end at one of {} with {} left; caching it in part could add {:.4} % to what both caches \
             save, before what rows took instead",
            size(list.bytes),
            size(left),
            100.0 * part
        ));
    }
    notes
}

fn size(bytes: u64) -> ByteSize {
    ByteSize::from_bytes(bytes)
}

/// Plans a cache that fills itself. It gets all bytes for rows, and its hit rate is simulated over the second half of
/// an epoch.
fn dynamic(request: &PlanRequest<'_>, eviction: &Eviction) -> Result<CachePlan, CacheError> {
    let PlanRequest { dataset, workload, policy, budget_bytes: budget, .. } = request;
    let row_bytes = dataset.table().row_bytes();
    let sizes = Sizes::new(&workload.csc, row_bytes);
    let for_rows = if request.kinds.rows { budget.saturating_sub(sizes.row_map_bytes) } else { 0 };
    let slots = for_rows.checked_div(sizes.row_bytes).unwrap_or(0).min(sizes.nodes() as u64);
    let batches = workload.batches()?;
    let mut cache = Simulation::new(eviction, sizes.nodes(), slots as usize)?;
    let (mut seen, mut rows, mut list_reads) = (0, 0, 0);
    workload.visit_in_order(0..1, &mut |batch| {
        if seen == batches / 2 {
            cache.reset();
        }
        seen += 1;
        cache.gather(batch.nodes());
        rows += batch.nodes().len() as u64;
        list_reads += batch.counts().list_reads.all;
    })?;
    let reads =
        ReadsPerBatch { lists: list_reads as f64 / batches as f64, rows: rows as f64 / batches as f64 };
    let model = CostModel::new(&[], &[], reads, row_bytes as u64);
    let (none, chosen) = (model.predict(0.0, 0.0), model.predict(0.0, cache.hit_rate()));
    let mut notes = vec![format!("the {policy} policy caches rows as they come, and no lists")];
    if slots == 0 {
        notes.push(format!(
            "nothing is cached: a row cache takes {} for its map and {} a row, and the budget is {}",
            size(sizes.row_map_bytes),
            size(row_bytes as u64),
            size(*budget)
        ));
    }
    Ok(CachePlan {
        version: PLAN_VERSION,
        dataset: PlanDataset::of(dataset, &sizes),
        options: PlanOptions::of(workload),
        policy: *policy,
        budget_bytes: *budget,
        lists: PlanShare::default(),
        rows: PlanShare {
            count: slots,
            bytes: slots * sizes.row_bytes,
            map_bytes: if slots > 0 { sizes.row_map_bytes } else { 0 },
            hit_rate: chosen.row_hit_rate,
            ids: None,
        },
        model,
        timed_by: request.timed_by,
        timed_sampling: Vec::new(),
        timed_gathering: Vec::new(),
        fits: Vec::new(),
        predictions: PlanPredictions { none, chosen, all_lists: none, all_rows: chosen },
        curves: PlanCurves::default(),
        profile: PlanProfile {
            observed_batches: batches as u64,
            observed_list_reads: list_reads,
            observed_row_reads: rows,
            ..PlanProfile::default()
        },
        notes,
        list_ids: Vec::new(),
        row_ids: Vec::new(),
    })
}
