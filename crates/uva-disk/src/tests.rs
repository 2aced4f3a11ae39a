//! Tests of readers with failing and short reads, by injected results of the system.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;

use crate::files::seam::Seam;
use crate::{AheadReader, AheadResult, AheadRow, DiskError, ReaderKind, RowFile, RunFiles, TableShape};

const ROW_BYTES: usize = 700;
const OFFSET: u64 = 131;
const SHAPE: TableShape = TableShape { offset: OFFSET, rows: 3000, row_bytes: ROW_BYTES };

/// A table of bytes that differ between neighbours and rows, and its folder.
fn table() -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let bytes: Vec<u8> = (0..OFFSET + (SHAPE.rows * ROW_BYTES) as u64)
        .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("feat.npy");
    std::fs::write(&path, &bytes).unwrap();
    (folder, path, bytes)
}

/// More extents than any reader has in flight, with rows that repeat.
fn rows() -> Vec<u64> {
    (0..1200_u64).map(|i| i * 7919 % 1500 * 2).collect()
}

fn read(file: &mut RowFile, rows: &[u64]) -> Result<Vec<u8>, DiskError> {
    let mut out = vec![0; rows.len() * ROW_BYTES];
    file.read(rows.iter().copied().enumerate(), |place, row| {
        out[place * ROW_BYTES..][..ROW_BYTES].copy_from_slice(row);
    })?;
    Ok(out)
}

fn expected(bytes: &[u8], rows: &[u64]) -> Vec<u8> {
    rows.iter()
        .flat_map(|&row| &bytes[OFFSET as usize + row as usize * ROW_BYTES..][..ROW_BYTES])
        .copied()
        .collect()
}

/// Reads the file by each reader that works on this system, with these results. A system without io_uring has two
/// readers.
fn by_each_reader(path: &Path, seam: impl Fn() -> Seam, check: impl Fn(ReaderKind, RowFile)) {
    for kind in ReaderKind::ALL {
        match RowFile::through(path, SHAPE, Some(kind), seam()) {
            Ok(file) => check(kind, file),
            Err(DiskError::Refused { reader: ReaderKind::Uring, reason, .. }) => eprintln!("{reason}"),
            Err(error) => panic!("{kind}: {error}"),
        }
    }
}

/// Scattered numbers that are the same in each test.
fn scatter(x: u64) -> u64 {
    let x = (x + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 17
}

#[test]
fn after_short_interrupted_or_failed_reads_every_row_is_right() {
    let (_folder, path, bytes) = table();
    let seam = || {
        let calls = AtomicU64::new(0);
        Seam::injecting(move |_, answer| {
            let x = scatter(calls.fetch_add(1, Ordering::Relaxed));
            match (x % 8, answer) {
                (0, _) => Err(Errno::INTR),
                (1, _) if x.is_multiple_of(3) => Err(Errno::AGAIN),
                // At least a byte, since zero bytes mean the end of the file.
                (2 | 3, Ok(read)) if read > 1 => Ok(1 + (x / 8) as usize % (read - 1)),
                (_, answer) => answer,
            }
        })
    };
    by_each_reader(&path, seam, |kind, mut file| {
        let rows = rows();
        assert!(read(&mut file, &rows).unwrap() == expected(&bytes, &rows), "{kind}: other bytes");
    });
}

#[test]
fn without_o_direct_pread_uses_the_page_cache_and_says_why() {
    let (_folder, path, bytes) = table();
    let mut file = RowFile::through(&path, SHAPE, None, Seam::refusing_direct_reads()).unwrap();
    assert_eq!(file.reader(), ReaderKind::Pread);
    assert_eq!(file.passed_over().len(), 1, "{:?}", file.passed_over());
    let how = file.how();
    // A file system without O_DIRECT has reported that already.
    let says = ["reads with it are refused: ", "does not support it"];
    assert!(how.contains("through the page cache") && says.iter().any(|text| how.contains(text)), "{how}");
    assert!(read(&mut file, &rows()).unwrap() == expected(&bytes, &rows()));
}

#[test]
fn a_file_that_changed_since_it_was_checked_is_not_read() {
    let (folder, path, bytes) = table();
    let state = || uva_mem::FileState::of(&std::fs::File::open(&path).unwrap()).unwrap();
    let checked = state();
    let open = || RowFile::open(&path, SHAPE, Some(ReaderKind::Pread)).unwrap();
    assert!(read(&mut open().since(checked).unwrap(), &[7]).unwrap() == expected(&bytes, &[7]));
    // The same bytes in another file, to which a check of the first file does not apply.
    std::fs::copy(&path, folder.path().join("new")).unwrap();
    std::fs::rename(folder.path().join("new"), &path).unwrap();
    let error = open().since(checked).err().expect("another file");
    assert!(matches!(&error, DiskError::Changed { what, .. } if what.contains("another file")), "{error}");
    let runs = || RunFiles::open(&[(path.as_path(), SHAPE)], Some(ReaderKind::Pread)).unwrap();
    assert!(runs().since(&[checked]).is_err());
    assert!(runs().since(&[state()]).is_ok());
}

/// Rows to be read ahead, each with its own buffer.
fn wanted(rows: impl Iterator<Item = u64>) -> Vec<AheadRow> {
    rows.map(|row| AheadRow { tag: row as u32 + 1, row, bytes: vec![0; ROW_BYTES].into() }).collect()
}

/// Waits for all jobs in flight.
fn answers(ahead: &mut AheadReader) -> Vec<AheadResult> {
    std::iter::from_fn(|| ahead.wait()).collect()
}

#[test]
fn rows_read_ahead_survive_short_reads_and_an_error_comes_with_its_rows() {
    let (_folder, path, bytes) = table();
    // In a row of the first job, and not in the pages of the second.
    let bad = 4096 * 40;
    let seam = || {
        let (calls, failures) = (AtomicU64::new(0), AtomicU64::new(0));
        Seam::injecting(move |offset, answer| {
            let x = scatter(calls.fetch_add(1, Ordering::Relaxed));
            let is_bad = |read: usize| offset <= bad && bad < offset + read as u64;
            match answer {
                Ok(read) if is_bad(read) && failures.fetch_add(1, Ordering::Relaxed) == 0 => Err(Errno::IO),
                Ok(read) if x.is_multiple_of(3) && read > 1 => Ok(1 + (x / 8) as usize % (read - 1)),
                _ if x.is_multiple_of(7) => Err(Errno::INTR),
                answer => answer,
            }
        })
    };
    by_each_reader(&path, seam, |kind, file| {
        let mut ahead = AheadReader::new(file).unwrap();
        ahead.read(wanted((100..400).rev()));
        ahead.read(wanted((1000..3000).step_by(3)));
        let found = answers(&mut ahead);
        let [first, second] = &found[..] else { panic!("{kind}: {} answers", found.len()) };
        let error = first.read.as_ref().unwrap_err();
        assert!(matches!(error, DiskError::Read { .. }), "{kind}: {error:?}");
        assert!(error.to_string().starts_with(path.to_str().unwrap()), "{kind}: {error}");
        assert_eq!((first.rows.len(), second.rows.len()), (300, 667));
        // A second request returns them.
        ahead.read(wanted(100..400));
        let again = ahead.wait().unwrap();
        for AheadResult { rows, read } in [second, &again] {
            let read = read.as_ref().unwrap();
            assert_eq!(read.bytes_asked, (rows.len() * ROW_BYTES) as u64, "{kind}");
            for AheadRow { tag, row, bytes: found } in rows {
                assert_eq!(u64::from(*tag), row + 1);
                assert!(found[..] == expected(&bytes, &[*row]), "{kind}: row {row}");
            }
        }
        assert!(ahead.wait().is_none() && ahead.answered().is_none());
    });
}

#[test]
fn when_a_reader_ahead_is_dropped_it_reads_nothing_more() {
    let (_folder, path, _) = table();
    let calls = Arc::new(AtomicU64::new(0));
    let counted = || {
        let calls = Arc::clone(&calls);
        Seam::injecting(move |_, answer| {
            calls.fetch_add(1, Ordering::Relaxed);
            answer
        })
    };
    by_each_reader(&path, counted, |kind, file| {
        let before = calls.load(Ordering::Relaxed);
        let mut ahead = AheadReader::new(file).unwrap();
        // Each page is a read of its own.
        (0..500).for_each(|_| ahead.read(wanted((0..3000).step_by(13))));
        ahead.wait().unwrap();
        drop(ahead);
        let after = calls.load(Ordering::Relaxed);
        assert!(after - before < 500 * 200, "{kind}: all of it was read");
        std::thread::yield_now();
        assert_eq!(calls.load(Ordering::Relaxed), after, "{kind}");
    });
}

#[test]
fn a_device_error_names_file_and_offset_and_later_reads_are_whole() {
    let (_folder, path, bytes) = table();
    // Within the rows that are read.
    let bad = 4096 * 200;
    let seam = || {
        let failures = AtomicU64::new(0);
        Seam::injecting(move |offset, answer| {
            let hit = offset <= bad && answer.is_ok_and(|read| bad < offset + read as u64);
            if hit && failures.fetch_add(1, Ordering::Relaxed) == 0 { Err(Errno::IO) } else { answer }
        })
    };
    by_each_reader(&path, seam, |kind, mut file| {
        let rows = rows();
        let error = read(&mut file, &rows).unwrap_err();
        let DiskError::Read { offset, length, reason, .. } = &error else { panic!("{kind}: {error:?}") };
        assert!(*offset <= bad && bad < offset + *length as u64, "{kind}: {error}");
        assert!(reason.contains("os error 5"), "{kind}: {error}");
        assert!(error.to_string().starts_with(path.to_str().unwrap()), "{kind}: {error}");
        assert!(read(&mut file, &rows).unwrap() == expected(&bytes, &rows), "{kind}: other bytes");
    });
}

#[test]
fn a_read_that_never_succeeds_ends_with_the_name_of_the_file() {
    let (_folder, path, _) = table();
    let seam = || {
        Seam::injecting(|offset, answer| {
            // The probe reads the file's beginning.
            if offset > 4096 { Err(Errno::AGAIN) } else { answer }
        })
    };
    by_each_reader(&path, seam, |kind, mut file| {
        let error = read(&mut file, &[2990]).unwrap_err().to_string();
        assert!(error.contains("feat.npy") && error.contains("however often"), "{kind}: {error}");
    });
}

#[test]
fn what_was_not_read_is_never_delivered() {
    let (_folder, path, bytes) = table();
    // A reader that takes a short read for a complete one delivers the bytes that the seam overwrites.
    let seam = || Seam::injecting(|_, answer| answer.map(|read| read.min(4096)));
    by_each_reader(&path, seam, |kind, mut file| {
        let rows: Vec<u64> = (0..400).collect();
        assert!(read(&mut file, &rows).unwrap() == expected(&bytes, &rows), "{kind}: other bytes");
    });
}

#[test]
fn a_delivery_that_panics_leaves_nothing_under_way() {
    let (_folder, path, bytes) = table();
    by_each_reader(&path, Seam::default, |kind, mut file| {
        let rows = rows();
        // More often than any reader has buffers.
        for _ in 0..100 {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                file.read(rows.iter().copied().enumerate(), |_, _| panic!("a delivery that fails"))
            }));
            assert!(panicked.is_err() || panicked.is_ok_and(|read| read.is_err()), "{kind}");
        }
        match read(&mut file, &rows) {
            Ok(read) => assert!(read == expected(&bytes, &rows), "{kind}: other bytes"),
            Err(error) => {
                assert!(error.to_string().contains("an earlier read has failed"), "{kind}: {error}")
            }
        }
    });
}

/// Three tables of rows of different sizes.
fn tables(folder: &Path) -> Vec<(PathBuf, TableShape, Vec<u8>)> {
    let table = |(number, row_bytes): (u64, usize)| {
        let shape = TableShape { offset: 4096, rows: 900, row_bytes };
        let bytes: Vec<u8> =
            (0..4096 + 900 * row_bytes as u64).map(|i| scatter(i << 2 | number) as u8).collect();
        let path = folder.join(format!("hop{number}.npy"));
        std::fs::write(&path, &bytes).unwrap();
        (path, shape, bytes)
    };
    [(0, 90), (1, 700), (2, 4096)].into_iter().map(table).collect()
}

#[test]
fn runs_of_several_files_survive_short_reads_and_faults_name_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let tables = tables(folder.path());
    let opened: Vec<(&Path, TableShape)> = tables.iter().map(|(path, shape, _)| (&**path, *shape)).collect();
    let runs = [500..640, 0..1, 3..200, 899..900, 220..221];
    let rows: usize = runs.iter().map(ExactSizeIterator::len).sum();
    for kind in ReaderKind::ALL {
        let calls = AtomicU64::new(0);
        let seam = Seam::injecting(move |_, answer| {
            let x = scatter(calls.fetch_add(1, Ordering::Relaxed));
            match (x % 4, answer) {
                (0, _) => Err(Errno::INTR),
                (1 | 2, Ok(read)) if read > 1 => Ok(1 + (x / 8) as usize % (read - 1)),
                (_, answer) => answer,
            }
        });
        let mut files = match RunFiles::through(&opened, Some(kind), seam) {
            Ok(files) => files,
            Err(DiskError::Refused { reader: ReaderKind::Uring, reason, .. }) => {
                eprintln!("{reason}");
                continue;
            }
            Err(error) => panic!("{kind}: {error}"),
        };
        let mut found: Vec<Vec<u8>> =
            tables.iter().map(|(_, shape, _)| vec![0; rows * shape.row_bytes]).collect();
        let read = files
            .read(&runs, |table, at, bytes| found[table][at..at + bytes.len()].copy_from_slice(bytes))
            .unwrap();
        let wanted = |(_, shape, bytes): &(PathBuf, TableShape, Vec<u8>)| -> Vec<u8> {
            let of = |run: &std::ops::Range<usize>| {
                let at = |row: usize| 4096 + row * shape.row_bytes;
                bytes[at(run.start)..at(run.end)].to_vec()
            };
            runs.iter().flat_map(of).collect()
        };
        assert!(found == tables.iter().map(wanted).collect::<Vec<_>>(), "{kind}: other bytes");
        let asked: usize = tables.iter().map(|(_, shape, _)| rows * shape.row_bytes).sum();
        assert_eq!(read.bytes_asked, asked as u64);
        assert!(read.bytes_read <= read.bytes_asked + 8192 * (runs.len() * tables.len()) as u64, "{kind}");
        // The last table changes length: all bytes read are invalid.
        let (path, _, bytes) = &tables[2];
        std::fs::File::options().write(true).open(path).unwrap().set_len(8000).unwrap();
        let error = files.read(&runs, |_, _, _| {}).unwrap_err().to_string();
        assert!(error.contains("hop2.npy: it changed while it was read"), "{kind}: {error}");
        let error = RunFiles::open(&opened, Some(kind)).err().unwrap().to_string();
        assert!(error.contains("hop2.npy: it ends at byte 8000"), "{kind}: {error}");
        std::fs::write(path, bytes).unwrap();
    }
}

#[test]
fn without_direct_reads_threads_read_through_the_page_cache_and_say_so() {
    let (_folder, path, bytes) = table();
    let mut file = RowFile::through(&path, SHAPE, None, Seam::refusing_direct()).unwrap();
    assert_eq!(file.reader(), ReaderKind::Pread);
    let [line] = file.passed_over() else { panic!("{:?}", file.passed_over()) };
    assert!(line.starts_with("uring is not used: it needs O_DIRECT"), "{line}");
    assert!(file.how().contains("without O_DIRECT"), "{}", file.how());
    let rows = rows();
    assert!(read(&mut file, &rows).unwrap() == expected(&bytes, &rows));
    let refused = RowFile::through(&path, SHAPE, Some(ReaderKind::Uring), Seam::refusing_direct());
    let error = refused.err().unwrap().to_string();
    assert!(error.contains("feat.npy: uring cannot read it: it needs O_DIRECT"), "{error}");
}
