//! Whole plans: their content, their fallbacks, and refusals.

use std::sync::Mutex;

use uva_graph::reorder::NodeOrder;
use uva_plan::{
    Basis, CacheError, CachePlan, CachePolicy, PlanRequest, Prediction, TimedBy, TimedCaches, TimedRun,
    Workload, count, plan,
};
use uva_sample::{SamplerKind, SamplerOptions};

use crate::common::{Stored, options, stored, written};

const FANOUTS: [i32; 2] = [5, 3];

fn request(stored: &Stored, budget: u64) -> PlanRequest<'_> {
    let workload = Workload::of(&stored.dataset, options(&FANOUTS), 200);
    PlanRequest::new(&stored.dataset, workload, budget)
}

/// A machine whose times are on a line, and which checks its arguments.
struct Machine<'a> {
    stored: &'a Stored,
    order: Option<Vec<i64>>,
    sampled: Vec<usize>,
    gathered: Vec<usize>,
    sampling_ms: fn(f64) -> f64,
    gathering_ms: fn(f64) -> f64,
}

impl<'a> Machine<'a> {
    fn new(stored: &'a Stored, sampling_ms: fn(f64) -> f64, gathering_ms: fn(f64) -> f64) -> Self {
        let (order, sampled, gathered) = (None, Vec::new(), Vec::new());
        Self { stored, order, sampled, gathered, sampling_ms, gathering_ms }
    }

    fn rate(&self, cached: &[i64], of_lists: bool) -> f64 {
        let workload = Workload::of(&self.stored.dataset, options(&FANOUTS), 200);
        let hotness = count(&workload, 7..8).unwrap();
        let reads = if of_lists { hotness.list_reads } else { hotness.feature_reads };
        let cached: Vec<u32> = cached.iter().map(|&node| node as u32).collect();
        uva_plan::hit_rate(&cached, &reads)
    }
}

type Outcome = Result<TimedRun, Box<dyn std::error::Error + Send + Sync>>;

impl TimedCaches for Machine<'_> {
    fn sampling(&mut self, order: &[i64], cached: usize) -> Outcome {
        assert_eq!(self.order.get_or_insert_with(|| order.to_vec()), order, "one order for the whole plan");
        self.sampled.push(cached);
        let hit_rate = self.rate(&order[..cached], true);
        Ok(TimedRun { hit_rate, ms: (self.sampling_ms)(hit_rate) })
    }

    fn gathering(&mut self, cached: &[i64]) -> Outcome {
        self.gathered.push(cached.len());
        let hit_rate = self.rate(cached, false);
        Ok(TimedRun { hit_rate, ms: (self.gathering_ms)(hit_rate) })
    }
}

#[test]
fn timed_runs_on_a_line_give_that_line_and_predictions_on_it() {
    let stored = stored(5000, 12.0, 16, 0.4, 1);
    let mut machine = Machine::new(&stored, |rate| 8.0 - 6.0 * rate, |rate| 5.0 - 4.0 * rate);
    let plan = plan(&request(&stored, 150_000), Some(&mut machine)).unwrap();
    let (Basis::Measured { line: sampling }, Basis::Measured { line: gathering }) =
        (&plan.model.sampling, &plan.model.gathering)
    else {
        panic!("{:?}", plan.model);
    };
    for (found, expected) in [
        (sampling.intercept_ms, 8.0),
        (sampling.slope_ms, -6.0),
        (gathering.intercept_ms, 5.0),
        (gathering.slope_ms, -4.0),
    ] {
        assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
    }
    for counts in [&machine.sampled, &machine.gathered] {
        assert!(counts.len() >= 3 && counts[0] == 0 && counts.is_sorted(), "{counts:?}");
    }
    let prediction = plan.predictions.chosen;
    let expected = 8.0 - 6.0 * prediction.list_hit_rate + 5.0 - 4.0 * prediction.row_hit_rate;
    let total = |of: &Prediction| plan.model.batch_ms(of.list_hit_rate, of.row_hit_rate).unwrap();
    assert!((total(&prediction) - expected).abs() < 1e-9);
    assert!((total(&plan.predictions.none) - 13.0).abs() < 1e-9);
    for other in [plan.predictions.none, plan.predictions.all_lists, plan.predictions.all_rows] {
        assert!(total(&prediction) <= 1.01 * total(&other));
    }
    // The predicted hit rate also holds in an epoch that was not sampled before.
    assert!((machine.rate(&plan.list_ids, true) - plan.lists.hit_rate).abs() < 0.03);
    assert!((machine.rate(&plan.row_ids, false) - plan.rows.hit_rate).abs() < 0.03);
    assert!(plan.notes.iter().all(|note| !note.contains("valued by")), "{:?}", plan.notes);
}

/// A machine that also records the orders of lists that it is asked to cache.
struct Recorder<'a> {
    machine: Machine<'a>,
    orders: Vec<Vec<i64>>,
}

impl TimedCaches for Recorder<'_> {
    fn sampling(&mut self, order: &[i64], cached: usize) -> Outcome {
        if self.orders.last().is_none_or(|last| last != order) {
            self.orders.push(order.to_vec());
            self.machine.order = None;
        }
        self.machine.sampling(order, cached)
    }

    fn gathering(&mut self, cached: &[i64]) -> Outcome {
        self.machine.gathering(cached)
    }
}

#[test]
fn times_of_random_caches_repeat_and_are_listed_with_the_rankings() {
    let stored = stored(2000, 12.0, 16, 0.4, 1);
    let csc = stored.dataset.csc();
    let timed = |timed_by, timed_also, seed| {
        let options = SamplerOptions { seed, ..options(&FANOUTS) };
        let workload = Workload::of(&stored.dataset, options, 200);
        let plain = PlanRequest::new(&stored.dataset, workload, 60_000);
        let request = PlanRequest { timed_by, timed_also, timed_points: 3, ..plain };
        let machine = Machine::new(&stored, |rate| 8.0 - 6.0 * rate, |rate| 5.0 - 4.0 * rate);
        let mut recorder = Recorder { machine, orders: Vec::new() };
        let plan = plan(&request, Some(&mut recorder)).unwrap();
        (plan, recorder.orders)
    };
    let (rank, random) = (TimedBy::Rank, TimedBy::Random);
    let (by_rank, ranked) = timed(rank, None, 0);
    let (both, orders) = timed(random, Some(rank), 0);
    assert_eq!((by_rank.timed_by, both.timed_by), (rank, random));
    assert_eq!(orders.len(), 2, "both orders are requested at once");
    assert_eq!(orders[1], ranked[0]);
    assert_eq!(timed(random, None, 0).1, [orders[0].clone()]);
    assert_ne!(timed(random, None, 1).1, [orders[0].clone()]);
    // Lists that are read, as many as fit, unlike a ranking of the hottest.
    let bytes: usize = orders[0].iter().map(|&node| 8 + 4 * csc.degree(node as usize)).sum();
    assert!((40_000..=52_000).contains(&bytes), "{bytes}");
    let first = |order: &[i64]| order[..order.len() / 4].to_vec();
    let machine = Machine::new(&stored, |rate| rate, |rate| rate);
    assert!(machine.rate(&first(&orders[0]), true) < 0.8 * machine.rate(&first(&ranked[0]), true));
    // The times are on one line in both cases.
    let ways: Vec<TimedBy> = both.fits.iter().map(|fit| fit.by).collect();
    assert_eq!(ways, [random, rank]);
    for fit in both.fits.iter().chain(&by_rank.fits) {
        assert!(fit.sampling_r2.unwrap() > 0.999 && fit.gathering_r2.unwrap() > 0.999, "{fit:?}");
    }
    // The times by which hits are valued are those of random caches.
    assert_ne!(both.timed_sampling, by_rank.timed_sampling);
    assert!(matches!(both.model.sampling, Basis::Measured { .. }));
    let untimed = PlanRequest { timed_by: random, ..request(&stored, 60_000) };
    let untimed = plan(&untimed, None).unwrap();
    assert!(untimed.fits.is_empty() && untimed.model.sampling.fallback().is_some());
}

#[test]
fn a_plan_states_the_bytes_of_weights_and_of_places_that_lead_to_edge_ids() {
    let stored = stored(3000, 12.0, 4, 0.4, 1);
    let weights: Vec<f32> = (0..stored.dataset.edges()).map(|edge| (edge % 7) as f32).collect();
    let csc = stored.dataset.csc();
    for (kind, edge_ids, of_list, of_entry) in [
        (SamplerKind::NEIGHBOR, true, 16, 4),
        (SamplerKind::WEIGHTED, false, 8, 8),
        (SamplerKind::WEIGHTED, true, 16, 8),
    ] {
        let options = SamplerOptions { kind, edge_ids, ..options(&FANOUTS) };
        let mut workload = Workload::of(&stored.dataset, options.clone(), 200);
        workload.weights = Some(&weights);
        let plan = plan(&PlanRequest::new(&stored.dataset, workload, 90_000), None).unwrap();
        let bytes = |&node: &i64| of_list + of_entry * csc.degree(node as usize);
        assert_eq!(
            plan.lists.bytes,
            plan.list_ids.iter().map(bytes).sum::<usize>() as u64,
            "{kind} {edge_ids}"
        );
        assert!(plan.lists.count > 0 && plan.bytes() <= 90_000);
        assert_eq!(plan.check(&stored.dataset, &options, 200, None).unwrap(), []);

        // The files contain it as well, and can be read again.
        let path = stored.directory.path().join("plan.json");
        plan.write(&path).unwrap();
        assert_eq!(CachePlan::read(&path).unwrap().dataset, plan.dataset);
        let wrong = |weight_bytes, home_bytes| {
            let mut plan = plan.clone();
            (plan.dataset.weight_bytes, plan.dataset.home_bytes) = (weight_bytes, home_bytes);
            plan.check(&stored.dataset, &options, 200, None).unwrap_err().to_string()
        };
        assert!(wrong(0, 0).contains("bytes of lists"));
        assert!(wrong(3, 0).contains("cached weights of 3 bytes"));

        // In a dataset that is written in the plan's order, a position is its edge id.
        let order = NodeOrder::from_first(stored.dataset.nodes(), &plan.list_ids).unwrap();
        let moved = plan.reordered(&stored.dataset, &order);
        assert_eq!((moved.dataset.weight_bytes, moved.dataset.home_bytes), (of_entry as u64 - 4, 0));
    }
}

#[test]
fn a_plan_states_the_bytes_of_what_it_names_and_keeps_to_its_budget() {
    let stored = stored(5000, 12.0, 16, 0.4, 1);
    let csc = stored.dataset.csc();
    for budget in [0, 19_999, 20_063, 20_064, 50_000, 150_000, 1_000_000, u64::MAX] {
        let plan = plan(&request(&stored, budget), None).unwrap();
        assert!(plan.bytes() <= budget);
        let list_bytes: usize = plan.list_ids.iter().map(|&node| 8 + 4 * csc.degree(node as usize)).sum();
        assert_eq!(plan.lists.bytes, list_bytes as u64);
        assert_eq!(plan.rows.bytes, 64 * plan.row_ids.len() as u64);
        assert_eq!(
            (plan.lists.count, plan.rows.count),
            (plan.list_ids.len() as u64, plan.row_ids.len() as u64)
        );
        assert_eq!(plan.lists.map_bytes, if plan.list_ids.is_empty() { 0 } else { 20_000 });
        assert_eq!(plan.rows.map_bytes, if plan.row_ids.is_empty() { 0 } else { 20_000 });
        let said = plan.notes.iter().any(|note| note.contains("nothing is cached"));
        assert_eq!(said, plan.bytes() == 0, "{budget}: {:?}", plan.notes);
        assert_eq!(plan.check(&stored.dataset, &options(&FANOUTS), 200, None).unwrap(), []);
    }
    let least = plan(&request(&stored, 20_063), None).unwrap();
    let all = plan(&request(&stored, u64::MAX), None).unwrap();
    assert!(least.row_ids.is_empty(), "a row and its map take 20,064 bytes");
    // Everything that was ever read is cached; misses are entries that only the third epoch reads.
    assert_eq!((all.lists.count, all.rows.count), (all.profile.ranked_lists, all.profile.ranked_rows));
    assert!(all.lists.hit_rate > 0.98 && all.rows.hit_rate > 0.98);
    assert!(all.curves.rows.last().unwrap().count == all.profile.ranked_rows);
    assert!(all.curves.lists.last().unwrap().count == all.profile.ranked_lists);
}

#[test]
fn a_machine_where_hits_save_nothing_is_planned_for_by_bytes_and_says_so() {
    let stored = stored(5000, 12.0, 16, 0.4, 1);
    let by_bytes = plan(&request(&stored, 150_000), None).unwrap();
    let mut slower = Machine::new(&stored, |rate| 8.0 + rate, |rate| 5.0 - 4.0 * rate);
    let plan = plan(&request(&stored, 150_000), Some(&mut slower)).unwrap();
    assert_eq!((&plan.list_ids, &plan.row_ids), (&by_bytes.list_ids, &by_bytes.row_ids));
    let note = plan.notes.iter().find(|note| note.contains("valued by the bytes")).unwrap();
    assert!(note.contains("sampling: hits save no time") && !note.contains("gathering:"), "{note}");
    // The time is still the measured one.
    assert!(plan.predictions.chosen.sampling_ms.unwrap() > 8.0);
    let gathering = plan.predictions.chosen.gathering_ms.unwrap();
    assert!((gathering - (5.0 - 4.0 * plan.rows.hit_rate)).abs() < 1e-9);
}

#[test]
fn a_timed_run_that_fails_or_gives_no_number_ends_the_plan() {
    struct Broken(Option<f64>);
    impl TimedCaches for Broken {
        fn sampling(&mut self, _: &[i64], _: usize) -> Outcome {
            Ok(TimedRun { hit_rate: 0.0, ms: 1.0 })
        }
        fn gathering(&mut self, _: &[i64]) -> Outcome {
            match self.0 {
                Some(ms) => Ok(TimedRun { hit_rate: 0.5, ms }),
                None => Err("the device is gone".into()),
            }
        }
    }
    let stored = stored(1000, 5.0, 4, 0.4, 1);
    for (ms, says) in
        [(None, "the device is gone"), (Some(f64::NAN), "NaN ms"), (Some(f64::INFINITY), "inf ms")]
    {
        let error = plan(&request(&stored, 50_000), Some(&mut Broken(ms))).unwrap_err();
        assert!(matches!(error, CacheError::Timing { what: "gathering", .. }));
        assert!(error.to_string().contains(says) && !error.is_bad_input(), "{error}");
    }
}

#[test]
fn every_policy_makes_a_plan_that_can_be_written_and_read() {
    let stored = stored(3000, 10.0, 8, 0.4, 1);
    let mut rates = Vec::new();
    for policy in CachePolicy::all() {
        let request = PlanRequest { policy, ..request(&stored, 60_000) };
        let plan = plan(&request, None).unwrap();
        assert_eq!(plan.policy, policy);
        assert!(plan.bytes() <= 60_000 && plan.rows.count + plan.lists.count > 0, "{policy}");
        assert_eq!(plan.check(&stored.dataset, &options(&FANOUTS), 200, None).unwrap(), []);
        let path = stored.directory.path().join(format!("{policy}.json"));
        plan.write(&path).unwrap();
        let read = CachePlan::read(&path).unwrap();
        assert_eq!((&read.list_ids, &read.row_ids), (&plan.list_ids, &plan.row_ids));
        rates.push((policy, plan.predictions.chosen.link_bytes));
    }
    let bytes = |policy| rates.iter().find(|(of, _)| *of == policy).unwrap().1;
    assert!(bytes(CachePolicy::OPTIMAL) < bytes(CachePolicy::RANDOM));
    assert!(bytes(CachePolicy::PRESAMPLE) < bytes(CachePolicy::RANDOM));
}

#[test]
fn a_cache_that_fills_itself_is_planned_as_a_capacity() {
    let stored = stored(3000, 10.0, 8, 0.4, 1);
    let request = |budget| PlanRequest { policy: "fifo".parse().unwrap(), ..request(&stored, budget) };
    let plan = |budget| plan(&request(budget), None).unwrap();
    let some = plan(12_000 + 32 * 100 + 31);
    assert_eq!((some.rows.count, some.rows.bytes, some.rows.map_bytes), (100, 3200, 12_000));
    assert!(some.row_ids.is_empty() && some.list_ids.is_empty() && some.lists.count == 0);
    assert!(some.rows.hit_rate > 0.0 && some.rows.hit_rate < 1.0);
    let all = plan(u64::MAX);
    assert_eq!(all.rows.count, 3000);
    assert!(all.rows.hit_rate > some.rows.hit_rate);
    let none = plan(12_031);
    assert_eq!((none.rows.count, none.bytes()), (0, 0));
    assert!(none.notes.iter().any(|note| note.contains("nothing is cached")));
}

#[test]
fn training_nodes_without_neighbours_are_refused_with_what_was_read() {
    let stored = written(&[vec![], vec![0], vec![]], &[2, 0]);
    let workload = Workload::of(&stored.dataset, options(&FANOUTS), 1);
    for policy in [CachePolicy::PRESAMPLE, CachePolicy::DEGREE] {
        let request = PlanRequest { policy, ..PlanRequest::new(&stored.dataset, workload.clone(), 1000) };
        let refused = plan(&request, None).unwrap_err();
        let CacheError::NothingToCache { seeds: 2, batches, rows } = refused else { panic!("{refused}") };
        assert!(batches > 0 && rows == batches, "{refused}");
        assert!(refused.is_bad_input() && refused.to_string().contains("2 training nodes"), "{refused}");
    }
    // One node with a neighbour is enough.
    let stored = written(&[vec![], vec![0], vec![]], &[1]);
    let workload = Workload::of(&stored.dataset, options(&FANOUTS), 1);
    let plan = plan(&PlanRequest::new(&stored.dataset, workload, 1000), None).unwrap();
    assert_eq!(plan.row_ids, [0, 1]);
    assert_eq!((plan.lists.hit_rate, plan.rows.hit_rate), (1.0, 1.0));
}

#[test]
fn an_empty_train_split_is_refused() {
    let stored = written(&[vec![1], vec![0]], &[]);
    for policy in CachePolicy::all() {
        let workload = Workload::of(&stored.dataset, options(&FANOUTS), 1);
        let request = PlanRequest { policy, ..PlanRequest::new(&stored.dataset, workload, 1000) };
        let refused = plan(&request, None).unwrap_err();
        assert!(matches!(refused, CacheError::EmptyTrainSplit), "{policy}: {refused}");
    }
}

#[test]
fn progress_reports_sampling_and_timing() {
    let stored = stored(2000, 10.0, 8, 0.4, 1);
    let stages = Mutex::new(Vec::new());
    let tell = |progress: uva_graph::Progress| {
        assert!(progress.done <= progress.total);
        stages.lock().unwrap().push((progress.stage, progress.done == progress.total));
    };
    let mut request = request(&stored, 50_000);
    request.workload.progress = Some(&tell);
    plan(&request, Some(&mut Machine::new(&stored, |_| 1.0, |_| 1.0))).unwrap();
    let stages = stages.into_inner().unwrap();
    for stage in ["sampling", "timing"] {
        assert!(stages.contains(&(stage, true)), "{stage} ends");
    }
}
