use super::*;
use crate::generate::testing::{
    assert_bytes_depend_on_the_seed_alone, assert_refused, generated, list, with,
};

fn small() -> Citation {
    let defaults = Citation::default();
    Citation { common: Common { nodes: 60_000, feature_dim: 4, ..defaults.common }, ..defaults }
}

#[test]
fn the_bytes_are_the_same_for_any_number_of_threads() {
    assert_bytes_depend_on_the_seed_alone(&small());
}

#[test]
fn the_content_is_that_of_every_other_machine() {
    let (_directory, dataset) = generated(&with(small(), |options| {
        options.common.nodes = 3000;
        options.common.classes = 3;
    }));
    assert_eq!(dataset.fingerprint(), "12e800c3e8702a4f");
}

#[test]
fn a_node_cites_older_nodes_only_mostly_of_its_field_and_none_twice() {
    let (_directory, dataset) = generated(&small());
    let fields = 12 * 16;
    let (mut within, mut all) = (0, 0);
    for node in 0..dataset.nodes() {
        let list = list(&dataset, node);
        assert!(list.is_sorted_by(|a, b| a < b), "list of {node}: {list:?}");
        assert!(list.iter().all(|&cited| cited < node as i64), "list of {node}: {list:?}");
        within += list.iter().filter(|&&cited| cited as usize % fields == node % fields).count();
        all += list.len();
    }
    let share = within as f64 / all as f64;
    assert!((0.98..1.0).contains(&share), "{share} of the citations stay in their field");
    let average = all as f64 / dataset.nodes() as f64;
    assert!((12.5..=14.1).contains(&average), "average degree {average}");
}

#[test]
fn the_splits_are_recent_in_order_of_time_and_of_labelled_fields() {
    for train_share in [0.0109, 0.04] {
        let (_directory, dataset) =
            generated(&with(small(), |options| options.common.train_share = train_share));
        let mut last = 0;
        for (split, share) in Split::ALL.into_iter().zip([train_share, 0.0011, 0.0019]) {
            let nodes = dataset.split(split);
            let wanted = share * 60_000.0;
            assert!((nodes.len() as f64 - wanted).abs() < 5.0 * wanted.sqrt(), "{split}: {}", nodes.len());
            assert!(nodes.iter().all(|node| node % (12 * 16) < 12));
            // 0.043 of the nodes are 69 % of those with labels, which requires more time than the window has.
            let from = if train_share < 0.03 { 39_000 } else { 18_000 };
            assert!(nodes[0] >= from && nodes[0] >= last, "{split} begins at {}", nodes[0]);
            last = nodes[nodes.len() - 1];
        }
    }
}

#[test]
fn few_works_get_most_citations_and_labelled_fields_more_than_others() {
    let (_directory, dataset) = generated(&small());
    let mut cited = vec![0_usize; dataset.nodes()];
    (0..dataset.nodes()).flat_map(|node| list(&dataset, node)).for_each(|node| cited[node as usize] += 1);
    let of_labelled: usize =
        cited.iter().enumerate().filter(|(node, _)| node % 192 < 12).map(|(_, c)| c).sum();
    let share = of_labelled as f64 / dataset.edges() as f64;
    assert!((0.14..0.20).contains(&share), "one node in 16 gets {share} of the citations");
    cited.sort_unstable_by(|a, b| b.cmp(a));
    let top: usize = cited[..600].iter().sum();
    assert!(top * 10 > dataset.edges(), "the top 1 % get {top} of {}", dataset.edges());
    assert!(cited[0] > 20 * cited[30_000].max(1), "the most cited has {}", cited[0]);
}

#[test]
fn tiny_graphs_and_few_fields_do_what_they_can() {
    for (nodes, classes, fields_per_class) in [(2, 1, 1), (3, 3, 16), (100, 12, 16), (5000, 1, 1)] {
        let (_directory, dataset) = generated(&with(small(), |options| {
            options.common.nodes = nodes;
            options.common.classes = classes;
            options.common.average_degree = 0.5;
            options.fields_per_class = fields_per_class;
            options.coverage = 1.0;
        }));
        assert_eq!(dataset.nodes() as u64, nodes);
    }
}

#[test]
fn options_out_of_range_are_refused_by_name_and_nothing_is_written() {
    let cases = [
        ("`nodes`", with(small(), |options| options.common.nodes = 1)),
        ("`within_field`", with(small(), |options| options.within_field = 1.5)),
        ("`recent`", with(small(), |options| options.recent = -0.1)),
        ("`fame`", with(small(), |options| options.fame = 1.0)),
        ("`coverage`", with(small(), |options| options.coverage = 17.0)),
        ("`window`", with(small(), |options| options.window = f64::NAN)),
        ("`fields_per_class`", with(small(), |options| options.fields_per_class = 0)),
        ("`train_share`", with(small(), |options| options.common.train_share = 0.07)),
    ];
    assert_refused(cases);
}
