use uva_graph::{Dataset, ElementType, Labels, Verify};

use super::*;
use crate::generate::testing::{assert_bytes_depend_on_the_seed_alone, assert_refused};
use crate::generate::write;

fn small() -> PowerLaw {
    PowerLaw::of(Common { nodes: 20_000, feature_dim: 32, ..Common::default() })
}

fn generate(options: &PowerLaw) -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("graph");
    write(&out, options, &|_| ()).unwrap();
    (directory, out)
}

#[test]
fn the_bytes_are_the_same_for_any_number_of_threads() {
    assert_bytes_depend_on_the_seed_alone(&small());
}

#[test]
fn the_content_is_that_of_every_other_machine() {
    let (_directory, out) =
        generate(&PowerLaw::of(Common { nodes: 1000, feature_dim: 3, ..Common::default() }));
    let dataset = Dataset::open(&out).unwrap();
    let csc = dataset.csc();
    assert_eq!(csc.indptr[..6], [0, 9, 20, 30, 46, 120]);
    assert_eq!(dataset.fingerprint(), "9c714cf92d165220");
}

#[test]
fn every_requested_array_exists_and_passes_every_check() {
    for element in [ElementType::F32, ElementType::F16, ElementType::Bf16] {
        let options = PowerLaw::of(Common { feature_element: element, ..small().common });
        let (_directory, out) = generate(&options);
        let dataset = Dataset::open_verified(&out, Verify::FullWithFeatures).unwrap();
        assert_eq!(dataset.nodes(), 20_000);
        assert_eq!(dataset.classes(), 12);
        assert_eq!((dataset.table().dim, dataset.table().element), (32, element));
        let average = dataset.edges() as f64 / 20_000.0;
        assert!((18.0..=20.0).contains(&average), "average degree {average}");
        for (split, share) in Split::ALL.into_iter().zip([0.4, 0.1, 0.1]) {
            let found = dataset.split(split).len() as f64 / 20_000.0;
            assert!((found - share).abs() < 0.02, "{split} has a share of {found}");
        }
        for class in 0..12 {
            let Labels::Single(labels) = dataset.labels() else { panic!("one class a node") };
            let share = labels.iter().filter(|&&label| label == class).count() as f64 / 20_000.0;
            assert!((share - 1.0 / 12.0).abs() < 0.01, "class {class} has a share of {share}");
        }
    }
}

#[test]
fn lists_ascend_without_repeats_or_loops_and_degrees_are_heavy_tailed() {
    let (_directory, out) = generate(&small());
    let dataset = Dataset::open(&out).unwrap();
    let csc = dataset.csc();
    let mut out_degrees = vec![0_usize; csc.nodes()];
    for node in 0..csc.nodes() {
        let list: Vec<i64> =
            (csc.indptr[node]..csc.indptr[node + 1]).map(|i| csc.indices.get(i as usize)).collect();
        assert!(list.is_sorted_by(|a, b| a < b), "list of {node}: {list:?}");
        assert!(!list.contains(&(node as i64)));
        list.iter().for_each(|&neighbour| out_degrees[neighbour as usize] += 1);
    }
    let mut in_degrees: Vec<usize> = (0..csc.nodes()).map(|node| csc.degree(node)).collect();
    for degrees in [&mut in_degrees, &mut out_degrees] {
        degrees.sort_unstable_by(|a, b| b.cmp(a));
        let total: usize = degrees.iter().sum();
        let top: usize = degrees[..degrees.len() / 100].iter().sum();
        assert!(top * 8 > total, "the top 1 % hold {top} of {total}");
        assert!(degrees[0] > 50 * degrees[degrees.len() / 2].max(1), "largest {}", degrees[0]);
    }
}

#[test]
fn the_mean_degree_is_the_requested_one() {
    for (nodes, average) in [(1000, 4.0), (100_000, 20.0), (100_000, 0.5), (50, 24.5)] {
        let degrees = Degrees::new(nodes, average);
        let total: u64 =
            (0..nodes).map(|p| degrees.at(p, RandomStream::new(3, GeneratorPurpose::Degree, p).unit())).sum();
        let mean = total as f64 / nodes as f64;
        assert!((mean / average - 1.0).abs() < 0.03, "{nodes} nodes: {mean} instead of {average}");
    }
}

/// Classifies by the true centres, which no model can do better from features alone, then with the mean of ten
/// neighbours added, which a one-layer GraphSAGE can do.
#[test]
fn features_alone_predict_ten_points_worse_than_with_neighbours() {
    let options = PowerLaw::of(Common { nodes: 50_000, feature_dim: 100, ..Common::default() });
    let (_directory, out) = generate(&options);
    let dataset = Dataset::open(&out).unwrap();
    let plan = Plan::new(&options).unwrap();
    let features: &[f32] = bytemuck::cast_slice(dataset.features().bytes);
    let centres: Vec<Vec<f32>> = (0..options.common.classes)
        .map(|class| {
            let mut stream = RandomStream::new(options.common.seed, GeneratorPurpose::ClassCentre, class);
            (0..100).map(|_| if stream.next() & 1 == 0 { 1.0 } else { -1.0 }).collect()
        })
        .collect();
    let scores = |node: usize| -> Vec<f32> {
        let row = &features[node * 100..][..100];
        centres.iter().map(|centre| centre.iter().zip(row).map(|(a, b)| a * b).sum()).collect()
    };
    let best =
        |scores: &[f32]| (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap() as i64;
    let Labels::Single(labels) = dataset.labels() else { panic!("one class a node") };
    let csc = dataset.csc();
    let test = dataset.split(Split::Test);
    let (mut alone, mut together) = (0, 0);
    for &node in test {
        let node = node as usize;
        let mut sum = scores(node);
        alone += usize::from(best(&sum) == labels[node]);
        let mut stream = RandomStream::new(99, GeneratorPurpose::Split, node as u64);
        let degree = csc.degree(node) as u64;
        for _ in 0..10.min(degree) {
            let pick = csc.indptr[node] as usize + stream.below(degree) as usize;
            let neighbour = scores(csc.indices.get(pick) as usize);
            sum.iter_mut().zip(neighbour).for_each(|(sum, score)| *sum += 0.45 * score);
        }
        together += usize::from(best(&sum) == labels[node]);
    }
    let percent = |correct: usize| 100.0 * correct as f64 / test.len() as f64;
    println!("features alone {:.1} %, with neighbours {:.1} %", percent(alone), percent(together));
    assert!(plan.options.common.signal() > 0.0);
    assert!((50.0..=65.0).contains(&percent(alone)), "features alone {:.1} %", percent(alone));
    assert!(percent(together) >= percent(alone) + 10.0, "with neighbours {:.1} %", percent(together));
}

#[test]
fn options_out_of_range_are_refused_by_name_and_nothing_is_written() {
    let cases: [(&str, PowerLaw); 10] = [
        ("`nodes`", PowerLaw::of(Common { nodes: 1, ..small().common })),
        ("`avg_degree`", PowerLaw::of(Common { average_degree: f64::NAN, ..small().common })),
        ("`avg_degree`", PowerLaw::of(Common { average_degree: 10_000.0, ..small().common })),
        ("`feat_dim`", PowerLaw::of(Common { feature_dim: 0, ..small().common })),
        ("`feat_dim`", PowerLaw::of(Common { feature_dim: usize::MAX / 8, ..small().common })),
        ("`classes`", PowerLaw::of(Common { classes: 0, ..small().common })),
        ("`classes`", PowerLaw::of(Common { classes: 20_001, ..small().common })),
        ("`feat_dtype`", PowerLaw::of(Common { feature_element: ElementType::U8, ..small().common })),
        ("`train_share`", PowerLaw::of(Common { train_share: 0.9, ..small().common })),
        ("`threads`", PowerLaw::of(Common { threads: Some(0), ..small().common })),
    ];
    assert_refused(cases);
}

#[test]
fn progress_ends_at_the_total_of_each_stage() {
    let directory = tempfile::tempdir().unwrap();
    let seen = std::cell::RefCell::new(Vec::new());
    write(&directory.path().join("graph"), &small(), &|progress| seen.borrow_mut().push(progress)).unwrap();
    for stage in ["edges", "features", "labels"] {
        let last = *seen.borrow().iter().rfind(|progress| progress.stage == stage).unwrap();
        assert_eq!((last.done, last.total), (20_000, 20_000));
    }
}
