//! `--from edgelist`.

use uva_graph::Split;
use uva_io::import::{EdgeList, Ids, Separator, ThirdColumn};

use super::*;

/// The output of `printf '0 1\n1 2\n' | zstd --check`.
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
fn dense_ids_need_no_mapping_and_a_given_count_keeps_isolated_nodes() {
    let place = Place::new();
    place.write("graph.csv", "2,0\n0,1\n1,2");
    let dataset = place.import("edgelist", "graph.csv", &ImportOptions::default()).unwrap();
    assert_eq!(lists(&dataset), [vec![2], vec![0], vec![1]]);
    assert!(!dataset.path().join("node_id.npy").exists());
    let six = with(EdgeList { nodes: Some(6), ..Default::default() });
    assert_eq!(place.import("edgelist", "graph.csv", &six).unwrap().nodes(), 6);
    let symmetric = ImportOptions { symmetrise: Some(true.into()), ..Default::default() };
    assert_eq!(place.import("edgelist", "graph.csv", &symmetric).unwrap().edges(), 6);
}

#[test]
fn names_are_nodes_in_order_of_appearance() {
    let place = Place::new();
    place.write("graph.tsv", "who\twhom\nBerlin Mitte\tWien\nWien\tZürich\nZürich\tBerlin Mitte\n");
    let options = with(EdgeList { ids: Ids::Name, skip_lines: Some(1), ..Default::default() });
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
fn weights_are_read_where_requested_and_follow_their_edges() {
    let place = Place::new();
    place.write("graph.txt", "2 0 0.5\n1 0 1.5\n0 2 -2\n");
    let options = with(EdgeList { third_column: Some(ThirdColumn::Weight), ..Default::default() });
    let dataset = place.import("edgelist", "graph.txt", &options).unwrap();
    assert_eq!(lists(&dataset), [vec![2, 1], vec![], vec![0]]);
    assert_eq!(dataset.weights().unwrap(), [0.5, 1.5, -2.0]);
    let ignored = with(EdgeList { third_column: Some(ThirdColumn::Ignore), ..Default::default() });
    assert!(place.import("edgelist", "graph.txt", &ignored).unwrap().weights().is_none());
    let symmetric = ImportOptions { symmetrise: Some(true.into()), ..options };
    let message = place.refusal("edgelist", "graph.txt", &symmetric);
    assert!(message.contains("`third_column=weight`: weights are not supported"), "{message}");
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
fn arrays_of_nodes_give_the_number_of_nodes_and_their_ids() {
    let place = Place::new();
    arrays(&place, "graph");
    place.write("graph/edges.tsv.gz", gz("0\t1\n"));
    let plain = ImportOptions::default();
    let dataset = place.import("edgelist", "graph", &plain).unwrap();
    assert_eq!(lists(&dataset), [vec![], vec![0], vec![]]);
    assert_eq!((floats(&dataset), labels(&dataset)), (&[1.0, 2.0, 3.0][..], &[0, 1, 0][..]));
    assert_eq!(dataset.split(Split::Valid), [1]);

    // Row k belongs to the node with the k-th id, in any order of ids.
    place.npy("graph/node_id.npy", NpyType::I64, &[], &[30_i64, -10, 20]);
    place.write("graph/edges.tsv.gz", gz("-10\t30\n20\t-10\n"));
    let dataset = place.import("edgelist", "graph", &plain).unwrap();
    assert_eq!(lists(&dataset), [vec![1], vec![2], vec![]]);
    assert_eq!(node_ids(&dataset), [30, -10, 20]);
    place.write("graph/edges.tsv.gz", gz("-10\t31\n"));
    assert!(
        place.refusal("edgelist", "graph", &plain).contains("its destination is 31, but no node has this id")
    );

    place.write("graph/node_names.txt", "c\na\nb\n");
    place.write("other.txt", "a c\nb a\n");
    let named = with(EdgeList { ids: Ids::Name, arrays: Some(place.path("graph")), ..Default::default() });
    assert_eq!(lists(&place.import("edgelist", "other.txt", &named).unwrap()), [vec![1], vec![2], vec![]]);
    place.write("other.txt", "a d\n");
    assert!(
        place
            .refusal("edgelist", "other.txt", &named)
            .contains("its destination is 'd', but no node has this name")
    );
    place.write("graph/node_names.txt", "c\na\n");
    assert!(place.refusal("edgelist", "other.txt", &named).contains("names 2 nodes, the features have 3"));
    place.write("graph/node_names.txt", "c\na\nc\n");
    assert!(place.refusal("edgelist", "other.txt", &named).contains("line 3 is 'c': node 2 has the name"));
}

#[test]
fn a_wrong_line_is_reported_with_file_number_and_text() {
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
        "graph.txt: line 2 is '1 x': 'x' is not a 64-bit integer: give `ids=name`",
    );
    refused(b"0 1\n\n# c\n99999999999999999999 2", &plain, "line 4 is '99999999999999999999 2'");
    refused(b"0 1 2\n", &plain, "line 1 is '0 1 2': it has more than two columns");
    refused(b"0 1\n7\n", &plain, "line 2 is '7': it has one column");
    let two = with(EdgeList { nodes: Some(2), ..Default::default() });
    refused(b"0 1\n1 2\n", &two, "line 2 is '1 2': its destination is 2, outside the ids 0 to 1 (`nodes=2`)");
    refused(b"0 1\n-1 1\n", &two, "its source is -1, outside the ids 0 to 1");
    refused("0 1\n\u{1}\u{7} 2".repeat(40).as_bytes(), &plain, "line 2 is '\\x01\\x07 20 1'");
    let named = with(EdgeList { ids: Ids::Name, nodes: Some(3), ..Default::default() });
    refused(b"a b\n", &named, "`nodes`: not supported with names");

    let whole = gz(&"0 1\n1 0\n".repeat(50_000));
    place.write("graph.gz", &whole[..whole.len() - 9]);
    let message = place.refusal("edgelist", "graph.gz", &plain);
    assert!(message.contains("graph.gz: the text breaks off after line"), "{message}");
    place.write("graph.gz", "0 1\n");
    assert!(
        place
            .refusal("edgelist", "graph.gz", &plain)
            .contains("graph.gz: not a gzip file, as its name says, but plain text")
    );
    for length in 1..ZST.len() {
        place.write("graph.zst", &ZST[..length]);
        place.refusal("edgelist", "graph.zst", &plain);
    }
    let mut wrong = ZST;
    wrong[20] ^= 1;
    place.write("graph.zst", wrong);
    assert!(place.refusal("edgelist", "graph.zst", &plain).contains("checksum"));

    assert!(
        place
            .refusal("edgelist", "nothing.txt", &plain)
            .contains("nothing.txt does not exist; `from=edgelist` reads a file with one edge per line")
    );
    fs::create_dir(place.path("empty")).unwrap();
    assert!(place.refusal("edgelist", "empty", &plain).contains("has no edges.tsv"));
}

fn named() -> EdgeList {
    EdgeList { ids: Ids::Name, ..Default::default() }
}

/// The edges of a list of names: the source, an arrow and the destination.
fn edges_by_name(place: &Place, text: impl AsRef<[u8]>, edge_list: EdgeList) -> Result<Vec<String>, String> {
    place.write("names.txt", text);
    let dataset =
        place.import("edgelist", "names.txt", &with(edge_list)).map_err(|error| error.to_string())?;
    let names = fs::read_to_string(dataset.path().join("node_names.txt")).unwrap();
    let names: Vec<&str> = names.lines().collect();
    let lists = lists(&dataset).into_iter().enumerate();
    Ok(lists
        .flat_map(|(to, list)| list.into_iter().map(move |from| (from, to)))
        .map(|(from, to)| format!("{}→{}", names[from as usize], names[to]))
        .collect())
}

#[test]
fn the_whole_file_says_what_separates_its_columns() {
    let place = Place::new();
    for (text, edges) in [
        ("Washington, DC\tBoston\nParis\tBoston\n", &["Washington, DC→Boston", "Paris→Boston"][..]),
        ("Boston\tParis\nWashington, DC\tParis\n", &["Boston→Paris", "Washington, DC→Paris"]),
        ("New York,Paris\nBonn,Paris\n", &["New York→Paris", "Bonn→Paris"]),
        ("New York,Los Angeles\nSan Jose,Los Angeles\n", &["New York→Los Angeles", "San Jose→Los Angeles"]),
        ("a;b\nc, d;b\n", &["a→b", "c, d→b"]),
        ("a|b\nc d|b\n", &["a→b", "c d→b"]),
        ("a b\nc,d   b\n", &["a→b", "c,d→b"]),
        ("a\tb\nc\tb\n", &["a→b", "c→b"]),
        ("\u{feff}a\tb\nc\tb\n", &["a→b", "c→b"]),
    ] {
        assert_eq!(edges_by_name(&place, text, named()).unwrap(), edges, "{text}");
    }
    let weighted = EdgeList { third_column: Some(ThirdColumn::Weight), ..named() };
    let edges = edges_by_name(&place, "New York,Bonn,1\nParis,Bonn,2\n", weighted).unwrap();
    assert_eq!(edges, ["New York→Bonn", "Paris→Bonn"]);
    for text in ["Washington, DC\tBoston\nParis, TX\tBoston\n", "New York,Bonn\nSan Jose,Bonn\n"] {
        let message = edges_by_name(&place, text, named()).unwrap_err();
        assert!(message.contains("`separator`") && message.contains("split every line"), "{message}");
    }
    let tie = "Washington, DC\tBoston\nParis, TX\tBoston\n";
    let tab = EdgeList { separator: Some(Separator::Byte(b'\t')), ..named() };
    assert_eq!(edges_by_name(&place, tie, tab).unwrap(), ["Washington, DC→Boston", "Paris, TX→Boston"]);
    let message = edges_by_name(&place, "a,b\nc,d\ne\tf\n", named()).unwrap_err();
    assert!(
        message.contains("no separator gives 2 columns on every line (comma: 1 column on line 3"),
        "{message}"
    );
    let message = edges_by_name(&place, "a b c\nd e f\n", named()).unwrap_err();
    assert!(message.contains("line 1 is 'a b c': it has more than two columns"), "{message}");
    // Numbers contain no separator, and a missing column must not be skipped.
    place.write("numbers.txt", "1;2\n3;4\n");
    assert_eq!(place.import("edgelist", "numbers.txt", &ImportOptions::default()).unwrap().edges(), 2);
    place.write("numbers.txt", "1\t2\n3\t\t4\n");
    assert!(place.refusal("edgelist", "numbers.txt", &ImportOptions::default()).contains("line 2"));
    place.write("numbers.txt", "1\t2\n\t3\n");
    assert!(place.refusal("edgelist", "numbers.txt", &ImportOptions::default()).contains("an id is missing"));
}

#[test]
fn quoted_columns_are_read_and_quotes_can_be_literal() {
    let place = Place::new();
    for (text, edges) in [
        ("\"Smith, J\",Doe\nDoe,\"Smith, J\"\n", &["Doe→Smith, J", "Smith, J→Doe"][..]),
        ("\"a\",\"b\"\na,c\n", &["a→b", "a→c"]),
        ("\"a b\" c\n\"say \"\"hi\"\"\" c\n", &["a b→c", "say \"hi\"→c"]),
        ("\"#a\"\tb\n\" c \"\tb\n", &["#a→b", " c →b"]),
    ] {
        assert_eq!(edges_by_name(&place, text, named()).unwrap(), edges, "{text}");
    }
    place.write("numbers.csv", "\"1\",\"2\"\n");
    assert_eq!(place.import("edgelist", "numbers.csv", &ImportOptions::default()).unwrap().edges(), 1);
    let inches = "\"Weird\" Al\tb\n5\" disk\tb\n";
    let message = edges_by_name(&place, inches, named()).unwrap_err();
    assert!(message.contains("closing quote") && message.contains("`quotes`=false"), "{message}");
    let plain = EdgeList { quotes: false, ..named() };
    assert_eq!(edges_by_name(&place, inches, plain).unwrap(), ["\"Weird\" Al→b", "5\" disk→b"]);
}

#[test]
fn a_header_is_recognised_by_its_words_or_warned_of() {
    let place = Place::new();
    let said = |place: &Place, edge_list: EdgeList| place.notes_of("edgelist", "names.txt", &with(edge_list));
    let weight = |list: EdgeList| EdgeList { third_column: Some(ThirdColumn::Weight), ..list };
    for header in ["source,target", "Source,Target", "\"src\",\"dst\"", "FromNodeId,ToNodeId", "node1,node2"]
    {
        assert_eq!(edges_by_name(&place, format!("{header}\na,b\n"), named()).unwrap(), ["a→b"], "{header}");
        assert!(
            said(&place, named()).iter().any(|note| note.contains("line 1") && note.contains("as a header"))
        );
        place.write("numbers.csv", format!("# c\n{header}\n1,2\n"));
        assert_eq!(place.import("edgelist", "numbers.csv", &ImportOptions::default()).unwrap().edges(), 1);
    }
    let text = "source,target,weight\na,b,0.5\n";
    assert_eq!(edges_by_name(&place, text, weight(named())).unwrap(), ["a→b"]);
    // Words that other lines use are not a header, and with --skip-lines 0 there is none.
    assert_eq!(edges_by_name(&place, "from,to\nto,go\n", named()).unwrap(), ["from→to", "to→go"]);
    assert!(said(&place, named()).iter().any(|note| note.contains("is an edge, since")));
    let none = EdgeList { skip_lines: Some(0), ..named() };
    assert_eq!(edges_by_name(&place, "from,to\na,b\n", none.clone()).unwrap(), ["from→to", "a→b"]);
    assert!(said(&place, none).iter().all(|note| !note.contains("line 1")));
    // Other words that occur only there cause a warning.
    assert_eq!(edges_by_name(&place, "who,whom\na,b\nb,a\n", named()).unwrap().len(), 3);
    assert!(
        said(&place, named()).iter().any(|note| note.contains("'who' and 'whom', which no other line names"))
    );
    edges_by_name(&place, "a,c\na,b\nb,a\n", named()).unwrap();
    assert!(said(&place, named()).is_empty());
}

#[test]
fn an_edge_whose_first_id_begins_with_a_mark_is_a_reported_comment() {
    for (text, said) in [
        ("#\tthe\nthe\tcat\n", true),
        ("##\tthe\nthe\tcat\n", true),
        ("# the\nthe cat\n", true),
        ("#new york\tparis\nlyon\tparis\n", true),
        ("# from\tto\nthe\tcat\n", false),
        ("# from to\nthe cat\n", false),
    ] {
        let place = Place::new();
        place.write("graph.txt", text);
        let options = ImportOptions { edge_list: named(), ..Default::default() };
        let notes = place.notes_of("edgelist", "graph.txt", &options);
        assert_eq!(
            notes.iter().any(|note| note.contains("line 1 begins with # or %")),
            said,
            "{text}: {notes:?}"
        );
    }
}

#[test]
fn comments_among_edges_are_counted_and_can_be_read_as_edges() {
    let place = Place::new();
    let text = "# hashtags\n#rust,#go\na,#rust\n#go,a\n";
    assert_eq!(edges_by_name(&place, text, named()).unwrap(), ["a→#rust"]);
    let notes = place.notes_of("edgelist", "names.txt", &with(named()));
    assert!(
        notes.iter().any(|note| note.contains("2 lines among the edges begin with # or %")
            && note.contains("line 2 first")
            && note.contains("`comments`=false")),
        "{notes:?}"
    );
    let all = EdgeList { comments: false, ..named() };
    let mut edges = edges_by_name(&place, &text[11..], all).unwrap();
    edges.sort_unstable();
    assert_eq!(edges, ["#go→a", "#rust→#go", "a→#rust"]);
    edges_by_name(&place, "# by hand\n#\n%\na,b\n", named()).unwrap();
    assert!(place.notes_of("edgelist", "names.txt", &with(named())).is_empty());
    place.write("numbers.txt", "1 2\n# 3 4\n");
    let notes = place.notes("edgelist", "numbers.txt");
    assert!(
        notes.iter().any(|note| note.contains("line 2 begins with # or % and is a comment")),
        "{notes:?}"
    );
}

#[test]
fn a_matrix_market_file_is_recognized_with_its_sizes() {
    let place = Place::new();
    let plain = ImportOptions::default();
    let write = |banner: &str, rest: &str| {
        place.write("graph.mtx", format!("%%MatrixMarket matrix coordinate {banner}\n{rest}"))
    };
    write("pattern general", "% a comment\n4 4 2\n1 2\n3 2\n");
    let dataset = place.import("edgelist", "graph.mtx", &plain).unwrap();
    assert_eq!(lists(&dataset), [vec![], vec![0, 2], vec![], vec![]]);
    assert_eq!(node_ids(&dataset), [1, 2, 3, 4]);
    write("real symmetric", "3 3 3\n1 1 0.5\n2 1 1.5\n3 2 2\n");
    let weights = with(EdgeList { third_column: Some(ThirdColumn::Weight), ..Default::default() });
    let dataset = place.import("edgelist", "graph.mtx", &weights).unwrap();
    assert_eq!(lists(&dataset), [vec![0, 1], vec![0, 2], vec![1]]);
    assert_eq!(dataset.weights().unwrap(), [0.5, 1.5, 1.5, 2.0, 2.0]);
    assert!(place.refusal("edgelist", "graph.mtx", &plain).contains("`third_column=weight`"));
    for (banner, rest, part) in [
        ("pattern general", "3 4 1\n1 2\n", "the matrix is not square"),
        ("pattern general", "3 3 2\n1 2\n", "has 1 entries, but its line of sizes has 2"),
        ("pattern general", "3 3 1\n0 2\n", "its source is 0, but the matrix has the rows 1 to 3"),
        ("complex general", "3 3 0\n", "of MatrixMarket files, matrix coordinate real"),
        ("real skew-symmetric", "3 3 0\n", "of MatrixMarket files, matrix coordinate real"),
        ("pattern general", "1 2\n", "is not the line of sizes"),
        ("pattern general", "% nothing\n", "without a line of sizes"),
        ("pattern general", "9000000000000000000 9000000000000000000 0\n", ""),
    ] {
        write(banner, rest);
        let error = place.import("edgelist", "graph.mtx", &plain).unwrap_err().to_string();
        assert!(error.contains(part), "{error} instead of {part}");
    }
}

#[test]
fn what_is_not_text_is_refused_by_name() {
    let place = Place::new();
    let utf16: Vec<u8> = "a b\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut tar = b"graph.txt".to_vec();
    tar.resize(257, 0);
    tar.extend(b"ustar\0");
    tar.resize(1024, b' ');
    let cases: [(&[u8], &str); 12] = [
        (b"BZh91AY&SY\x12", "it is a bzip2 file"),
        (b"\xfd7zXZ\0\0", "it is an xz file"),
        (b"PK\x03\x04\x14", "it is a zip archive"),
        (b"7z\xbc\xaf\x27\x1c", "it is a 7z archive"),
        (&[&b"\xff\xfe"[..], &utf16].concat(), "it is UTF-16 text"),
        (&utf16, "it has a NUL byte"),
        (&tar, "it is a tar archive"),
        (b"\x93NUMPY\x01\0", "it is a .npy array"),
        (b"PAR1\x15\x04", "it is a Parquet file"),
        (b"\x04\x22\x4d\x18", "it is an LZ4 file"),
        (b"a b\nc \xe9t\xe9\n", "line 2 is 'c \u{fffd}t\u{fffd}': the name '\u{fffd}t\u{fffd}' is not UTF-8"),
        (b"a b\nc d\0e\n", "line 2 is 'c d\\x00e': it has a NUL byte"),
    ];
    for (bytes, part) in cases {
        for name in ["graph.txt", "graph"] {
            place.write(name, bytes);
            let message = place.refusal("edgelist", name, &with(named()));
            assert!(message.contains(part), "{message} instead of {part}");
        }
        // The same if it is compressed again, or misnamed.
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        place.write("graph.gz", encoder.finish().unwrap());
        let message = place.refusal("edgelist", "graph.gz", &with(named()));
        let part = part.strip_prefix("it is ").unwrap_or(part);
        assert!(message.contains(part), "{message} instead of {part}");
        place.write("graph.zst", bytes);
        assert!(place.refusal("edgelist", "graph.zst", &with(named())).contains("not a Zstandard file"));
    }
    // Words that are the beginning of a magic number.
    assert_eq!(edges_by_name(&place, "BZh9 b\nPAR1 b\n", named()).unwrap(), ["BZh9→b", "PAR1→b"]);
    place.write("graph.gz", "");
    assert!(place.refusal("edgelist", "graph.gz", &with(named())).contains("but an empty file"));
}

#[test]
fn compressed_text_is_read_by_its_content_and_padding_is_not_text() {
    let place = Place::new();
    let plain = ImportOptions::default();
    for (name, bytes) in [
        ("graph.txt", gz("0 1\n")),
        ("graph", ZST.to_vec()),
        ("padded.gz", [gz("0 1\n"), vec![0; 700_000]].concat()),
        ("padded.txt.gz", [gz("0 "), gz("1\n"), vec![0]].concat()),
        ("mark.gz", gz("\u{feff}0 1\n")),
    ] {
        place.write(name, bytes);
        assert!(place.import("edgelist", name, &plain).unwrap().edges() > 0, "{name}");
    }
    for behind in [&b"x"[..], b"\0\0x"] {
        place.write("graph.gz", [&gz("0 1\n")[..], behind].concat());
        assert!(place.refusal("edgelist", "graph.gz", &plain).contains("the text breaks off after line"));
    }
}

#[test]
fn a_list_without_edges_is_refused_unless_the_nodes_are_known() {
    let place = Place::new();
    for text in ["", "\n\n", "# nothing\n", "source,target\n"] {
        for edge_list in [EdgeList::default(), named()] {
            place.write("graph.txt", text);
            let message = place.refusal("edgelist", "graph.txt", &with(edge_list));
            assert!(message.contains("graph.txt has no edge"), "{message}");
        }
    }
    let none = with(EdgeList { nodes: Some(0), ..Default::default() });
    place.refusal("edgelist", "graph.txt", &none);
}

#[test]
fn the_memory_given_changes_nothing() {
    let place = Place::new();
    let lines: String = (0_u64..1_200_000)
        .map(|i| format!("{} {}\n", uva_graph::mix(i) % 5000, uva_graph::mix(i) / 5000 % 5000))
        .collect();
    place.write("graph.txt", lines);
    let files = |memory: u64| {
        let options = ImportOptions { memory, symmetrise: Some(true.into()), ..Default::default() };
        place.import("edgelist", "graph.txt", &options).unwrap();
        ["indptr.npy", "indices.npy"].map(|name| fs::read(place.path("out").join(name)).unwrap())
    };
    // 19 MB of edges: with 64 MiB they stay in memory at first, and are written to the file if half of it is too small.
    let estimate = |memory: u64| {
        let seen = std::cell::Cell::new(0);
        let hear = |estimate: &import::ImportEstimate| seen.set(estimate.temporary);
        let options = ImportOptions { memory, symmetrise: Some(true.into()), ..Default::default() };
        let watch = ImportWatch { estimate: &hear, ..ImportWatch::NONE };
        let _ = fs::remove_dir_all(place.path("out"));
        importer("edgelist").run(&place.path("graph.txt"), &place.path("out"), &options, &watch).unwrap();
        seen.get()
    };
    assert_eq!((estimate(1 << 30), estimate(64 << 20)), (0, 0));
    assert_eq!(files(1 << 30), files(64 << 20));
    let message =
        place.refusal("edgelist", "graph.txt", &ImportOptions { memory: 1 << 20, ..Default::default() });
    assert!(message.contains("`memory`") && message.contains("at least 64 MiB"), "{message}");
}
