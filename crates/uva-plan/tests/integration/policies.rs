//! The policies' hit rates in epochs that are actually sampled.

use uva_plan::{
    Analytic, CacheError, CachePolicy, ComparedPolicy, Degree, EpochSize, HotnessPolicy, Optimal, PolicyHits,
    Presample, Random, Workload, compare_policies, count, hit_rate, rank_rows,
};

use uva_options::Named;

use crate::common::{by_hand, options, stored};

#[test]
fn degree_counts_the_lists_that_name_a_node() {
    // Node 3 is in the lists of 0, 1 and twice of 2; node 0 is in that of 3.
    let (indptr, indices) = ([0, 1, 3, 6, 7], [3, 3, 2, 3, 3, 1, 0]);
    let workload = by_hand(&indptr, &indices, &[0], &[2, 5], 1);
    let hotness = Degree.hotness(&workload).unwrap();
    assert_eq!(hotness.feature_reads, [1, 1, 1, 4]);
    // Picks of both hops, at most the degree, in the mean and rounded up: 1, 2, (2 + 3) / 2, 1.
    assert_eq!(hotness.list_reads, [2, 3, 4, 8]);
    assert_eq!(hotness.batches, 0);
}

#[test]
fn presampling_counts_the_first_epochs_and_the_optimum_the_given_ones() {
    let stored = stored(2000, 10.0, 1, 0.2, 3);
    let workload = Workload::of(&stored.dataset, options(&[5, 3]), 100);
    for epochs in [1, 2] {
        // Each has four batches, so these are enough.
        let presample = Presample { epochs, least_batches: 4 };
        assert_eq!(presample.hotness(&workload).unwrap(), count(&workload, 0..epochs).unwrap());
        assert_eq!(presample.unseen_epoch(), epochs);
    }
    assert_eq!(Optimal { epochs: 4..6 }.hotness(&workload).unwrap(), count(&workload, 4..6).unwrap());
    for (policy, name) in [
        (&Presample { epochs: 0, least_batches: 8 } as &dyn HotnessPolicy, "presample"),
        (&Optimal { epochs: 3..3 }, "optimal"),
    ] {
        let refused = policy.hotness(&workload).unwrap_err();
        assert!(matches!(refused, CacheError::NoEpochs { policy } if policy == name), "{refused}");
    }
}

#[test]
fn presampling_of_short_epochs_continues_with_epochs_that_no_run_has() {
    let stored = stored(2000, 10.0, 1, 0.2, 3);
    let workload = Workload::of(&stored.dataset, options(&[5, 3]), 100);
    let presample = Presample { epochs: 2, least_batches: 17 };
    let hotness = presample.hotness(&workload).unwrap();
    // Two epochs of four batches, and three further ones: nine batches are missing.
    assert_eq!((hotness.batches, presample.further_epochs(&workload.epoch().unwrap())), (20, 3));
    let counted = count(&workload, 0..2).unwrap();
    let further = count(&workload, 1 << 29..(1 << 29) + 3).unwrap();
    for node in 0..2000 {
        let rows = counted.feature_reads[node] + further.feature_reads[node];
        let lists = counted.list_reads[node] + further.list_reads[node];
        assert_eq!((hotness.feature_reads[node], hotness.list_reads[node]), (rows, lists), "node {node}");
    }
    // Fewer large batches are enough: two epochs and two further ones have 200,000 seeds.
    let large = EpochSize { batches: 1, seeds: 50_000 };
    assert_eq!(Presample { epochs: 2, least_batches: 200 }.further_epochs(&large), 2);
    // The run's epochs except the first two are evaluated as before.
    assert_eq!((presample.counted_epochs(), presample.unseen_epoch()), (0..2, 2));
}

#[test]
fn calculated_chances_are_those_counted() {
    // Probabilities of nodes are not independent in a batch, so they agree in the mean and roughly for each node.
    let stored = stored(1000, 10.0, 1, 0.2, 3);
    let workload = Workload::of(&stored.dataset, options(&[4, 3]), 20);
    let expected = Analytic.hotness(&workload).unwrap();
    let counted = count(&workload, 0..100).unwrap();
    for (expected, counted, what) in [
        (&expected.feature_reads, &counted.feature_reads, "rows"),
        (&expected.list_reads, &counted.list_reads, "lists"),
    ] {
        let total = |counts: &[u32]| counts.iter().map(|&count| f64::from(count)).sum::<f64>();
        let scale = total(counted) / total(expected);
        for node in 0..1000 {
            let (expected, counted) = (f64::from(expected[node]) * scale, f64::from(counted[node]));
            // Six standard deviations of a count, and a tenth for what is not independent.
            let room = 6.0 * (expected * 8.0 + 1.0).sqrt() + 0.1 * expected;
            assert!(
                (expected - counted).abs() < room,
                "{what} of {node}: {expected} expected, {counted} counted"
            );
        }
    }
}

#[test]
fn calculated_chances_are_the_same_on_any_number_of_threads() {
    let stored = stored(3000, 10.0, 1, 0.2, 3);
    let workload = Workload::of(&stored.dataset, options(&[4, 3, 2]), 20);
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| Analytic.hotness(&workload).unwrap())
    };
    assert_eq!(on(1), on(3));
}

#[test]
fn a_random_cache_hits_as_much_as_it_holds() {
    let stored = stored(20_000, 10.0, 1, 0.5, 3);
    let workload = Workload::of(&stored.dataset, options(&[4, 3]), 500);
    let observed = count(&workload, 0..1).unwrap();
    let mut orders = Vec::new();
    for seed in 0..3 {
        let rows = rank_rows(&Random { seed }.hotness(&workload).unwrap());
        assert_eq!(rows.len(), 20_000, "every node has a rank");
        let found = hit_rate(&rows[..4000], &observed.feature_reads);
        assert!((found - 0.2).abs() < 0.03, "{found}");
        orders.push(rows);
    }
    assert!(orders[0] != orders[1] && orders[1] != orders[2]);
}

fn at<'a>(all: &'a [PolicyHits], policy: CachePolicy) -> impl Iterator<Item = (f64, f64)> + 'a {
    let hits = all.iter().find(|hits| hits.policy.0 == policy).unwrap();
    hits.points.iter().map(|point| (point.rows, point.lists.unwrap_or(0.0)))
}

#[test]
fn no_policy_beats_the_optimum_and_presampling_is_near_it_on_power_laws() {
    let stored = stored(50_000, 20.0, 1, 0.4, 1);
    let workload = Workload::of(&stored.dataset, options(&[10, 5]), 1000);
    let percents = [1, 5, 10, 20, 50];
    // The epochs measured are not those counted.
    let observed = count(&workload, 2..22).unwrap();
    let all = compare_policies(&workload, &ComparedPolicy::all(), 2..22, &observed, &percents).unwrap();
    for point in all.iter().flat_map(|hits| &hits.points) {
        let rows = observed.total_feature_reads() as f64 / 20.0;
        assert!((point.missed - rows * (1.0 - point.rows)).abs() < 1.0, "{point:?} of {rows}");
    }
    let optimal: Vec<(f64, f64)> = at(&all, CachePolicy::OPTIMAL).collect();
    // A cache that changes during the run might.
    for policy in CachePolicy::all().filter(|policy| !policy.is_dynamic()) {
        for ((rows, lists), optimal) in at(&all, policy).zip(&optimal) {
            assert!(rows <= optimal.0 + 1e-12, "{policy}: rows {rows} of {optimal:?}");
            // A list at the border of a share may fit in one order and not in the other.
            assert!(lists <= optimal.1 + 1e-3, "{policy}: lists {lists} of {optimal:?}");
        }
    }
    for policy in [CachePolicy::PRESAMPLE, CachePolicy::ANALYTIC] {
        for ((rows, lists), optimal) in at(&all, policy).zip(&optimal) {
            assert!(
                optimal.0 - rows < 0.06 && optimal.1 - lists < 0.06,
                "{policy}: {rows} {lists} of {optimal:?}"
            );
        }
    }
    let random: Vec<(f64, f64)> = at(&all, CachePolicy::RANDOM).collect();
    for (presample, random) in at(&all, CachePolicy::PRESAMPLE).zip(&random) {
        assert!(presample.0 > random.0 && presample.1 > random.1, "{presample:?} {random:?}");
    }
}

#[test]
fn policies_have_the_names_that_options_and_files_use() {
    for policy in CachePolicy::all() {
        assert_eq!(policy.name().parse(), Ok(policy));
        assert_eq!(policy.to_string(), policy.name());
        assert_eq!(serde_json::to_value(policy).unwrap(), policy.name());
        match policy.hotness_policy() {
            Ok(_) => assert!(!policy.is_dynamic()),
            Err(error) => {
                assert!(
                    matches!(error, CacheError::Dynamic { policy: name } if name == policy.name()),
                    "{error}"
                );
                assert!(policy.is_dynamic());
            }
        }
    }
    let unknown = "lru".parse::<CachePolicy>().unwrap_err().to_string();
    assert!(CachePolicy::all().all(|policy| unknown.contains(policy.name())), "{unknown}");
}
