//! Tables on disk under the conformance checks, with every reader.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use uva_disk::{DiskError, ReaderKind, RowFile, TableShape};
use uva_rows::cache::eviction;
use uva_rows::conformance::{self, Extent, FifoReference, SieveReference};
use uva_rows::{
    Cached, CachedRows, EvictingRows, FileTable, GatherError, HostPlace, LookAheadTable, RowCache, RowOrigin,
    RowSource, RowsRead, SummedValues, SummingSource, WideningSource,
};

/// A folder for one table at a time.
struct Disk {
    folder: tempfile::TempDir,
    reader: ReaderKind,
}

impl Disk {
    /// A folder for this reader; `None` if the system refuses it, which is permitted only for io_uring.
    fn new(reader: ReaderKind) -> Option<Self> {
        let disk = Self { folder: tempfile::tempdir().unwrap(), reader };
        fs::write(disk.path(), [0; 4]).unwrap();
        let shape = TableShape { offset: 0, rows: 1, row_bytes: 4 };
        match RowFile::open(&disk.path(), shape, Some(reader)) {
            Ok(_) => Some(disk),
            Err(DiskError::Refused { reader: ReaderKind::Uring, reason, .. }) => {
                eprintln!("{reason}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("feat.npy")
    }

    /// The table in a file, after a header of an odd length.
    fn rows(&self, table: &[u8], row_bytes: usize, threads: usize) -> FileTable {
        let offset = 131 + table.len() as u64 % 7;
        let mut bytes = vec![0xEE; offset as usize];
        bytes.extend_from_slice(table);
        fs::write(self.path(), bytes).unwrap();
        let shape = TableShape { offset, rows: table.len() / row_bytes, row_bytes };
        FileTable::new(RowFile::open(&self.path(), shape, Some(self.reader)).unwrap(), threads).unwrap()
    }
}

/// The same rows, read ahead of fills, with room for this many of them in memory in addition to the chosen ones.
fn ahead(disk: &Disk, file: FileTable, chosen: Option<Arc<CachedRows>>, room: usize) -> LookAheadTable {
    let again = RowFile::open(&disk.path(), file.file().shape(), Some(disk.reader)).unwrap();
    LookAheadTable::new(file, Some(again), chosen, room).unwrap()
}

/// Every reader that is available here.
fn disks() -> impl Iterator<Item = Disk> {
    ReaderKind::ALL.into_iter().filter_map(Disk::new)
}

fn evicting(policy: &str, rows: &FileTable, capacity: usize) -> EvictingRows {
    let TableShape { rows, row_bytes, .. } = rows.file().shape();
    EvictingRows::new(eviction::by_name(policy).unwrap(), rows, row_bytes, capacity).unwrap()
}

fn cached(rows: FileTable, cache: impl Into<RowCache>) -> Cached<FileTable, RowCache> {
    Cached::on_disk(rows, cache).unwrap()
}

#[test]
fn every_reader_conforms() {
    for disk in disks() {
        conformance::whole_tables(Extent::All, &|table, row_bytes| Box::new(disk.rows(table, row_bytes, 1)));
    }
}

#[test]
fn rows_of_every_size_conform() {
    let disk = Disk::new(ReaderKind::Mmap).unwrap();
    conformance::every_row_size_at_every_offset(
        &|table, row_bytes| Box::new(disk.rows(table, row_bytes, 1)),
        1..=1025,
        [0].into_iter(),
    );
}

#[test]
#[ignore = "8 s of a core: scripts/measure/long_tests.sh"]
fn chosen_rows_in_memory_before_a_table_on_disk_conform() {
    for disk in disks() {
        conformance::static_cache(Extent::All, &|table, row_bytes, ids| {
            let mut rows = disk.rows(table, row_bytes, 1);
            let cache = CachedRows::read(&mut rows, ids).unwrap();
            Box::new(cached(rows, cache))
        });
    }
}

#[test]
fn caches_that_evict_before_a_table_on_disk_conform() {
    for disk in disks() {
        for (policy, reference) in [
            ("fifo", FifoReference::boxed as fn(usize) -> Box<dyn conformance::Reference>),
            ("sieve", SieveReference::boxed),
        ] {
            conformance::evicting_cache(
                Extent::All,
                eviction::by_name(policy).unwrap(),
                &reference,
                &|policy, table, row_bytes, capacity| {
                    let rows = disk.rows(table, row_bytes, 2);
                    let cache = evicting(policy.name, &rows, capacity);
                    Box::new(cached(rows, cache))
                },
            );
        }
    }
}

#[test]
#[ignore = "10 s of a core: scripts/measure/long_tests.sh"]
fn rows_of_disk_are_widened_and_summed_like_those_of_memory() {
    // Both begin with rows in memory, whatever reader read them: this one is the fastest to make.
    let disk = Disk::new(ReaderKind::Mmap).unwrap();
    conformance::widening(&|table, row_bytes, narrow, _| {
        Box::new(WideningSource::new(disk.rows(table, row_bytes, 3), narrow).unwrap())
    });
    conformance::summed(&|table, row_bytes, values, _| {
        Box::new(SummingSource::new(disk.rows(table, row_bytes, 3), values).unwrap())
    });
    conformance::widening(&|table, row_bytes, narrow, ids| {
        let rows = disk.rows(table, row_bytes, 1);
        let cache = evicting("sieve", &rows, ids.len());
        Box::new(WideningSource::new(cached(rows, cache), narrow).unwrap())
    });
    conformance::summed(&|table, row_bytes, values, ids| {
        let mut rows = disk.rows(table, row_bytes, 1);
        let cache = CachedRows::read(&mut rows, ids).unwrap();
        Box::new(SummingSource::new(cached(rows, cache), values).unwrap())
    });
}

#[test]
fn rows_that_are_kept_and_read_ahead_conform() {
    // A separate test checks the readers' conformance; this one is the fastest to make.
    let disk = Disk::new(ReaderKind::Mmap).unwrap();
    for room in [0, 3, 1000] {
        conformance::whole_tables(Extent::All, &|table, row_bytes| {
            Box::new(ahead(&disk, disk.rows(table, row_bytes, 1), None, room))
        });
    }
    conformance::static_cache(Extent::All, &|table, row_bytes, ids| {
        let mut rows = disk.rows(table, row_bytes, 1);
        let chosen = Arc::new(CachedRows::read(&mut rows, ids).unwrap());
        Box::new(ahead(&disk, rows, Some(chosen), 2))
    });
    conformance::widening(&|table, row_bytes, narrow, ids| {
        let rows = disk.rows(table, row_bytes, 2);
        Box::new(WideningSource::new(ahead(&disk, rows, None, ids.len()), narrow).unwrap())
    });
    conformance::summed(&|table, row_bytes, values, ids| {
        let rows = disk.rows(table, row_bytes, 2);
        Box::new(SummingSource::new(ahead(&disk, rows, None, ids.len()), values).unwrap())
    });
}

/// Fills of a table of 2000 rows of 20 bytes, of which some hundred recur.
fn fills() -> Vec<Vec<i64>> {
    let mut x = 7_u64;
    let mut next = || {
        x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (x >> 33) as i64
    };
    let id = |x: i64| if x % 3 == 0 { x / 3 % 2000 } else { x / 3 % 120 };
    (0..40).map(|_| (0..150).map(|_| id(next())).collect()).collect()
}

#[test]
fn rows_are_equal_for_any_look_ahead_and_reads_grow_as_less_is_kept() {
    let table: Vec<u8> = (0..40_000_u32).map(|i| (i * 31 % 251) as u8).collect();
    let fills = fills();
    for disk in disks() {
        let mut asked = Vec::new();
        for (known, room) in [(0, 0), (0, 300), (1, 300), (5, 300), (5, 40), (5, 3000)] {
            let mut rows = ahead(&disk, disk.rows(&table, 20, 1), None, room);
            let (mut told, mut total) = (0, RowsRead::default());
            for (turn, ids) in fills.iter().enumerate() {
                let until = (turn + 1 + known).min(fills.len());
                if known > 0 {
                    let coming: Vec<&[i64]> = fills[told..until].iter().map(Vec::as_slice).collect();
                    RowSource::expect(&mut rows, &coming);
                    told = until;
                }
                let mut out = vec![0; ids.len() * 20];
                let read = rows.fill(ids, HostPlace::new(&mut out)).unwrap();
                assert_eq!(read.total(), ids.len() as u64);
                let same = ids
                    .iter()
                    .zip(out.chunks_exact(20))
                    .all(|(&id, row)| row == &table[id as usize * 20..][..20]);
                assert!(same, "{}: {known} known, room for {room}", disk.reader);
                total = total.and(read);
            }
            let by = |origin| total.rows(origin);
            assert_eq!(by(RowOrigin::ReadAhead) > 0, known > 0 && room > 0, "{total:?}");
            assert_eq!(by(RowOrigin::Kept) > 0, room > 0, "{total:?}");
            // Rows that were read ahead were used as well; a row that a fill names twice counts once as read and once
            // as kept.
            let disk_rows = total.disk().bytes_asked / 20;
            assert!(disk_rows <= by(RowOrigin::ReadAhead) + by(RowOrigin::Disk), "{disk_rows} {total:?}");
            asked.push(disk_rows);
        }
        let [none, kept, one, five, little, all] = asked[..] else { panic!("{asked:?}") };
        assert!(none > kept && kept > one && one > five && little > five && five > all, "{asked:?}");
        let distinct: HashSet<i64> = fills.iter().flatten().copied().collect();
        assert_eq!(all, distinct.len() as u64, "each row is read once");
    }
}

#[test]
fn rows_read_ahead_of_a_file_that_changes_meanwhile_end_in_its_name() {
    for disk in disks() {
        let rows = disk.rows(&[7; 100_000], 100, 1);
        let mut source = ahead(&disk, rows, None, 1000);
        let ids: Vec<i64> = (0..900).collect();
        let later: Vec<i64> = (500..1000).collect();
        RowSource::expect(&mut source, &[&ids, &later]);
        OpenOptions::new().write(true).open(disk.path()).unwrap().set_len(500).unwrap();
        for ids in [&ids, &later] {
            let error = source.fill(ids, HostPlace::new(&mut vec![0; ids.len() * 100])).unwrap_err();
            assert!(error.to_string().starts_with(disk.path().to_str().unwrap()), "{error}");
            assert!(error.to_string().contains("it changed while it was read"), "{error}");
        }
    }
}

#[test]
fn rows_are_counted_by_where_they_came_from_and_reads_by_what_they_took() {
    for disk in disks() {
        let table: Vec<u8> = (0..100_000_u32).map(|i| (i * 31 % 251) as u8).collect();
        let mut rows = disk.rows(&table, 100, 1);
        let mut out = [0; 400];
        let read = rows.fill(&[1, 0, 1, 999], HostPlace::new(&mut out)).unwrap();
        assert_eq!((read.rows(RowOrigin::Disk), read.total(), read.hits()), (4, 4, 0));
        // The first two are in one page.
        let taken = read.disk();
        assert_eq!((taken.bytes_asked, taken.reads), (400, 2));
        assert!((200..=8192 + 512).contains(&taken.bytes_read), "{taken:?}");
        let cache = evicting("fifo", &rows, 10);
        let mut source = cached(rows, cache);
        source.fill(&[5, 6], HostPlace::new(&mut out[..200])).unwrap();
        let read = source.fill(&[5, 7, 6], HostPlace::new(&mut out[..300])).unwrap();
        assert_eq!((read.rows(RowOrigin::Disk), read.rows(RowOrigin::HostCache), read.total()), (1, 2, 3));
        assert_eq!((read.disk().bytes_asked, read.disk().reads), (100, 1));
        assert_eq!(out[..300], [5, 7, 6].map(|id| &table[id * 100..][..100]).concat());
        let read = source.fill(&[5, 6], HostPlace::new(&mut out[..200])).unwrap();
        assert_eq!((read.hits(), read.disk()), (2, Default::default()), "cached rows cost no read");
    }
}

#[test]
fn rows_of_a_file_that_changed_are_an_error_and_come_into_no_cache() {
    for disk in disks() {
        let mut rows = disk.rows(&[7; 10_000], 100, 1);
        let cache = evicting("fifo", &rows, 10);
        let mut out = [0; 200];
        rows.fill(&[3, 4], HostPlace::new(&mut out)).unwrap();
        let mut source = cached(rows, cache);
        OpenOptions::new().write(true).open(disk.path()).unwrap().set_len(500).unwrap();
        for _ in 0..2 {
            // Again: if a row had entered the cache, it would now be a hit.
            let error = source.fill(&[3, 99], HostPlace::new(&mut out)).unwrap_err();
            assert!(matches!(error, GatherError::Disk(DiskError::Changed { .. })), "{error:?}");
            assert!(error.to_string().starts_with(disk.path().to_str().unwrap()), "{error}");
        }
        let alone = source.fill(&[3], HostPlace::new(&mut out[..100])).unwrap_err();
        assert!(alone.to_string().contains("it changed while it was read"), "{alone}");
    }
}

#[test]
fn a_cache_of_another_table_is_refused() {
    let disk = Disk::new(ReaderKind::Mmap).unwrap();
    let rows = disk.rows(&[0; 40], 4, 1);
    let cache = EvictingRows::new(eviction::by_name("fifo").unwrap(), 5, 8, 2).unwrap();
    let error = Cached::on_disk(rows, cache).map(drop).unwrap_err();
    assert_eq!(error, GatherError::OtherTable { rows: 5, row_bytes: 8, table_rows: 10, table_row_bytes: 4 });
    let values = SummedValues { narrow: None, widened_own: false };
    let refused = SummingSource::new(disk.rows(&[0; 30], 6, 1), values).map(drop).unwrap_err();
    assert_eq!(refused, GatherError::NotValues { row_bytes: 6, value_bytes: 4 });
}

/// Rows on both sides of the offsets at which narrower integers overflow, in a file with holes.
#[test]
fn tables_beyond_4_gib_are_addressed_with_64_bits() {
    const ROW_BYTES: usize = 400;
    let write = |path: &Path, offset: u64, rows: usize, ids: &[i64]| {
        let file = OpenOptions::new().create(true).truncate(true).write(true).open(path).unwrap();
        file.set_len(offset + (rows * ROW_BYTES) as u64).unwrap();
        for &id in ids {
            file.write_all_at(&row(id), offset + id as u64 * ROW_BYTES as u64).unwrap();
        }
    };
    fn row(id: i64) -> Vec<u8> {
        (0..ROW_BYTES).map(|i| (id as usize * 31 + i * 7 + 1) as u8).collect()
    }
    for disk in disks() {
        let rows = ((1_usize << 32) + (1 << 20)) / ROW_BYTES;
        let mut ids = vec![0, rows as i64 - 1];
        for edge in [1_usize << 31, 1 << 32] {
            let at = (edge / ROW_BYTES) as i64;
            ids.extend([at - 1, at, at + 1]);
        }
        write(&disk.path(), 128, rows, &ids);
        let shape = TableShape { offset: 128, rows, row_bytes: ROW_BYTES };
        let mut source =
            FileTable::new(RowFile::open(&disk.path(), shape, Some(disk.reader)).unwrap(), 1).unwrap();
        let mut out = vec![0; ids.len() * ROW_BYTES];
        source.fill(&ids, HostPlace::new(&mut out)).unwrap();
        for (&id, out) in ids.iter().zip(out.chunks_exact(ROW_BYTES)) {
            assert!(out == row(id), "{}: row {id}", disk.reader);
        }
    }
}
