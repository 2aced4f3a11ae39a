//! The allocator's split compared with a sweep, evaluated in epochs that it has not seen.

use uva_plan::{
    Allocation, CostModel, Degree, HotnessPolicy, Objective, Presample, Profile, ReadWeights, ReadsPerBatch,
    Workload, count,
};
use uva_sample::{SamplerKind, SamplerOptions};

use crate::common::{options, stored};

/// Points on the line from `none` milliseconds without hits to a tenth of that with hits only.
fn line(none: f64) -> Vec<(f64, f64)> {
    [0.0, 0.25, 0.5, 0.75, 1.0].map(|rate| (rate, none * (1.0 - 0.9 * rate))).to_vec()
}

/// Models of four machines: one that reads over a link of 20 GB/s, with lists read in sectors; one that samples three
/// times as slowly; one that samples ten times as fast; and one for which only bytes are known.
fn models(reads: ReadsPerBatch, row_bytes: u64) -> Vec<(String, CostModel)> {
    let bytes = CostModel::new(&[], &[], reads, row_bytes);
    let benefits = bytes.benefits();
    let ms = |bytes: f64| bytes / 20e6;
    let mut models = vec![("bytes".to_owned(), bytes)];
    for times in [0.1, 1.0, 3.0] {
        let sampling = line(times * ms(benefits.lists));
        let gathering = line(ms(benefits.rows));
        let model = CostModel::new(&sampling, &gathering, reads, row_bytes);
        models.push((format!("sampling × {times} in a pipeline"), model.clone().by(Objective::Pipeline)));
        models.push((format!("sampling × {times}"), model));
    }
    models
}

#[test]
fn the_split_is_near_the_best_of_a_sweep_on_every_setting() {
    let stored = stored(60_000, 20.0, 1, 0.4, 5);
    for fanouts in [&[2, 2, 2][..], &[15, 10, 5]] {
        let workload = Workload::of(&stored.dataset, options(fanouts), 1000);
        // The epochs of the evaluation: neither counted nor observed.
        let judge = count(&workload, 5..8).unwrap();
        for feature_dim in [128, 256] {
            let row_bytes = 4 * feature_dim;
            let profile =
                Profile::measure(&Presample { epochs: 2, least_batches: 0 }, &workload, row_bytes).unwrap();
            let everything = 60_000 * (row_bytes as u64 + 4) + 8 * 60_000 + 4 * 1_200_000;
            for (name, model) in models(profile.reads_per_batch(), row_bytes as u64) {
                for per_cent in [2, 5, 10, 25, 50, 90] {
                    let budget = everything * per_cent / 100;
                    let setting =
                        format!("{fanouts:?}, {feature_dim} features, {name}, {per_cent} % of everything");
                    let found = profile.allocate(budget, &model);
                    assert!(found.bytes() <= budget, "{setting}");
                    let cost = |lists: usize, rows: usize| {
                        let by = profile.predict_by(&model, lists, rows, &judge);
                        model.cost(by.list_hit_rate, by.row_hit_rate)
                    };
                    let chosen = cost(found.lists, found.rows);
                    let sweep = profile.sweep(budget, &model, &judge);
                    assert_eq!(sweep.len(), 11);
                    let best = sweep.iter().map(|point| point.cost).fold(f64::INFINITY, f64::min);
                    assert!(chosen <= 1.05 * best, "{setting}: {chosen} is not within 5 % of {best}");
                    let either = sweep[0].cost.min(sweep[10].cost);
                    assert!(chosen <= 1.03 * either, "{setting}: {chosen}, and {either} with one cache");
                }
            }
        }
    }
}

/// A sampler that is far from the slowest stage, but would save much: in a sum of times its lists are worth a large
/// part of the budget, and in a pipeline no stage waits for them.
#[test]
fn in_a_pipeline_the_slowest_stage_gets_the_budget() {
    let stored = stored(20_000, 20.0, 1, 0.4, 5);
    let workload = Workload::of(&stored.dataset, options(&[15, 10, 5]), 500);
    let judge = count(&workload, 5..6).unwrap();
    let profile = Profile::measure(&Presample { epochs: 2, least_batches: 0 }, &workload, 512).unwrap();
    let added = CostModel::new(&line(6.0), &line(10.0), profile.reads_per_batch(), 512);
    let pipeline = added.clone().by(Objective::Pipeline);
    for budget in [2_000_000, 4_000_000, 6_000_000] {
        let [by_sum, by_slowest] = [&added, &pipeline].map(|model| profile.allocate(budget, model));
        assert!(by_slowest.bytes() <= budget);
        let cost = |model: &CostModel, found: &Allocation| {
            let by = profile.predict_by(model, found.lists, found.rows, &judge);
            model.cost(by.list_hit_rate, by.row_hit_rate)
        };
        let case = format!("{budget}: {by_sum:?} {by_slowest:?}");
        assert!(by_sum.lists > by_slowest.lists && by_sum.rows < by_slowest.rows, "{case}");
        let [slowest, of_sum] = [&by_slowest, &by_sum].map(|found| cost(&pipeline, found));
        assert!(slowest < 0.98 * of_sum, "{case}: {slowest} ms, {of_sum} ms");
        assert!(cost(&added, &by_sum) < cost(&added, &by_slowest), "{case}");
    }
}

#[test]
fn a_sweep_gives_each_cache_its_share_with_its_map() {
    let stored = stored(2000, 10.0, 1, 0.4, 5);
    let workload = Workload::of(&stored.dataset, options(&[5, 5]), 100);
    let profile = Profile::measure(&Presample { epochs: 2, least_batches: 0 }, &workload, 64).unwrap();
    let model = CostModel::new(&[], &[], profile.reads_per_batch(), 64);
    let budget = 80_000;
    let map = 4 * 2000;
    let sweep = profile.sweep(budget, &model, &profile.observed);
    for (step, point) in sweep.iter().enumerate() {
        assert_eq!(point.list_share, step as f64 / 10.0);
        let lists: u64 =
            profile.lists[..point.lists].iter().map(|&node| profile.sizes.list_bytes(node)).sum();
        let share = budget * step as u64 / 10;
        assert!(point.lists == 0 || lists + map <= share);
        assert!(point.rows == 0 || point.rows as u64 * 64 + map <= budget - share);
        // Another row would not fit, unless there is none.
        let next = (point.rows as u64 + 1) * 64 + map;
        assert!(point.rows == profile.rows.len() || next > budget - share);
        let same = profile.predict(&model, point.lists, point.rows);
        assert_eq!(point.prediction, same);
        assert_eq!(point.cost, same.link_bytes);
    }
    assert_eq!((sweep[0].lists, sweep[10].rows), (0, 0));
    // 8,000 bytes hold one map and no list.
    assert_eq!(sweep[1].lists, 0);
    assert!(sweep[2].lists > 0);
    let huge = profile.sweep(u64::MAX, &model, &profile.observed);
    assert_eq!((huge[5].lists, huge[5].rows), (profile.lists.len(), profile.rows.len()));
}

#[test]
fn with_weights_and_edge_ids_the_loss_is_at_most_the_largest_value() {
    let stored = stored(60, 6.0, 1, 0.5, 5);
    let weights: Vec<f32> = (0..stored.dataset.edges()).map(|edge| (edge % 3) as f32).collect();
    let options = SamplerOptions { kind: SamplerKind::WEIGHTED, edge_ids: true, ..options(&[4, 3]) };
    let mut workload = Workload::of(&stored.dataset, options, 10);
    workload.weights = Some(&weights);
    let profile = Profile::measure(&Presample { epochs: 2, least_batches: 0 }, &workload, 24).unwrap();
    let model = CostModel::new(&[], &[], profile.reads_per_batch(), 24);
    let each = ReadWeights::new(&model.benefits(), &profile.hotness);
    let value =
        |weight, reads: &[u32], node: u32| u128::from(ReadWeights::value(weight, reads[node as usize]));
    let hotness = &profile.hotness;
    let lists: Vec<(u64, u128)> = (profile.lists.iter())
        .map(|&node| (profile.sizes.list_bytes(node), value(each.list_read, &hotness.list_reads, node)))
        .collect();
    let rows: Vec<(u64, u128)> =
        (profile.rows.iter()).map(|&node| (24, value(each.row_read, &hotness.feature_reads, node))).collect();
    let largest = lists.iter().chain(&rows).map(|item| item.1).max().unwrap();
    // A map takes 240 bytes.
    for budget in [200, 260, 400, 700, 1500, 4000, 9000] {
        let best = |items: &[(u64, u128)], maps: u64| -> u128 {
            let Some(left) = u64::checked_sub(budget, maps) else { return 0 };
            let mut best = vec![0; left as usize + 1];
            for &(bytes, value) in items {
                for at in (bytes as usize..best.len()).rev() {
                    best[at] = best[at].max(best[at - bytes as usize] + value);
                }
            }
            best[left as usize]
        };
        let both = [lists.clone(), rows.clone()].concat();
        let optimum = best(&lists, 240).max(best(&rows, 240)).max(best(&both, 480));
        let found = profile.allocate(budget, &model);
        assert!(found.value <= optimum && found.value + largest >= optimum, "{budget}: {found:?}, {optimum}");
        assert!(found.bytes() <= budget);
    }
}

#[test]
fn all_bytes_to_one_cache_are_what_the_ends_of_the_sweep_are() {
    let stored = stored(2000, 10.0, 1, 0.4, 5);
    let workload = Workload::of(&stored.dataset, options(&[5, 5]), 100);
    let profile = Profile::measure(&Presample { epochs: 2, least_batches: 0 }, &workload, 64).unwrap();
    let model = CostModel::new(&[], &[], profile.reads_per_batch(), 64);
    let sweep = profile.sweep(50_000, &model, &profile.observed);
    let (lists, rows) = (profile.allocate_lists(50_000, &model), profile.allocate_rows(50_000, &model));
    assert_eq!((lists.lists, lists.rows), (sweep[10].lists, 0));
    assert_eq!((rows.lists, rows.rows), (0, sweep[0].rows));
}

#[test]
fn policies_that_count_nothing_are_split_by_observed_reads() {
    // Degrees alone do not show how reads of lists compare with rows; the observed reads do.
    let stored = stored(20_000, 20.0, 1, 0.4, 5);
    let workload = Workload::of(&stored.dataset, options(&[15, 10, 5]), 500);
    let judge = count(&workload, 5..6).unwrap();
    let profile = Profile::measure(&Degree, &workload, 512).unwrap();
    assert_eq!(profile.hotness.batches, 0);
    assert_eq!(profile.observed.batches, workload.batches().unwrap() as u64);
    let model = CostModel::new(&[], &[], profile.reads_per_batch(), 512);
    for budget in [500_000, 1_000_000, 3_000_000] {
        let found = profile.allocate(budget, &model);
        let by = profile.predict_by(&model, found.lists, found.rows, &judge);
        let best = profile.sweep(budget, &model, &judge);
        let best = best.iter().map(|point| point.cost).fold(f64::INFINITY, f64::min);
        let chosen = model.cost(by.list_hit_rate, by.row_hit_rate);
        assert!(chosen <= 1.05 * best, "{budget}: {chosen} is not within 5 % of {best}");
    }
}

#[test]
fn a_graph_in_its_own_order_pays_for_no_map_of_lists() {
    use std::collections::HashMap;
    use uva_graph::{Csc, Indices};

    let stored = stored(500, 8.0, 1, 0.8, 5);
    let workload = Workload::of(&stored.dataset, options(&[-1]), 50);
    let profile = Profile::measure(&Presample { epochs: 1, least_batches: 0 }, &workload, 8).unwrap();
    assert_eq!((profile.sizes.list_map_bytes, profile.sizes.index_bytes), (2000, 4));

    // The same graph, written in the order found. If every neighbour is taken, nothing is random.
    let order: Vec<u32> = {
        let unread = (0..500).filter(|&node| profile.hotness.list_reads[node as usize] == 0);
        profile.lists.iter().copied().chain(unread).collect()
    };
    let place: HashMap<u32, i64> = order.iter().copied().zip(0..).collect();
    let csc = workload.csc;
    let (mut indptr, mut indices) = (vec![0], Vec::new());
    for &node in &order {
        let list = csc.indptr[node as usize]..csc.indptr[node as usize + 1];
        indices.extend(list.map(|position| place[&(csc.indices.get(position as usize) as u32)]));
        indptr.push(indices.len() as i64);
    }
    let train: Vec<i64> = workload.train.iter().map(|&seed| place[&(seed as u32)]).collect();
    let in_order =
        Csc { indptr: &indptr, indices: Indices::I64(&indices), original_ids: None, degrees: None };
    let mut again = Workload { csc: in_order, train: &train, ..workload.clone() };
    let found = Profile::measure(&Presample { epochs: 1, least_batches: 0 }, &again, 8).unwrap();
    assert!(found.lists.iter().copied().eq(0..profile.lists.len() as u32));
    assert_eq!((found.sizes.list_map_bytes, found.sizes.index_bytes), (0, 8), "as wide as the file's ids");
    // Separate ids require a translation.
    let original: Vec<i64> = order.iter().map(|&node| i64::from(node)).collect();
    again.csc.original_ids = Some(&original);
    let found = Profile::measure(&Presample { epochs: 1, least_batches: 0 }, &again, 8).unwrap();
    assert_eq!((found.sizes.list_map_bytes, found.sizes.index_bytes), (2000, 8));
}

#[test]
fn ids_that_single_precision_cannot_separate_rank_by_their_own_counts() {
    use uva_graph::{Csc, Indices};
    use uva_plan::{Hotness, Sizes, rank_lists, rank_rows};

    let nodes = (1 << 24) + 9;
    let mut reads = vec![0; nodes];
    for (count, node) in (1..).zip((1 << 24)..nodes) {
        reads[node] = count;
    }
    let indptr = vec![0; nodes + 1];
    let csc = Csc { indptr: &indptr, indices: Indices::I32(&[]), original_ids: None, degrees: None };
    let hotness = Hotness { feature_reads: reads.clone(), list_reads: reads, ..Hotness::default() };
    let expected: Vec<u32> = ((1 << 24)..nodes as u32).rev().collect();
    assert_eq!(rank_rows(&hotness), expected);
    assert_eq!(rank_lists(&hotness, &Sizes::new(&csc, 4)), expected);
}

#[test]
fn a_custom_policy_is_ranked_and_evaluated_like_any_other() {
    // A user's policy works like any other.
    struct Mine;
    impl HotnessPolicy for Mine {
        fn hotness(&self, workload: &Workload<'_>) -> Result<uva_plan::Hotness, uva_plan::CacheError> {
            let nodes = workload.csc.nodes() as u32;
            let reads: Vec<u32> = (1..=nodes).collect();
            Ok(uva_plan::Hotness { feature_reads: reads.clone(), list_reads: reads, ..Default::default() })
        }
    }
    let stored = stored(300, 5.0, 1, 0.4, 5);
    let workload = Workload::of(&stored.dataset, options(&[2]), 50);
    let profile = Profile::measure(&Mine, &workload, 16).unwrap();
    assert_eq!(profile.rows[..3], [299, 298, 297]);
}
