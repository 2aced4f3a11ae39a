//! Damaged files: any byte changed, any file truncated, sizes beyond every disk.

use uva_graph::TypedDataset;

use super::sources::SOURCES;
use super::*;

/// Every regular file under a directory.
fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let mut found: Vec<PathBuf> =
        fs::read_dir(path).unwrap().flat_map(|entry| files(&entry.unwrap().path())).collect();
    found.sort_unstable();
    found
}

/// Changes one byte, or truncates the file there, and imports. The result must be a complete dataset, or an error and
/// no files.
fn survives(place: &Place, format: &str, name: &str, variant: Option<&str>) {
    let (rounds, variant) = (100, variant.map(str::to_owned));
    let options = ImportOptions { symmetrise: Some(true.into()), variant, ..Default::default() };
    importer(format)
        .run(&place.path(name), &place.path("out"), &options, &ImportWatch::NONE)
        .expect("the file is fine before anything is done to it");
    let files = files(&place.path(name));
    let mut refused = 0;
    for round in 0..rounds {
        let random = |i: u64, below: usize| (uva_graph::mix(4 * round + i) % below.max(1) as u64) as usize;
        let file = &files[random(0, files.len())];
        let whole = fs::read(file).unwrap();
        let mut bytes = whole.clone();
        let at = random(1, bytes.len());
        match bytes.get_mut(at) {
            Some(byte) if random(2, 4) > 0 => *byte = uva_graph::mix(round) as u8,
            _ => bytes.truncate(at),
        }
        fs::write(file, bytes).unwrap();
        let _ = fs::remove_dir_all(place.path("out"));
        let before = names(place.directory.path());
        let out = place.path("out");
        if let Err(error) = importer(format).run(&place.path(name), &out, &options, &ImportWatch::NONE) {
            let expected = error.is_bad_input() || matches!(error, GraphError::Lacking { .. });
            assert!(expected, "{format}, {} changed at {at}: {error}", file.display());
            assert_eq!(names(place.directory.path()), before, "something is left behind");
            refused += 1;
        } else {
            TypedDataset::open_verified(&out, Verify::FullWithFeatures).unwrap();
        }
        fs::write(file, whole).unwrap();
    }
    assert!(refused > rounds / 10, "{format}: {refused} of {rounds} changes were noticed");
}

#[test]
fn a_changed_byte_anywhere_gives_a_dataset_or_an_error() {
    let read = |source: &&sources::SeedSource| IMPORTERS.iter().any(|row| row.name == source.importer);
    for source in SOURCES.iter().filter(read) {
        // Printed if the test fails.
        println!("{}", source.name);
        let place = Place::new();
        sources::pack(&place.path("graph"), source.files(), zip::CompressionMethod::Deflated);
        survives(&place, source.importer, &format!("graph/{}", source.path), source.variant);
    }
    let place = Place::new();
    place.write(
        "graph.zst",
        ruzstd::encoding::compress_to_vec(
            &b"0 1\n1 2\n2 0\n5 5\n"[..],
            ruzstd::encoding::CompressionLevel::Fastest,
        ),
    );
    survives(&place, "edgelist", "graph.zst", None);
}

#[test]
fn every_importer_has_a_source_that_is_changed() {
    for importer in IMPORTERS {
        assert!(SOURCES.iter().any(|source| source.importer == importer.name), "{importer:?}");
    }
}

#[test]
fn what_the_disk_has_no_room_for_is_refused_before_it_begins() {
    let place = Place::new();
    igb::write(&place);
    // Two rows of 2 TiB, of which the file has only the header.
    let path = place.path("tiny/processed/paper/node_feat.npy");
    place.npy("tiny/processed/paper/node_feat.npy", NpyType::U8, &[1 << 40], &[0_u8; 0]);
    let header = fs::read(&path).unwrap();
    let header = String::from_utf8_lossy(&header[10..]).replace("(0, ", "(2, ");
    fs::write(&path, [b"\x93NUMPY\x01\x00\x76\x00", header.as_bytes()].concat()).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(128 + (2 << 40)).unwrap();
    place.npy("tiny/processed/paper/node_label_19.npy", NpyType::I64, &[], &[0_i64, 1]);
    let before = names(place.directory.path());
    let error = place.import("igb", "tiny", &ImportOptions::default()).unwrap_err();
    assert!(matches!(error, GraphError::Lacking { .. }) && !error.is_bad_input(), "{error}");
    assert!(error.to_string().contains("the dataset takes 2048.0 GiB"), "{error}");
    assert_eq!(names(place.directory.path()), before, "something is left behind");
}
