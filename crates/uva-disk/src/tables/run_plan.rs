//! Planning of reads for runs of rows of several tables.

use std::ops::Range;

use crate::extent::Extent;
use crate::files::open_file::PAGE;
use crate::shape::TableShape;

/// The maximum size of a read in bytes. Several such reads are in flight at the same time, so longer reads are not
/// faster, and every buffer of a reader has this size.
const LONGEST: usize = 256 << 10;

/// A requested part of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtentPart {
    /// The offset in the extent.
    pub from: usize,
    /// The offset among the requested bytes of its table.
    pub to: usize,
    pub bytes: usize,
}

/// A planner that reads the runs of each table in the order of the file. A run is read at once, and adjacent runs
/// together, up to [`LONGEST`] bytes per read.
///
/// The overhead is less than two pages per run and table. A run that is read alone has less than a page before it and
/// less than a page after it. Two runs that share a read are less than two pages apart.
pub(crate) struct RunPlanner {
    shapes: Vec<TableShape>,
    alignment: usize,
    longest: usize,
    /// The requested runs in the order of the rows, each with the number of rows in earlier runs.
    runs: Vec<(Range<u64>, u64)>,
    extents: Vec<Extent>,
    parts: Vec<ExtentPart>,
    /// The first part in each extent, and the number of parts at the end.
    firsts: Vec<usize>,
}

impl RunPlanner {
    /// Creates a planner for reads in blocks of `alignment` bytes of these tables, one per file.
    pub fn new(shapes: Vec<TableShape>, alignment: usize) -> Self {
        let longest = Self::longest(shapes.iter(), alignment);
        let (extents, parts) = (Vec::new(), Vec::new());
        Self { shapes, alignment, longest, runs: Vec::new(), extents, parts, firsts: Vec::new() }
    }

    /// The longest extent of any plan: whole blocks.
    pub fn longest<'s>(shapes: impl Iterator<Item = &'s TableShape>, alignment: usize) -> usize {
        let largest = shapes.map(TableShape::end).max().unwrap_or(0);
        let whole = usize::try_from(largest).unwrap_or(LONGEST).min(LONGEST);
        whole.next_multiple_of(alignment).max(alignment)
    }

    /// Plans the reads of these runs of rows, for every table. Runs are not empty, and no row is in two runs.
    pub fn plan(&mut self, runs: &[Range<usize>]) {
        let Self { shapes, alignment, longest, runs: sorted, extents, parts, firsts } = self;
        sorted.clear();
        let mut before = 0;
        for run in runs {
            sorted.push((run.start as u64..run.end as u64, before));
            before += run.len() as u64;
        }
        sorted.sort_unstable_by_key(|(run, _)| run.start);
        extents.clear();
        parts.clear();
        firsts.clear();
        let (block, longest) = (*alignment as u64, *longest as u64);
        let page = |byte: u64| byte / PAGE as u64;
        for (file, shape) in shapes.iter().enumerate() {
            let row_bytes = shape.row_bytes as u64;
            // The current extent: its start, and the end of its last part.
            let mut open: Option<(u64, u64)> = None;
            let mut close = |(begins, ends): (u64, u64)| {
                let needed = (ends - begins) as usize;
                let length = needed.next_multiple_of(*alignment);
                extents.push(Extent { file, offset: begins, length, needed });
            };
            for (run, before) in sorted.iter() {
                let mut begins = shape.offset + run.start * row_bytes;
                let run_ends = shape.offset + run.end * row_bytes;
                let mut to = before * row_bytes;
                while begins < run_ends {
                    let joins = open.filter(|&(first, last)| {
                        page(begins) <= page(last - 1) + 1 && begins < first + longest
                    });
                    let first = match joins {
                        Some((first, _)) => first,
                        None => {
                            open.map(&mut close);
                            firsts.push(parts.len());
                            begins - begins % block
                        }
                    };
                    // A full extent ends with a block, so that the next one begins there.
                    let ends = run_ends.min(first + longest);
                    open = Some((first, ends));
                    let bytes = ends - begins;
                    parts.push(ExtentPart {
                        from: (begins - first) as usize,
                        to: to as usize,
                        bytes: bytes as usize,
                    });
                    (begins, to) = (ends, to + bytes);
                }
            }
            open.map(&mut close);
        }
        firsts.push(parts.len());
    }

    /// The reads: table by table, each in the order of its file.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// The requested parts of the extent with this index.
    pub fn parts_in(&self, extent: usize) -> &[ExtentPart] {
        &self.parts[self.firsts[extent]..self.firsts[extent + 1]]
    }

    /// The number of requested bytes.
    pub fn asked(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn near_runs_are_read_together_and_a_long_run_in_whole_blocks() {
        let shape = |row_bytes| TableShape { offset: 4096, rows: 10_000, row_bytes };
        let mut planner = RunPlanner::new(vec![shape(100), shape(400)], 4096);
        planner.plan(&[2000..2010, 0..30, 40..50]);
        let extent = |file, offset, length, needed| Extent { file, offset, length, needed };
        let part = |from, to, bytes| ExtentPart { from, to, bytes };
        assert_eq!(planner.extents()[0], extent(0, 4096, 8192, 5000));
        assert_eq!(planner.parts_in(0), [part(0, 1000, 3000), part(4000, 4000, 1000)]);
        // Rows 2000 to 2009 come first in the request, and last in the file.
        assert_eq!(planner.extents()[1], extent(0, 200_704, 8192, 4392));
        assert_eq!(planner.parts_in(1), [part(3392, 0, 1000)]);
        // Of the second table rows 30 to 39 are 4000 bytes: less than two pages are in between.
        assert_eq!(planner.extents()[2], extent(1, 4096, 20_480, 20_000));
        assert_eq!(planner.asked(), 50 * 500);
        // Adjacent runs are merged.
        planner.plan(&[0..5000, 5000..10_000]);
        let of_first: Vec<_> = planner.extents().iter().filter(|extent| extent.file == 0).collect();
        assert_eq!(of_first.len(), 4);
        assert!(of_first[..3].iter().all(|extent| extent.length == LONGEST && extent.needed == LONGEST));
        planner.plan(&[]);
        assert!(planner.extents().is_empty());
    }

    proptest! {
        #[test]
        fn every_byte_comes_once_with_less_than_two_extra_pages_per_run(
            row_bytes in proptest::collection::vec(prop_oneof![1usize..=600, Just(4096), 5000usize..20_000], 1..4),
            offset in prop_oneof![Just(4096u64), 0u64..5000],
            block in prop_oneof![Just(512usize), Just(4096)],
            cuts in proptest::collection::btree_set(0usize..60, 0..40),
            order in any::<u64>(),
        ) {
            let shapes: Vec<_> =
                row_bytes.iter().map(|&row_bytes| TableShape { offset, rows: 60, row_bytes }).collect();
            // Every other stretch between two cuts is a run.
            let cuts: Vec<usize> = cuts.into_iter().collect();
            let mut runs: Vec<_> = cuts.chunks_exact(2).map(|cut| cut[0]..cut[1]).collect();
            let turn = order as usize % runs.len().max(1);
            runs.rotate_left(turn);
            let mut planner = RunPlanner::new(shapes.clone(), block);
            planner.plan(&runs);
            let rows: usize = runs.iter().map(ExactSizeIterator::len).sum();
            let mut seen: Vec<Vec<u8>> = row_bytes.iter().map(|bytes| vec![0; rows * bytes]).collect();
            let mut read = 0;
            let mut last = None;
            for (index, extent) in planner.extents().iter().enumerate() {
                prop_assert!(extent.offset.is_multiple_of(block as u64) && extent.length.is_multiple_of(block));
                prop_assert!(extent.needed <= extent.length && extent.length < extent.needed + block);
                prop_assert!(extent.length <= RunPlanner::longest(shapes.iter(), block));
                prop_assert!(last.is_none_or(|last| last < (extent.file, extent.offset)));
                last = Some((extent.file, extent.offset));
                read += extent.length;
                let bytes = row_bytes[extent.file];
                prop_assert!(!planner.parts_in(index).is_empty());
                for part in planner.parts_in(index) {
                    prop_assert!(part.from + part.bytes <= extent.needed);
                    // The part's first byte in the file is the first requested byte.
                    let (row, mut before) = (part.to / bytes, 0);
                    let run = runs.iter().find(|run| {
                        let found = row < before + run.len();
                        if !found { before += run.len(); }
                        found
                    }).unwrap();
                    let at = offset + ((run.start + row - before) * bytes + part.to % bytes) as u64;
                    prop_assert_eq!(extent.offset + part.from as u64, at);
                    seen[extent.file][part.to..part.to + part.bytes].iter_mut().for_each(|times| *times += 1);
                }
            }
            prop_assert!(seen.iter().flatten().all(|&times| times == 1));
            let asked: usize = row_bytes.iter().map(|bytes| rows * bytes).sum();
            prop_assert_eq!(planner.asked(), asked as u64);
            prop_assert!(read <= asked + 2 * PAGE * runs.len() * row_bytes.len());
        }
    }
}
