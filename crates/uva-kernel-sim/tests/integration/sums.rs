//! `sum_rows` compared with the host's sums, bit for bit: every type and width, empty and long lists, each way to
//! weight, any grid, numbers out of range. Every read of a row is logged, and the output is surrounded by bytes that
//! must not change.

use std::collections::HashSet;
use std::ffi::c_void;

use uva_kernel_sim::gather::{GatherShape, gather};
use uva_kernel_sim::requests::Requests;
use uva_kernel_sim::{AccessLog, launch_logged};
use uva_kernels::gather::{GatherArguments, GatherReport, IdWidth, Kernel};
use uva_kernels::sums::{SumArguments, SummedType};
use uva_ops::Vectors;
use uva_ops::lists::{Lists, WeightedSums, Weights, degree_weights};

pub const UNTOUCHED: u8 = 0xEE;
/// Bytes on either side of what a kernel writes.
const AROUND: usize = 64;

/// Numbers without a pattern.
pub struct Noise(pub u64);

impl Noise {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        ((self.0 >> 33) as usize * bound) >> 31
    }
}

/// The value as float32, by the definition of its type.
pub fn widened(values: SummedType, bytes: &[u8]) -> f32 {
    let narrow = |exponent_bits: u32, fraction_bits: u32, bits: u32| {
        let bias = (1 << (exponent_bits - 1)) - 1;
        let (exponent, fraction) =
            (bits >> fraction_bits & ((1 << exponent_bits) - 1), bits & ((1 << fraction_bits) - 1));
        let size = match exponent {
            0 => f64::from(fraction) * 2f64.powi(1 - bias - fraction_bits as i32),
            _ => {
                (1.0 + f64::from(fraction) / f64::from(1 << fraction_bits))
                    * 2f64.powi(exponent as i32 - bias)
            }
        };
        if bits >> (exponent_bits + fraction_bits) == 1 { -size as f32 } else { size as f32 }
    };
    match values {
        SummedType::F32 => f32::from_le_bytes(bytes.try_into().unwrap()),
        SummedType::F16 => narrow(5, 10, u16::from_le_bytes(bytes.try_into().unwrap()).into()),
        SummedType::Bf16 => f32::from_bits(u32::from(u16::from_le_bytes(bytes.try_into().unwrap())) << 16),
        SummedType::E4m3 => narrow(4, 3, bytes[0].into()),
    }
}

/// Whether the value is a number.
fn is_number(values: SummedType, bytes: &[u8]) -> bool {
    match values {
        SummedType::F32 => f32::from_le_bytes(bytes.try_into().unwrap()).is_finite(),
        SummedType::F16 => bytes[1] & 0x7c != 0x7c,
        SummedType::Bf16 => widened(values, bytes).is_finite(),
        SummedType::E4m3 => bytes[0] & 0x7f != 0x7f,
    }
}

/// Rows and lists over them.
pub struct Case {
    pub values: SummedType,
    pub width: usize,
    pub rows: Vec<u8>,
    pub indptr: Vec<i32>,
    pub indices: Vec<i32>,
    pub sampled: Vec<f32>,
    pub degrees: Vec<i32>,
}

/// How rows are weighted.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub sampled: bool,
    pub by_degrees: bool,
    pub own: bool,
}

pub const WAYS: [Way; 5] = [
    Way { sampled: false, by_degrees: false, own: true },
    Way { sampled: true, by_degrees: false, own: true },
    Way { sampled: false, by_degrees: true, own: false },
    Way { sampled: true, by_degrees: true, own: false },
    Way { sampled: false, by_degrees: false, own: false },
];

impl Case {
    pub fn new(values: SummedType, width: usize, sources: usize, lengths: &[usize], seed: u64) -> Self {
        assert!(lengths.len() <= sources);
        let mut noise = Noise(seed);
        let bytes = values.bytes() as usize;
        let mut rows = Vec::with_capacity(sources * width * bytes);
        for _ in 0..sources * width {
            let value = loop {
                let mut value = vec![0; bytes];
                value.iter_mut().for_each(|byte| *byte = noise.below(256) as u8);
                // Sums stay finite: which of two NaNs a sum keeps is unspecified.
                if is_number(values, &value) && widened(values, &value).abs() < 1e15 {
                    break value;
                }
            };
            rows.extend(value);
        }
        let (mut indptr, mut indices) = (vec![0], Vec::new());
        for &length in lengths {
            indices.extend((0..length).map(|_| noise.below(sources) as i32));
            indptr.push(indices.len() as i32);
        }
        let sampled = indices.iter().map(|_| noise.below(1000) as f32 / 499.0 - 1.0).collect();
        let degrees = (0..sources).map(|_| noise.below(5000) as i32).collect();
        Self { values, width, rows, indptr, indices, sampled, degrees }
    }

    pub fn row_bytes(&self) -> usize {
        self.width * self.values.bytes() as usize
    }

    /// The bits of the host's sums of these rows, widened before.
    fn expected(&self, way: Way) -> Vec<u32> {
        let bytes = self.values.bytes() as usize;
        let rows: Vec<f32> = self.rows.chunks_exact(bytes).map(|value| widened(self.values, value)).collect();
        let lists = Lists::new(&self.indptr, &self.indices, self.degrees.len()).unwrap();
        let sampled = if way.sampled { &self.sampled[..] } else { &[] };
        let (weights, own) = degree_weights(&lists, sampled, &self.degrees, None);
        let of_edges = match (way.by_degrees, sampled) {
            (true, _) => Weights::Each(&weights[..]),
            (false, []) => Weights::Mean,
            (false, sampled) => Weights::Each(sampled),
        };
        let mut out = vec![0.0; lists.len() * self.width];
        let mut sums = WeightedSums::new(&rows, self.width, lists, of_edges).unwrap();
        if way.by_degrees {
            sums = sums.with_own(&own).unwrap();
        }
        sums.write_some(0, &mut out, Vectors::widest());
        out.into_iter().map(f32::to_bits).collect()
    }

    /// Sums by the kernel, in rows that begin this many values after a line; checks its reads and that it writes
    /// nothing else. Returns the sums' bits, and the own rows.
    fn sums(&self, way: Way, offset: usize, shape: GatherShape) -> (Vec<u32>, Vec<u8>) {
        let (bytes, row_bytes, lists) =
            (self.values.bytes() as usize, self.row_bytes(), self.indptr.len() - 1);
        let rows = Placed::of(&self.rows, offset * bytes);
        let mut sums = Placed::of(&vec![UNTOUCHED; lists * self.width * 4], 4 * offset);
        let mut own = Placed::of(&vec![UNTOUCHED; lists * row_bytes], offset * bytes);
        let address = |used: bool, address: u64| if used { address } else { 0 };
        let mut arguments = SumArguments {
            rows: rows.address(),
            row_bytes: row_bytes as u64,
            sources: self.degrees.len() as u64,
            indptr: self.indptr.as_ptr() as u64,
            indices: self.indices.as_ptr() as u64,
            sampled: address(way.sampled, self.sampled.as_ptr() as u64),
            degrees: address(way.by_degrees, self.degrees.as_ptr() as u64),
            destinations: lists as u64,
            edges: self.indices.len() as u64,
            sums: sums.address(),
            own: address(way.own, own.address()),
        };
        arguments.check(self.values).unwrap();
        // All of this process's memory.
        let mut log = AccessLog::new(0..u64::MAX);
        let parameters = [std::ptr::from_mut(&mut arguments).cast::<c_void>()];
        let (grid, block) = ([shape.blocks, 1, 1], [shape.threads, 1, 1]);
        // SAFETY: one parameter, of the kernel's type; all memory that it refers to has the given sizes.
        unsafe { launch_logged(self.values.entry(), grid, block, 0, parameters.as_ptr(), &mut log) }.unwrap();
        let wanted: HashSet<u64> =
            self.indices.iter().map(|&index| index as u64).chain(0..lists as u64).collect();
        let known = self.is_in_range();
        for lane in log.instructions.iter().flat_map(|instruction| &instruction.lanes) {
            let at = lane.address.wrapping_sub(rows.address());
            let (first, last) = (at / row_bytes as u64, (at + u64::from(lane.bytes) - 1) / row_bytes as u64);
            assert!(first == last && (!known || wanted.contains(&first)), "read byte {at} of the rows");
            assert!(at < self.rows.len() as u64, "read byte {at} of {} bytes of rows", self.rows.len());
        }
        let own = own.bytes().to_vec();
        let sums = sums.bytes().chunks_exact(4).map(|sum| u32::from_le_bytes(sum.try_into().unwrap()));
        (sums.collect(), own)
    }

    /// Whether all entries of its lists are rows.
    fn is_in_range(&self) -> bool {
        Lists::new(&self.indptr, &self.indices, self.degrees.len()).is_ok()
    }

    fn check(&self, way: Way, offset: usize, shape: GatherShape) {
        let name =
            format!("{:?}, {} in a row, {offset} values off, {way:?}, {shape:?}", self.values, self.width);
        let (sums, own) = self.sums(way, offset, shape);
        assert!(sums == self.expected(way), "{name}: other sums than the host's");
        let rows = if way.own { &self.rows[..own.len()] } else { &vec![UNTOUCHED; own.len()][..] };
        assert!(own == rows, "{name}: other rows than the first");
    }
}

/// Bytes that begin this far after a line, surrounded by bytes that must not change.
pub struct Placed {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Placed {
    pub fn of(bytes: &[u8], offset: usize) -> Self {
        let mut memory = vec![UNTOUCHED; bytes.len() + 2 * AROUND + 128 + offset];
        let first = memory.as_ptr() as usize + AROUND;
        let start = AROUND + first.next_multiple_of(128) - first + offset;
        memory[start..start + bytes.len()].copy_from_slice(bytes);
        Self { memory, start, length: bytes.len() }
    }

    pub fn address(&self) -> u64 {
        self.memory[self.start..].as_ptr() as u64
    }

    /// The bytes, after a check that those around them are unchanged.
    pub fn bytes(&mut self) -> &[u8] {
        let (before, from) = self.memory.split_at(self.start);
        let (bytes, behind) = from.split_at(self.length);
        assert!(before.iter().chain(behind).all(|&byte| byte == UNTOUCHED), "something is written outside");
        bytes
    }
}

pub const SMALL: GatherShape = GatherShape { blocks: 1, threads: 64 };

#[test]
fn sums_of_every_type_and_width_are_the_hosts_bit_for_bit() {
    let lengths = [0, 1, 2, 3, 5, 0, 11, 4, 33, 0, 70];
    std::thread::scope(|scope| {
        for values in SummedType::ALL {
            scope.spawn(move || {
                for width in (1..=70).chain([100, 127, 128, 129, 191, 192, 193, 255, 256, 257, 300, 512, 513])
                {
                    let case = Case::new(values, width, 23, &lengths, width as u64);
                    // Aligned to 16 bytes where the width is, to a value only, and to a word.
                    for offset in [0, 1, 2] {
                        WAYS.iter().for_each(|&way| case.check(way, offset, SMALL));
                    }
                }
            });
        }
    });
}

#[test]
fn lists_of_every_length_are_summed_by_any_grid() {
    let thousands: Vec<usize> = (0..1500).map(|list| list % 17).collect();
    for values in SummedType::ALL {
        for lengths in [&[][..], &[0], &[1], &[30_000], &[2; 129], &thousands] {
            let case = Case::new(values, 20, 1600, lengths, 7);
            for shape in
                [SMALL, GatherShape { blocks: 3, threads: 96 }, GatherShape { blocks: 2, threads: 512 }]
            {
                WAYS[..4].iter().for_each(|&way| case.check(way, 0, shape));
            }
        }
    }
}

/// A product that is too small for a number rounds to the zero of its sign. Anything added to −0, be it 0, makes it 0.
#[test]
fn a_sum_that_is_minus_zero_stays_so() {
    let mut case = Case::new(SummedType::F32, 20, 4, &[1, 3], 1);
    case.rows = (-1e-30_f32).to_le_bytes().repeat(4 * 20);
    case.sampled.fill(1e-30);
    let way = WAYS[1];
    case.check(way, 0, SMALL);
    assert!(case.sums(way, 0, SMALL).0.iter().all(|&sum| sum == (-0.0_f32).to_bits()));
}

/// A producer does not trust a sampler's numbers: the sampler may have died while it wrote them.
#[test]
fn numbers_out_of_range_cause_no_read_or_write_out_of_bounds() {
    for values in SummedType::ALL {
        let mut noise = Noise(3);
        for _ in 0..40 {
            let mut case = Case::new(values, 9, 31, &[3; 20], 5);
            for offset in &mut case.indptr {
                if noise.below(3) == 0 {
                    *offset = [-1, i32::MIN, i32::MAX, 61, 0, 17][noise.below(6)];
                }
            }
            for index in &mut case.indices {
                if noise.below(3) == 0 {
                    *index = [-1, i32::MIN, i32::MAX, 31, 30][noise.below(5)];
                }
            }
            for way in WAYS {
                case.sums(way, 0, SMALL);
            }
        }
    }
}

/// The gather of a batch whose rows are summed reads the link like one into a slot: only its output differs. The sums
/// do not read the table.
#[test]
fn sums_on_the_device_read_the_link_as_the_gather_of_whole_rows_does() {
    for (kernel, row_bytes) in
        [(Kernel::Wide, 100), (Kernel::Wide, 512), (Kernel::Shift, 188), (Kernel::Naive, 96)]
    {
        let case = Case::new(SummedType::F32, row_bytes / 4, 64, &[5; 20], 11);
        let ids: Vec<i64> = (0..64).map(|id| id * 37 % 64).collect();
        let table = Placed::of(&case.rows, 4);
        // A slot's rows begin elsewhere than a scratch.
        let reads = [0, 20].map(|offset| {
            let mut out = Placed::of(&vec![UNTOUCHED; case.rows.len()], offset);
            let mut report = GatherReport::default();
            let arguments = GatherArguments {
                table: table.address(),
                rows: 64,
                row_bytes: row_bytes as u64,
                ids: ids.as_ptr() as u64,
                count: ids.len() as u64,
                out: out.address(),
                report: (&raw mut report) as u64,
                slot_map: 0,
                cache: 0,
                order: 0,
            };
            let mut log = AccessLog::new(table.address()..table.address() + case.rows.len() as u64);
            // SAFETY: ids below 64, a table of 64 rows with a line on either side, as many output rows, a report.
            unsafe { gather(kernel, IdWidth::I64, arguments, SMALL, Some(&mut log)) }.unwrap();
            let gathered = log.instructions.len();
            let mut sums = vec![0_f32; 20 * case.width];
            let mut own = vec![0_u8; 20 * row_bytes];
            let mut arguments = SumArguments {
                rows: out.address(),
                row_bytes: row_bytes as u64,
                sources: 64,
                indptr: case.indptr.as_ptr() as u64,
                indices: case.indices.as_ptr() as u64,
                destinations: 20,
                edges: case.indices.len() as u64,
                sums: sums.as_mut_ptr() as u64,
                own: own.as_mut_ptr() as u64,
                ..SumArguments::default()
            };
            let parameters = [std::ptr::from_mut(&mut arguments).cast::<c_void>()];
            let (name, one) = (SummedType::F32.entry(), [1; 3]);
            // SAFETY: one parameter, of the kernel's type; all memory that it refers to has the given sizes.
            unsafe { launch_logged(name, one, [64, 1, 1], 0, parameters.as_ptr(), &mut log) }.unwrap();
            assert_eq!(log.instructions.len(), gathered, "the sums read the table");
            assert!(own == out.bytes()[..own.len()], "the first rows");
            log.instructions.iter().map(Requests::of_instruction).sum::<Requests>()
        });
        assert!(reads[0].reads > 0);
        assert_eq!(reads[0], reads[1], "{kernel} {row_bytes}");
    }
}
