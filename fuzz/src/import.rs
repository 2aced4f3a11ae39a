//! Importers. An accepted import must be a dataset that opens.

use std::fs;

use uva_graph::csc::SelfLoops;
use uva_graph::{TypedDataset, Verify};
use uva_io::import::{self, ImportOptions, ImportWatch};

use crate::dataset::look_at;
use crate::files::{self, directory};
use crate::sources::{SeedSource, pack};

/// Lets the source's importer read its files after the input has changed some.
pub fn import(source: &SeedSource, input: &[u8]) -> bool {
    let mut files = source.files().clone();
    // The first byte selects the conversions of the import.
    let Some((&how, input)) = input.split_first() else { return false };
    files::change(&mut files, input);
    let directory = directory();
    let (place, out) = (directory.path().join("source"), directory.path().join("out"));
    pack(&place, &files, zip::CompressionMethod::Stored);
    let takes_reverse = source.is_typed();
    let options = ImportOptions {
        symmetrise: Some((how & 1 != 0).into()),
        deduplicate: (how & 2 != 0).then_some((how & 4 != 0).into()),
        self_loops: (how & 8 != 0).then_some(SelfLoops::Add.into()),
        reverse: (takes_reverse && how & 16 != 0).then_some((how & 32 != 0).into()),
        variant: source.variant.map(str::to_owned),
        ..ImportOptions::default()
    };
    let importer = import::importer(source.importer).expect("an importer");
    let imported = importer.run(&place.join(source.path), &out, &options, &ImportWatch::NONE);
    if imported.is_ok() {
        let how = Verify::FullWithFeatures;
        let dataset = TypedDataset::open_verified(&out, how).expect("what was imported is a dataset");
        if let Ok(dataset) = dataset.single_type() {
            look_at(&dataset);
        }
    } else {
        let left: Vec<_> = fs::read_dir(directory.path()).expect("a directory").flatten().collect();
        assert_eq!(left.len(), 1, "an import that failed left something: {left:?}");
    }
    imported.is_ok()
}

/// Inputs that change nothing.
pub fn seeds(source: &SeedSource) -> Vec<Vec<u8>> {
    files::seeds(source.files()).into_iter().map(|seed| [vec![0], seed].concat()).collect()
}
