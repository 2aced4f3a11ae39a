//! Every reader compared with plain reads, and files that change.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use uva_disk::{DiskError, ReaderKind, RowFile, TableShape};

/// The readers that work here for files in this folder. Only io_uring may be refused.
fn readers(folder: &Path) -> Vec<ReaderKind> {
    let path = folder.join("probe");
    fs::write(&path, [1; 5000]).unwrap();
    let shape = TableShape { offset: 0, rows: 5, row_bytes: 1000 };
    let works = |kind: &ReaderKind| match RowFile::open(&path, shape, Some(*kind)) {
        Ok(_) => true,
        Err(DiskError::Refused { reader: ReaderKind::Uring, reason, .. }) => {
            eprintln!("{reason}");
            false
        }
        Err(error) => panic!("{error}"),
    };
    ReaderKind::ALL.into_iter().filter(works).collect()
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn read(file: &mut RowFile, rows: &[u64]) -> Result<Vec<u8>, DiskError> {
    let row_bytes = file.shape().row_bytes;
    let mut out = vec![0x5A; rows.len() * row_bytes];
    let mut times = vec![0; rows.len()];
    let taken = file.read(rows.iter().copied().enumerate(), |place, row| {
        out[place * row_bytes..][..row_bytes].copy_from_slice(row);
        times[place] += 1;
    })?;
    assert!(times.iter().all(|&times| times == 1), "each row is delivered once: {times:?}");
    assert_eq!(taken.bytes_asked, (rows.len() * row_bytes) as u64);
    assert!(taken.reads as usize <= rows.len() && (taken.bytes_read > 0) != rows.is_empty());
    Ok(out)
}

fn expected(bytes: &[u8], shape: TableShape, rows: &[u64]) -> Vec<u8> {
    let row =
        |&row: &u64| &bytes[shape.offset as usize + row as usize * shape.row_bytes..][..shape.row_bytes];
    rows.iter().flat_map(row).copied().collect()
}

/// Ids with repeats, the first and the last row, and adjacent rows.
fn ids(rows: u64, count: u64, seed: u64) -> Vec<u64> {
    let mut ids = vec![rows - 1, 0, 0];
    ids.extend((0..count).map(|i| (seed + i * 7919 + i * i % 13) % rows));
    ids.extend((rows / 2)..(rows / 2 + 5).min(rows));
    ids
}

#[test]
fn every_reader_reads_rows_of_any_size_and_offset_as_a_plain_read_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("feat.npy");
    let contents = bytes(300_001);
    fs::write(&path, &contents).unwrap();
    let sizes =
        (1..=70).chain((71..4100).step_by(61)).chain([127, 128, 129, 511, 512, 513, 4095, 4096, 4097, 4100]);
    for row_bytes in sizes {
        for offset in [0_u64, 1, 80, 128, 4095, 4096, 4097] {
            let rows = (contents.len() - offset as usize) / row_bytes;
            let shape = TableShape { offset, rows, row_bytes };
            let wanted = ids(rows as u64, 120, offset + row_bytes as u64);
            // mmap is the fastest to open: it is tested with every offset, the others with one of each size.
            let kinds: &[ReaderKind] = match (offset as usize).is_multiple_of(2) {
                _ if offset as usize == [0, 1, 80, 128, 4095, 4096, 4097][row_bytes % 7] => &ReaderKind::ALL,
                _ => &[ReaderKind::Mmap],
            };
            for &kind in kinds {
                let mut file = match RowFile::open(&path, shape, Some(kind)) {
                    Ok(file) => file,
                    Err(DiskError::Refused { reader: ReaderKind::Uring, .. }) => continue,
                    Err(error) => panic!("{error}"),
                };
                let read = read(&mut file, &wanted).unwrap();
                assert!(
                    read == expected(&contents, shape, &wanted),
                    "{kind}: rows of {row_bytes} bytes from byte {offset} on: other bytes"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_reader_reads_any_rows_of_any_table_twice_the_same(
        row_bytes in 1usize..=4100,
        offset in 0u64..9000,
        seeds in proptest::collection::vec(any::<u64>(), 0..700),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("feat.npy");
        let contents = bytes(700_000);
        fs::write(&path, &contents).unwrap();
        let rows = (contents.len() - offset as usize) / row_bytes;
        let shape = TableShape { offset, rows, row_bytes };
        let wanted: Vec<u64> = seeds.iter().map(|seed| seed % rows as u64).collect();
        for kind in readers(folder.path()) {
            let mut file = RowFile::open(&path, shape, Some(kind)).unwrap();
            for _ in 0..2 {
                let read = read(&mut file, &wanted).unwrap();
                prop_assert!(read == expected(&contents, shape, &wanted), "{kind}");
            }
        }
    }
}

#[test]
fn rows_of_one_page_are_one_read_and_the_bytes_read_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("feat.npy");
    let contents = bytes(1 << 20);
    fs::write(&path, &contents).unwrap();
    let shape = TableShape { offset: 128, rows: 1000, row_bytes: 400 };
    for kind in readers(folder.path()) {
        let mut file = RowFile::open(&path, shape, Some(kind)).unwrap();
        // The first two are in one page; the third is far away.
        let taken = file.read([(0, 1), (1, 2), (2, 2), (3, 900)].into_iter(), |_, _| {}).unwrap();
        assert_eq!((taken.bytes_asked, taken.reads), (1600, 2), "{kind}");
        assert!(
            taken.bytes_read.is_multiple_of(512) && (1024..=12288).contains(&taken.bytes_read),
            "{kind}: {taken:?}"
        );
    }
}

/// Writes to the file and sets its old time back, until the clock of such times has ticked.
fn write_under_the_old_time(path: &Path) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let before = file.metadata().unwrap();
    let since = Instant::now();
    let changed = || file.metadata().map(|now| (now.ctime(), now.ctime_nsec())).unwrap();
    while changed() == (before.ctime(), before.ctime_nsec()) {
        assert!(since.elapsed() < Duration::from_secs(60), "the status change time stays");
        file.write_all_at(b"others", 1 << 10).unwrap();
        file.set_modified(before.modified().unwrap()).unwrap();
    }
}

#[test]
fn a_file_truncated_changed_or_replaced_ends_the_read_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("feat.npy");
    let contents = bytes(1 << 20);
    let shape = TableShape { offset: 128, rows: 1300, row_bytes: 800 };
    let rows = ids(1300, 200, 1);
    type Deed = fn(&Path);
    let deeds: [(Deed, &str); 6] = [
        (|path| OpenOptions::new().write(true).open(path).unwrap().set_len(5000).unwrap(), "and has 5000"),
        (|path| OpenOptions::new().write(true).open(path).unwrap().set_len(0).unwrap(), "and has 0"),
        (
            |path| {
                let file = OpenOptions::new().write(true).open(path).unwrap();
                // A time other than that of the write before, however coarse the clock.
                file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
            },
            "it was written to",
        ),
        (write_under_the_old_time, "its status change time differs"),
        (
            |path| {
                let other = path.with_extension("new");
                fs::copy(path, &other).unwrap();
                fs::rename(other, path).unwrap();
            },
            "another file has taken its place",
        ),
        (|path| fs::remove_file(path).unwrap(), "it is no longer there"),
    ];
    for kind in readers(folder.path()) {
        for (deed, what) in deeds {
            fs::write(&path, &contents).unwrap();
            let mut file = RowFile::open(&path, shape, Some(kind)).unwrap();
            assert!(read(&mut file, &rows).unwrap() == expected(&contents, shape, &rows));
            deed(&path);
            let error = read(&mut file, &rows).unwrap_err();
            assert!(matches!(error, DiskError::Changed { .. }), "{kind}: {error:?}");
            let error = error.to_string();
            assert!(error.starts_with(path.to_str().unwrap()) && error.contains(what), "{kind}: {error}");
        }
    }
}

#[test]
fn a_file_that_grows_or_is_written_to_is_no_longer_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("feat.npy");
    fs::write(&path, bytes(1 << 20)).unwrap();
    let shape = TableShape { offset: 0, rows: 100, row_bytes: 1000 };
    for kind in readers(folder.path()) {
        let mut file = RowFile::open(&path, shape, Some(kind)).unwrap();
        read(&mut file, &[0, 99]).unwrap();
        let length = fs::metadata(&path).unwrap().len();
        OpenOptions::new().write(true).open(&path).unwrap().write_all_at(b"more", length).unwrap();
        let error = read(&mut file, &[0, 99]).unwrap_err().to_string();
        assert!(error.contains("feat.npy: it changed while it was read"), "{kind}: {error}");
    }
}

#[test]
fn a_missing_or_short_file_and_a_directory_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("feat.npy");
    let shape = TableShape { offset: 128, rows: 10, row_bytes: 100 };
    let refused = |path: &Path| RowFile::open(path, shape, None).err().unwrap();
    assert!(matches!(refused(&path), DiskError::Open { .. }));
    assert!(refused(folder.path()).to_string().contains("directory"));
    for length in [0, 1, 1127] {
        fs::write(&path, bytes(length)).unwrap();
        let error = refused(&path);
        assert!(matches!(error, DiskError::TooShort { needed: 1128, .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("ends at byte {length}")), "{error}");
    }
    fs::write(&path, bytes(1128)).unwrap();
    let mut file = RowFile::open(&path, shape, None).unwrap();
    assert!(read(&mut file, &[9]).unwrap() == bytes(1128)[1028..]);
    let overflowing = TableShape { rows: usize::MAX, row_bytes: usize::MAX, ..shape };
    assert!(matches!(
        RowFile::open(&path, overflowing, Some(ReaderKind::Mmap)),
        Err(DiskError::TooShort { .. })
    ));
}
