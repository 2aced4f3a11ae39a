//! Retention of rows in memory: first those that known batches need, by Belady's rule, then those that were hit.
//!
//! The *window* consists of the known batches that have not been processed. A row in memory at one of its uses may be
//! kept until the next, which saves a read. A kept row takes a frame in each gap between batches up to that use. So a
//! choice of rows to keep is a set of intervals, with at most as many overlaps as frames, and the largest such set
//! saves the most reads. The largest set results from taking intervals in the order of their ends, if a frame is left
//! in all of their gaps. This is Belady's rule: the row whose next use is farthest is evicted. Batches become known in
//! order, so a later interval never ends earlier, and a later batch never invalidates a choice.
//!
//! Frames that no interval needs hold rows that are read ahead, and rows without a known use. The latter are evicted by
//! SIEVE: a hand passes from the oldest to the newest, and evicts the first that was not hit since its last pass.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use uva_disk::AheadRow;

use crate::cache::SlotMap;
use crate::error::GatherError;

/// The maximum number of batches of a window: uses are bits of a word.
pub(super) const MOST_BATCHES: usize = 63;

/// The maximum number of frames that the hand passes for a row without a known use. If nearly all frames are promised,
/// the hand would otherwise pass all of them for each such row. The search for a promised row is not limited.
pub(super) const PASSED_AT_MOST: usize = 64;

const NONE: u32 = u32::MAX;

/// The frame of a row.
#[derive(Debug)]
enum Frame {
    /// No frame.
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
    /// Bit `n mod 64` is set if batch `n` of the window needs the row.
    uses: u64,
    /// The subset of `uses` at which the row will be in memory, kept or read ahead.
    promised: u64,
    frame: Frame,
    /// Whether the row was hit since the hand passed.
    visited: bool,
    /// Whether the row was read ahead and has not been used since.
    fresh: bool,
    newer: u32,
    older: u32,
}

/// The location of a row.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RowLocation<'k> {
    /// In memory. `fresh` if it was read ahead and this is its first use.
    Here { bytes: &'k [u8], fresh: bool },
    /// Being read.
    UnderWay,
    /// Not in memory.
    Nowhere,
}

/// The rows in memory, and their known uses.
#[derive(Debug)]
pub(super) struct ResidentRows {
    /// The place in `rows` of each row of the table.
    map: SlotMap,
    rows: Vec<Row>,
    /// Free places in `rows`.
    spare: Vec<u32>,
    row_bytes: usize,
    /// The maximum number of frames.
    capacity: usize,
    /// The number of frames in use.
    frames: usize,
    /// Memory of frames that are not in use.
    free: Vec<Box<[u8]>>,
    /// The rows that each batch of the window needs, each once.
    window: VecDeque<Vec<u32>>,
    /// For each batch of the window: the number of frames promised in the gap before it.
    loads: VecDeque<usize>,
    /// The number of the window's first batch.
    first: u64,
    newest: u32,
    oldest: u32,
    hand: u32,
}

impl ResidentRows {
    /// Creates an empty state for at most `capacity` rows of a table of `table_rows` rows of `row_bytes` bytes.
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

    /// The maximum number of frames.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    fn place(&self, id: i64) -> Option<usize> {
        usize::try_from(self.map.slots()[id as usize]).ok()
    }

    fn bit(&self, position: usize) -> u64 {
        1 << ((self.first + position as u64) % 64)
    }

    /// Converts bits of batches to bits of positions in the window.
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

    /// Whether the row's frame is promised to a batch.
    fn is_needed(&self, place: usize) -> bool {
        self.next_use(place).is_some_and(|(_, promised)| promised)
    }

    /// Whether each gap before the batches at these positions has a free frame.
    fn has_room(&self, gaps: RangeInclusive<usize>) -> bool {
        self.loads.range(gaps).all(|&load| load < self.capacity)
    }

    fn promise(&mut self, place: usize, gaps: RangeInclusive<usize>) {
        self.rows[place].promised |= self.bit(*gaps.end());
        self.loads.range_mut(gaps).for_each(|load| *load += 1);
    }

    /// The place of a row of the table, which is created if missing.
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
        // At most the number of rows of the table, which fits 32 bits in slot maps.
        self.map.slots_mut()[id as usize] = place as i32;
        place
    }

    /// Removes a row that has neither a frame nor a use.
    fn forget_if_idle(&mut self, place: usize) {
        let row = &self.rows[place];
        if row.uses == 0 && matches!(row.frame, Frame::None) {
            self.map.slots_mut()[row.id as usize] = -1;
            self.spare.push(place as u32);
        }
    }

    /// Appends a batch that needs these rows to the window. Ids may repeat, and all must be rows of the table.
    ///
    /// # Panics
    /// If the window has [`MOST_BATCHES`].
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
            // The gap in which the row's interval begins: after its last use so far, or now.
            let uses = self.positions(self.rows[place].uses);
            let begins = match (uses, &self.rows[place].frame) {
                (0, Frame::None) => None,
                (0, _) => Some(0),
                (uses, _) => Some(64 - uses.leading_zeros() as usize),
            };
            self.rows[place].uses |= bit;
            needed.push(place as u32);
            // All intervals of this batch end here, and their order does not change the number of reads.
            if let Some(begins) = begins.filter(|&begins| self.has_room(begins..=position)) {
                self.promise(place, begins..=position);
            }
        }
        self.window.push_back(needed);
    }

    /// The rows to read ahead now, each with a frame: those of the window's batches in order, as far as unpromised
    /// frames are available. Also returns the number of rows for the first batch, which come first.
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

    /// Handles the result of a read, which may have failed.
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

    /// Cancels a promise, so that the row must be read for its next use.
    fn break_promise(&mut self, place: usize) {
        if let Some((position, true)) = self.next_use(place) {
            self.rows[place].promised &= !self.bit(position);
            self.loads.range_mut(0..=position).for_each(|load| *load -= 1);
        }
    }

    /// The current location of the row.
    pub fn find(&self, id: i64) -> RowLocation<'_> {
        let Some(place) = self.place(id) else { return RowLocation::Nowhere };
        let row = &self.rows[place];
        match &row.frame {
            Frame::None => RowLocation::Nowhere,
            Frame::Reading => RowLocation::UnderWay,
            Frame::Filled(bytes) => RowLocation::Here { bytes, fresh: row.fresh },
        }
    }

    /// Makes the window begin with a batch of these rows. Clears the window if it does not.
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

    /// Records that the batch with these rows has been processed. `bytes` returns the row at a place among the ids. The
    /// batch is the first of the window, unless that is empty.
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
        // Promises without a frame yet, for rows that this batch has read.
        let mut owed = 0;
        for &place in &needed {
            let place = place as usize;
            self.rows[place].uses &= !bit;
            self.rows[place].promised &= !bit;
            owed += usize::from(matches!(self.rows[place].frame, Frame::None) && self.is_needed(place));
        }
        // Promised rows come first, since they must get a frame.
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
                        // Rows read ahead for this batch have not been hit a second time.
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

    /// Gives a row a frame with these bytes, if the hand finds one within `passed` frames.
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

    /// Like [`forget_if_idle`](Self::forget_if_idle), for a row that may have been removed already.
    fn forget_if_left(&mut self, place: usize) {
        if self.place(self.rows[place].id) == Some(place) {
            self.forget_if_idle(place);
        }
    }

    /// The number of frames that the hand passes until it has found every evictable one: after the first round, no
    /// evictable row is marked as visited.
    fn twice_round(&self) -> usize {
        2 * self.frames + 1
    }

    /// Memory for a row: an unused frame, or one that SIEVE evicts within the next `passed` frames of the hand. `owed`
    /// promises do not have a frame yet.
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
        // The next search continues from here.
        self.hand = place;
        None
    }

    /// Assigns a frame to the row, as the newest.
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

    /// The number of uses in the window that must be read, as far as known.
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

    /// The rows in memory or being read.
    #[cfg(test)]
    pub fn ids(&self) -> Vec<i64> {
        let held = |row: &&Row| !matches!(row.frame, Frame::None) && self.place(row.id).is_some();
        self.rows.iter().filter(held).map(|row| row.id).collect()
    }
}
