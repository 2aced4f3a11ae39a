//! Gather of random rows, and a plain copy of as many bytes beside it.
//!
//! `cargo bench -p uva-gather`; the last lines are the medians of one interleaved run and the gather's share of memcpy.
//! `UVATRAIN_BENCH_TABLE_MIB` (1024) is the size of the table, which should exceed the last-level cache, and
//! `UVATRAIN_BENCH_THREADS` (1) how many threads gather.

use criterion::{BenchmarkId, Criterion, Throughput};
use uva_gather::{HostGather, MeasureOptions, RowGather, measure};

/// Features of ogbn-products (100 float32) and of a 128-wide table.
const ROW_BYTES: [usize; 2] = [400, 512];
const OUT_BYTES: usize = 32 << 20;

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn main() {
    let threads = setting("UVATRAIN_BENCH_THREADS", 1);
    let mut table = vec![0u8; setting("UVATRAIN_BENCH_TABLE_MIB", 1024) << 20];
    for (i, byte) in table.iter_mut().enumerate() {
        *byte = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[7];
    }

    let mut criterion = Criterion::default().sample_size(20).configure_from_args();
    let mut group = criterion.benchmark_group("gather");
    for row_bytes in ROW_BYTES {
        let rows = table.len() / row_bytes;
        let table = &table[..rows * row_bytes];
        let count = OUT_BYTES / row_bytes;
        let mut out = vec![0u8; count * row_bytes];
        let mut gather = HostGather::new(table, row_bytes, threads).expect("whole rows");
        // Fresh random ids for each sample, so that no rows are in a cache because of the sample before.
        let mut random = 1u64;
        let mut ids = vec![0i64; count];
        group.throughput(Throughput::Bytes(out.len() as u64));
        group.bench_function(BenchmarkId::new("random rows", row_bytes), |bencher| {
            bencher.iter_batched_ref(
                || {
                    ids.fill_with(|| {
                        // xorshift64, its high half scaled to the rows.
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        (((random >> 32) as usize * rows) >> 32) as i64
                    });
                    ids.clone()
                },
                |ids| gather.gather(ids, &mut out).expect("ids in range"),
                criterion::BatchSize::PerIteration,
            );
        });
        let (mut from, size) = (0, out.len());
        group.bench_function(BenchmarkId::new("memcpy", row_bytes), |bencher| {
            bencher.iter(|| {
                from = (from + size) % (table.len() - size);
                out.copy_from_slice(&table[from..from + size]);
            });
        });
    }
    group.finish();
    criterion.final_summary();

    for row_bytes in ROW_BYTES {
        let table = &table[..table.len() / row_bytes * row_bytes];
        let options = MeasureOptions { threads, bytes: OUT_BYTES, repeats: 21, ..MeasureOptions::default() };
        match measure(table, row_bytes, options) {
            Ok(m) => println!(
                "{row_bytes}-byte rows, {threads} thread(s): {:.2} GB/s, memcpy {:.2} GB/s, share {:.0} %",
                m.gb_per_second,
                m.memcpy_gb_per_second,
                100.0 * m.share_of_memcpy
            ),
            Err(error) => println!("{row_bytes}-byte rows: {error}"),
        }
    }
}
