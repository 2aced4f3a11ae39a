//! `--from igb`.

use uva_graph::Split;
use uva_graph::csc::SelfLoops;

use super::*;

pub fn write(place: &Place) {
    place.npy(
        "tiny/processed/paper/node_feat.npy",
        NpyType::F32,
        &[2],
        &[0_f32, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
    );
    place.npy(
        "tiny/processed/paper/node_label_19.npy",
        NpyType::F32,
        &[],
        &[0_f32, 18.0, 3.0, 3.0, f32::NAN],
    );
    place.npy("tiny/processed/paper/node_label_2K.npy", NpyType::I64, &[], &[2982_i64, 0, 1, 2, 3]);
    place.npy(
        "tiny/processed/paper__cites__paper/edge_index.npy",
        NpyType::I64,
        &[2],
        &[4_i64, 0, 1, 0, 2, 2, 0, 4],
    );
}

#[test]
fn the_tables_become_a_dataset_with_igbs_own_splits_and_self_loops() {
    let place = Place::new();
    write(&place);
    let plain = ImportOptions::default();
    for source in ["tiny", "tiny/processed"] {
        let dataset = place.import("igb", source, &plain).unwrap();
        assert_eq!(lists(&dataset), [vec![4, 1, 0], vec![1], vec![2], vec![3], vec![0, 4]]);
        assert_eq!((labels(&dataset), dataset.classes()), (&[0, 18, 3, 3, -1][..], 19));
        assert_eq!(dataset.split(Split::Train), [0, 1, 2]);
        assert_eq!(dataset.split(Split::Valid), [3]);
        assert_eq!(dataset.split(Split::Test), [4]);
    }
    let other =
        ImportOptions { variant: Some("2K".into()), self_loops: Some(SelfLoops::Keep.into()), ..plain };
    let dataset = place.import("igb", "tiny", &other).unwrap();
    assert_eq!((labels(&dataset)[0], dataset.classes()), (2982, 2983));
    assert_eq!(lists(&dataset), [vec![4, 1], vec![], vec![2], vec![], vec![0]]);
}

#[test]
fn tables_without_a_header_are_read_as_numpys_memmap_left_them() {
    let place = Place::new();
    write(&place);
    let rows: Vec<f32> = (0..3 * 1024).map(|i| i as f32).collect();
    place.write("tiny/processed/paper/node_feat.npy", bytemuck::cast_slice(&rows));
    place.write("tiny/processed/paper/node_label_19.npy", bytemuck::cast_slice(&[1_f32, 2.0, 3.0]));
    place.npy("tiny/processed/paper__cites__paper/edge_index.npy", NpyType::I32, &[2], &[2_i32, 0]);
    let dataset = place.import("igb", "tiny", &ImportOptions::default()).unwrap();
    assert_eq!((dataset.nodes(), dataset.table().dim), (3, 1024));
    assert_eq!((floats(&dataset)[1025], labels(&dataset)), (1025.0, &[1, 2, 3][..]));
}

#[test]
fn a_mismatch_is_reported_with_file_and_place() {
    let refused = |change: &dyn Fn(&Place), part: &str| {
        let place = Place::new();
        write(&place);
        change(&place);
        let message = place.refusal("igb", "tiny", &ImportOptions::default());
        assert!(message.contains(part), "{message} instead of {part}");
    };
    let file = "tiny/processed/paper__cites__paper/edge_index.npy";
    refused(
        &|p| p.npy(file, NpyType::I64, &[2], &[0_i64, 5]),
        "edge_index.npy: entry 1 at offset 136, the destination of edge 0, is 5, outside the ids 0 to 4 (node_feat.npy has 5 rows)",
    );
    refused(&|p| p.npy(file, NpyType::I64, &[3], &[0_i64, 1, 2]), "[edges, 2]");
    refused(&|p| p.npy(file, NpyType::F32, &[2], &[0_f32, 1.0]), "an integer type");
    refused(&|p| fs::remove_file(p.path(file)).unwrap(), "cannot open");
    let label = "tiny/processed/paper/node_label_19.npy";
    refused(
        &|p| p.npy(label, NpyType::I64, &[], &[19_i64, 0, 0, 0, 0]),
        "entry 0 at offset 128 is 19, a label outside -1 to 18",
    );
    refused(&|p| p.npy(label, NpyType::I64, &[], &[0_i64]), "the shape is [1]");
    refused(&|p| drop(p.write("tiny/processed/paper/node_feat.npy", "half a row")), "not a .npy file");
    refused(&|p| drop(p.write("tiny/processed/paper/node_feat.npy", [0x93, b'N'])), "truncated");
    let place = Place::new();
    write(&place);
    let other = ImportOptions { variant: Some("7".into()), ..Default::default() };
    assert!(place.refusal("igb", "tiny", &other).contains("`variant`: invalid set of IGB labels '7'"));
}
