//! The common part of all generators: options, and writing a shape's lists, features, labels and splits to files.
//!
//! Features are the centre of the node's class (±`feature_signal` a dimension) plus noise of variance 1. A share of
//! `label_noise` of the labels is redrawn. So features alone identify the class only partly. A mean over neighbours of
//! the same class averages the noise away and identifies it better.

use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use half::{bf16, f16};
use rayon::prelude::*;
use serde_json::{Map, Value, json};
use uva_files::progress::in_steps;
use uva_files::staging::StagedDirectory;
use uva_graph::npy::{NpyType, NpyWriter};
use uva_graph::{DATASET, ElementType, GraphError, Meta, Progress, Split, Summary, names};

use super::draws::random::{GeneratorPurpose, RandomStream};
use super::estimate::{GeneratorEstimate, id_bytes};
use super::options::common::Common;
use super::options::train_by::{DegreeDraw, TrainBy};
use crate::float8;
use uva_files::disk_space::{self, BytesOnDisk};

/// The decisions of a generator, node by node: each depends on the options and the node alone.
pub trait PlantedGraph: Sync {
    /// Appends the in-neighbours of `node`, ascending, without repeats and without `node` itself.
    fn neighbours_of(&self, node: u64, list: &mut Vec<u64>);
    /// The class that determines the features and edges of a node.
    fn class_of(&self, node: u64) -> u64;
    /// The split that contains the node.
    fn split_of(&self, node: u64) -> Option<Split>;
    /// The shape's own options, for `meta.json`.
    fn description(&self) -> Map<String, Value>;
}

/// The length of a list: `c/√u` with u uniform, at most 20 times the mean, with c such that the mean is `mean`. It is
/// rounded up or down at random. P(longer than l) ~ l^(−2).
pub(super) fn list_length(mean: f64, stream: &mut RandomStream) -> u64 {
    // ∫ min(c/√u, 20 · mean) du = 2c − c²/(20 · mean), which is the mean at c = (20 − √380) · mean, about half of it.
    let c = mean * (20.0 - 380.0_f64.sqrt());
    let u = stream.unit();
    // At u = 0 the quotient is infinite, and the cap holds.
    ((c / u.sqrt()).min(20.0 * mean) + stream.unit()) as u64
}

/// Appends up to `count` distinct nodes drawn by `draw`, ascending. Hubs repeat often, so after removing repeats the
/// missing nodes are redrawn a few times; a `None` from `draw` counts as missing.
pub(super) fn draw_list(list: &mut Vec<u64>, count: u64, mut draw: impl FnMut() -> Option<u64>) {
    let start = list.len();
    for _ in 0..4 {
        let missing = count - (list.len() - start) as u64;
        if missing == 0 {
            break;
        }
        list.extend((0..missing).filter_map(|_| draw()));
        list[start..].sort_unstable();
        dedup_from(list, start);
    }
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

/// Writes the graph of `shape`, whose generator is called `kind`, to the directory `out`. `common` has been checked.
pub(super) fn write(
    out: &Path,
    kind: &str,
    common: &Common,
    shape: &dyn PlantedGraph,
    progress: &dyn Fn(Progress),
) -> Result<Summary, GraphError> {
    let start = Instant::now();
    let staged = StagedDirectory::new(out, &DATASET)?;
    let needs = GeneratorEstimate::of(common).disk_bytes;
    let what = format!(
        "it takes {}: use a directory on another disk, or generate a smaller dataset",
        BytesOnDisk(needs)
    );
    disk_space::check(out, needs, what)?;
    let threads = Threads::new(out, common)?;
    let writer = Writer { common, shape, directory: staged.path(), threads };

    let mut draw = match common.train_by {
        TrainBy::Shape => None,
        TrainBy::Degree => {
            Some(DegreeDraw::new(common.seed, usize::try_from(common.train_nodes()).unwrap_or(usize::MAX)))
        }
    };
    let edges = writer.edges(draw.as_mut(), progress)?;
    writer.features(progress)?;
    let split_sizes = writer.labels_and_splits(draw.map(DegreeDraw::finish).as_deref(), progress)?;
    writer.meta(kind, out).write(staged.path())?;
    staged.commit()?;
    Ok(Summary {
        nodes: common.nodes,
        edges,
        feature_dim: common.feature_dim as u64,
        classes: common.classes,
        split_sizes,
        seconds: start.elapsed().as_secs_f64(),
    })
}

struct Writer<'o> {
    common: &'o Common,
    shape: &'o dyn PlantedGraph,
    directory: &'o Path,
    threads: Threads,
}

/// The requested threads; with `None`, those of the whole process.
pub(super) struct Threads(Option<rayon::ThreadPool>);

impl Threads {
    /// The threads of the options, for a graph in the directory `out`.
    pub(super) fn new(out: &Path, common: &Common) -> Result<Threads, GraphError> {
        let pool_of = |threads| {
            rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(|error| {
                GraphError::Lacking {
                    path: out.to_owned(),
                    message: format!(
                        "cannot start {threads} threads ({error}): lower `threads`, or raise the limit on \
                         processes and threads (ulimit -u, or a container's pids limit)"
                    ),
                }
            })
        };
        Ok(Threads(common.threads.map(pool_of).transpose()?))
    }

    /// Runs `work` on the threads.
    pub(super) fn install<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match &self.0 {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }
}

/// The lists of a run of nodes, block after block: their lengths, and their entries.
pub(super) fn lists_of(
    nodes: &Range<u64>,
    threads: &Threads,
    neighbours_of: &(dyn Fn(u64, &mut Vec<u64>) + Sync),
) -> Vec<(Vec<i64>, Vec<u64>)> {
    threads.install(|| {
        let lists = blocks(nodes).into_par_iter().map(|nodes| {
            let (mut lengths, mut neighbours) = (Vec::new(), Vec::new());
            for node in nodes {
                let before = neighbours.len();
                neighbours_of(node, &mut neighbours);
                lengths.push((neighbours.len() - before) as i64);
            }
            (lengths, neighbours)
        });
        lists.collect()
    })
}

/// Writes features at `path`, a run of nodes at a time; `row_of` makes a row of them.
pub(super) fn write_features(
    path: &Path,
    nodes: u64,
    common: &Common,
    threads: &Threads,
    row_of: &(dyn Fn(u64, &mut [u8]) + Sync),
    progress: &dyn Fn(Progress),
) -> Result<(), GraphError> {
    let &Common { feature_dim, feature_element, .. } = common;
    let kind = match feature_element {
        ElementType::F16 => NpyType::F16,
        ElementType::Bf16 => NpyType::U16,
        ElementType::E4m3 => NpyType::U8,
        _ => NpyType::F32,
    };
    let row_bytes = feature_dim * feature_element.bytes();
    let mut writer = NpyWriter::create(path, kind, &[feature_dim])?;
    in_steps("features", nodes, row_bytes, progress, |nodes| {
        let mut bytes = vec![0; (nodes.end - nodes.start) as usize * row_bytes];
        threads.install(|| {
            let rows = bytes.par_chunks_mut(row_bytes).enumerate();
            rows.for_each(|(row, bytes)| row_of(nodes.start + row as u64, bytes));
        });
        writer.write_bytes(&bytes)
    })?;
    writer.finish().map(drop)
}

/// A row of features: a centre of ±`signal` a dimension, 0 without one, and noise of variance 1.
pub(super) fn feature_row(
    element: ElementType,
    signal: f32,
    mut centre: Option<RandomStream>,
    mut noise: RandomStream,
    row: &mut [u8],
) {
    for value in row.chunks_exact_mut(element.bytes()) {
        let feature = match &mut centre {
            Some(centre) => (if centre.next() & 1 == 0 { signal } else { -signal }) + noise.normal(),
            None => noise.normal(),
        };
        match element {
            ElementType::F16 => value.copy_from_slice(&f16::from_f32(feature).to_le_bytes()),
            ElementType::Bf16 => value.copy_from_slice(&bf16::from_f32(feature).to_le_bytes()),
            ElementType::E4m3 => value[0] = float8::from_f32(feature),
            _ => value.copy_from_slice(&feature.to_le_bytes()),
        }
    }
}

impl Writer<'_> {
    /// Writes `indptr.npy` and `indices.npy` together, a run of nodes at a time, and offers each node to the draw of the
    /// train split. Returns the number of edges.
    fn edges(
        &self,
        mut draw: Option<&mut DegreeDraw>,
        progress: &dyn Fn(Progress),
    ) -> Result<u64, GraphError> {
        let nodes = self.common.nodes;
        let narrow = id_bytes(nodes) == 4;
        let kind = if narrow { NpyType::I32 } else { NpyType::I64 };
        let mut indptr = NpyWriter::create(&self.directory.join(names::INDPTR), NpyType::I64, &[])?;
        let mut indices = NpyWriter::create(&self.directory.join(names::INDICES), kind, &[])?;
        indptr.write(&[0_i64])?;
        let mut edges = 0_i64;
        let row = self.common.average_degree * 8.0 + 32.0;
        let shape = self.shape;
        in_steps("edges", nodes, row as usize, progress, |nodes| {
            let lists = lists_of(&nodes, &self.threads, &|node, list| shape.neighbours_of(node, list));
            if let Some(draw) = &mut draw {
                let lengths = lists.iter().flat_map(|(lengths, _)| lengths);
                nodes.zip(lengths).for_each(|(node, length)| draw.offer(node, length.cast_unsigned()));
            }
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
            Ok::<_, GraphError>(())
        })?;
        indptr.finish()?;
        indices.finish()
    }

    fn features(&self, progress: &dyn Fn(Progress)) -> Result<(), GraphError> {
        let &Common { seed, feature_element, nodes, .. } = self.common;
        let signal = self.common.signal() as f32;
        let row_of = |node: u64, row: &mut [u8]| {
            let centre = RandomStream::new(seed, GeneratorPurpose::ClassCentre, self.shape.class_of(node));
            let noise = RandomStream::new(seed, GeneratorPurpose::Features, node);
            feature_row(feature_element, signal, Some(centre), noise, row);
        };
        let path = self.directory.join(names::FEATURES);
        write_features(&path, nodes, self.common, &self.threads, &row_of, progress)
    }

    /// Writes labels and splits, with the train split as drawn, or with all splits as the shape has them. Returns the
    /// sizes of the splits.
    fn labels_and_splits(
        &self,
        drawn: Option<&[u64]>,
        progress: &dyn Fn(Progress),
    ) -> Result<[u64; 3], GraphError> {
        let mut labels = NpyWriter::create(&self.directory.join(names::LABELS), NpyType::I64, &[])?;
        let split =
            |split: Split| NpyWriter::create(&self.directory.join(split.file_name()), NpyType::I64, &[]);
        let mut splits = [split(Split::Train)?, split(Split::Valid)?, split(Split::Test)?];
        let split_of = |node| match drawn {
            None => self.shape.split_of(node),
            Some(train) if train.binary_search(&node).is_ok() => Some(Split::Train),
            Some(_) => self.common.rest_split(node),
        };
        in_steps("labels", self.common.nodes, 64, progress, |nodes| {
            let labelled: Vec<(i64, Option<Split>)> = self.threads.install(|| {
                nodes.clone().into_par_iter().map(|node| (self.label(node), split_of(node))).collect()
            });
            let classes: Vec<i64> = labelled.iter().map(|(label, _)| *label).collect();
            labels.write(&classes)?;
            for (writer, split) in splits.iter_mut().zip(Split::ALL) {
                let of_node = nodes.clone().zip(&labelled).filter(|(_, labelled)| labelled.1 == Some(split));
                let ids: Vec<i64> = of_node.map(|(node, _)| node.cast_signed()).collect();
                writer.write(&ids)?;
            }
            Ok::<_, GraphError>(())
        })?;
        labels.finish()?;
        let [train, valid, test] = splits;
        Ok([train.finish()?, valid.finish()?, test.finish()?])
    }

    fn label(&self, node: u64) -> i64 {
        noisy_label(self.common, node, self.shape.class_of(node))
    }

    fn meta(&self, kind: &str, out: &Path) -> Meta {
        let common = self.common;
        Meta {
            classes: Some(common.classes),
            feat_dtype: Some(common.feature_element.name().to_owned()),
            ..meta(kind, common, self.shape.description(), out)
        }
    }
}

/// The label of a node of this class: that, or any, with the probability of noise.
pub(super) fn noisy_label(common: &Common, node: u64, class: u64) -> i64 {
    let mut noise = RandomStream::new(common.seed, GeneratorPurpose::LabelNoise, node);
    let label = if noise.unit() < common.label_noise { noise.below(common.classes) } else { class };
    label.cast_signed()
}

/// `meta.json` of a generated graph, with the options of its shape.
pub(super) fn meta(kind: &str, common: &Common, shape: Map<String, Value>, out: &Path) -> Meta {
    let directory_name = out.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut description = Map::from_iter([("kind".to_owned(), json!(kind))]);
    description.extend(shape);
    description.extend([
        ("seed".to_owned(), json!(common.seed)),
        ("average_degree".to_owned(), json!(common.average_degree)),
        ("feature_signal".to_owned(), json!(common.signal())),
        ("label_noise".to_owned(), json!(common.label_noise)),
        ("directed".to_owned(), json!(true)),
    ]);
    if common.train_by == TrainBy::Degree {
        description.insert("train_by".to_owned(), json!(common.train_by.name()));
    }
    Meta {
        name: common.name.clone().or(directory_name),
        licence: Some("CC0-1.0".to_owned()),
        other: Map::from_iter([("generator".to_owned(), Value::Object(description))]),
        ..Meta::default()
    }
}

/// Parts of a run of nodes that one thread takes at a time.
fn blocks(nodes: &Range<u64>) -> Vec<Range<u64>> {
    const BLOCK: u64 = 256;
    (nodes.start..nodes.end)
        .step_by(BLOCK as usize)
        .map(|start| start..(start + BLOCK).min(nodes.end))
        .collect()
}
