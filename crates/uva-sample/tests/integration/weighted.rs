//! Picks by weight, compared with the probability of each entry.

use crate::common::{Graph, assert_distributed, assert_uniform, chances_of_sets, key};
use uva_sample::{SamplerKind, SamplerOptions};

/// The positions picked in a list of these weights, batch by batch.
fn picks(weights: &[f32], fanout: i32, replace: bool, batches: u32, mut each: impl FnMut(&[usize])) {
    let mut lists = vec![Vec::new(); weights.len() + 1];
    lists[0] = (1..=weights.len() as i64).collect();
    let graph = Graph::from_lists(&lists).narrow().weighted(&[weights.to_vec()]);
    let options = SamplerOptions {
        kind: SamplerKind::WEIGHTED,
        fanouts: [fanout].into(),
        replace,
        seed: 5,
        edge_ids: true,
        ..SamplerOptions::default()
    };
    let (mut sampler, mut batch) = (graph.sampler_for(&options), graph.room_for(1, &options));
    let mut positions = Vec::new();
    for number in 0..batches {
        sampler.sample_into(key(number), &[0], &mut batch).unwrap();
        positions.clear();
        positions.extend(batch.block(0).unwrap().edge_ids.iter().map(|&id| id as usize));
        each(&positions);
    }
}

const WEIGHTS: [f32; 6] = [1.0, 2.5, 0.25, 4.0, 0.75, 1.5];

#[test]
fn one_pick_is_an_entry_by_its_weight() {
    let many: Vec<f32> = (0..200).map(|place| 0.5 + (place * 7 % 20) as f32).collect();
    for (weights, batches) in [(&WEIGHTS[..], 20_000), (&many, 100_000), (&[3e-39, 1e-39, 2e-39], 5000)] {
        let chances: Vec<f64> = weights.iter().copied().map(f64::from).collect();
        for replace in [false, true] {
            let mut counts = vec![0; weights.len()];
            picks(weights, 1, replace, batches, |positions| counts[positions[0]] += 1);
            assert_distributed(&counts, &chances, 1.0, &format!("{} weights, {replace}", weights.len()));
        }
    }
}

#[test]
fn every_set_of_picks_comes_as_often_as_one_draw_after_the_other_makes_it() {
    for count in [2, 3, 5] {
        let mut counts = vec![0; 1 << WEIGHTS.len()];
        picks(&WEIGHTS, count, false, 60_000, |positions| {
            assert!(positions.is_sorted_by(|a, b| a < b), "each once, in the order of the list");
            counts[positions.iter().map(|place| 1 << place).sum::<usize>()] += 1;
        });
        let chances = chances_of_sets(&WEIGHTS.map(f64::from), count as usize);
        let sets: Vec<usize> = (0..counts.len()).filter(|&set| chances[set] * 60_000.0 >= 20.0).collect();
        assert!(sets.len() >= 5);
        let counted: u64 = counts.iter().sum();
        assert!(sets.iter().map(|&set| counts[set]).sum::<u64>() * 100 > counted * 98);
        let of = |set: &usize| (counts[*set], chances[*set]);
        let (counts, chances): (Vec<_>, Vec<_>) = sets.iter().map(of).unzip();
        assert_distributed(&counts, &chances, 1.0, &format!("sets of {count}"));
    }
}

#[test]
fn draws_with_replacement_are_independent_of_each_other() {
    let weights = [1.0, 3.0, 0.5, 2.0];
    let mut counts = vec![0; 4 * 4 * 4];
    picks(&weights, 3, true, 60_000, |positions| {
        counts[positions.iter().fold(0, |code, place| 4 * code + place)] += 1;
    });
    let chance = |code: usize| {
        [code / 16, code / 4 % 4, code % 4].into_iter().map(|place| f64::from(weights[place])).product()
    };
    assert_distributed(&counts, &(0..64).map(chance).collect::<Vec<f64>>(), 1.0, "three draws out of four");
    // More draws than entries, which a list taken whole would not be.
    for fanout in [4, 9, 50] {
        let mut counts = vec![0; 4];
        picks(&weights, fanout, true, 6000, |positions| {
            assert_eq!(positions.len(), fanout as usize);
            positions.iter().for_each(|&place| counts[place] += 1);
        });
        assert_distributed(&counts, &weights.map(f64::from), 1.0, &format!("{fanout} draws out of four"));
    }
}

#[test]
fn entries_of_weight_0_do_not_exist() {
    let weights = [0.0, 2.0, 0.0, 1.0, -0.0, 3.0];
    for (fanout, replace) in [
        (2, false),
        (2, true),
        (3, false),
        (3, true),
        (5, false),
        (9, true),
        (40, true),
        (-1, false),
        (-1, true),
    ] {
        picks(&weights, fanout, replace, 200, |positions| {
            let drawn = fanout == 2 || (replace && fanout > 0);
            assert_eq!(positions.len(), if drawn { fanout as usize } else { 3 }, "{fanout} {replace}");
            assert!(positions.iter().all(|&place| weights[place] > 0.0));
            assert!(drawn || positions == [1, 3, 5], "all that exist, in the order of the list");
        });
    }
    picks(&[0.0; 5], 2, false, 3, |positions| assert_eq!(positions, [0; 0]));
    picks(&[0.0; 5], 2, true, 3, |positions| assert_eq!(positions, [0; 0]));
    picks(&[0.0; 5], -1, false, 3, |positions| assert_eq!(positions, [0; 0]));
}

#[test]
fn a_heavy_entry_is_always_picked_and_a_light_one_hardly_ever() {
    let mut weights = vec![1.0; 500];
    (weights[123], weights[124]) = (1e30, 1e-30);
    picks(&weights, 5, false, 500, |positions| {
        assert!(positions.contains(&123) && !positions.contains(&124));
    });
    picks(&weights, 5, true, 500, |positions| assert_eq!(positions, [123; 5]));
}

/// A list that is longer than a stream of words: entries after the stream's end are picked as often as those before.
/// (Forty million words.)
#[test]
fn entries_past_the_end_of_a_stream_are_picked_as_often_as_others() {
    let length = 5 << 17;
    let mut counts = vec![0; 80];
    picks(&vec![1.0; length], 500, false, 60, |positions| {
        positions.iter().for_each(|&place| counts[place / (length / 80)] += 1);
    });
    assert_uniform(&counts, 1.0, "eightieths of a long list");
}
