//! Orders of seeds as files: an array of node ids with one sequence per row.

use std::path::Path;

use uva_graph::hash::ArrayHash;
use uva_graph::npy::{NpyArray, NpyType, NpyWriter};
use uva_graph::{Dataset, GraphError, Split};
use uva_mem::files::Replacement;
use uva_options::OptionError;
use uva_sample::SeedSequences;

use crate::RuntimeError;
use crate::options::seed_order::MOST_SEQUENCES;

/// The ids that the training nodes had before the dataset was reordered.
fn ids_of_training(dataset: &Dataset) -> Result<Vec<u32>, GraphError> {
    let original = |&node: &i64| dataset.original_ids().map_or(node, |ids| ids[node as usize]);
    let ids = dataset.split(Split::Train).iter().map(original);
    let narrow = |id: i64| {
        u32::try_from(id).map_err(|_| {
            GraphError::usage(
                "order",
                format!(
                    "node {id} has an id of more than 32 bits, which a file of an order does not support"
                ),
            )
        })
    };
    ids.map(narrow).collect()
}

/// Writes sequences of a dataset's training positions as original ids: uint32 \[sequences, training nodes\]. An
/// existing file is replaced once the new one is complete.
///
/// # Errors
/// If it cannot be written, or an id has more than 32 bits.
pub fn write(path: &Path, dataset: &Dataset, sequences: &SeedSequences) -> Result<(), GraphError> {
    let train: Vec<u32> = ids_of_training(dataset)?;
    let cannot = |error: std::io::Error| GraphError::io(path, "write")(error);
    let mut replacement = Replacement::of(path, 0o666).map_err(cannot)?;
    let file = replacement.file().try_clone().map_err(cannot)?;
    let mut writer = NpyWriter::onto(file, path, NpyType::U32, &[sequences.positions()]);
    for number in 0..sequences.count() {
        let ids = sequences.sequence(number).iter().map(|position| train[*position as usize]);
        let ids: Vec<u32> = ids.collect();
        writer.write(&ids)?;
    }
    writer.finish()?;
    replacement.commit().map_err(cannot)
}

/// The content of an order's file.
pub(super) struct OrderFile {
    /// The first sequences, as many as requested, as positions in the dataset's training split, one after the other.
    pub(super) positions: Vec<u32>,
    /// Number of sequences in the file.
    pub(super) count: usize,
    /// The hash of the positions of all sequences.
    pub(super) hash: u64,
}

/// Bytes of memory for reading a file with this many training nodes, in addition to the positions.
pub(super) fn bytes_beside(seeds: usize) -> u64 {
    // Positions by id, the buckets over them, the number of used positions of each node, and one sequence.
    (8 + 4 + 4 + 4) * seeds as u64
}

/// The training positions by original id, in memory that grows with the training nodes and not with the ids.
struct Positions {
    /// Ids with their positions, ascending.
    of: Vec<(u32, u32)>,
    /// The start of each bucket of ids in `of`, followed by the total number.
    begins: Vec<u32>,
    /// Number of low bits that are ignored for buckets: ids of a bucket are otherwise equal.
    shift: u32,
}

impl Positions {
    fn of(train: &[u32]) -> Self {
        // Not truncated: an order has positions of 32 bits.
        let mut of: Vec<(u32, u32)> = train.iter().copied().zip(0..).collect();
        of.sort_unstable();
        let largest = of.last().map_or(0, |(id, _)| *id);
        let shift = (0..u32::BITS).find(|shift| (largest >> shift) as usize <= train.len()).unwrap_or(0);
        let buckets = (largest >> shift) as usize + 1;
        let mut begins = vec![0_u32; buckets + 1];
        of.iter().for_each(|(id, _)| begins[(id >> shift) as usize + 1] += 1);
        (0..buckets).for_each(|bucket| begins[bucket + 1] += begins[bucket]);
        Self { of, begins, shift }
    }

    /// The index of the first entry of `id`; `None` if there is none.
    fn first(&self, id: u32) -> Option<usize> {
        let bucket = (id >> self.shift) as usize;
        let (begin, end) = (*self.begins.get(bucket)? as usize, *self.begins.get(bucket + 1)? as usize);
        let first = begin + self.of[begin..end].partition_point(|(other, _)| *other < id);
        self.of.get(first).is_some_and(|(other, _)| *other == id).then_some(first)
    }
}

/// Reads the sequences in a file. All are checked, and the first `wanted` are kept.
///
/// # Errors
/// [`RuntimeError::Option`] for `order`, with the sequence and the entry, for a node that is not a training node or
/// occurs too often. [`RuntimeError::Input`] for a file without such an array.
pub(super) fn read(path: &Path, dataset: &Dataset, wanted: usize) -> Result<OrderFile, RuntimeError> {
    let array = NpyArray::open(path)?;
    let train = ids_of_training(dataset)?;
    let refused = |problem: String| {
        RuntimeError::from(OptionError::of("order", format!("{}: {problem}", path.display())))
    };
    let ids: &[u32] = array.elements(NpyType::U32)?;
    let &[count, len] = array.shape() else {
        return Err(array.wrong_shape("[sequences, training nodes]").into());
    };
    if len != train.len() {
        let of = train.len();
        return Err(refused(format!(
            "a sequence has {len} nodes, but the dataset has {of} training nodes: it is the order of another dataset or split"
        )));
    }
    if count == 0 || count > MOST_SEQUENCES as usize {
        return Err(refused(format!("it has {count} sequences: expected 1 to {MOST_SEQUENCES}")));
    }
    let by_id = Positions::of(&train);
    drop(train);
    // The number of used positions of each node, at the index of its first entry.
    let mut out = vec![0_u32; len];
    let mut hash = ArrayHash::new(0);
    let mut positions = Vec::with_capacity(wanted.min(count) * len);
    let mut sequence = Vec::with_capacity(len);
    for (number, row) in ids.chunks(len.max(1)).enumerate() {
        out.fill(0);
        sequence.clear();
        for (entry, &id) in row.iter().enumerate() {
            let place = || format!("entry {entry} of sequence {number} is node {id}");
            let Some(first) = by_id.first(id) else {
                return Err(refused(format!("{}, which is not a training node of the dataset", place())));
            };
            let next = by_id.of.get(first + out[first] as usize).filter(|(other, _)| *other == id);
            let Some((_, position)) = next else {
                let before = row[..entry].iter().position(|other| *other == id).unwrap_or(entry);
                return Err(refused(format!("{}, which is also entry {before}", place())));
            };
            out[first] += 1;
            sequence.push(*position);
        }
        hash.add(bytemuck::cast_slice(&sequence));
        if number < wanted {
            positions.extend_from_slice(&sequence);
        }
    }
    Ok(OrderFile { positions, count, hash: hash.finish() })
}

#[cfg(test)]
mod tests {
    use uva_graph::hash::of_array;
    use uva_graph::npy::write_array;
    use uva_io::generate::{self, Common, PowerLaw};

    use super::*;

    fn dataset(folder: &Path) -> Dataset {
        let common =
            Common { nodes: 60, average_degree: 3.0, feature_dim: 2, classes: 2, ..Common::default() };
        generate::write(&folder.join("graph"), &PowerLaw::of(common), &|_| {}).unwrap();
        Dataset::open(&folder.join("graph")).unwrap()
    }

    #[test]
    fn sequences_are_read_as_they_were_written() {
        let temp = tempfile::tempdir().unwrap();
        let dataset = dataset(temp.path());
        let len = dataset.split(Split::Train).len() as u32;
        let positions: Vec<u32> = (0..len).rev().chain(0..len).collect();
        let path = temp.path().join("order.npy");
        write(&path, &dataset, &SeedSequences::new(positions.clone(), 2, len as usize)).unwrap();
        let file = read(&path, &dataset, 2).unwrap();
        let hash = of_array(0, bytemuck::cast_slice(&positions));
        assert_eq!((&file.positions, file.count, file.hash), (&positions, 2, hash));
        // Sequences that are not requested are checked and included in the hash.
        let first = read(&path, &dataset, 1).unwrap();
        assert_eq!((&first.positions[..], first.count, first.hash), (&positions[..len as usize], 2, hash));
        // A node that occurs three times has three positions, which are taken in order.
        let again = dataset.with_nodes(Split::Train, vec![7, 3, 7, 7], "input_nodes").unwrap();
        write_array(&temp.path().join("again.npy"), NpyType::U32, &[4], &[7_u32, 7, 3, 7]).unwrap();
        assert_eq!(read(&temp.path().join("again.npy"), &again, 1).unwrap().positions, [0, 2, 1, 3]);
    }

    #[test]
    fn sparse_ids_are_found_without_a_place_for_each_id() {
        let train = [4_000_000_000, 7, 3_999_999_999, 7, 0, u32::MAX];
        let positions = Positions::of(&train);
        assert!(positions.begins.len() <= train.len() + 2, "{:?}", positions.begins);
        for (id, expected) in
            [(7, Some(1)), (0, Some(0)), (u32::MAX, Some(5)), (8, None), (4_000_000_001, None)]
        {
            let first = positions.first(id);
            assert_eq!(first, expected, "{id}");
            assert!(first.is_none_or(|first| positions.of[first].0 == id));
        }
        assert_eq!(Positions::of(&[]).first(0), None);
    }

    #[test]
    fn an_order_that_does_not_fit_the_dataset_is_refused_with_the_place() {
        let temp = tempfile::tempdir().unwrap();
        let dataset = dataset(temp.path());
        let train: Vec<u32> = dataset.split(Split::Train).iter().map(|node| *node as u32).collect();
        let refusal = |number: usize, shape: &[usize], ids: &[u32]| {
            let path = temp.path().join(format!("{number}.npy"));
            write_array(&path, NpyType::U32, shape, ids).unwrap();
            let refused = read(&path, &dataset, 1).map(|_| ()).unwrap_err();
            assert_eq!(refused.exit_code(), 2, "{refused}");
            refused.to_string()
        };
        let twice = [&train[..], &train[..5], &train[2..3], &train[6..]].concat();
        let elsewhere = [&train[..3], &[4_000_000], &train[4..]].concat();
        let len = train.len();
        let cases = [
            (refusal(0, &[len], &twice), "entry 5 of sequence 1 is node"),
            (refusal(1, &[len], &twice), "which is also entry 2"),
            (
                refusal(2, &[len], &elsewhere),
                "entry 3 of sequence 0 is node 4000000, which is not a training node",
            ),
            (refusal(3, &[len - 1], &train[1..]), "another dataset or split"),
            (refusal(4, &[], &train), "[sequences, training nodes]"),
            (refusal(5, &[len], &[]), "it has 0 sequences"),
        ];
        for (said, part) in cases {
            assert!(said.contains(part), "{part} in {said}");
        }
        let path = temp.path().join("wide.npy");
        write_array(&path, NpyType::I64, &[len], dataset.split(Split::Train)).unwrap();
        assert!(read(&path, &dataset, 1).map(|_| ()).unwrap_err().to_string().contains("uint32"));
    }
}
