use uva_graph::{Labels, NodeType, Relation, TypedDataset};

use super::*;
use crate::generate::testing::{
    assert_refused, assert_typed_bytes_depend_on_the_seed_alone, generated_types, with,
};

fn items(nodes: u64) -> TwoRelations {
    with(TwoRelations::default(), |typed| (typed.common.nodes, typed.common.feature_dim) = (nodes, 8))
}

/// How often the most frequent digit of an item's neighbours is that of its label, by the digits of the generator.
fn share_of_majority(dataset: &TypedDataset, plan: &Plan, relation: usize) -> f64 {
    let Labels::Single(labels) = dataset.labels_of(NodeType(0)) else { panic!("one class a node") };
    let lists = dataset.lists(Relation(relation as u16));
    let right = |item: usize| {
        let mut counts = vec![0; plan.digits[relation] as usize];
        for place in lists.indptr[item]..lists.indptr[item + 1] {
            let neighbour = lists.indices.get(place as usize) as u64;
            counts[plan.digit_of(relation + 1, neighbour) as usize] += 1;
        }
        let label = labels[item] as u64;
        let own = [label / plan.digits[1], label % plan.digits[1]][relation] as usize;
        counts.iter().enumerate().all(|(digit, &count)| digit == own || count < counts[own])
    };
    (0..labels.len()).filter(|&item| right(item)).count() as f64 / labels.len() as f64
}

#[test]
fn labels_need_both_relations_and_both_suffice() {
    let typed = items(5000);
    let (_directory, dataset, accuracies) = generated_types(&typed);
    let plan = Plan::new(&typed).unwrap();
    assert_eq!(plan.digits, [4, 3]);
    let accuracies: Vec<f64> = accuracies.into_iter().map(|(_, accuracy)| accuracy).collect();
    assert!(accuracies[0] > 0.95 && accuracies[0] < 1.0, "{accuracies:?}");
    assert!(accuracies[1] <= 1.0 / 3.0 && accuracies[2] <= 1.0 / 4.0, "{accuracies:?}");
    let (has, buys) = (share_of_majority(&dataset, &plan, 0), share_of_majority(&dataset, &plan, 1));
    // Ties count as wrong here and are decided at random in the computed accuracy.
    assert!((has * buys - accuracies[0]).abs() < 0.02, "{has} and {buys} for {accuracies:?}");
}

#[test]
fn features_of_tags_show_their_digit_and_those_of_items_nothing() {
    let typed = items(4000);
    let (_directory, dataset, _) = generated_types(&typed);
    let plan = Plan::new(&typed).unwrap();
    let means = |node_type: u16, classes: u64, class_of: &dyn Fn(u64) -> u64| -> Vec<f32> {
        let table = dataset.rows(NodeType(node_type)).unwrap();
        let values: &[f32] = bytemuck::cast_slice(table.bytes);
        let mut sums = vec![0.0; 8 * classes as usize];
        for (node, row) in values.chunks_exact(8).enumerate() {
            let at = 8 * class_of(node as u64) as usize;
            sums[at..at + 8].iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
        sums.iter().map(|sum| sum * classes as f32 / table.rows as f32).collect()
    };
    let of_tags = means(1, 4, &|tag| plan.digit_of(1, tag));
    let signal = plan.signal() as f32;
    assert!(of_tags.iter().all(|mean| (mean.abs() - signal).abs() < 0.6), "{of_tags:?}");
    let of_items = means(0, 12, &|item| plan.class_of(item));
    assert!(of_items.iter().all(|mean| mean.abs() < 0.4), "{of_items:?}");
}

#[test]
fn users_can_be_featureless() {
    let featureless = with(items(1000), |typed| typed.featureless = true);
    let (_directory, dataset, _) = generated_types(&featureless);
    assert!(dataset.rows(NodeType(1)).is_some() && dataset.rows(NodeType(2)).is_none());
    let (_directory, dataset, _) = generated_types(&items(1000));
    assert!(dataset.rows(NodeType(2)).is_some());
}

#[test]
fn bytes_depend_on_the_seed_alone() {
    assert_typed_bytes_depend_on_the_seed_alone(&items(2000), &[]);
}

#[test]
fn wrong_options_are_refused() {
    assert_refused([
        ("`classes`: 13", with(items(500), |typed| typed.common.classes = 13)),
        ("`homophily`", with(items(500), |typed| typed.homophily = 2.0)),
        ("`avg_degree`: 40", with(items(500), |typed| typed.common.average_degree = 40.0)),
        ("`train_by`", with(items(500), |typed| typed.common.train_by = TrainBy::Degree)),
    ]);
}
