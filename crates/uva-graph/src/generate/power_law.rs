//! The power-law generator.
//!
//! Nodes have positions 0..N, a keyed shuffle of their ids. A node's class is its position modulo the number of
//! classes, so that the members of a class can be counted through without a table. Low positions are hubs, both ways:
//! - In-degree at position p is `scale · u^(−5/8)` with u = (p + ½)/N, capped, so P(degree > d) ~ d^(−1.6), an exponent
//!   of 2.6 as web and citation graphs have; the scale is solved for such that the mean is the one asked for.
//! - A neighbour is the m-th member of its class with m = members · w³, w uniform, so P(member m) ~ m^(−2/3) (exponent
//!   2.5). Its class is the node's own with probability `homophily`, and any class otherwise.
//!
//! The graph is directed: each list is drawn for its node, and no reverse edge is planted. A list has no self-loop,
//! names no neighbour twice, and ascends. Features are the centre of the class (±`feature_signal` a dimension) plus noise
//! of variance 1; a share of `label_noise` of the labels is drawn anew. So features alone tell the class only so well, and
//! a mean over neighbours, which averages the noise away, tells it better.
//!
//! Only integers and correctly rounded operations (+, −, ×, ÷, √) decide, never a library's pow, and every number is
//! keyed by seed, purpose and node: the bytes are the same for any number of threads, on any machine.

use std::path::Path;
use std::time::Instant;

use half::{bf16, f16};
use rayon::prelude::*;
use serde_json::{Map, json};

use super::permutation::Permutation;
use super::random::{Purpose, Stream};
use super::{Progress, Summary};
use crate::files::names;
use crate::npy::{NpyType, NpyWriter};
use crate::staged::StagedDirectory;
use crate::steps::in_steps;
use crate::{ElementType, GraphError, Meta, Split};

/// A power-law graph with planted classes. [`PowerLaw::default`] has the knobs' defaults, which keep the best classifier
/// of features alone well below one that sees neighbours too.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerLaw {
    /// How many nodes; at least 2.
    pub nodes: u64,
    /// Mean in-degree. A little less is reached, since lists name no neighbour twice.
    pub average_degree: f64,
    /// Features a node; at least 1.
    pub feature_dim: usize,
    /// How many classes, 1 to `nodes`. Node counts differ by at most one between them.
    pub classes: u64,
    /// What all random numbers are keyed by.
    pub seed: u64,
    /// How features are stored: f32, f16 or bf16.
    pub feature_element: ElementType,
    /// How many threads to use; as many as there are cores where `None`. The bytes are the same for any number.
    pub threads: Option<usize>,
    /// Share of neighbours drawn from the node's own class; the others are drawn from all classes.
    pub homophily: f64,
    /// Distance of a class centre from 0 in each dimension, where the noise has variance 1. `None` chooses it by
    /// `feature_dim` such that, with the other defaults, features alone tell the label of 58 % of the nodes at best.
    pub feature_signal: Option<f64>,
    /// Share of labels that are drawn anew from all classes.
    pub label_noise: f64,
    /// Share of nodes in the train split.
    pub train_share: f64,
    /// Share of nodes in the valid split.
    pub valid_share: f64,
    /// Share of nodes in the test split. Nodes left over have a label but are in no split.
    pub test_share: f64,
    /// The name in `meta.json`; the directory's where `None`.
    pub name: Option<String>,
}

impl Default for PowerLaw {
    fn default() -> PowerLaw {
        PowerLaw {
            nodes: 200_000,
            average_degree: 20.0,
            feature_dim: 100,
            classes: 12,
            seed: 0,
            feature_element: ElementType::F32,
            threads: None,
            homophily: 0.5,
            feature_signal: None,
            label_noise: 0.1,
            train_share: 0.4,
            valid_share: 0.1,
            test_share: 0.1,
            name: None,
        }
    }
}

/// Writes a power-law graph to the directory `out`, which must not exist. `progress` is called now and then, from this
/// thread.
///
/// Memory stays bounded whatever the size: about 64 MiB of output is held at a time, or the lists of 1,024 nodes where
/// those are larger.
///
/// # Errors
/// Where an option is out of its range, `out` exists, or the system refuses to write; nothing is left behind then.
pub fn power_law(out: &Path, options: &PowerLaw, progress: &dyn Fn(Progress)) -> Result<Summary, GraphError> {
    let start = Instant::now();
    let plan = Plan::new(options)?;
    let staged = StagedDirectory::new(out)?;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(options.threads.unwrap_or(0))
        .build()
        .map_err(|e| GraphError::usage("--threads", format!("cannot start the threads: {e}")))?;

    let edges = plan.write_edges(staged.path(), &pool, progress)?;
    plan.write_features(staged.path(), &pool, progress)?;
    let split_sizes = plan.write_labels_and_splits(staged.path(), &pool, progress)?;
    plan.meta(out).write(staged.path())?;
    staged.commit()?;
    Ok(Summary {
        nodes: options.nodes,
        edges,
        feature_dim: options.feature_dim as u64,
        classes: options.classes,
        split_sizes,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// The options, checked, with what follows from them.
struct Plan<'o> {
    options: &'o PowerLaw,
    permutation: Permutation,
    degrees: Degrees,
    feature_signal: f64,
}

impl<'o> Plan<'o> {
    fn new(options: &'o PowerLaw) -> Result<Plan<'o>, GraphError> {
        let &PowerLaw { nodes, average_degree, feature_dim, classes, .. } = options;
        let refuse = |option: &str, message: String| Err(GraphError::usage(option, message));
        if !(2..=1 << 40).contains(&nodes) {
            return refuse("--nodes", format!("{nodes} is outside 2..=2^40"));
        }
        if !(average_degree > 0.0 && average_degree <= (nodes - 1) as f64 / 2.0) {
            let most = (nodes - 1) as f64 / 2.0;
            return refuse(
                "--avg-degree",
                format!("{average_degree} is outside 0..={most}, half the other nodes"),
            );
        }
        if average_degree * nodes as f64 >= (1_u64 << 53) as f64 {
            return refuse("--avg-degree", format!("{average_degree} · {nodes} nodes are too many edges"));
        }
        if feature_dim == 0 {
            return refuse(
                "--feat-dim",
                "0 features a node leave nothing to aggregate: give at least 1".to_owned(),
            );
        }
        let row_bytes = feature_dim.checked_mul(options.feature_element.bytes());
        let table = row_bytes.and_then(|row| usize::try_from(nodes).ok()?.checked_mul(row));
        if table.is_none_or(|bytes| bytes > isize::MAX as usize) {
            return refuse(
                "--feat-dim",
                format!("{nodes} nodes × {feature_dim} features overflow the address space"),
            );
        }
        if !(1..=nodes.min(1 << 31)).contains(&classes) {
            return refuse("--classes", format!("{classes} is outside 1..={}", nodes.min(1 << 31)));
        }
        if matches!(options.feature_element, ElementType::U8 | ElementType::I8) {
            let element = options.feature_element;
            return refuse(
                "--feat-dtype",
                format!("{element} cannot hold these features: use f32, f16 or bf16"),
            );
        }
        let shares = [
            ("--homophily", options.homophily),
            ("--label-noise", options.label_noise),
            ("--train-share", options.train_share),
            ("--valid-share", options.valid_share),
            ("--test-share", options.test_share),
        ];
        for (option, share) in shares {
            if !(0.0..=1.0).contains(&share) {
                return refuse(option, format!("{share} is outside 0..=1"));
            }
        }
        let all = options.train_share + options.valid_share + options.test_share;
        if all > 1.0 + 1e-9 {
            return refuse("--train-share", format!("the three splits' shares add up to {all}, more than 1"));
        }
        if let Some(signal) = options.feature_signal
            && !(0.0..=1000.0).contains(&signal)
        {
            return refuse("--feature-signal", format!("{signal} is outside 0..=1000"));
        }
        if options.threads == Some(0) {
            return refuse("--threads", "0 threads do no work: give at least 1".to_owned());
        }
        // The distance that matters, between two centres, grows with the root of the dimensions: signal² · dim is what
        // makes features tell classes apart as well in 10 dimensions as in 1000.
        let feature_signal = options.feature_signal.unwrap_or_else(|| 2.0 / (feature_dim as f64).sqrt());
        Ok(Plan {
            options,
            permutation: Permutation::new(nodes, options.seed),
            degrees: Degrees::new(nodes, average_degree),
            feature_signal,
        })
    }

    fn class_of(&self, node: u64) -> u64 {
        self.permutation.backward(node) % self.options.classes
    }

    /// Writes `indptr.npy` and `indices.npy` side by side, a run of nodes at a time. Returns the number of edges.
    fn write_edges(
        &self,
        directory: &Path,
        pool: &rayon::ThreadPool,
        progress: &dyn Fn(Progress),
    ) -> Result<u64, GraphError> {
        // Ids that fit 32 bits take half the space, and half the reads.
        let narrow = self.options.nodes <= i32::MAX as u64;
        let kind = if narrow { NpyType::I32 } else { NpyType::I64 };
        let mut indptr = NpyWriter::create(&directory.join(names::INDPTR), NpyType::I64, &[])?;
        let mut indices = NpyWriter::create(&directory.join(names::INDICES), kind, &[])?;
        indptr.write(&[0_i64])?;
        let mut edges = 0_i64;
        let row = self.options.average_degree * 8.0 + 32.0;
        in_steps("edges", self.options.nodes, row as usize, progress, |nodes| {
            let lists: Vec<(Vec<i64>, Vec<u64>)> = pool.install(|| {
                blocks(&nodes)
                    .into_par_iter()
                    .map(|nodes| {
                        let (mut lengths, mut neighbours) = (Vec::new(), Vec::new());
                        for node in nodes {
                            let before = neighbours.len();
                            self.neighbours_of(node, &mut neighbours);
                            lengths.push((neighbours.len() - before) as i64);
                        }
                        (lengths, neighbours)
                    })
                    .collect()
            });
            for (mut lengths, neighbours) in lists {
                for length in &mut lengths {
                    edges += *length;
                    *length = edges;
                }
                indptr.write(&lengths)?;
                if narrow {
                    let narrowed: Vec<i32> = neighbours.iter().map(|&id| id as i32).collect();
                    indices.write(&narrowed)?;
                } else {
                    indices.write(&neighbours)?;
                }
            }
            Ok(())
        })?;
        indptr.finish()?;
        indices.finish()
    }

    /// Appends the in-neighbours of `node`, ascending.
    fn neighbours_of(&self, node: u64, list: &mut Vec<u64>) {
        let &PowerLaw { nodes, classes, seed, homophily, .. } = self.options;
        let position = self.permutation.backward(node);
        let class = position % classes;
        let degree = self.degrees.at(position, Stream::new(seed, Purpose::Degree, node).unit());
        let mut stream = Stream::new(seed, Purpose::Neighbours, node);
        let start = list.len();
        // Hubs come up again and again, so what is missing after sorting out repeats is drawn anew, a few times.
        for _ in 0..4 {
            let missing = degree - (list.len() - start) as u64;
            if missing == 0 {
                break;
            }
            for _ in 0..missing {
                let class = if stream.unit() < homophily { class } else { stream.below(classes) };
                // Positions class, class + classes, …: that many members.
                let members = (nodes - class).div_ceil(classes);
                let w = stream.unit();
                let member = ((w * w * w * members as f64) as u64).min(members - 1);
                let neighbour = self.permutation.forward(class + member * classes);
                if neighbour != node {
                    list.push(neighbour);
                }
            }
            list[start..].sort_unstable();
            dedup_from(list, start);
        }
    }

    fn write_features(
        &self,
        directory: &Path,
        pool: &rayon::ThreadPool,
        progress: &dyn Fn(Progress),
    ) -> Result<(), GraphError> {
        let &PowerLaw { feature_dim, feature_element, .. } = self.options;
        let kind = match feature_element {
            ElementType::F16 => NpyType::F16,
            ElementType::Bf16 => NpyType::U16,
            _ => NpyType::F32,
        };
        let row_bytes = feature_dim * feature_element.bytes();
        let mut writer = NpyWriter::create(&directory.join(names::FEATURES), kind, &[feature_dim])?;
        in_steps("features", self.options.nodes, row_bytes, progress, |nodes| {
            let mut bytes = vec![0; (nodes.end - nodes.start) as usize * row_bytes];
            pool.install(|| {
                let rows = bytes.par_chunks_mut(row_bytes).enumerate();
                rows.for_each(|(row, bytes)| self.feature_row(nodes.start + row as u64, bytes));
            });
            writer.write_bytes(&bytes)
        })?;
        writer.finish().map(drop)
    }

    fn feature_row(&self, node: u64, row: &mut [u8]) {
        let &PowerLaw { seed, feature_element, .. } = self.options;
        let signal = self.feature_signal as f32;
        let mut centre = Stream::new(seed, Purpose::ClassCentre, self.class_of(node));
        let mut noise = Stream::new(seed, Purpose::Features, node);
        for value in row.chunks_exact_mut(feature_element.bytes()) {
            let centre = if centre.next() & 1 == 0 { signal } else { -signal };
            let feature = centre + noise.normal();
            match feature_element {
                ElementType::F16 => value.copy_from_slice(&f16::from_f32(feature).to_le_bytes()),
                ElementType::Bf16 => value.copy_from_slice(&bf16::from_f32(feature).to_le_bytes()),
                _ => value.copy_from_slice(&feature.to_le_bytes()),
            }
        }
    }

    /// Returns the sizes of the splits.
    fn write_labels_and_splits(
        &self,
        directory: &Path,
        pool: &rayon::ThreadPool,
        progress: &dyn Fn(Progress),
    ) -> Result<[u64; 3], GraphError> {
        let mut labels = NpyWriter::create(&directory.join(names::LABELS), NpyType::I64, &[])?;
        let split = |split: Split| NpyWriter::create(&directory.join(split.file_name()), NpyType::I64, &[]);
        let mut splits = [split(Split::Train)?, split(Split::Valid)?, split(Split::Test)?];
        in_steps("labels", self.options.nodes, 64, progress, |nodes| {
            let drawn: Vec<(i64, Option<Split>)> = pool
                .install(|| nodes.clone().into_par_iter().map(|node| self.label_and_split(node)).collect());
            let classes: Vec<i64> = drawn.iter().map(|(label, _)| *label).collect();
            labels.write(&classes)?;
            for (writer, split) in splits.iter_mut().zip(Split::ALL) {
                let of_node = nodes.clone().zip(&drawn).filter(|(_, drawn)| drawn.1 == Some(split));
                let ids: Vec<i64> = of_node.map(|(node, _)| node.cast_signed()).collect();
                writer.write(&ids)?;
            }
            Ok(())
        })?;
        labels.finish()?;
        let [train, valid, test] = splits;
        Ok([train.finish()?, valid.finish()?, test.finish()?])
    }

    fn label_and_split(&self, node: u64) -> (i64, Option<Split>) {
        let &PowerLaw { seed, classes, label_noise, train_share, valid_share, test_share, .. } = self.options;
        let mut noise = Stream::new(seed, Purpose::LabelNoise, node);
        let label = if noise.unit() < label_noise { noise.below(classes) } else { self.class_of(node) };
        let share = Stream::new(seed, Purpose::Split, node).unit();
        let split = if share < train_share {
            Some(Split::Train)
        } else if share < train_share + valid_share {
            Some(Split::Valid)
        } else if share < train_share + valid_share + test_share {
            Some(Split::Test)
        } else {
            None
        };
        (label.cast_signed(), split)
    }

    fn meta(&self, out: &Path) -> Meta {
        let options = self.options;
        let directory_name = out.file_name().map(|name| name.to_string_lossy().into_owned());
        let generator = json!({
            "kind": "powerlaw",
            "seed": options.seed,
            "average_degree": options.average_degree,
            "homophily": options.homophily,
            "feature_signal": self.feature_signal,
            "label_noise": options.label_noise,
            "directed": true,
        });
        Meta {
            name: options.name.clone().or(directory_name),
            classes: Some(options.classes),
            feat_dtype: Some(options.feature_element.name().to_owned()),
            licence: Some("CC0-1.0".to_owned()),
            other: Map::from_iter([("generator".to_owned(), generator)]),
        }
    }
}

/// Parts of a run of nodes that one thread takes at a time.
fn blocks(nodes: &std::ops::Range<u64>) -> Vec<std::ops::Range<u64>> {
    const BLOCK: u64 = 256;
    (nodes.start..nodes.end)
        .step_by(BLOCK as usize)
        .map(|start| start..(start + BLOCK).min(nodes.end))
        .collect()
}

/// Removes repeats in the sorted tail of `list` that begins at `start`.
fn dedup_from(list: &mut Vec<u64>, start: usize) {
    let mut kept = start;
    for next in start..list.len() {
        if kept == start || list[next] != list[kept - 1] {
            list[kept] = list[next];
            kept += 1;
        }
    }
    list.truncate(kept);
}

/// In-degrees by position: `min(scale · u^(−5/8), cap)`.
#[derive(Debug, Clone)]
struct Degrees {
    nodes: u64,
    scale: f64,
    cap: f64,
}

impl Degrees {
    fn new(nodes: u64, average: f64) -> Degrees {
        // A hub that a quarter of all nodes point to is large enough for any graph; small graphs need more room.
        let others = (nodes - 1) as f64;
        let cap = (others / 4.0).max(4.0 * average).min(others);
        // With t = (scale/cap)^(1/5) the mean, ∫ min(scale · u^(−5/8), cap) du over 0..1, is cap · (8t⁵ − 5t⁸)/3. It
        // rises with t from 0 to cap, so halving finds t; 64 times is all a double can tell.
        let mean = |t: f64| {
            let fifth = t * t * t * t * t;
            cap * (8.0 * fifth - 5.0 * fifth * t * t * t) / 3.0
        };
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..64 {
            let middle = (low + high) / 2.0;
            if mean(middle) < average {
                low = middle;
            } else {
                high = middle;
            }
        }
        Degrees { nodes, scale: cap * low * low * low * low * low, cap }
    }

    /// The degree at `position`, rounded up or down at random (`unit` in [0, 1)) such that the mean is kept.
    fn at(&self, position: u64, unit: f64) -> u64 {
        let u = (position as f64 + 0.5) / self.nodes as f64;
        let (root, eighth) = (u.sqrt(), u.sqrt().sqrt().sqrt());
        let exact = (self.scale / (root * eighth)).min(self.cap);
        ((exact + unit) as u64).min(self.nodes - 1)
    }
}

#[cfg(test)]
mod tests;
