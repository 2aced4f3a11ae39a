//! Every gather kernel compared with a plain loop: row sizes, base offsets, output offsets, id types, bad ids, cached
//! rows.
//!
//! The output is surrounded by guard bytes that must not change. Every read of table memory is logged over a wide range
//! around the table: `naive` and `shift` read only requested rows, `wide` the aligned 16-byte pieces that contain a
//! byte of such a row.

use std::thread;

use uva_kernel_sim::AccessLog;
use uva_kernel_sim::gather::{GatherShape, gather};
use uva_kernels::gather::{GatherArguments, GatherReport, IdWidth, Kernel};

const GUARD: usize = 64;
const UNTOUCHED: u8 = 0xEE;

/// Bytes that differ from their neighbours at any distance that a kernel could be wrong by.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mix = |at: u64| {
        let mixed = (at + seed.wrapping_mul(0xD1B5_4A32_D192_ED03)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 56
    };
    (0..length as u64).map(|at| mix(at) as u8).collect()
}

/// Memory whose first byte is the given number of bytes into a line, with a page's worth of others on either side.
struct Placed {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Placed {
    const AROUND: usize = 256;

    fn new(bytes: usize, offset: usize, seed: u64) -> Placed {
        let memory = noise(bytes + 2 * Placed::AROUND + 256, seed);
        let address = memory.as_ptr() as usize + Placed::AROUND;
        let start = address.next_multiple_of(128) + offset - memory.as_ptr() as usize;
        Placed { memory, start, bytes }
    }

    fn row(&self, row: usize, row_bytes: usize) -> &[u8] {
        &self.memory[self.start..][..self.bytes][row * row_bytes..][..row_bytes]
    }

    fn address(&self) -> *const u8 {
        self.memory[self.start..].as_ptr()
    }

    fn watched(&self) -> std::ops::Range<u64> {
        let range = self.memory.as_ptr_range();
        range.start as u64..range.end as u64
    }
}

/// One gather. `slots` has a slot for each row of the table in the cached form.
struct Case<'c> {
    kernel: Kernel,
    width: IdWidth,
    row_bytes: usize,
    base: usize,
    out_offset: usize,
    rows: usize,
    ids: &'c [i64],
    shape: GatherShape,
    slots: Option<(&'c [i32], usize)>,
}

impl Case<'_> {
    /// Gathers and checks everything; returns the failure with the case.
    fn check(&self) {
        let Case { kernel, width, row_bytes, base, out_offset, .. } = *self;
        let name = format!(
            "{kernel} {}, {row_bytes} bytes, base offset {base}, output offset {out_offset}, {} ids, {:?}",
            width.name(),
            self.ids.len(),
            self.shape
        );
        let table = Placed::new(self.rows * row_bytes, base, 1);
        let cached_rows =
            self.slots.map_or(0, |(slots, _)| slots.iter().map(|slot| slot + 1).max().unwrap_or(0));
        let cache_offset = self.slots.map_or(0, |(_, offset)| offset);
        // Bytes other than the table's, so that the source of each row is visible.
        let cache = Placed::new(cached_rows.max(0) as usize * row_bytes, cache_offset, 2);
        let mut out = vec![UNTOUCHED; self.ids.len() * row_bytes + 2 * GUARD + 16];
        let out_start =
            (out.as_ptr() as usize + GUARD).next_multiple_of(16) + out_offset - out.as_ptr() as usize;
        let narrow_ids: Vec<i32> = self.ids.iter().map(|&id| id as i32).collect();
        let mut report = GatherReport {
            stamp: 77,
            bad_position: 3,
            next: 9,
            next_hit: 9,
            hits: 5,
            ..GatherReport::default()
        };
        let arguments = GatherArguments {
            table: table.address() as u64,
            rows: self.rows as u64,
            row_bytes: row_bytes as u64,
            ids: match width {
                IdWidth::I32 => narrow_ids.as_ptr() as u64,
                IdWidth::I64 => self.ids.as_ptr() as u64,
            },
            count: self.ids.len() as u64,
            out: out[out_start..].as_mut_ptr() as u64,
            report: (&raw mut report) as u64,
            slot_map: self.slots.map_or(0, |(slots, _)| slots.as_ptr() as u64),
            cache: cache.address() as u64,
            order: 0,
        };
        let mut log = AccessLog::new(table.watched());
        // SAFETY: all memory has the given sizes, and at least 16 bytes around it.
        unsafe { gather(kernel, width, arguments, self.shape, Some(&mut log)) }
            .unwrap_or_else(|error| panic!("{name}: {error}"));

        let valid = |id: i64| (0..self.rows as i64).contains(&id);
        let mut expected = vec![UNTOUCHED; out.len()];
        let (mut hits, mut from_table) = (0, vec![false; self.rows]);
        for (position, &id) in self.ids.iter().enumerate().filter(|(_, id)| valid(**id)) {
            let slot = self.slots.map_or(-1, |(slots, _)| slots[id as usize]);
            let row = if slot < 0 {
                table.row(id as usize, row_bytes)
            } else {
                cache.row(slot as usize, row_bytes)
            };
            expected[out_start + position * row_bytes..][..row_bytes].copy_from_slice(row);
            hits += u64::from(slot >= 0);
            from_table[id as usize] |= slot < 0;
        }
        if let Some(at) = (0..out.len()).find(|&at| out[at] != expected[at]) {
            panic!(
                "{name}: output byte {} is {}, not {}",
                at as i64 - out_start as i64,
                out[at],
                expected[at]
            );
        }
        let bad = self.ids.iter().position(|&id| !valid(id));
        assert_eq!(report.bad_position, bad.map_or(u64::MAX, |at| at as u64), "{name}: first bad position");
        assert_eq!(report.bad_id, bad.map_or(0, |at| self.ids[at]), "{name}: first bad id");
        assert_eq!((report.stamp, report.hits), (1, hits), "{name}: stamp and hits");
        assert!(report.began_ns <= report.ended_ns, "{name}: ended before it began");

        // A read may touch only requested rows; in `wide` it may extend beyond their ends, in the others not.
        let start = table.address() as u64;
        let end = start + table.bytes as u64;
        for lane in log.instructions.iter().flat_map(|instruction| &instruction.lanes) {
            let (first, behind) = (lane.address.max(start), (lane.address + u64::from(lane.bytes)).min(end));
            let inside = first < behind && {
                let mut rows =
                    (first - start) as usize / row_bytes..=(behind - 1 - start) as usize / row_bytes;
                let exact = rows.start() == rows.end() && behind - first == u64::from(lane.bytes);
                if kernel.layout() == Kernel::Wide {
                    lane.bytes == 16 && lane.address % 16 == 0 && rows.any(|row| from_table[row])
                } else {
                    exact && from_table[*rows.start()]
                }
            };
            let at = lane.address as i64 - start as i64;
            assert!(inside, "{name}: lane {} reads {} bytes at table byte {at}", lane.lane, lane.bytes);
        }
    }
}

/// A pseudorandom number of 0…`below`-1, the same in every run.
fn pick(below: usize, key: usize) -> usize {
    ((key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as usize % below
}

const IDS: [i64; 13] = [8, 0, 1, 1, 7, 3, 0, 8, 2, 6, 5, 4, 8];
/// One warp, so that rows share takes, and several blocks of several, so that nearly every row has its own.
const SHAPES: [GatherShape; 2] =
    [GatherShape { blocks: 1, threads: 32 }, GatherShape { blocks: 2, threads: 64 }];

/// All kernels and both id types for one row size and base offset.
fn check_all(row_bytes: usize, base: usize) {
    for kernel in Kernel::ALL {
        for width in [IdWidth::I32, IdWidth::I64] {
            let key = row_bytes * 131 + base * 7 + kernel as usize * 3 + width as usize;
            let (out_offset, shape) = (pick(16, key), SHAPES[pick(2, key + 1_000_003)]);
            Case { kernel, width, row_bytes, base, out_offset, rows: 9, ids: &IDS, shape, slots: None }
                .check();
        }
    }
}

/// Calls `check` for the numbers of a range, on two threads.
fn in_two_threads(range: std::ops::RangeInclusive<usize>, check: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for part in 0..2 {
            let (range, check) = (range.clone(), &check);
            scope.spawn(move || range.skip(part).step_by(2).for_each(check));
        }
    });
}

#[test]
fn short_rows_at_every_base_offset_are_bit_equal_to_a_plain_loop() {
    // 160 sizes × 128 offsets × 3 kernels × 2 id types = 122,880 gathers: some fifteen seconds on two cores.
    in_two_threads(1..=160, |row_bytes| (0..128).for_each(|base| check_all(row_bytes, base)));
}

#[test]
fn longer_rows_at_a_sample_of_base_offsets_are_bit_equal_to_a_plain_loop() {
    // 865 sizes × 5 offsets, two of them others for each size: 25,950 gathers, about as long.
    in_two_threads(161..=1025, |row_bytes| {
        for base in [0, 16, 127, row_bytes * 37 % 128, pick(32, row_bytes) * 4] {
            check_all(row_bytes, base);
        }
    });
}

#[test]
fn every_output_offset_works_with_every_place_of_a_row_in_16_bytes() {
    for row_bytes in [1, 2, 15, 16, 17, 31, 33, 48, 127, 160, 188, 480] {
        for (base, out_offset) in (0..16).flat_map(|base| (0..16).map(move |out| (base, out))) {
            for kernel in Kernel::ALL {
                let (width, shape) = (IdWidth::I64, SHAPES[0]);
                Case { kernel, width, row_bytes, base, out_offset, rows: 9, ids: &IDS, shape, slots: None }
                    .check();
            }
        }
    }
}

#[test]
fn many_rows_over_blocks_of_full_size_are_each_gathered_once() {
    // Enough for full takes of 32 rows, a last take of fewer, and warps that come too late for any.
    for (row_bytes, count, shape) in [
        (1, 700, GatherShape { blocks: 1, threads: 32 }),
        (100, 4_111, GatherShape { blocks: 1, threads: 512 }),
        (188, 700, GatherShape { blocks: 1, threads: 32 }),
        (516, 3_000, GatherShape { blocks: 1, threads: 96 }),
        (20_000, 65, GatherShape { blocks: 2, threads: 512 }),
        (64, 31, GatherShape { blocks: 40, threads: 512 }),
    ] {
        let rows = 300;
        let ids: Vec<i64> = (0..count).map(|at| pick(rows, at) as i64).collect();
        for kernel in Kernel::ALL {
            for width in [IdWidth::I32, IdWidth::I64] {
                Case {
                    kernel,
                    width,
                    row_bytes,
                    base: 36,
                    out_offset: 4,
                    rows,
                    ids: &ids,
                    shape,
                    slots: None,
                }
                .check();
            }
        }
    }
}

#[test]
fn ids_that_are_not_rows_are_named_and_neither_read_nor_written() {
    // 9 is one too many; 2^32 and -2^32 would be row 0 if cut to 32 bits.
    let sets: [&[i64]; 4] =
        [&[0, 9, 3, -1, 2], &[i64::MIN, i64::MAX, 8], &[3, 1 << 32, 0], &[-(1 << 32), 4, 4, 4, 4, 4, 4, -1]];
    for (set, ids) in sets.into_iter().enumerate() {
        for kernel in Kernel::ALL {
            for (row_bytes, shape) in [(1, SHAPES[0]), (47, SHAPES[1]), (480, SHAPES[0]), (1028, SHAPES[1])] {
                let narrow = ids.iter().all(|&id| i32::try_from(id).is_ok());
                for width in [IdWidth::I32, IdWidth::I64].into_iter().skip(usize::from(!narrow)) {
                    for slots in [None, Some(([0, -1, 1, -1, 2, -1, 3, -1, 4].as_slice(), set))] {
                        Case {
                            kernel,
                            width,
                            row_bytes,
                            base: 20,
                            out_offset: set,
                            rows: 9,
                            ids,
                            shape,
                            slots,
                        }
                        .check();
                    }
                }
            }
        }
    }
}

#[test]
fn no_ids_at_all_are_fine() {
    for kernel in Kernel::ALL {
        let (width, shape) = (IdWidth::I32, SHAPES[1]);
        Case { kernel, width, row_bytes: 4, base: 0, out_offset: 0, rows: 9, ids: &[], shape, slots: None }
            .check();
    }
}

#[test]
fn cached_rows_come_from_the_cache_and_the_others_from_the_table() {
    // All hits, all misses, one hit, one miss, mixed; slots in another order than rows.
    let slot_maps: [[i32; 9]; 5] = [
        [4, 3, 2, 1, 0, 5, 6, 7, 8],
        [-1; 9],
        [-1, -1, -1, 0, -1, -1, -1, -1, -1],
        [7, 6, 5, 4, -1, 3, 2, 1, 0],
        [2, -1, 0, -1, 1, -1, -1, 4, 3],
    ];
    in_two_threads(1..=300, |row_bytes| {
        for (index, slots) in slot_maps.iter().enumerate() {
            for kernel in Kernel::ALL {
                let key = row_bytes * 5 + index;
                let width = [IdWidth::I32, IdWidth::I64][pick(2, key)];
                // Device allocations begin on 256 bytes, but a cache may be laid out anywhere in one.
                let (base, cache_offset, out_offset) =
                    (pick(128, key), pick(128, key + 77), pick(16, key + 99));
                let (shape, slots) = (SHAPES[pick(2, key + 55)], Some((slots.as_slice(), cache_offset)));
                Case { kernel, width, row_bytes, base, out_offset, rows: 9, ids: &IDS, shape, slots }.check();
            }
        }
    });
}

#[test]
fn few_misses_among_many_hits_are_collected_over_several_takes() {
    let rows = 400;
    let ids: Vec<i64> = (0..2_500).map(|at| pick(rows, at) as i64).collect();
    for every in [1, 2, 3, 20, 399] {
        for (offset, threads) in [(0, 32), (1, 64), (2, 512)] {
            // Rows that are a multiple of `every` are misses, and the other way round.
            for swapped in [false, true] {
                let mut next = 0..;
                let slot = |row: usize| {
                    if row.is_multiple_of(every) == swapped { next.next().unwrap_or(-1) } else { -1 }
                };
                let slots: Vec<i32> = (0..rows).map(slot).collect();
                let (kernel, width, shape) = (Kernel::Wide, IdWidth::I32, GatherShape { blocks: 1, threads });
                let slots = Some((slots.as_slice(), 16 * offset));
                Case {
                    kernel,
                    width,
                    row_bytes: 140,
                    base: 8,
                    out_offset: offset,
                    rows,
                    ids: &ids,
                    shape,
                    slots,
                }
                .check();
            }
        }
    }
}

#[test]
fn rows_around_two_and_four_gigabytes_are_found() {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    // Only addresses: except for the few rows written here, no page is ever backed.
    let bytes = (9_usize << 30) + 4096;
    // SAFETY: a new mapping that nothing else refers to.
    let memory = unsafe {
        mmap_anonymous(
            std::ptr::null_mut(),
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    }
    .unwrap();
    for row_bytes in [1028_usize, 4100, 65_540] {
        let start = 4;
        let rows = (bytes - 4096) / row_bytes;
        let borders = [1_usize << 31, 1 << 32, 1 << 33];
        let mut ids: Vec<i64> = vec![0, rows as i64 - 1];
        ids.extend(
            borders.iter().flat_map(|border| [-1, 0, 1].map(|step| (border / row_bytes) as i64 + step)),
        );
        ids.retain(|&id| i32::try_from(id).is_ok());
        let contents = noise(ids.len() * row_bytes, 3);
        for (id, row) in ids.iter().zip(contents.chunks(row_bytes)) {
            // SAFETY: row `id` lies in the mapping.
            unsafe {
                let to = memory.cast::<u8>().add(start + *id as usize * row_bytes);
                std::ptr::copy_nonoverlapping(row.as_ptr(), to, row_bytes);
            }
        }
        let narrow: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
        // In the cached form all but the first two rows are hits, in slots as far away as the rows are.
        let mut slots = vec![-1_i32; rows];
        ids.iter().skip(2).for_each(|&id| slots[id as usize] = id as i32);
        for kernel in Kernel::ALL {
            for (width, cached) in [(IdWidth::I32, false), (IdWidth::I64, false), (IdWidth::I64, true)] {
                let mut out = vec![UNTOUCHED; contents.len()];
                let mut report = GatherReport::default();
                // SAFETY: offset 4 of the mapping.
                let table = unsafe { memory.cast::<u8>().add(start) };
                let arguments = GatherArguments {
                    table: table as u64,
                    rows: rows as u64,
                    row_bytes: row_bytes as u64,
                    ids: if width == IdWidth::I32 { narrow.as_ptr() as u64 } else { ids.as_ptr() as u64 },
                    count: ids.len() as u64,
                    out: out.as_mut_ptr() as u64,
                    report: (&raw mut report) as u64,
                    slot_map: if cached { slots.as_ptr() as u64 } else { 0 },
                    cache: table as u64,
                    order: 0,
                };
                // SAFETY: the mapping contains all rows, and pages around them; ids, slots, output and report are owned
                // here.
                unsafe { gather(kernel, width, arguments, SHAPES[0], None) }.unwrap();
                assert!(out == contents, "{kernel} {}, {row_bytes} bytes, cached: {cached}", width.name());
                assert_eq!(report.bad_position, u64::MAX);
            }
        }
    }
    // SAFETY: mapped above, and not used any longer.
    unsafe { munmap(memory, bytes) }.unwrap();
}
