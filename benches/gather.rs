//! Gathers of random rows compared with a plain copy of the same number of bytes; then the methods of moving rows, in
//! alternating rounds; then the machine's limit for each half of a gather alone.
//!
//! `cargo bench -p uva-bench`. Settings, by the environment:
//!
//! | `UVATRAIN_BENCH_` | default | |
//! |---|---|---|
//! | `TABLE_MIB` | 1024 | the table, which should exceed the last-level cache |
//! | `OUT_MIB` | 40 | gathered at a time |
//! | `THREADS` | 1 | threads of gather and copy |
//! | `PAGES` | huge | or `base`, for table and output; the pages in use are printed |
//! | `ROW_BYTES` | 128,400,512,1028,2408 | |
//! | `AHEAD` | 0,16,32,48,64,96 | prefetch distance in rows, in the rounds |
//! | `ROUNDS` | 15 | rounds of each method |
//! | `WAYS` | | only methods whose name contains this |
//!
//! With one thread, rounds are timed by the thread's CPU time, which excludes other work, and with several by the
//! clock.

use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput};
use rustix::time::{ClockId, clock_gettime};
use uva_bench::{MeasureOptions, measure};
use uva_mem::{PageSize, ZeroedPages, huge_share};
use uva_ops::Vectors;
use uva_rows::{HostPlace, HostSource, MappedTable, NarrowFloat, RowCopy, RowSource, WideningSource};

fn text(name: &str, default: &str) -> String {
    std::env::var(format!("UVATRAIN_BENCH_{name}")).unwrap_or_else(|_| default.to_owned())
}

fn numbers(name: &str, default: &str) -> Vec<usize> {
    text(name, default).split(',').map(|number| number.trim().parse().expect("a number")).collect()
}

/// xorshift64, its high half scaled to the rows.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) as usize * bound) >> 32
    }
}

struct Bench {
    table: ZeroedPages,
    out: ZeroedPages,
    threads: usize,
    pages: PageSize,
    row_bytes: Vec<usize>,
}

impl Bench {
    /// The table's whole rows.
    fn rows(&self, row_bytes: usize) -> &[u8] {
        let table = self.table.bytes();
        &table[..table.len() / row_bytes * row_bytes]
    }
}

fn main() {
    let pages = if text("PAGES", "huge") == "base" { PageSize::Base } else { PageSize::Huge };
    let memory = |mib: usize| ZeroedPages::on(pages, mib << 20).expect("memory");
    let mut bench = Bench {
        table: memory(numbers("TABLE_MIB", "1024")[0]),
        out: memory(numbers("OUT_MIB", "40")[0]),
        threads: numbers("THREADS", "1")[0],
        pages,
        row_bytes: numbers("ROW_BYTES", "128,400,512,1028,2408"),
    };
    for (i, word) in bench.table.bytes_mut().chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&(i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    }
    bench.out.bytes_mut().fill(1);
    let share = |memory: &ZeroedPages| 100.0 * huge_share(memory.bytes()).unwrap_or(f64::NAN);
    println!("on pages of 2 MiB: table {:.0} %, output {:.0} %", share(&bench.table), share(&bench.out));
    by_criterion(&mut bench);
    in_turns(&mut bench);
    halves(&mut bench);
    beside_memcpy(&bench);
}

fn by_criterion(bench: &mut Bench) {
    let mut criterion = Criterion::default().sample_size(20).configure_from_args();
    let mut group = criterion.benchmark_group("gather");
    let mut random = Random(1);
    for row_bytes in bench.row_bytes.clone() {
        let table = bench.table.bytes();
        let rows = table.len() / row_bytes;
        let table = &table[..rows * row_bytes];
        let count = bench.out.bytes().len() / row_bytes;
        let out = &mut bench.out.bytes_mut()[..count * row_bytes];
        let mut gather = MappedTable::new(table, row_bytes, bench.threads).expect("whole rows");
        let mut ids = vec![0i64; count];
        group.throughput(Throughput::Bytes(out.len() as u64));
        group.bench_function(BenchmarkId::new("random rows", row_bytes), |bencher| {
            bencher.iter_batched_ref(
                || {
                    // Fresh for each sample, so that the sample before leaves no rows in a cache.
                    ids.fill_with(|| random.below(rows) as i64);
                    ids.clone()
                },
                |ids| gather.fill(ids, HostPlace::new(&mut *out)).expect("ids in range"),
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
}

/// The methods of moving rows, with their names.
fn ways() -> Vec<(String, RowCopy, Option<NarrowFloat>)> {
    let only = text("WAYS", "");
    let mut ways = Vec::new();
    for vectors in Vectors::available() {
        for streamed in [false, true] {
            for &ahead in &numbers("AHEAD", "0,16,32,48,64,96") {
                for widened in [None, Some(NarrowFloat::F16), Some(NarrowFloat::E4m3)] {
                    if streamed && vectors == Vectors::PORTABLE {
                        continue;
                    }
                    let stores = if streamed { "streamed" } else { "cached" };
                    let kind = match widened {
                        None => "",
                        Some(NarrowFloat::F16) => " f16",
                        Some(NarrowFloat::Bf16) => " bf16",
                        Some(NarrowFloat::E4m3) => " e4m3",
                    };
                    let name = format!("{} {stores} {ahead}{kind}", vectors.name());
                    if only.split(',').any(|only| name.contains(only)) {
                        ways.push((name, RowCopy { vectors, streamed: Some(streamed), ahead }, widened));
                    }
                }
            }
        }
    }
    ways
}

/// Seconds of `work`: CPU time of the thread, or of the clock.
fn seconds(threads: usize, work: impl FnOnce()) -> f64 {
    let cpu = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    };
    let (began, clock) = (cpu(), Instant::now());
    work();
    if threads == 1 { cpu() - began } else { clock.elapsed().as_secs_f64() }
}

fn in_turns(bench: &mut Bench) {
    let rounds = numbers("ROUNDS", "15")[0];
    let mut random = Random(7);
    for row_bytes in bench.row_bytes.clone() {
        let threads = bench.threads;
        let table = bench.table.bytes();
        let rows = table.len() / row_bytes;
        let table = &table[..rows * row_bytes];
        let out = bench.out.bytes_mut();
        let mut gathers: Vec<_> = ways()
            .into_iter()
            .map(|(name, way, widened)| {
                let source = MappedTable::new(table, row_bytes, threads).expect("whole rows").with_copy(way);
                let source: Box<dyn HostSource> = match widened {
                    Some(narrow) => Box::new(WideningSource::new(source, narrow).expect("whole values")),
                    None => Box::new(source),
                };
                (name, source, Vec::new())
            })
            .collect();
        let mut ids = Vec::new();
        for round in 0..=rounds {
            let first = round % gathers.len().max(1);
            gathers.rotate_left(first);
            for (_, gather, times) in &mut gathers {
                let count = out.len() / gather.row_bytes();
                // Twice, so that each method finds only its own data in the caches.
                for warm in [true, false] {
                    ids.clear();
                    ids.extend((0..count).map(|_| random.below(rows) as i64));
                    let out = &mut out[..count * gather.row_bytes()];
                    let taken = seconds(threads, || {
                        gather.fill(&ids, HostPlace::new(&mut *out)).expect("ids in range");
                    });
                    if !warm && round > 0 {
                        times.push(out.len() as f64 / 1e9 / taken);
                    }
                }
            }
        }
        gathers.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, _, rates) in &mut gathers {
            rates.sort_by(f64::total_cmp);
            let (median, best) = (rates[rates.len() / 2], rates[rates.len() - 1]);
            println!("{row_bytes:5} bytes  {name:<24} {median:6.2} GB/s written, at best {best:6.2}");
        }
    }
}

/// A gather compared with its two halves: random reads without writes, and streaming writes of whole lines without
/// reads. Neither half does any other work, so a gather that is as fast as the slower half cannot be improved.
#[cfg(target_arch = "x86_64")]
fn halves(bench: &mut Bench) {
    let rounds = numbers("ROUNDS", "15")[0].max(1);
    let (threads, mut random) = (bench.threads, Random(11));
    for row_bytes in bench.row_bytes.clone() {
        let table = bench.table.bytes();
        let rows = table.len() / row_bytes;
        let table = &table[..rows * row_bytes];
        let out = bench.out.bytes_mut();
        let count = out.len() / row_bytes;
        let out = &mut out[..count * row_bytes];
        let mut gather = MappedTable::new(table, row_bytes, threads).expect("whole rows");
        let mut rates = [const { Vec::new() }; 3];
        for _ in 0..=rounds {
            let ids: Vec<i64> = (0..count).map(|_| random.below(rows) as i64).collect();
            let bytes = out.len() as f64 / 1e9;
            rates[0].push(bytes / seconds(threads, || read_rows(table, row_bytes, &ids, threads)));
            rates[1].push(bytes / seconds(threads, || stream_lines(out, threads)));
            let gathered = seconds(threads, || {
                gather.fill(&ids, HostPlace::new(&mut *out)).expect("ids in range");
            });
            rates[2].push(bytes / gathered);
        }
        let [read, written, gathered] = rates.map(|mut rates| {
            rates.remove(0);
            rates.sort_by(f64::total_cmp);
            rates[rates.len() / 2]
        });
        println!(
            "{row_bytes:5} bytes  only read {read:6.2} GB/s, only written {written:6.2}, gathered {gathered:6.2}: \
             {:.0} % of the slower half",
            100.0 * gathered / read.min(written)
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn halves(_: &mut Bench) {}

/// Runs each part on a thread, the first on this one.
#[cfg(target_arch = "x86_64")]
fn on_threads<T: Send>(parts: Vec<T>, part: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        let mut parts = parts.into_iter();
        let own = parts.next();
        for other in parts {
            scope.spawn(|| part(other));
        }
        own.map(&part);
    });
}

/// Reads rows, prefetched as in a gather.
#[cfg(target_arch = "x86_64")]
fn read_rows(table: &[u8], row_bytes: usize, ids: &[i64], threads: usize) {
    let ahead = RowCopy::best().ahead;
    on_threads(ids.chunks(ids.len().div_ceil(threads)).collect(), |ids: &[i64]| {
        let mut sum = 0u64;
        for (position, &id) in ids.iter().enumerate() {
            if let Some(&next) = ids.get(position + ahead) {
                let row = table[next as usize * row_bytes..].as_ptr();
                for line in 0..(row.addr() % 64 + row_bytes).div_ceil(64) {
                    uva_ops::prefetch(row.wrapping_add(64 * line));
                }
            }
            let row = &table[id as usize * row_bytes..][..row_bytes];
            for word in row.chunks_exact(8) {
                sum = sum.wrapping_add(u64::from_ne_bytes(word.try_into().expect("eight bytes")));
            }
        }
        std::hint::black_box(sum);
    });
}

/// Writes zeros past the caches.
#[cfg(target_arch = "x86_64")]
fn stream_lines(out: &mut [u8], threads: usize) {
    use std::arch::x86_64::{_mm_setzero_si128, _mm_sfence, _mm_stream_si128};
    let part = out.len().div_ceil(threads).next_multiple_of(64);
    on_threads(out.chunks_mut(part).collect(), |out: &mut [u8]| {
        let (_, whole, _) = {
            // SAFETY: any bytes are a vector.
            unsafe { out.align_to_mut::<std::arch::x86_64::__m128i>() }
        };
        for vector in whole {
            // SAFETY: every x86-64 has SSE2, and the reference is aligned.
            unsafe { _mm_stream_si128(vector, _mm_setzero_si128()) };
        }
        // SAFETY: as above.
        unsafe { _mm_sfence() };
    });
}

fn beside_memcpy(bench: &Bench) {
    for &row_bytes in &bench.row_bytes {
        let bytes = bench.out.bytes().len();
        let options = MeasureOptions {
            threads: bench.threads,
            bytes,
            repeats: 21,
            pages: Some(bench.pages),
            ..MeasureOptions::default()
        };
        match measure(bench.rows(row_bytes), row_bytes, options) {
            Ok(m) => println!(
                "{row_bytes}-byte rows, {} thread(s): {:.2} GB/s, memcpy {:.2} GB/s, share {:.0} %",
                m.threads,
                m.gb_per_second,
                m.memcpy_gb_per_second,
                100.0 * m.share_of_memcpy
            ),
            Err(error) => println!("{row_bytes}-byte rows: {error}"),
        }
    }
}
