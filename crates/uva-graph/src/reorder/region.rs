//! A reordered graph in one region of memory provided by the caller, so that several processes can share it.

use std::ops::Range;

use super::NodeOrder;
use super::copy::original_id;
use super::lists::{Lists, write_ends};
use super::order::by_place;
use super::write::check_length;
use crate::{Csc, Dataset, GraphError, Indices, Split};

/// The alignment of every array: a cache line, and half of a GPU's read.
const ALIGNMENT: usize = 64;

/// The layout of a reordered graph in a region. It depends on the dataset alone, so every process that opens the same
/// one computes the same layout.
///
/// The region holds these arrays, each aligned to 64 bytes:
/// - `indptr`, 64-bit
/// - the neighbours: 32-bit below 2³¹ nodes and 64-bit from there on, independent of the file's width
/// - for every place, the dataset's id of its node
/// - for every place, the original id of its node, if the dataset has an `orig_id.npy`
/// - the three splits
///
/// Ids within the region are places.
///
/// ```
/// use uva_graph::reorder::{NodeOrder, ReorderedLayout};
/// # use uva_graph::Dataset;
/// # use uva_graph::npy::{NpyType, write_array};
/// # let parent = tempfile::tempdir()?;
/// # let write = |name: &str, ids: &[i64]| write_array(&parent.path().join(name), NpyType::I64, &[], ids);
/// # let (ends, ids): (Vec<i64>, Vec<i64>) = ((0..=100).collect(), (0..100).collect());
/// # write("indptr.npy", &ends)?;
/// # for name in ["indices.npy", "label.npy", "train_idx.npy", "valid_idx.npy", "test_idx.npy"] {
/// #     write(name, &ids)?;
/// # }
/// # write_array(&parent.path().join("feat.npy"), NpyType::F32, &[1], &[0.0_f32; 100])?;
/// # let dataset = Dataset::open(parent.path())?;
/// let layout = ReorderedLayout::new(&dataset);
/// // Memory that two processes share is made of pages; of a vector one takes the part that is aligned.
/// let mut memory = vec![0_u64; layout.bytes().div_ceil(8)];
/// let region: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut memory)[..layout.bytes()];
/// layout.fill(&dataset, &NodeOrder::from_first(dataset.nodes(), &[70, 3])?, region)?;
/// let view = layout.view(region)?;
/// assert_eq!(view.to_dataset[..3], [70, 3, 0]);
/// assert_eq!(view.csc.degree(0), dataset.csc().degree(70));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReorderedLayout {
    nodes: usize,
    indptr: Range<usize>,
    indices: Range<usize>,
    /// Whether neighbours take 4 bytes.
    narrow: bool,
    to_dataset: Range<usize>,
    /// Present only if the dataset has original ids of its own.
    original_ids: Option<Range<usize>>,
    splits: [Range<usize>; 3],
    bytes: usize,
}

/// A reordered graph in a region.
#[derive(Debug, Clone, Copy)]
pub struct ReorderedView<'a> {
    /// The graph; nodes and neighbours are places. Its original ids are the ones used by random keys and hashes.
    pub csc: Csc<'a>,
    /// The dataset's id of the node at each place.
    pub to_dataset: &'a [i64],
    splits: [&'a [i64]; 3],
}

impl<'a> ReorderedView<'a> {
    /// The places of a split's nodes, in the order of the dataset's file.
    #[must_use]
    pub fn split(&self, split: Split) -> &'a [i64] {
        self.splits[split as usize]
    }
}

impl ReorderedLayout {
    /// The layout for `dataset`, in any order.
    #[must_use]
    pub fn new(dataset: &Dataset) -> ReorderedLayout {
        let (nodes, edges) = (dataset.nodes(), dataset.edges());
        let narrow = nodes <= i32::MAX as usize;
        let mut end = 0_usize;
        // Every array already lies in a mapped file of at least this size, so the sums stay far from overflow.
        let mut take = |bytes: usize| {
            let start = end.next_multiple_of(ALIGNMENT);
            end = start + bytes;
            start..end
        };
        let indptr = take((nodes + 1) * 8);
        let indices = take(edges * if narrow { 4 } else { 8 });
        let to_dataset = take(nodes * 8);
        let original_ids = dataset.original_ids().is_some().then(|| take(nodes * 8));
        let splits = Split::ALL.map(|split| take(dataset.split(split).len() * 8));
        let bytes = end.next_multiple_of(ALIGNMENT);
        ReorderedLayout { nodes, indptr, indices, narrow, to_dataset, original_ids, splits, bytes }
    }

    /// The size of the region in bytes; a multiple of 64.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The offset of `indptr` in the region: int64, one per node and one more.
    #[must_use]
    pub fn indptr_range(&self) -> Range<usize> {
        self.indptr.clone()
    }

    /// The offset of `indices` in the region: integers of [`id_bytes`](Self::id_bytes).
    #[must_use]
    pub fn indices_range(&self) -> Range<usize> {
        self.indices.clone()
    }

    /// Bytes per neighbour: 4 or 8.
    #[must_use]
    pub fn id_bytes(&self) -> usize {
        if self.narrow { 4 } else { 8 }
    }

    /// Writes the graph of `dataset` in `order` into `region`, with the current rayon pool. In addition to the region,
    /// this takes as much memory as the order: 4 bytes per node, 8 from 2³² nodes on.
    ///
    /// # Errors
    /// - If the order has another number of nodes.
    /// - If the region has another size than [`bytes`](Self::bytes) or is not aligned to 8 bytes.
    /// - If an id of the dataset is not a node. This may be the first check, because a stamp can be older than the
    ///   file.
    ///
    /// # Panics
    /// If `dataset` is not the layout's, or was opened with [`Verify::HeadersOnly`](crate::Verify::HeadersOnly) and its
    /// `indptr` is wrong.
    pub fn fill(&self, dataset: &Dataset, order: &NodeOrder, region: &mut [u8]) -> Result<(), GraphError> {
        assert_eq!(*self, ReorderedLayout::new(dataset), "the layout is of another dataset");
        check_length(dataset, order)?;
        self.check_region(region)?;
        let places = order.places();
        let csc = dataset.csc();

        // The arrays in the order of the layout, each split off the front of the rest.
        let (mut rest, mut cut) = (region, 0);
        let mut array = |range: &Range<usize>| {
            let (_, from_start) = std::mem::take(&mut rest).split_at_mut(range.start - cut);
            let (array, after) = from_start.split_at_mut(range.len());
            (rest, cut) = (after, range.end);
            array
        };
        let ends: &mut [i64] = bytemuck::cast_slice_mut(array(&self.indptr));
        write_ends(csc.indptr, order, ends);
        let lists = Lists { from: csc.indptr, to: ends, order };
        let ids = array(&self.indices);
        let moved =
            if self.narrow {
                // A place is below the number of nodes, and that is below 2^31.
                let ids: &mut [i32] = bytemuck::cast_slice_mut(ids);
                match csc.indices {
                    Indices::I32(old) => lists
                        .write(0..old.len(), old, ids, |id| places.find(id.into()).map(|place| place as i32)),
                    Indices::I64(old) => {
                        lists.write(0..old.len(), old, ids, |id| places.find(id).map(|place| place as i32))
                    }
                }
            } else {
                let ids: &mut [i64] = bytemuck::cast_slice_mut(ids);
                match csc.indices {
                    Indices::I32(old) => lists
                        .write(0..old.len(), old, ids, |id| places.find(id.into()).map(|place| place as i64)),
                    Indices::I64(old) => {
                        lists.write(0..old.len(), old, ids, |id| places.find(id).map(|place| place as i64))
                    }
                }
            };
        moved.map_err(|position| dataset.wrong_neighbour(position))?;
        by_place(order, 0, bytemuck::cast_slice_mut(array(&self.to_dataset)), |node| node as i64);
        if let Some(range) = &self.original_ids {
            let original_ids = dataset.original_ids();
            let ids: &mut [i64] = bytemuck::cast_slice_mut(array(range));
            by_place(order, 0, ids, |node| original_id(original_ids, node));
        }
        for (split, range) in Split::ALL.into_iter().zip(&self.splits) {
            let moved = places.of_all(dataset.split(split), bytemuck::cast_slice_mut(array(range)));
            moved.map_err(|position| dataset.wrong_split_id(split, position))?;
        }
        Ok(())
    }

    /// The graph in `region`, written by [`fill`](Self::fill) in this process or another.
    ///
    /// # Errors
    /// If the region has another size than [`bytes`](Self::bytes) or is not aligned to 8 bytes.
    pub fn view<'a>(&self, region: &'a [u8]) -> Result<ReorderedView<'a>, GraphError> {
        self.check_region(region)?;
        let longs = |range: &Range<usize>| -> &'a [i64] { bytemuck::cast_slice(&region[range.clone()]) };
        let ids = &region[self.indices.clone()];
        let to_dataset = longs(&self.to_dataset);
        Ok(ReorderedView {
            csc: Csc {
                indptr: longs(&self.indptr),
                indices: if self.narrow {
                    Indices::I32(bytemuck::cast_slice(ids))
                } else {
                    Indices::I64(bytemuck::cast_slice(ids))
                },
                // In a dataset that was never reordered, the original ids are its own ids.
                original_ids: Some(self.original_ids.as_ref().map_or(to_dataset, longs)),
                // Degrees are those of the dataset, indexed by its own ids.
                degrees: None,
            },
            to_dataset,
            splits: [longs(&self.splits[0]), longs(&self.splits[1]), longs(&self.splits[2])],
        })
    }

    fn check_region(&self, region: &[u8]) -> Result<(), GraphError> {
        let refuse = |message: String| Err(GraphError::usage("the region of a reordered graph", message));
        if region.len() != self.bytes {
            let (found, wanted, nodes) = (region.len(), self.bytes, self.nodes);
            return refuse(format!("it has {found} bytes, but a graph of {nodes} nodes needs {wanted}"));
        }
        // The offsets are multiples of 64, so the start decides the alignment.
        if !(region.as_ptr() as usize).is_multiple_of(align_of::<i64>()) {
            return refuse(format!("it starts at {:p}, which is not a multiple of 8", region.as_ptr()));
        }
        Ok(())
    }
}
