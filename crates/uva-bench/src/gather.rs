//! The speed of row gathers on this machine, compared with a plain copy of the same number of bytes in the same run.

use std::time::Instant;

use rayon::prelude::*;
use serde::Serialize;
use uva_mem::ring::{AlwaysAlive, Ring, RingError, RingShape};
use uva_mem::{PageSize, ZeroedPages, huge_share};

use uva_rows::{GatherError, HostPlace, MappedTable, RowSource};

/// The options of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct MeasureOptions {
    /// Threads of the gather and of the plain copy.
    pub threads: usize,
    /// Approximate bytes gathered per repeat: at least one row.
    pub bytes: usize,
    /// Timed repeats, at least 1, after one that warms up. The median is reported.
    pub repeats: usize,
    /// Seed of the random ids.
    pub seed: u64,
    /// The pages of table and output, which are copied to anonymous memory. `None` measures the table in place, and a
    /// slot as a run has it.
    pub pages: Option<PageSize>,
}

impl Default for MeasureOptions {
    fn default() -> Self {
        Self { threads: 1, bytes: 128 << 20, repeats: 9, seed: 1, pages: None }
    }
}

/// The result of a measurement. Rates count the written bytes, in units of 10^9.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// Random rows into a shared slot.
    pub gb_per_second: f64,
    /// A sequential copy of the same number of bytes of the same table into the same slot.
    pub memcpy_gb_per_second: f64,
    /// The first rate divided by the second.
    pub share_of_memcpy: f64,
    /// Threads of both.
    pub threads: usize,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Rows of the table.
    pub table_rows: usize,
    /// Rows gathered per repeat.
    pub rows: usize,
    /// Timed repeats.
    pub repeats: usize,
    /// The requested pages.
    pub pages: Option<&'static str>,
    /// The share of the table in 2 MiB mappings, as the kernel reports it; `None` if it does not.
    pub table_huge_share: Option<f64>,
    /// The share of the output in 2 MiB mappings.
    pub output_huge_share: Option<f64>,
    /// Whether every byte moved by the last repeat of each was compared with the table. Always true: a difference is an
    /// error.
    pub verified: bool,
}

/// The reason why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The table is empty, or not whole rows.
    #[error("nothing to gather: {0}")]
    Table(String),
    /// The gather failed.
    #[error(transparent)]
    Gather(#[from] GatherError),
    /// Shared memory for the output is not available.
    #[error(transparent)]
    Slot(#[from] RingError),
    /// Memory for a table or an output on such pages is not available.
    #[error("no memory with the requested pages ({bytes} bytes): {source}")]
    Pages {
        /// Requested bytes.
        bytes: usize,
        /// The system's error.
        source: std::io::Error,
    },
    /// Moved bytes differ from those of the table.
    #[error("{what} wrote other bytes than the table's at byte {position} of the slot")]
    Wrong {
        /// Gather or copy.
        what: &'static str,
        /// The first byte that differs.
        position: usize,
    },
}

/// Alternates between gathering random rows of `table` into a slot of a ring and copying as many consecutive bytes. For
/// pages of another kind, it uses a copy of the table in memory with such pages.
///
/// # Errors
/// See [`MeasureError`].
pub fn measure(table: &[u8], row_bytes: usize, options: MeasureOptions) -> Result<Measurement, MeasureError> {
    // Arguments that a gather refuses are refused before anything is copied.
    if MappedTable::new(table, row_bytes, 1)?.rows() == 0 {
        return Err(MeasureError::Table("the table has no rows".to_owned()));
    }
    let bytes = (options.bytes / row_bytes).max(1) * row_bytes;
    match options.pages {
        None => {
            let ring = Ring::create("bench", RingShape { slots: 1, payload_bytes: bytes })?;
            let mut writer = ring.writer();
            let mut slot = writer.acquire(0, &AlwaysAlive)?;
            measure_into(table, row_bytes, options, &mut slot.payload_mut()[..bytes])
        }
        Some(size) => {
            let memory =
                |bytes| ZeroedPages::on(size, bytes).map_err(|source| MeasureError::Pages { bytes, source });
            let (mut copied, mut out) = (memory(table.len())?, memory(bytes)?);
            copied.bytes_mut()[..table.len()].copy_from_slice(table);
            measure_into(&copied.bytes()[..table.len()], row_bytes, options, &mut out.bytes_mut()[..bytes])
        }
    }
}

fn measure_into(
    table: &[u8],
    row_bytes: usize,
    options: MeasureOptions,
    out: &mut [u8],
) -> Result<Measurement, MeasureError> {
    let threads = options.threads.max(1);
    let mut source = MappedTable::new(table, row_bytes, threads)?;
    let (table_rows, rows, bytes) = (source.rows(), out.len() / row_bytes, out.len());

    let mut random = SplitMix(options.seed);
    let mut ids = vec![0i64; rows];
    let repeats = options.repeats.max(1);
    let (mut gathers, mut copies) = (Vec::with_capacity(repeats), Vec::with_capacity(repeats));
    for repeat in 0..=repeats {
        // Each repeat uses fresh ids and another range of the table, so that neither gather nor copy finds its rows
        // cached from the repeat before.
        ids.fill_with(|| random.below(table_rows as u64) as i64);
        let start = Instant::now();
        source.fill(&ids, HostPlace::new(out))?;
        let gathered = start.elapsed();
        if repeat == repeats {
            check_gather(table, row_bytes, &ids, out)?;
        }

        let from = random.below(table_rows as u64) as usize * row_bytes;
        let start = Instant::now();
        copy(table, from, out, &source);
        let copied = start.elapsed();
        if repeat == repeats {
            check_copy(table, from, out)?;
        }
        // The first repeat also pays for mapping the slot's pages.
        if repeat > 0 {
            gathers.push(gathered.as_secs_f64());
            copies.push(copied.as_secs_f64());
        }
    }
    let rate = |mut seconds: Vec<f64>| {
        seconds.sort_by(f64::total_cmp);
        bytes as f64 / seconds[seconds.len() / 2] / 1e9
    };
    let (gb_per_second, memcpy_gb_per_second) = (rate(gathers), rate(copies));
    Ok(Measurement {
        gb_per_second,
        memcpy_gb_per_second,
        share_of_memcpy: gb_per_second / memcpy_gb_per_second,
        threads,
        row_bytes,
        table_rows,
        rows,
        repeats,
        pages: options.pages.map(PageSize::name),
        table_huge_share: huge_share(table),
        output_huge_share: huge_share(out),
        verified: true,
    })
}

/// Fills `out` from the table's bytes at `from` on, wrapping around at its end.
fn copy(table: &[u8], from: usize, out: &mut [u8], source: &MappedTable<'_>) {
    let part = out.len().div_ceil(source.threads());
    let copy_part = |(index, out): (usize, &mut [u8])| {
        let mut at = (from + index * part) % table.len();
        let mut done = 0;
        while done < out.len() {
            let length = (out.len() - done).min(table.len() - at);
            out[done..done + length].copy_from_slice(&table[at..at + length]);
            (done, at) = (done + length, 0);
        }
    };
    match source.pool() {
        Some(pool) => pool.install(|| out.par_chunks_mut(part).enumerate().for_each(copy_part)),
        None => copy_part((0, out)),
    }
}

fn check_gather(table: &[u8], row_bytes: usize, ids: &[i64], out: &[u8]) -> Result<(), MeasureError> {
    for (position, (&id, row)) in ids.iter().zip(out.chunks_exact(row_bytes)).enumerate() {
        if row != &table[id as usize * row_bytes..][..row_bytes] {
            return Err(MeasureError::Wrong { what: "the gather", position: position * row_bytes });
        }
    }
    Ok(())
}

fn check_copy(table: &[u8], from: usize, out: &[u8]) -> Result<(), MeasureError> {
    match out.iter().zip(table[from..].iter().chain(table.iter().cycle())).position(|(a, b)| a != b) {
        Some(position) => Err(MeasureError::Wrong { what: "the copy", position }),
        None => Ok(()),
    }
}

/// splitmix64, sufficient for the ids of a measurement.
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^= x >> 31;
        ((u128::from(x) * u128::from(bound)) >> 64) as u64
    }
}
