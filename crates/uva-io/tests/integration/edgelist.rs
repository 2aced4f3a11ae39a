//! `--from edgelist`.

use uva_graph::Split;
use uva_io::import::{EdgeList, Ids, ThirdColumn};

use super::*;

/// What `printf '0 1\n1 2\n' | zstd --check` writes.
const ZST: [u8; 21] = [
    0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x41, 0x00, 0x00, 0x30, 0x20, 0x31, 0x0a, 0x31, 0x20, 0x32, 0x0a,
    0x50, 0xbb, 0xb4, 0x4b,
];

fn with(edge_list: EdgeList) -> ImportOptions {
    ImportOptions { edge_list, ..Default::default() }
}

fn node_ids(dataset: &Dataset) -> Vec<i64> {
    let array = uva_graph::npy::NpyArray::open(&dataset.path().join("node_id.npy")).unwrap();
    array.elements::<i64>(NpyType::I64).unwrap().to_vec()
}

#[test]
fn integers_are_nodes_in_ascending_order_and_their_ids_are_kept() {
    let place = Place::new();
    place.write(
        "graph.txt",
        "# a comment\n900 -7\r\n\n-7\t5000000000000\n% another\n5000000000000 900\n900 900\n",
    );
    let dataset = place.import("edgelist", "graph.txt", &ImportOptions::default()).unwrap();
    assert_eq!(node_ids(&dataset), [-7, 900, 5_000_000_000_000]);
    assert_eq!(lists(&dataset), [vec![1], vec![2, 1], vec![0]]);
    assert_eq!((floats(&dataset), labels(&dataset), dataset.name()), (&[1.0; 3][..], &[][..], "out"));
    assert!(Split::ALL.iter().all(|&split| dataset.split(split).is_empty()));
}

#[test]
fn dense_ids_need_no_mapping_and_a_given_number_of_nodes_keeps_lonely_ones() {
    let place = Place::new();
    place.write("graph.csv", "2,0\n0,1\n1,2");
    let dataset = place.import("edgelist", "graph.csv", &ImportOptions::default()).unwrap();
    assert_eq!(lists(&dataset), [vec![2], vec![0], vec![1]]);
    assert!(!dataset.path().join("node_id.npy").exists());
    let six = with(EdgeList { nodes: Some(6), ..Default::default() });
    assert_eq!(place.import("edgelist", "graph.csv", &six).unwrap().nodes(), 6);
    let symmetric = ImportOptions { symmetrise: Some(true), ..Default::default() };
    assert_eq!(place.import("edgelist", "graph.csv", &symmetric).unwrap().edges(), 6);
}

#[test]
fn names_are_nodes_in_order_of_appearance() {
    let place = Place::new();
    place.write("graph.tsv", "who\twhom\nBerlin Mitte\tWien\nWien\tZürich\nZürich\tBerlin Mitte\n");
    let options = with(EdgeList { ids: Ids::Name, skip_lines: 1, ..Default::default() });
    let dataset = place.import("edgelist", "graph.tsv", &options).unwrap();
    let names = fs::read_to_string(dataset.path().join("node_names.txt")).unwrap();
    assert_eq!(names, "Berlin Mitte\nWien\nZürich\n");
    assert_eq!(lists(&dataset), [vec![2], vec![0], vec![1]]);
}

#[test]
fn compressed_lists_are_read_in_all_their_pieces() {
    let place = Place::new();
    place.write("graph.gz", [gz("0 1\n1 "), gz("2\n")].concat());
    let plain = ImportOptions::default();
    assert_eq!(lists(&place.import("edgelist", "graph.gz", &plain).unwrap()), [vec![], vec![0], vec![1]]);
    // A frame to be skipped, of 3 bytes, between two others.
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9];
    place.write("graph.zst", [&ZST[..], &skipped, &ZST].concat());
    let dataset = place.import("edgelist", "graph.zst", &plain).unwrap();
    assert_eq!(lists(&dataset), [vec![], vec![0, 0], vec![1, 1]]);

    // Enough lines to pass every buffer's end somewhere within a line.
    let lines: String = (0..300_000).map(|i| format!("{} {}\n", i % 777, (i * 7) % 1000)).collect();
    let seen = |name: &str, bytes: Vec<u8>| {
        place.write(name, bytes);
        let options = with(EdgeList { nodes: Some(1000), ..Default::default() });
        lists_sum(&place.import("edgelist", name, &options).unwrap())
    };
    let plain = seen("big.txt", lines.clone().into_bytes());
    assert_eq!(plain, seen("big.txt.gz", gz(&lines)));
    let zst =
        ruzstd::encoding::compress_to_vec(lines.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
    assert_eq!(plain, seen("big.txt.zst", zst));
}

fn lists_sum(dataset: &Dataset) -> Vec<(usize, i64)> {
    lists(dataset)
        .into_iter()
        .map(|list| (list.len(), list.into_iter().fold(7, |sum, id| sum * 3 % 1_000_003 + id)))
        .collect()
}

#[test]
fn weights_are_read_where_they_are_asked_for_and_follow_their_edges() {
    let place = Place::new();
    place.write("graph.txt", "2 0 0.5\n1 0 1.5\n0 2 -2\n");
    let options = with(EdgeList { third_column: Some(ThirdColumn::Weight), ..Default::default() });
    let dataset = place.import("edgelist", "graph.txt", &options).unwrap();
    assert_eq!(lists(&dataset), [vec![2, 1], vec![], vec![0]]);
    assert_eq!(dataset.weights().unwrap(), [0.5, 1.5, -2.0]);
    let ignored = with(EdgeList { third_column: Some(ThirdColumn::Ignore), ..Default::default() });
    assert!(place.import("edgelist", "graph.txt", &ignored).unwrap().weights().is_none());
    let symmetric = ImportOptions { symmetrise: Some(true), ..options };
    let message = place.refusal("edgelist", "graph.txt", &symmetric);
    assert!(message.contains("--third-column weight: weights cannot follow"), "{message}");
}

/// Arrays for three nodes.
fn arrays(place: &Place, directory: &str) {
    let file = |name: &str| format!("{directory}/{name}.npy");
    place.npy(&file("feat"), NpyType::F32, &[1], &[1_f32, 2.0, 3.0]);
    place.npy(&file("label"), NpyType::I64, &[], &[0_i64, 1, 0]);
    for (split, id) in ["train_idx", "valid_idx", "test_idx"].into_iter().zip(0_i64..) {
        place.npy(&file(split), NpyType::I64, &[], &[id]);
    }
}

#[test]
fn arrays_beside_the_lines_say_how_many_nodes_there_are_and_which() {
    let place = Place::new();
    arrays(&place, "graph");
    place.write("graph/edges.tsv.gz", gz("0\t1\n"));
    let plain = ImportOptions::default();
    let dataset = place.import("edgelist", "graph", &plain).unwrap();
    assert_eq!(lists(&dataset), [vec![], vec![0], vec![]]);
    assert_eq!((floats(&dataset), labels(&dataset)), (&[1.0, 2.0, 3.0][..], &[0, 1, 0][..]));
    assert_eq!(dataset.split(Split::Valid), [1]);

    // Row k is the node with the k-th id, in whatever order they are.
    place.npy("graph/node_id.npy", NpyType::I64, &[], &[30_i64, -10, 20]);
    place.write("graph/edges.tsv.gz", gz("-10\t30\n20\t-10\n"));
    let dataset = place.import("edgelist", "graph", &plain).unwrap();
    assert_eq!(lists(&dataset), [vec![1], vec![2], vec![]]);
    assert_eq!(node_ids(&dataset), [30, -10, 20]);
    place.write("graph/edges.tsv.gz", gz("-10\t31\n"));
    assert!(
        place.refusal("edgelist", "graph", &plain).contains("its destination is 31, and no node has that id")
    );

    place.write("graph/node_names.txt", "c\na\nb\n");
    place.write("other.txt", "a c\nb a\n");
    let named = with(EdgeList { ids: Ids::Name, arrays: Some(place.path("graph")), ..Default::default() });
    assert_eq!(lists(&place.import("edgelist", "other.txt", &named).unwrap()), [vec![1], vec![2], vec![]]);
    place.write("other.txt", "a d\n");
    assert!(
        place
            .refusal("edgelist", "other.txt", &named)
            .contains("its destination is 'd', and no node is called that")
    );
    place.write("graph/node_names.txt", "c\na\n");
    assert!(place.refusal("edgelist", "other.txt", &named).contains("names 2 nodes, the features have 3"));
    place.write("graph/node_names.txt", "c\na\nc\n");
    assert!(place.refusal("edgelist", "other.txt", &named).contains("line 3 is 'c': node 2 has the name"));
}

#[test]
fn a_wrong_line_is_told_with_file_number_and_text() {
    let place = Place::new();
    let plain = ImportOptions::default();
    let refused = |text: &[u8], options: &ImportOptions, part: &str| {
        place.write("graph.txt", text);
        let message = place.refusal("edgelist", "graph.txt", options);
        assert!(message.contains(part), "{message} instead of {part}");
    };
    refused(
        b"0 1\n1 x\n",
        &plain,
        "graph.txt: line 2 is '1 x': 'x' is no integer of 64 bits: say --ids name",
    );
    refused(b"0 1\n\n# c\n99999999999999999999 2", &plain, "line 4 is '99999999999999999999 2'");
    refused(b"0 1 2\n", &plain, "line 1 is '0 1 2': it has more than two columns");
    refused(b"0 1\n7\n", &plain, "line 2 is '7': it has one column");
    let two = with(EdgeList { nodes: Some(2), ..Default::default() });
    refused(b"0 1\n1 2\n", &two, "line 2 is '1 2': its destination is 2, outside the ids 0 to 1 (--nodes 2)");
    refused(b"0 1\n-1 1\n", &two, "its source is -1, outside the ids 0 to 1");
    refused("0 1\n\u{1}\u{7} 2".repeat(40).as_bytes(), &plain, "line 2 is '\\x01\\x07 20 1'");
    let named = with(EdgeList { ids: Ids::Name, nodes: Some(3), ..Default::default() });
    refused(b"a b\n", &named, "--nodes: names are no numbers of nodes");

    let whole = gz(&"0 1\n1 0\n".repeat(50_000));
    place.write("graph.gz", &whole[..whole.len() - 9]);
    let message = place.refusal("edgelist", "graph.gz", &plain);
    assert!(message.contains("graph.gz: the text breaks off after line"), "{message}");
    place.write("graph.gz", "0 1\n");
    assert!(place.refusal("edgelist", "graph.gz", &plain).contains("breaks off after line 0"));
    for length in 1..ZST.len() {
        place.write("graph.zst", &ZST[..length]);
        place.refusal("edgelist", "graph.zst", &plain);
    }
    let mut wrong = ZST;
    wrong[20] ^= 1;
    place.write("graph.zst", wrong);
    assert!(place.refusal("edgelist", "graph.zst", &plain).contains("check sum"));

    assert!(
        place
            .refusal("edgelist", "nothing.txt", &plain)
            .contains("nothing.txt does not exist; --from edgelist reads a file with a line an edge")
    );
    fs::create_dir(place.path("empty")).unwrap();
    assert!(place.refusal("edgelist", "empty", &plain).contains("has no edges.tsv"));
}

#[test]
fn the_memory_given_changes_nothing() {
    let place = Place::new();
    let lines: String = (0_u64..1_200_000)
        .map(|i| format!("{} {}\n", uva_graph::mix(i) % 5000, uva_graph::mix(i) / 5000 % 5000))
        .collect();
    place.write("graph.txt", lines);
    let files = |memory: u64| {
        let options = ImportOptions { memory, symmetrise: Some(true), ..Default::default() };
        place.import("edgelist", "graph.txt", &options).unwrap();
        ["indptr.npy", "indices.npy"].map(|name| fs::read(place.path("out").join(name)).unwrap())
    };
    // 19 MB of edges: in 64 MiB they stay in memory at first, and go to the file where half of it is less than them.
    let estimate = |memory: u64| {
        let seen = std::cell::Cell::new(0);
        let hear = |estimate: &import::ImportEstimate| seen.set(estimate.temporary);
        let options = ImportOptions { memory, symmetrise: Some(true), ..Default::default() };
        let watch = Watch { estimate: &hear, ..Watch::NONE };
        let _ = fs::remove_dir_all(place.path("out"));
        importer("edgelist").run(&place.path("graph.txt"), &place.path("out"), &options, &watch).unwrap();
        seen.get()
    };
    assert_eq!((estimate(1 << 30), estimate(64 << 20)), (0, 0));
    assert_eq!(files(1 << 30), files(64 << 20));
    let message =
        place.refusal("edgelist", "graph.txt", &ImportOptions { memory: 1 << 20, ..Default::default() });
    assert!(message.contains("--memory") && message.contains("at least 64 MiB"), "{message}");
}
