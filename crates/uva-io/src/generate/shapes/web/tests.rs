use super::*;
use crate::generate::TrainBy;
use crate::generate::testing::{
    assert_bytes_depend_on_the_seed_alone, assert_refused, generated, list, with,
};

fn small() -> Web {
    let defaults = Web::default();
    Web { common: Common { nodes: 60_000, feature_dim: 4, ..defaults.common }, ..defaults }
}

/// All hosts, in order.
fn hosts(options: &Web) -> Vec<Host> {
    let plan = Plan::new(options).unwrap();
    let mut hosts = Vec::new();
    let mut page = 0;
    while page < options.common.nodes {
        let host = plan.host_of(page);
        assert_eq!(host.start, page, "a host begins where the one before ends");
        assert_eq!(plan.host_of(page + host.pages - 1), host);
        page += host.pages;
        hosts.push(host);
    }
    assert_eq!(page, options.common.nodes);
    hosts
}

#[test]
fn the_bytes_are_the_same_for_any_number_of_threads() {
    assert_bytes_depend_on_the_seed_alone(&small());
}

#[test]
fn nodes_chosen_by_degree_are_as_many_as_requested_and_have_long_lists() {
    let options = with(small(), |options| options.common.train_by = TrainBy::Degree);
    assert_bytes_depend_on_the_seed_alone(&options);
    let (_directory, dataset) = generated(&options);
    let splits = Split::ALL.map(|split| dataset.split(split).len() as f64);
    assert_eq!(splits[0], 0.013 * 60_000.0);
    for (found, share) in splits.into_iter().zip([0.013, 0.002, 0.003]).skip(1) {
        let expected = share * 60_000.0;
        assert!((found - expected).abs() < 5.0 * expected.sqrt(), "{found} for {expected}");
    }
    // Drawn in proportion to d, a list has E[d²]/E[d] entries on average. Lengths are spread widely, and so are means.
    let lengths = |nodes: &mut dyn Iterator<Item = i64>| -> Vec<f64> {
        nodes.map(|node| list(&dataset, node as usize).len() as f64).collect()
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let all = lengths(&mut (0..60_000));
    let squares: Vec<f64> = all.iter().map(|length| length * length).collect();
    let train = dataset.split(Split::Train);
    let found = mean(&lengths(&mut train.iter().copied()));
    let expected = mean(&squares) / mean(&all);
    assert!((0.8 * expected..1.1 * expected).contains(&found), "{found} for {expected}");
    assert!(expected > 1.5 * mean(&all));
}

#[test]
fn the_content_is_that_of_every_other_machine() {
    let (_directory, dataset) = generated(&with(small(), |options| options.common.nodes = 3000));
    assert_eq!(dataset.fingerprint(), "d2c950b949324619");
}

#[test]
fn hosts_cover_all_pages_in_sizes_of_several_orders_of_magnitude() {
    let hosts = hosts(&with(small(), |options| options.common.nodes = 2_000_000));
    let mut sizes: Vec<u64> = hosts.iter().map(|host| host.pages).collect();
    sizes.sort_unstable();
    assert!(sizes[0] < 32 && sizes[sizes.len() / 2] < 200, "{} … {}", sizes[0], sizes[sizes.len() / 2]);
    assert!((8000..=2_000_000 / 64).contains(&sizes[sizes.len() - 1]), "{}", sizes[sizes.len() - 1]);
    assert!(hosts.len() * 40 < 2_000_000, "{} hosts", hosts.len());
    let pages_of_large: u64 = sizes.iter().filter(|&&pages| pages >= 1000).sum();
    assert!((400_000..1_800_000).contains(&pages_of_large), "{pages_of_large} pages on large hosts");
}

#[test]
fn links_stay_mostly_on_their_host_and_near_and_lists_have_no_repeats() {
    let (_directory, dataset) = generated(&small());
    let plan_of = small();
    let plan = Plan::new(&plan_of).unwrap();
    let csc = dataset.csc();
    let (mut on_host, mut near, mut linked) = (0, 0, vec![0_usize; dataset.nodes()]);
    for node in 0..dataset.nodes() {
        let range = csc.indptr[node]..csc.indptr[node + 1];
        let list: Vec<i64> = range.map(|edge| csc.indices.get(edge as usize)).collect();
        assert!(list.is_sorted_by(|a, b| a < b), "list of {node}: {list:?}");
        assert!(!list.contains(&(node as i64)));
        let host = plan.host_of(node as u64);
        let here = |target: i64| (target as u64).wrapping_sub(host.start) < host.pages;
        on_host += list.iter().filter(|&&target| here(target)).count();
        near += list.iter().filter(|&&target| target.abs_diff(node as i64) <= NEAR).count();
        list.iter().for_each(|&target| linked[target as usize] += 1);
    }
    let share = |count: usize| count as f64 / dataset.edges() as f64;
    assert!((0.6..0.85).contains(&share(on_host)), "{} stay on their host", share(on_host));
    assert!((0.3..0.8).contains(&share(near)), "{} are near", share(near));
    let average = dataset.edges() as f64 / 60_000.0;
    assert!((30.0..=35.2).contains(&average), "average degree {average}");
    linked.sort_unstable_by(|a, b| b.cmp(a));
    let top: usize = linked[..600].iter().sum();
    assert!(share(top) > 0.15, "the top 1 % get {}", share(top));
}

#[test]
fn pages_of_a_directory_share_links() {
    let (_directory, dataset) = generated(&small());
    let csc = dataset.csc();
    let list = |node: usize| -> Vec<i64> {
        (csc.indptr[node]..csc.indptr[node + 1]).map(|edge| csc.indices.get(edge as usize)).collect()
    };
    // The share of a page's links that its neighbour also has.
    let common = |distance: usize| {
        let (mut same, mut all) = (0, 0);
        for node in (0..50_000).step_by(7) {
            let other = list(node + distance);
            let list = list(node);
            same += list.iter().filter(|target| other.binary_search(target).is_ok()).count();
            all += list.len();
        }
        f64::from(same as u32) / f64::from(all as u32)
    };
    let (next, far) = (common(1), common(9_000));
    assert!(next > 0.15 && next > 5.0 * far, "next page {next}, far away {far}");
}

#[test]
fn options_out_of_range_are_refused_by_name_and_tiny_graphs_are_fine() {
    let cases = [
        ("`nodes`", with(small(), |options| options.common.nodes = 1)),
        ("`within_host`", with(small(), |options| options.within_host = 1.5)),
        ("`copied`", with(small(), |options| options.copied = 0.7)),
        ("`near`", with(small(), |options| options.near = f64::NAN)),
        ("`train_share`", with(small(), |options| options.common.train_share = 1.0)),
    ];
    assert_refused(cases);
    for nodes in [2, 3, 70, 5000] {
        let (_directory, dataset) = generated(&with(small(), |options| {
            options.common.nodes = nodes;
            options.common.classes = 2;
            options.common.average_degree = 0.5;
        }));
        assert_eq!(dataset.nodes() as u64, nodes);
    }
}
