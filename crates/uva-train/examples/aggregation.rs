//! Compares the fused operations that can aggregate a sampled block, forward and backward, and prints their times;
//! stops if one does not repeat bit for bit or is wrong. The figures in `src/aggregate.rs` and the ratio in
//! `src/model.rs` come from it:
//!
//!     cargo run --release -p uva-train --example aggregation -- [DESTINATIONS FANOUT SOURCES WIDTH]

use std::hint::black_box;
use std::time::Instant;
use tch::{Device, Kind, Tensor};
use uva_train::measured;

const SUM: i64 = 0;
const MEAN: i64 = 1;
const REPEATS: usize = 9;

/// A forward pass from the sources' rows to the destinations' means, and the leaf that receives the gradient.
type Forward<'a> = Box<dyn Fn(&Tensor) -> Tensor + 'a>;

/// SplitMix64, so that every run sees the same block.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn median_milliseconds(mut run: impl FnMut() -> Tensor) -> (f64, Vec<f32>) {
    let mut times = Vec::new();
    let first: Vec<f32> = Vec::try_from(run().flatten(0, -1)).unwrap();
    for _ in 0..REPEATS {
        let start = Instant::now();
        let result = black_box(run());
        times.push(start.elapsed().as_secs_f64() * 1e3);
        let again: Vec<f32> = Vec::try_from(result.flatten(0, -1)).unwrap();
        assert!(first.iter().zip(&again).all(|(a, b)| a.to_bits() == b.to_bits()), "not repeatable");
    }
    times.sort_by(f64::total_cmp);
    (times[REPEATS / 2], first)
}

fn main() {
    let arguments: Vec<usize> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let [destinations, fanout, sources, width] = arguments[..] else {
        for shape in [[16_384, 10, 110_000, 128], [1_024, 15, 16_384, 128], [16_384, 10, 40_000, 32]] {
            compare(shape[0], shape[1], shape[2], shape[3]);
        }
        return;
    };
    compare(destinations, fanout, sources, width);
}

fn compare(destinations: usize, fanout: usize, sources: usize, width: usize) {
    let edges = destinations * fanout;
    println!(
        "{destinations} destinations, {edges} edges, {sources} sources, width {width}, {} threads",
        tch::get_num_threads()
    );
    let mut state = 7;
    let edge_list: Vec<i32> = (0..edges).map(|_| (random(&mut state) % sources as u64) as i32).collect();
    let offsets: Vec<i32> = (0..=destinations).map(|v| (v * fanout) as i32).collect();
    let rows =
        Tensor::rand([sources as i64, width as i64], (Kind::Float, Device::Cpu)).set_requires_grad(true);
    let upstream = Tensor::rand([destinations as i64, width as i64], (Kind::Float, Device::Cpu));
    let (indices, offsets) = (Tensor::from_slice(&edge_list), Tensor::from_slice(&offsets));
    let (indices64, offsets64) = (indices.to_kind(Kind::Int64), offsets.to_kind(Kind::Int64));
    let weights = Tensor::full([edges as i64], 1.0 / fanout as f64, (Kind::Float, Device::Cpu));
    let size = [destinations as i64, sources as i64];
    let csr = Tensor::sparse_csr_tensor_crow_col_value_size(
        &offsets,
        &indices,
        &weights,
        size,
        (Kind::Float, Device::Cpu),
    );
    let targets = Tensor::arange(destinations as i64, (Kind::Int64, Device::Cpu)).repeat_interleave_self_int(
        fanout as i64,
        None,
        None,
    );

    let bag = |rows: &Tensor, indices: &Tensor, offsets: &Tensor, mode, weights: Option<&Tensor>| {
        Tensor::embedding_bag(rows, indices, offsets, false, mode, false, weights, true).0
    };
    let ways: Vec<(&str, Forward)> = vec![
        ("embedding_bag mean i32", Box::new(|x| bag(x, &indices, &offsets, MEAN, None))),
        ("embedding_bag mean i64", Box::new(|x| bag(x, &indices64, &offsets64, MEAN, None))),
        ("embedding_bag weighted i32", Box::new(|x| bag(x, &indices, &offsets, SUM, Some(&weights)))),
        ("sparse CSR product", Box::new(|x| csr.matmul(x))),
        (
            "index_select + index_add (edges x width)",
            Box::new(|x| {
                let messages = x.index_select(0, &indices) / fanout as f64;
                Tensor::zeros([destinations as i64, width as i64], (Kind::Float, Device::Cpu))
                    .index_add(0, &targets, &messages)
            }),
        ),
    ];
    let mut reference: Option<Vec<f32>> = None;
    for (name, forward) in &ways {
        let (time, result) = median_milliseconds(|| tch::no_grad(|| forward(&rows)));
        let expected = reference.get_or_insert_with(|| result.clone());
        assert!(result.iter().zip(expected.iter()).all(|(a, b)| (a - b).abs() < 1e-4), "{name} is wrong");
        let (both, _) = median_milliseconds(|| {
            let out = forward(&rows);
            Tensor::run_backward(&[(out * &upstream).sum(Kind::Float)], &[&rows], false, false).swap_remove(0)
        });
        println!("  {name:42} forward {time:8.2} ms, forward and backward {both:8.2} ms");
    }
    // The backward pass that the crate uses: the bag over the transposed block.
    let backward = || {
        let mut offsets = vec![0i32; sources + 1];
        edge_list.iter().for_each(|&source| offsets[source as usize + 1] += 1);
        (0..sources).for_each(|source| offsets[source + 1] += offsets[source]);
        let mut next = offsets.clone();
        let mut picked_by = vec![0i32; edges];
        for (edge, &source) in edge_list.iter().enumerate() {
            picked_by[next[source as usize] as usize] = (edge / fanout) as i32;
            next[source as usize] += 1;
        }
        bag(&upstream, &Tensor::from_slice(&picked_by), &Tensor::from_slice(&offsets), SUM, Some(&weights))
    };
    let (transposed, result) = median_milliseconds(|| tch::no_grad(backward));
    let out = ways[2].1(&rows);
    let by_autograd =
        Tensor::run_backward(&[(out * &upstream).sum(Kind::Float)], &[&rows], false, false).swap_remove(0);
    let by_autograd: Vec<f32> = Vec::try_from(by_autograd.flatten(0, -1)).unwrap();
    assert!(
        result.iter().zip(&by_autograd).all(|(a, b)| (a - b).abs() < 1e-4),
        "the transposed bag is wrong"
    );
    println!("  {:42} backward {transposed:7.2} ms", "transposed bag, counting sort included");
    // The crate's alternative: its own loop, which does not store the mean's weights.
    let edge_offsets: Vec<i32> = (0..=destinations).map(|v| (v * fanout) as i32).collect();
    let weighed = vec![1.0 / fanout as f32; edges];
    for (name, weights) in [("our sums, mean", &[][..]), ("our sums, weighted", &weighed[..])] {
        let block = measured::HostLists {
            destinations,
            sources,
            indptr: &edge_offsets,
            indices: &edge_list,
            weights,
        };
        let rows = rows.detach();
        let (forward, sums) = median_milliseconds(|| measured::aggregate(&block, &rows).unwrap());
        let expected = reference.as_ref().unwrap();
        assert!(sums.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4), "{name} are wrong");
        let (backward, spread) = median_milliseconds(|| measured::spread(&block, &upstream).unwrap());
        assert!(spread.iter().zip(&by_autograd).all(|(a, b)| (a - b).abs() < 1e-4), "{name} are wrong back");
        println!("  {name:42} forward {forward:8.2} ms, backward alone {backward:8.2} ms");
    }
    // The cost of the elements compared with the multiply-adds of a matrix product, which decides the order of the two.
    let weight = Tensor::rand([64, width as i64], (Kind::Float, Device::Cpu));
    let (product, _) = median_milliseconds(|| tch::no_grad(|| rows.linear::<Tensor>(&weight, None)));
    let (bag, _) = median_milliseconds(|| tch::no_grad(|| ways[2].1(&rows)));
    let per_element = bag * 1e6 / (edges * width) as f64;
    let per_multiply = product * 1e6 / (sources * width * 64) as f64;
    println!(
        "  an element aggregated {per_element:.3} ns, a multiply-add {per_multiply:.4} ns, ratio {:.1}",
        per_element / per_multiply
    );
}
