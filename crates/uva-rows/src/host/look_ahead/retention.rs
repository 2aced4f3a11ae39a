//! Which rows lie in memory: those that the known batches need, by Belady's rule, and before others those that were hit.
//!
//! The *window* is the batches that are known and have not had their turn. A row that is in memory at one of its uses may
//! be kept until the next: that saves a read. Each row that is kept takes a frame in all the gaps between two batches that
//! lie between. So a choice of what to keep is a set of intervals of which at most as many overlap as there are frames, and
//! the largest such set saves the most reads. Taking intervals by their ends, the earliest first, and each that still has
//! a frame in all of its gaps, makes the largest. It is Belady's choice: what gives way is the row whose next use lies
//! farthest. Batches become known in their order, so an interval that comes later never ends earlier, and no choice is
//! regretted for a batch that becomes known later.
//!
//! Frames that no interval needs hold rows that are read ahead, and rows without a known use. Of the latter, SIEVE evicts:
//! a hand passes from the oldest to the newest, and takes the first that was not hit since it last passed.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use uva_disk::AheadRow;

use crate::cache::SlotMap;
use crate::error::GatherError;

/// The most batches of a window: uses are bits of a word.
pub(super) const MOST_BATCHES: usize = 63;

/// The most frames that the hand passes for a row without a known use. Where nearly all frames are promised, each of them
/// would otherwise be passed for each such row. A row with a promise gets its frame however far that is.
pub(super) const PASSED_AT_MOST: usize = 64;

const NONE: u32 = u32::MAX;

/// What a row has in memory.
#[derive(Debug)]
enum Frame {
    /// Nothing.
    None,
    /// A frame, into which it is being read.
    Reading,
    /// A frame with its bytes.
    Filled(Box<[u8]>),
}

/// A row that has a frame, or that a batch of the window needs.
#[derive(Debug)]
struct Row {
    id: i64,
    /// Bit `n mod 64`: batch `n` of the window needs it.
    uses: u64,
    /// Of these: it is in memory then, kept or read ahead.
    promised: u64,
    frame: Frame,
    /// It was hit since the hand passed.
    visited: bool,
    /// It was read ahead, and no batch has had it since.
    fresh: bool,
    newer: u32,
    older: u32,
}

/// Where a batch finds one of its rows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RowLocation<'k> {
    /// In memory. `fresh`: it was read ahead, and this is its first use.
    Here { bytes: &'k [u8], fresh: bool },
    /// It is being read.
    UnderWay,
    /// It has to be read.
    Nowhere,
}

/// The rows in memory, and what is known of their use.
#[derive(Debug)]
pub(super) struct ResidentRows {
    /// The place in `rows` of each row of the table.
    map: SlotMap,
    rows: Vec<Row>,
    /// Places in `rows` without a row.
    spare: Vec<u32>,
    row_bytes: usize,
    /// Frames at most.
    capacity: usize,
    /// Frames in use.
    frames: usize,
    /// Memory of frames that are not in use.
    free: Vec<Box<[u8]>>,
    /// The rows that each batch of the window needs, each once.
    window: VecDeque<Vec<u32>>,
    /// For each batch of the window: the frames that are promised in the gap before it.
    loads: VecDeque<usize>,
    /// The number of the window's first batch.
    first: u64,
    newest: u32,
    oldest: u32,
    hand: u32,
}

impl ResidentRows {
    /// At most `capacity` rows of a table of `table_rows` rows of `row_bytes` bytes.
    pub fn new(table_rows: usize, row_bytes: usize, capacity: usize) -> Result<Self, GatherError> {
        Ok(Self {
            map: SlotMap::new(table_rows)?,
            rows: Vec::new(),
            spare: Vec::new(),
            row_bytes,
            capacity,
            frames: 0,
            free: Vec::new(),
            window: VecDeque::new(),
            loads: VecDeque::new(),
            first: 0,
            newest: NONE,
            oldest: NONE,
            hand: NONE,
        })
    }

    /// Frames at most.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    fn place(&self, id: i64) -> Option<usize> {
        usize::try_from(self.map.slots()[id as usize]).ok()
    }

    fn bit(&self, position: usize) -> u64 {
        1 << ((self.first + position as u64) % 64)
    }

    /// Bits of batches as bits of positions in the window.
    fn positions(&self, bits: u64) -> u64 {
        bits.rotate_right((self.first % 64) as u32)
    }

    /// The position in the window of the batch that needs the row next, and whether the row is promised to it.
    fn next_use(&self, place: usize) -> Option<(usize, bool)> {
        let Row { uses, promised, .. } = self.rows[place];
        let uses = self.positions(uses);
        let next = uses.trailing_zeros() as usize;
        (uses != 0).then(|| (next, self.positions(promised) >> next & 1 == 1))
    }

    /// Whether its frame is promised to a batch.
    fn is_needed(&self, place: usize) -> bool {
        self.next_use(place).is_some_and(|(_, promised)| promised)
    }

    /// Whether the gaps before the batches at these positions have a frame left, each of them.
    fn has_room(&self, gaps: RangeInclusive<usize>) -> bool {
        self.loads.range(gaps).all(|&load| load < self.capacity)
    }

    fn promise(&mut self, place: usize, gaps: RangeInclusive<usize>) {
        self.rows[place].promised |= self.bit(*gaps.end());
        self.loads.range_mut(gaps).for_each(|load| *load += 1);
    }

    /// The row of the table, which then has a place.
    fn row(&mut self, id: i64) -> usize {
        if let Some(place) = self.place(id) {
            return place;
        }
        let row = Row {
            id,
            uses: 0,
            promised: 0,
            frame: Frame::None,
            visited: false,
            fresh: false,
            newer: NONE,
            older: NONE,
        };
        let place = match self.spare.pop() {
            Some(place) => {
                self.rows[place as usize] = row;
                place as usize
            }
            None => {
                self.rows.push(row);
                self.rows.len() - 1
            }
        };
        // As many as the table has rows at most, and slot maps count these by 32 bits.
        self.map.slots_mut()[id as usize] = place as i32;
        place
    }

    /// Forgets a row that has neither a frame nor a use.
    fn forget_if_idle(&mut self, place: usize) {
        let row = &self.rows[place];
        if row.uses == 0 && matches!(row.frame, Frame::None) {
            self.map.slots_mut()[row.id as usize] = -1;
            self.spare.push(place as u32);
        }
    }

    /// Takes in the batch behind the window's last, which needs these rows. They may repeat, and all are rows of the table.
    ///
    /// # Panics
    /// When the window has [`MOST_BATCHES`].
    pub fn expect(&mut self, ids: impl Iterator<Item = i64>) {
        let position = self.window.len();
        assert!(position < MOST_BATCHES, "a window of more than {MOST_BATCHES} batches");
        let bit = self.bit(position);
        self.loads.push_back(0);
        let mut needed = Vec::new();
        for id in ids {
            let place = self.row(id);
            if self.rows[place].uses & bit != 0 {
                continue;
            }
            // The gap in which its interval begins: behind its last use so far, or now.
            let uses = self.positions(self.rows[place].uses);
            let begins = match (uses, &self.rows[place].frame) {
                (0, Frame::None) => None,
                (0, _) => Some(0),
                (uses, _) => Some(64 - uses.leading_zeros() as usize),
            };
            self.rows[place].uses |= bit;
            needed.push(place as u32);
            // All intervals of this batch end here, and which of them comes first changes no number of reads.
            if let Some(begins) = begins.filter(|&begins| self.has_room(begins..=position)) {
                self.promise(place, begins..=position);
            }
        }
        self.window.push_back(needed);
    }

    /// The rows to be read ahead now, each with a frame: of the batches of the window in their order, as far as there are
    /// frames that no promise needs. Those of its first batch come first, and are counted.
    pub fn claim_reads(&mut self) -> (Vec<AheadRow>, usize) {
        let (mut wanted, mut of_first) = (Vec::new(), 0);
        'window: for position in 0..self.window.len() {
            for at in 0..self.window[position].len() {
                if !self.has_room(0..=position) {
                    break 'window;
                }
                let place = self.window[position][at] as usize;
                let awaits = matches!(self.rows[place].frame, Frame::None)
                    && self.next_use(place) == Some((position, false));
                if !awaits {
                    continue;
                }
                let Some(bytes) = self.take_frame(0, self.twice_round()) else { break 'window };
                self.promise(place, 0..=position);
                self.put(place, Frame::Reading, true);
                wanted.push(AheadRow { tag: place as u32, row: self.rows[place].id as u64, bytes });
                of_first += usize::from(position == 0);
            }
        }
        (wanted, of_first)
    }

    /// Takes over a row that was to be read, and was or not.
    pub fn arrived(&mut self, wanted: AheadRow, read: bool) {
        let place = wanted.tag as usize;
        if read {
            self.rows[place].frame = Frame::Filled(wanted.bytes);
            return;
        }
        self.free.push(wanted.bytes);
        self.unlink(place);
        self.frames -= 1;
        self.rows[place].frame = Frame::None;
        self.break_promise(place);
        self.forget_if_idle(place);
    }

    /// The row's next use will have to be read.
    fn break_promise(&mut self, place: usize) {
        if let Some((position, true)) = self.next_use(place) {
            self.rows[place].promised &= !self.bit(position);
            self.loads.range_mut(0..=position).for_each(|load| *load -= 1);
        }
    }

    /// Where the row is now.
    pub fn find(&self, id: i64) -> RowLocation<'_> {
        let Some(place) = self.place(id) else { return RowLocation::Nowhere };
        let row = &self.rows[place];
        match &row.frame {
            Frame::None => RowLocation::Nowhere,
            Frame::Reading => RowLocation::UnderWay,
            Frame::Filled(bytes) => RowLocation::Here { bytes, fresh: row.fresh },
        }
    }

    /// Makes the window begin with a batch of these rows: forgets the window, unless it does.
    pub fn begin(&mut self, mut ids: impl Iterator<Item = i64>) {
        let bit = self.bit(0);
        let is_first = |id| self.place(id).is_some_and(|place| self.rows[place].uses & bit != 0);
        if self.window.is_empty() || ids.all(is_first) {
            return;
        }
        while let Some(needed) = self.window.pop_front() {
            for place in needed {
                let row = &mut self.rows[place as usize];
                let was_needed = row.uses != 0;
                (row.uses, row.promised) = (0, 0);
                if was_needed {
                    self.forget_if_idle(place as usize);
                }
            }
            self.first += 1;
        }
        self.loads.clear();
    }

    /// The batch with these rows has had its turn; `bytes` has those of the row at a place among the ids. It is the first of
    /// the window, unless that is empty.
    pub fn pass<'r>(
        &mut self,
        ids: impl Iterator<Item = (usize, i64)> + Clone,
        bytes: impl Fn(usize) -> &'r [u8],
    ) {
        let bit = self.bit(0);
        let needed = self.window.pop_front().unwrap_or_default();
        if self.loads.pop_front().is_some() {
            self.first += 1;
        }
        // Promises that have no frame yet: of rows that this batch has read.
        let mut owed = 0;
        for &place in &needed {
            let place = place as usize;
            self.rows[place].uses &= !bit;
            self.rows[place].promised &= !bit;
            owed += usize::from(matches!(self.rows[place].frame, Frame::None) && self.is_needed(place));
        }
        // Those that are promised come first: they have to find a frame.
        for promised in [true, false] {
            for (at, id) in ids.clone() {
                let place = match self.place(id) {
                    Some(place) => place,
                    None if promised => continue,
                    None => self.row(id),
                };
                let row = &mut self.rows[place];
                match &row.frame {
                    Frame::Filled(_) if promised => {
                        // What was read ahead for this batch has not been hit a second time.
                        row.visited |= !row.fresh;
                        row.fresh = false;
                    }
                    Frame::None => {
                        if promised == self.is_needed(place) {
                            let passed = if promised { self.twice_round() } else { PASSED_AT_MOST };
                            self.keep(place, owed, passed, bytes(at));
                            owed -= usize::from(promised);
                        }
                    }
                    Frame::Filled(_) | Frame::Reading => {}
                }
            }
        }
        for place in needed {
            self.forget_if_left(place as usize);
        }
    }

    /// Gives a row without a frame one with these bytes, if there is any among so many that the hand passes.
    fn keep(&mut self, place: usize, owed: usize, passed: usize, bytes: &[u8]) {
        match self.take_frame(owed, passed) {
            Some(mut frame) => {
                frame.copy_from_slice(bytes);
                self.put(place, Frame::Filled(frame), false);
            }
            None => {
                self.break_promise(place);
                self.forget_if_idle(place);
            }
        }
    }

    /// As [`forget_if_idle`](Self::forget_if_idle), of a row that may have been forgotten already.
    fn forget_if_left(&mut self, place: usize) {
        if self.place(self.rows[place].id) == Some(place) {
            self.forget_if_idle(place);
        }
    }

    /// As many frames as the hand passes until it has found each that may go: behind the first round, no row is visited
    /// that may.
    fn twice_round(&self) -> usize {
        2 * self.frames + 1
    }

    /// Memory for a row: a frame that is not in use, or one that SIEVE takes away, if it is among the next `passed` of the
    /// hand. Beside the promises that have a frame, `owed` have none yet.
    fn take_frame(&mut self, owed: usize, passed: usize) -> Option<Box<[u8]>> {
        if self.frames < self.capacity {
            self.frames += 1;
            return Some(self.free.pop().unwrap_or_else(|| vec![0; self.row_bytes].into()));
        }
        let needed = self.loads.front().map_or(0, |load| load.saturating_sub(owed));
        if self.frames <= needed {
            return None;
        }
        let mut place = if self.hand == NONE { self.oldest } else { self.hand };
        for _ in 0..passed {
            if place == NONE {
                return None;
            }
            let at = place as usize;
            let newer = self.rows[at].newer;
            if !self.is_needed(at) && matches!(self.rows[at].frame, Frame::Filled(_)) {
                if !self.rows[at].visited {
                    self.hand = newer;
                    self.unlink(at);
                    let frame = std::mem::replace(&mut self.rows[at].frame, Frame::None);
                    self.forget_if_idle(at);
                    let Frame::Filled(bytes) = frame else { return None };
                    return Some(bytes);
                }
                self.rows[at].visited = false;
            }
            place = if newer == NONE { self.oldest } else { newer };
        }
        // The next row goes on from here.
        self.hand = place;
        None
    }

    /// Gives the row a frame, as the newest.
    fn put(&mut self, place: usize, frame: Frame, fresh: bool) {
        let newest = std::mem::replace(&mut self.newest, place as u32);
        let row = &mut self.rows[place];
        row.frame = frame;
        (row.visited, row.fresh) = (false, fresh);
        (row.newer, row.older) = (NONE, newest);
        match newest {
            NONE => self.oldest = place as u32,
            newest => self.rows[newest as usize].newer = place as u32,
        }
    }

    fn unlink(&mut self, place: usize) {
        let Row { newer, older, .. } = self.rows[place];
        if self.hand == place as u32 {
            self.hand = newer;
        }
        match newer {
            NONE => self.newest = older,
            newer => self.rows[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.rows[older as usize].newer = newer,
        }
    }

    /// Uses in the window that will have to be read, as far as is known.
    #[cfg(test)]
    pub fn unpromised(&self) -> usize {
        let of = |position: usize| {
            let bit = self.bit(position);
            self.window[position]
                .iter()
                .filter(|&&place| self.rows[place as usize].promised & bit == 0)
                .count()
        };
        (0..self.window.len()).map(of).sum()
    }

    /// The rows in memory, and on their way there.
    #[cfg(test)]
    pub fn ids(&self) -> Vec<i64> {
        let held = |row: &&Row| !matches!(row.frame, Frame::None) && self.place(row.id).is_some();
        self.rows.iter().filter(held).map(|row| row.id).collect()
    }
}
