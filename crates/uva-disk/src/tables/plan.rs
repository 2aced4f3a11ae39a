//! Planning of reads for the rows of a batch.

use crate::extent::Extent;
use crate::files::open_file::PAGE;
use crate::shape::TableShape;

/// The size of a read, in bytes, from which no further row is added to it. On a virtual disk 16 concurrent random reads
/// of 64 KiB reach the rate of large reads.
const ENOUGH: usize = 64 << 10;

/// A planner that reads each page once, and adjacent pages in one read, in the order of the file.
pub(crate) struct Planner {
    shape: TableShape,
    alignment: usize,
    /// The requested rows, each with its place in the batch, in the order of the file.
    picks: Vec<(u64, usize)>,
    extents: Vec<Extent>,
    /// The first pick in each extent, and the number of picks at the end.
    firsts: Vec<usize>,
}

impl Planner {
    /// Creates a planner for reads in blocks of `alignment` bytes.
    pub fn new(shape: TableShape, alignment: usize) -> Self {
        Self { shape, alignment, picks: Vec::new(), extents: Vec::new(), firsts: Vec::new() }
    }

    /// The longest extent of any plan. The file contains the table, so its rows are no longer than a file.
    pub fn longest(shape: &TableShape, alignment: usize) -> usize {
        if shape.rows == 0 {
            return ENOUGH;
        }
        ENOUGH.max((shape.row_bytes + alignment).next_multiple_of(alignment))
    }

    /// Plans the reads of these rows, each with its place. They may repeat.
    pub fn plan(&mut self, rows: impl Iterator<Item = (usize, u64)>) {
        let Self { shape, alignment, picks, extents, firsts } = self;
        picks.clear();
        picks.extend(rows.map(|(place, row)| (row, place)));
        picks.sort_unstable();
        extents.clear();
        firsts.clear();
        let longest = Self::longest(shape, *alignment) as u64;
        let block = *alignment as u64;
        let page = |byte: u64| byte / PAGE as u64;
        // The current extent: its start, and the end of its last row.
        let mut open: Option<(u64, u64)> = None;
        let mut close = |(begins, ends): (u64, u64)| {
            let needed = (ends - begins) as usize;
            extents.push(Extent {
                file: 0,
                offset: begins,
                length: needed.next_multiple_of(*alignment),
                needed,
            });
        };
        for (pick, &(row, _)) in picks.iter().enumerate() {
            let begins = shape.offset + row * shape.row_bytes as u64;
            let ends = begins + shape.row_bytes as u64;
            let joins = open.filter(|&(first, last)| {
                page(begins) <= page(last - 1) + 1 && (ends - first).next_multiple_of(block) <= longest
            });
            open = Some(match joins {
                // A repeated row ends at the end of the extent.
                Some((first, _)) => (first, ends),
                None => {
                    open.map(&mut close);
                    firsts.push(pick);
                    (begins - begins % block, ends)
                }
            });
        }
        open.map(&mut close);
        firsts.push(picks.len());
    }

    /// The reads, in the order of the file.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// The number of requested rows.
    pub fn picks(&self) -> usize {
        self.picks.len()
    }

    /// The rows in the extent of this index, as place and offset of the row in the extent.
    pub fn rows_in(&self, extent: usize) -> impl Iterator<Item = (usize, usize)> {
        let begins = self.extents[extent].offset;
        let picks = &self.picks[self.firsts[extent]..self.firsts[extent + 1]];
        picks.iter().map(move |&(row, place)| {
            let at = self.shape.offset + row * self.shape.row_bytes as u64 - begins;
            (place, at as usize)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn planned(shape: TableShape, alignment: usize, rows: &[u64]) -> Planner {
        let mut planner = Planner::new(shape, alignment);
        planner.plan(rows.iter().copied().enumerate());
        planner
    }

    #[test]
    fn rows_of_one_page_and_of_the_next_are_one_read_and_others_are_not() {
        let shape = TableShape { offset: 128, rows: 1000, row_bytes: 400 };
        // Row 9 reaches into the second page, row 20 into the third; row 60 is in the sixth.
        let planner = planned(shape, 4096, &[60, 0, 20, 9, 0]);
        assert_eq!(
            planner.extents(),
            [
                Extent { file: 0, offset: 0, length: 12288, needed: 128 + 21 * 400 },
                Extent { file: 0, offset: 20480, length: 4096, needed: 128 + 61 * 400 - 20480 }
            ]
        );
        let first: Vec<_> = planner.rows_in(0).collect();
        assert_eq!(first, [(1, 128), (4, 128), (3, 128 + 3600), (2, 128 + 8000)]);
        assert_eq!(planner.rows_in(1).collect::<Vec<_>>(), [(0, 128 + 24000 - 20480)]);
        assert!(planned(shape, 4096, &[]).extents().is_empty());
    }

    #[test]
    fn smaller_blocks_bring_fewer_bytes_of_the_same_pages() {
        let shape = TableShape { offset: 0, rows: 100, row_bytes: 512 };
        let planner = planned(shape, 512, &[1, 3, 40]);
        assert_eq!(
            planner.extents(),
            [
                Extent { file: 0, offset: 512, length: 1536, needed: 1536 },
                Extent { file: 0, offset: 20480, length: 512, needed: 512 }
            ]
        );
    }

    proptest! {
        #[test]
        fn rows_are_in_their_extents_which_are_aligned_bounded_and_ordered(
            row_bytes in prop_oneof![1usize..=600, Just(4096), 65530usize..65545],
            offset in 0u64..5000,
            block in prop_oneof![Just(512usize), Just(4096)],
            rows in proptest::collection::vec(0u64..3000, 0..300),
        ) {
            let shape = TableShape { offset, rows: 3000, row_bytes };
            let planner = planned(shape, block, &rows);
            let mut places = vec![0; rows.len()];
            let mut last = None;
            for (index, extent) in planner.extents().iter().enumerate() {
                prop_assert!(extent.offset.is_multiple_of(block as u64) && extent.length.is_multiple_of(block));
                prop_assert!(extent.needed <= extent.length && extent.length < extent.needed + block);
                prop_assert!(extent.length <= Planner::longest(&shape, block));
                prop_assert!(last.is_none_or(|last| last < extent.offset));
                last = Some(extent.offset);
                let mut any = false;
                for (place, at) in planner.rows_in(index) {
                    prop_assert_eq!(extent.offset + at as u64, offset + rows[place] * row_bytes as u64);
                    prop_assert!(at + row_bytes <= extent.needed);
                    places[place] += 1;
                    any = true;
                }
                prop_assert!(any);
            }
            prop_assert!(places.iter().all(|&times| times == 1));
        }
    }
}
