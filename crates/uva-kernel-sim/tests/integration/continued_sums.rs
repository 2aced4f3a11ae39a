//! `continue_sums` compared with a plain loop in its order, bit for bit: first the rows that are not cached, in the
//! list's order, then the cached ones. Also compared with sums in float64, within the bound of
//! docs/guide/aggregation.md.

use std::ffi::c_void;

use uva_kernel_sim::gather::GatherShape;
use uva_kernel_sim::{AccessLog, launch_logged};
use uva_kernels::gather::GatherReport;
use uva_kernels::sums::{ContinuedArguments, SumArguments, SummedType};
use uva_ops::lists::{Lists, degree_weights};

use super::sums::{Case, Noise, Placed, SMALL, UNTOUCHED, WAYS, Way, widened};

/// A case with some rows in a cache.
struct Cached {
    case: Case,
    /// Whether each source is cached.
    kept: Vec<bool>,
    ids: Vec<i64>,
    slot_map: Vec<i32>,
    /// Slot by slot, with rows of other ids among them.
    cache: Vec<u8>,
}

/// The part that the host computes beforehand.
struct Begun {
    sums: Vec<f32>,
    sum_of: Vec<i32>,
    own: Vec<u8>,
    own_of: Vec<i32>,
}

impl Cached {
    /// Source `i` is row `3 i + 1` of the table. Slots are assigned from the end, and every second one belongs to a row
    /// that is in no batch.
    fn new(case: Case, is_kept: impl FnMut(usize) -> bool) -> Self {
        let (sources, row_bytes) = (case.degrees.len(), case.row_bytes());
        let kept: Vec<bool> = (0..sources).map(is_kept).collect();
        let ids: Vec<i64> = (0..sources as i64).map(|source| 3 * source + 1).collect();
        let mut slot_map = vec![-1; 3 * sources + 1];
        let mut cache = Vec::new();
        for source in (0..sources).rev().filter(|&source| kept[source]) {
            slot_map[3 * source + 2] = (cache.len() / row_bytes) as i32;
            cache.resize(cache.len() + row_bytes, UNTOUCHED);
            slot_map[3 * source + 1] = (cache.len() / row_bytes) as i32;
            cache.extend(&case.rows[source * row_bytes..][..row_bytes]);
        }
        Self { case, kept, ids, slot_map, cache }
    }

    /// The entries of each list as (source, weight), and own weights where own rows are in the sums.
    fn entries(&self, way: Way) -> (Vec<Vec<(usize, f32)>>, Vec<f32>) {
        let Case { indptr, indices, sampled, degrees, .. } = &self.case;
        let lists = Lists::new(indptr, indices, degrees.len()).unwrap();
        let of_sampler = if way.sampled { &sampled[..] } else { &[] };
        let (by_degrees, own) = degree_weights::<f32, _>(&lists, of_sampler, degrees, None);
        let entries = (0..lists.len()).map(|list| {
            let edges = lists.edges(list);
            let mean = (1.0 / edges.len() as f64) as f32;
            let weight = |edge: usize| match way {
                Way { by_degrees: true, .. } => by_degrees[edge],
                Way { sampled: true, .. } => sampled[edge],
                _ => mean,
            };
            edges.map(|edge| (indices[edge] as usize, weight(edge))).collect()
        });
        (entries.collect(), if way.by_degrees { own } else { Vec::new() })
    }

    /// The terms of a list's sum in their order, and how many of them the host adds.
    fn terms(&self, list: usize, entries: &[(usize, f32)], own: &[f32]) -> (Vec<(usize, f32)>, usize) {
        let own = own.get(list).map(|&weight| (list, weight));
        let all = || entries.iter().copied().chain(own);
        let missed: Vec<_> = all().filter(|&(source, _)| !self.kept[source]).collect();
        let begun = missed.len();
        (missed.into_iter().chain(all().filter(|&(source, _)| self.kept[source])).collect(), begun)
    }

    fn row(&self, source: usize) -> Vec<f32> {
        let (values, row_bytes) = (self.case.values, self.case.row_bytes());
        let row = &self.case.rows[source * row_bytes..][..row_bytes];
        row.chunks_exact(values.bytes() as usize).map(|value| widened(values, value)).collect()
    }

    fn added(&self, terms: &[(usize, f32)]) -> Vec<f32> {
        let mut sums = vec![0_f32; self.case.width];
        for &(source, weight) in terms {
            sums.iter_mut().zip(self.row(source)).for_each(|(sum, value)| *sum = value.mul_add(weight, *sum));
        }
        sums
    }

    fn begun(&self, way: Way) -> Begun {
        let (entries, own_weights) = self.entries(way);
        let row_bytes = self.case.row_bytes();
        let mut begun = Begun { sums: Vec::new(), sum_of: Vec::new(), own: Vec::new(), own_of: Vec::new() };
        for (list, entries) in entries.iter().enumerate() {
            let (terms, by_host) = self.terms(list, entries, &own_weights);
            let number = (begun.sums.len() / self.case.width) as i32;
            begun.sum_of.push(if by_host > 0 { number } else { -1 });
            if by_host > 0 {
                begun.sums.extend(self.added(&terms[..by_host]));
            }
            let missed = way.own && !self.kept[list];
            begun.own_of.push(if missed { (begun.own.len() / row_bytes) as i32 } else { -1 });
            if missed {
                begun.own.extend(&self.case.rows[list * row_bytes..][..row_bytes]);
            }
        }
        begun
    }

    /// Sums by the kernel, as [`Case`] does it, with rows that begin this many values after a line.
    fn sums(&self, way: Way, begun: &Begun, offset: usize, shape: GatherShape) -> (Vec<f32>, Vec<u8>) {
        let Case { values, width, indptr, indices, sampled, degrees, .. } = &self.case;
        let (bytes, row_bytes, lists) =
            (values.bytes() as usize, self.case.row_bytes(), self.case.indptr.len() - 1);
        let rows = Placed::of(&self.cache, offset * bytes);
        let of_host: Vec<u8> = begun.sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        let begun_sums = Placed::of(&of_host, 4 * offset);
        let missed = Placed::of(&begun.own, offset * bytes);
        let mut sums = Placed::of(&vec![UNTOUCHED; lists * width * 4], 4 * offset);
        let mut own = Placed::of(&vec![UNTOUCHED; lists * row_bytes], offset * bytes);
        let mut report = GatherReport::PREPARED;
        let address = |used: bool, address: u64| if used { address } else { 0 };
        let mut arguments = ContinuedArguments {
            lists: SumArguments {
                rows: rows.address(),
                row_bytes: row_bytes as u64,
                sources: degrees.len() as u64,
                indptr: indptr.as_ptr() as u64,
                indices: indices.as_ptr() as u64,
                sampled: address(way.sampled, sampled.as_ptr() as u64),
                degrees: address(way.by_degrees, degrees.as_ptr() as u64),
                destinations: lists as u64,
                edges: indices.len() as u64,
                sums: sums.address(),
                own: address(way.own, own.address()),
            },
            cached: (self.cache.len() / row_bytes) as u64,
            ids: self.ids.as_ptr() as u64,
            slot_map: self.slot_map.as_ptr() as u64,
            table_rows: self.slot_map.len() as u64,
            begun: begun_sums.address(),
            begun_of: begun.sum_of.as_ptr() as u64,
            begun_rows: (begun.sums.len() / width) as u64,
            missed: missed.address(),
            missed_of: address(way.own, begun.own_of.as_ptr() as u64),
            missed_rows: (begun.own.len() / row_bytes) as u64,
            report: (&raw mut report) as u64,
        };
        arguments.check(*values).unwrap();
        // All of this process's memory.
        let mut log = AccessLog::new(0..u64::MAX);
        let parameters = [std::ptr::from_mut(&mut arguments).cast::<c_void>()];
        let (grid, block) = ([shape.blocks, 1, 1], [shape.threads, 1, 1]);
        // SAFETY: one parameter, of the kernel's type; all memory that it refers to has the given sizes.
        unsafe { launch_logged(values.continuing_entry(), grid, block, 0, parameters.as_ptr(), &mut log) }
            .unwrap();
        // Of the cache only rows of this batch's ids are read, each within itself.
        let wanted = |slot: u64| {
            self.ids.iter().any(|&id| {
                self.slot_map.get(id as usize).is_some_and(|&known| i64::from(known) == slot as i64)
            })
        };
        let within = |address: u64, from: &Placed, length: usize| {
            address.checked_sub(from.address()).is_some_and(|at| at < length as u64)
        };
        for lane in log.instructions.iter().flat_map(|instruction| &instruction.lanes) {
            let last = lane.address + u64::from(lane.bytes) - 1;
            if within(lane.address, &rows, self.cache.len()) {
                let at = lane.address - rows.address();
                let (first, slot) = (at / row_bytes as u64, (last - rows.address()) / row_bytes as u64);
                assert!(first == slot && wanted(slot), "read byte {at} of the cache");
            } else {
                let known = [(&begun_sums, of_host.len()), (&missed, begun.own.len())];
                assert!(
                    known.iter().any(|(from, length)| {
                        within(lane.address, from, *length) && within(last, from, *length)
                    }),
                    "read {} bytes at {:#x}, which are neither cached nor the host's",
                    lane.bytes,
                    lane.address
                );
            }
        }
        assert!(lists == 0 || report.began_ns != u64::MAX, "the start time is missing");
        let own = own.bytes().to_vec();
        let sums = sums.bytes().chunks_exact(4).map(|sum| f32::from_le_bytes(sum.try_into().unwrap()));
        (sums.collect(), own)
    }

    fn check(&self, way: Way, offset: usize, shape: GatherShape) {
        let Case { values, width, .. } = self.case;
        let name = format!("{values:?}, {width} in a row, {offset} values off, {way:?}, {shape:?}");
        let (sums, own) = self.sums(way, &self.begun(way), offset, shape);
        let (entries, own_weights) = self.entries(way);
        for ((list, entries), sums) in entries.iter().enumerate().zip(sums.chunks_exact(width)) {
            let (terms, _) = self.terms(list, entries, &own_weights);
            let bits = |sums: &[f32]| sums.iter().map(|sum| sum.to_bits()).collect::<Vec<_>>();
            assert!(bits(sums) == bits(&self.added(&terms)), "{name}: another sum of list {list}");
            let rows: Vec<_> =
                terms.iter().map(|&(source, weight)| (self.row(source), f64::from(weight))).collect();
            for (column, &sum) in sums.iter().enumerate() {
                let products = || rows.iter().map(|(row, weight)| f64::from(row[column]) * weight);
                let sizes: f64 = products().map(f64::abs).sum();
                // The bound, and the roundings of products that are too small for all digits.
                let roundings = (entries.len() + 2) as f64;
                let bound = roundings * (2_f64.powi(-24) * sizes + 2_f64.powi(-149));
                let off = (f64::from(sum) - products().sum::<f64>()).abs();
                assert!(off <= bound, "{name}: list {list} is off by {off}, and {bound} is allowed");
            }
        }
        let rows = if way.own { &self.case.rows[..own.len()] } else { &vec![UNTOUCHED; own.len()][..] };
        assert!(own == rows, "{name}: other own rows");
    }
}

#[test]
fn sums_continue_in_order_for_every_type_width_and_set_of_cached_rows() {
    let lengths = [0, 1, 2, 3, 5, 0, 11, 4, 33, 0, 70];
    std::thread::scope(|scope| {
        for values in SummedType::ALL {
            scope.spawn(move || {
                for width in (1..=20).chain([31, 32, 33, 64, 100, 127, 128, 129, 256, 300, 513]) {
                    for of_four in [0, 2, 4] {
                        let mut noise = Noise(width as u64);
                        let case = Case::new(values, width, 23, &lengths, width as u64);
                        let cached = Cached::new(case, |_| noise.below(4) < of_four);
                        // Aligned to 16 bytes where the width is, and to a value only.
                        for offset in [0, 1] {
                            WAYS[..4].iter().for_each(|&way| cached.check(way, offset, SMALL));
                        }
                    }
                }
            });
        }
    });
}

#[test]
fn lists_of_every_length_are_continued_by_any_grid() {
    let thousands: Vec<usize> = (0..400).map(|list| list % 17).collect();
    for values in [SummedType::F32, SummedType::E4m3] {
        for lengths in [&[][..], &[0], &[1], &[5000], &[2; 129], &thousands] {
            let case = Case::new(values, 20, 450, lengths, 7);
            let mut noise = Noise(5);
            let cached = Cached::new(case, |_| noise.below(2) == 0);
            for shape in [SMALL, GatherShape { blocks: 3, threads: 96 }] {
                [WAYS[0], WAYS[3]].iter().for_each(|&way| cached.check(way, 0, shape));
            }
        }
    }
}

/// A producer does not trust a sampler's numbers: the sampler may have died while it wrote them.
#[test]
fn ids_and_lists_out_of_range_cause_no_read_or_write_out_of_bounds() {
    for values in SummedType::ALL {
        let mut noise = Noise(3);
        for _ in 0..20 {
            let case = Case::new(values, 9, 31, &[3; 20], 5);
            let mut cached = Cached::new(case, |source| source % 3 > 0);
            let begun = WAYS.map(|way| cached.begun(way));
            for offset in &mut cached.case.indptr {
                if noise.below(3) == 0 {
                    *offset = [-1, i32::MIN, i32::MAX, 61, 0, 17][noise.below(6)];
                }
            }
            for index in &mut cached.case.indices {
                if noise.below(3) == 0 {
                    *index = [-1, i32::MIN, i32::MAX, 31, 30][noise.below(5)];
                }
            }
            for id in &mut cached.ids {
                if noise.below(3) == 0 {
                    *id = [-1, i64::MIN, i64::MAX, 94, 93][noise.below(5)];
                }
            }
            for (way, begun) in WAYS.iter().zip(&begun) {
                cached.sums(*way, begun, 0, SMALL);
            }
        }
    }
}
