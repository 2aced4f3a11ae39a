//! A small complete source for every importer: the fuzzer's seeds, and the input of `uva-io`'s tests.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;

use flate2::Compression;
use flate2::write::GzEncoder;
use uva_graph::npy::{NpyType, write_array};

/// File contents by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// One source.
pub struct SeedSource {
    /// The name of the source.
    pub name: &'static str,
    /// The importer that reads it.
    pub importer: &'static str,
    /// The file that is passed to the importer; the directory if empty.
    pub path: &'static str,
    /// The variant to import, of importers that have some.
    pub variant: Option<&'static str>,
    is_typed: bool,
    make: fn(&mut Files),
    files: OnceLock<Files>,
}

impl SeedSource {
    const fn new(
        name: &'static str,
        importer: &'static str,
        path: &'static str,
        make: fn(&mut Files),
    ) -> SeedSource {
        let (variant, is_typed) = (None, false);
        SeedSource { name, importer, path, variant, is_typed, make, files: OnceLock::new() }
    }

    const fn typed(mut self) -> SeedSource {
        self.is_typed = true;
        self
    }

    const fn variant(mut self, name: &'static str) -> SeedSource {
        self.variant = Some(name);
        self
    }

    /// Whether the source is a typed graph.
    #[must_use]
    pub fn is_typed(&self) -> bool {
        self.is_typed
    }

    /// The files, made once.
    pub fn files(&self) -> &Files {
        self.files.get_or_init(|| {
            let mut files = Files::new();
            (self.make)(&mut files);
            files
        })
    }
}

/// All sources.
pub static SOURCES: [SeedSource; 19] = [
    SeedSource::new("npy", "npy", "", arrays),
    SeedSource::new("npy-typed", "npy", "", typed_arrays).typed(),
    SeedSource::new("planetoid", "planetoid", "", citations),
    SeedSource::new("gnn-npz", "gnn-npz", "graph.npz", rows),
    SeedSource::new("edgelist", "edgelist", "graph.txt.gz", lines),
    SeedSource::new("ogb-text", "ogb", "", benchmark_text),
    SeedSource::new("ogb-archives", "ogb", "", benchmark_archives),
    SeedSource::new("ogb-typed", "ogb", "", typed_benchmark).typed(),
    SeedSource::new("nt", "nt", "", triples).typed(),
    SeedSource::new("graphbolt", "graphbolt", "", graphbolt),
    SeedSource::new("graphbolt-typed", "graphbolt", "", typed_graphbolt).typed(),
    SeedSource::new("igb", "igb", "", igb),
    SeedSource::new("igb-typed", "igb", "", typed_igb).typed().variant("typed"),
    SeedSource::new("csv", "csv", "", comma_separated),
    SeedSource::new("csv-typed", "csv", "", typed_comma_separated).typed(),
    SeedSource::new("dgl-chunked", "dgl-chunked", "", chunked),
    SeedSource::new("dgl-chunked-typed", "dgl-chunked", "", typed_chunked).typed(),
    SeedSource::new("parquet", "parquet", "", tables),
    SeedSource::new("parquet-typed", "parquet", "", typed_tables).typed(),
];

/// Writes the files of a source into the directory `source`, those of archives by `method`.
///
/// Files in archives are stored unpacked in [`Files`], so that a fuzzer changes their content: a name that ends with
/// `.gz` is compressed, and `FILE.npz/NAME` becomes a member of that archive.
pub fn pack(source: &Path, files: &Files, method: zip::CompressionMethod) {
    fs::create_dir_all(source).expect("a directory");
    let mut archives: BTreeMap<&str, Vec<(&str, &[u8])>> = BTreeMap::new();
    for (name, bytes) in files {
        if let Some((archive, member)) = name.split_once(".npz/") {
            archives.entry(archive).or_default().push((member, bytes));
            continue;
        }
        let path = source.join(name);
        fs::create_dir_all(path.parent().expect("it is below the source")).expect("a directory");
        if name.ends_with(".gz") {
            let mut encoder = GzEncoder::new(fs::File::create(path).expect("a file"), Compression::fast());
            encoder.write_all(bytes).and_then(|()| encoder.finish().map(drop)).expect("room for a file");
        } else {
            fs::write(path, bytes).expect("room for a file");
        }
    }
    for (name, members) in archives {
        let path = source.join(format!("{name}.npz"));
        fs::create_dir_all(path.parent().expect("it is below the source")).expect("a directory");
        let mut archive = zip::ZipWriter::new(fs::File::create(path).expect("a file"));
        for (member, bytes) in members {
            let options = zip::write::SimpleFileOptions::default().compression_method(method);
            archive.start_file(format!("{member}.npy"), options).expect("a member");
            archive.write_all(bytes).expect("room for a member");
        }
        archive.finish().expect("an archive");
    }
}

fn text(files: &mut Files, name: &str, text: &str) {
    files.insert(name.to_owned(), text.as_bytes().to_vec());
}

fn array<T: Numbers>(files: &mut Files, name: &str, row: &[usize], values: &[T]) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("array.npy");
    T::write(&path, row, values);
    files.insert(name.to_owned(), fs::read(path).expect("a file"));
}

/// Elements of the arrays here.
trait Numbers: Sized {
    fn write(path: &Path, row: &[usize], values: &[Self]);
}

macro_rules! numbers {
    ($($rust:ty => $numpy:ident),*) => {$(
        impl Numbers for $rust {
            fn write(path: &Path, row: &[usize], values: &[Self]) {
                write_array(path, NpyType::$numpy, row, values).expect("room for an array");
            }
        }
    )*};
}
numbers!(i64 => I64, i32 => I32, f32 => F32, u8 => U8);

/// A graph as an edge list, its splits as masks and as ids.
fn arrays(files: &mut Files) {
    array(files, "edge_index.npy", &[4], &[0_i64, 1, 2, 3, 1, 2, 3, 0]);
    array(files, "x.npy", &[2], &[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    array(files, "y.npy", &[], &[0_i64, 1, 0, 1]);
    array(files, "train_mask.npy", &[], &[1_u8, 1, 0, 0]);
    array(files, "valid_mask.npy", &[], &[0_u8, 0, 1, 0]);
    array(files, "test_idx.npy", &[], &[3_i64]);
    text(files, "meta.json", r#"{"name": "fuzz", "classes": 2}"#);
}

/// Cora's format with three nodes. The matrices are pickles of protocol 2, as the scipy and numpy of the published
/// files wrote them; the graph is one of protocol 0.
fn citations(files: &mut Files) {
    let mut file = |name: &str, bytes: &[u8]| files.insert(format!("ind.fuzz.{name}"), bytes.to_vec());
    file("graph", b"(dp0\nI0\n(lp1\nI1\nasI1\n(lp2\nI0\naI2\nasI2\n(lp3\nI1\nas.");
    file("test.index", b"2\n");
    for (part, bytes) in [
        ("x", &include_bytes!("../seeds/csr_2x2.pickle")[..]),
        ("allx", include_bytes!("../seeds/csr_2x2.pickle")),
        ("tx", include_bytes!("../seeds/csr_1x2.pickle")),
        ("y", include_bytes!("../seeds/labels_2x2.pickle")),
        ("ally", include_bytes!("../seeds/labels_2x2.pickle")),
        ("ty", include_bytes!("../seeds/labels_1x2.pickle")),
    ] {
        file(part, bytes);
    }
}

/// Four nodes of the gnn-benchmark collection.
fn rows(files: &mut Files) {
    array(files, "graph.npz/adj_data", &[], &[1_f32, 1.0, 1.0, 1.0]);
    array(files, "graph.npz/adj_indices", &[], &[1_i32, 0, 3, 0]);
    array(files, "graph.npz/adj_indptr", &[], &[0_i32, 1, 3, 3, 4]);
    array(files, "graph.npz/adj_shape", &[], &[4_i64, 4]);
    array(files, "graph.npz/attr_data", &[], &[1_f32, 2.0, 0.5]);
    array(files, "graph.npz/attr_indices", &[], &[0_i32, 2, 1]);
    array(files, "graph.npz/attr_indptr", &[], &[0_i64, 2, 3, 3, 3]);
    array(files, "graph.npz/attr_shape", &[], &[4_i64, 3]);
    array(files, "graph.npz/labels", &[], &[1_i64, 0, 1, 1]);
}

fn lines(files: &mut Files) {
    text(files, "graph.txt.gz", "# from to\n0 1\n1\t2\n2  0\n5 5\n");
}

/// `ogbn_arxiv` with four nodes, as text.
fn benchmark_text(files: &mut Files) {
    text(files, "raw/edge.csv.gz", "3,0\n1,0\n2,2\n");
    text(files, "raw/node-feat.csv.gz", "0.5,-1e-3\n1,2\n3.25,4\n0.0,7\n");
    text(files, "raw/node-label.csv.gz", "1\n0\n\n2.0\n");
    text(files, "raw/num-node-list.csv.gz", "4\n");
    text(files, "raw/num-edge-list.csv.gz", "3\n");
    for (split, nodes) in [("train", "3\n0\n"), ("valid", "1\n"), ("test", "2\n")] {
        text(files, &format!("split/time/{split}.csv.gz"), nodes);
    }
}

/// `ogbn_papers100M` with four nodes, in archives.
fn benchmark_archives(files: &mut Files) {
    array(files, "raw/data.npz/edge_index", &[3], &[3_i64, 1, 2, 0, 0, 2]);
    array(files, "raw/data.npz/node_feat", &[2], &[0.5_f32, -0.001, 1.0, 2.0, 3.25, 4.0, 0.0, 7.0]);
    array(files, "raw/data.npz/num_nodes_list", &[], &[4_i64]);
    array(files, "raw/data.npz/num_edges_list", &[], &[3_i64]);
    array(files, "raw/node-label.npz/node_label", &[1], &[1_f32, 0.0, f32::NAN, 2.0]);
    for (split, nodes) in [("train", "3\n0\n"), ("valid", "1\n"), ("test", "2\n")] {
        text(files, &format!("split/time/{split}.csv.gz"), nodes);
    }
}

/// Three authors and four papers, with one relation as pairs.
fn typed_arrays(files: &mut Files) {
    text(
        files,
        "meta.json",
        r#"{"version": 2, "target": "paper", "nodes": [{"type": "author", "num": 3}, {"type": "paper", "num": 4}],
            "edges": [{"type": ["author", "writes", "paper"], "order": "time"}]}"#,
    );
    array(files, "edges/author__writes__paper/src.npy", &[], &[2_i64, 0, 1, 0]);
    array(files, "edges/author__writes__paper/dst.npy", &[], &[3_i64, 3, 0, 1]);
    array(files, "edges/author__writes__paper/time.npy", &[], &[4_i64, 1, 2, 3]);
    array(files, "nodes/paper/feat.npy", &[1], &[0_f32, 1.0, 2.0, 3.0]);
    array(files, "nodes/paper/train_idx.npy", &[], &[3_i64, 0]);
}

/// As `ogbn_mag` is unpacked.
fn typed_benchmark(files: &mut Files) {
    text(files, "raw/num-node-dict.csv.gz", "author,paper\n3,4\n");
    text(files, "raw/triplet-type-list.csv.gz", "author,writes,paper\npaper,cites,paper\n");
    text(files, "raw/relations/author___writes___paper/edge.csv.gz", "2,3\n0,3\n1,0\n");
    text(files, "raw/relations/author___writes___paper/num-edge-list.csv.gz", "3\n");
    text(files, "raw/relations/paper___cites___paper/edge.csv.gz", "1,0\n2,2\n");
    text(files, "raw/relations/paper___cites___paper/num-edge-list.csv.gz", "2\n");
    text(files, "raw/node-feat/paper/node-feat.csv.gz", "0.5,-1e-3\n1,2\n3.25,4\n0,7\n");
    text(files, "raw/node-feat/paper/node_year.csv.gz", "2001\n2002\n2003\n2004\n");
    text(files, "raw/node-label/paper/node-label.csv.gz", "1\n0\n1\n2\n");
    for (split, nodes) in [("train", "3\n0\n"), ("valid", "1\n"), ("test", "2\n")] {
        text(files, &format!("split/time/paper/{split}.csv.gz"), nodes);
    }
}

/// Two people, a group, a blank node and a name, with two predicates.
fn triples(files: &mut Files) {
    text(
        files,
        "graph.nt",
        "# A comment\n<http://a/p1> <http://v#memberOf> <http://a/g1> .\n<http://a/p2> <http://v#memberOf> _:b1 .\n\
         _:b1 <http://v#name> \"A \\\"b\\\"\"@en .\n<http://a/p2> <http://w/name> \"7\"^^<http://x#int>.\n",
    );
    text(files, "trainingSet.tsv", "person\tid\tlabel\nhttp://a/p1\t1\thttp://a/g1\n");
    text(files, "testSet.tsv", "person\tid\tlabel\nhttp://a/p2\t2\tx\n");
}

fn graphbolt(files: &mut Files) {
    text(
        files,
        "metadata.yaml",
        "dataset_name: fuzz\ngraph:\n  nodes:\n    - num: 4\n  edges:\n    - {format: csv, path: edges.csv}\n\
             feature_data:\n  - {domain: node, name: feat, format: numpy, path: feat.npy}\n\
             tasks:\n  - name: node_classification\n    num_classes: 3\n    train_set:\n      - data:\n          \
             - {name: seeds, format: numpy, path: seeds.npy}\n          - {name: labels, format: numpy, path: labels.npy}\n",
    );
    text(files, "edges.csv", "3,0\n1,0\n2,2\n");
    array(files, "feat.npy", &[1], &[0_f32, 1.0, 2.0, 3.0]);
    array(files, "seeds.npy", &[], &[3_i64, 0]);
    array(files, "labels.npy", &[], &[2_i64, 1]);
}

/// Three authors and four papers, with edges as text and as an array, and sets of both types.
fn typed_graphbolt(files: &mut Files) {
    text(
        files,
        "metadata.yaml",
        "dataset_name: fuzz\ngraph:\n  nodes:\n    - {type: paper, num: 4}\n    - {type: author, num: 3}\n  edges:\n    \
             - {type: 'author:writes:paper', format: csv, path: writes.csv}\n    \
             - {type: 'paper:cites:paper', format: numpy, path: cites.npy}\n\
             feature_data:\n  - {domain: node, type: paper, name: feat, format: numpy, path: feat.npy}\n  \
             - {domain: edge, type: 'author:writes:paper', name: feat, format: numpy, path: shares.npy}\n  \
             - {domain: edge, type: 'author:writes:paper', name: weight, format: numpy, path: weights.npy}\n  \
             - {domain: edge, type: 'paper:cites:paper', name: time, format: numpy, path: years.npy}\n\
             tasks:\n  - name: node_classification\n    num_classes: 3\n    train_set:\n      - type: paper\n        data:\n          \
             - {name: seeds, format: numpy, path: seeds.npy}\n          - {name: labels, format: numpy, path: labels.npy}\n      \
             - type: author\n        data:\n          - {name: seeds, format: numpy, path: authors.npy}\n",
    );
    text(files, "writes.csv", "2,3\n0,3\n1,0\n");
    array(files, "cites.npy", &[2], &[1_i64, 2, 0, 2]);
    array(files, "feat.npy", &[1], &[0_f32, 1.0, 2.0, 3.0]);
    array(files, "shares.npy", &[1], &[1_u8, 2, 3]);
    array(files, "weights.npy", &[], &[1_f32, 2.0, 3.0]);
    array(files, "years.npy", &[], &[2001_i32, 2002]);
    array(files, "seeds.npy", &[], &[3_i64, 0]);
    array(files, "labels.npy", &[], &[2_i64, 1]);
    array(files, "authors.npy", &[], &[1_i32]);
}

fn igb(files: &mut Files) {
    array(files, "processed/paper/node_feat.npy", &[1], &[0_f32, 1.0, 2.0, 3.0, 4.0]);
    array(files, "processed/paper/node_label_19.npy", &[], &[0_f32, 18.0, 3.0, 3.0, f32::NAN]);
    array(files, "processed/paper__cites__paper/edge_index.npy", &[2], &[4_i64, 0, 1, 0, 2, 2, 0, 4]);
}

/// The papers of [`igb`], with two authors.
fn typed_igb(files: &mut Files) {
    igb(files);
    array(files, "processed/author/node_feat.npy", &[2], &[0_f32, 1.0, 2.0, 3.0]);
    array(files, "processed/paper__written_by__author/edge_index.npy", &[2], &[4_i32, 0, 1, 1, 4, 1]);
}

/// Four edges between four named nodes, with features, classes by name and splits.
fn comma_separated(files: &mut Files) {
    let nodes = "id,height,label,split\nd,1.5,\"x, y\",train\nc,2,z,valid\n\"b\"\"\",-3,,test\na,4e1,z,\n";
    files.insert("nodes.csv".to_owned(), nodes.as_bytes().to_vec());
    let edges = "src,dst,kind\r\na,d,x\r\n\"b\"\"\",c,\"x\r\ny\"\r\na,\"b\"\"\",y\r\nd,a,\r\n";
    files.insert("edges.csv".to_owned(), edges.as_bytes().to_vec());
}

/// Papers with features, classes and splits; authors without a table.
fn typed_comma_separated(files: &mut Files) {
    text(files, "nodes/paper.csv", "id,year,label,split\n10,1.5,x,train\n20,2,y,test\n30,3,,valid\n");
    text(files, "edges/author__writes__paper.csv", "src,dst,weight\nann,20,0.5\nbob,10,1\nann,10,2\n");
    text(files, "edges/paper__cites__paper.csv", "src,dst\n10,20\n20,20\n");
}

/// Four nodes of one type in two chunks, as text and arrays.
fn chunked(files: &mut Files) {
    text(
        files,
        "metadata.json",
        r#"{"graph_name": "fuzz", "node_type": ["_N"], "num_nodes_per_chunk": [[2, 2]], "edge_type": ["_N:_E:_N"],
            "num_edges_per_chunk": [[2, 1]],
            "edges": {"_N:_E:_N": {"format": {"name": "csv", "delimiter": " "}, "data": ["edges0.txt", "edges1.txt"]}},
            "node_data": {"_N": {
                "feat": {"format": {"name": "numpy"}, "data": ["feat-0.npy", "feat-1.npy"]},
                "label": {"format": {"name": "numpy"}, "data": ["label.npy"]},
                "train_mask": {"format": {"name": "csv", "delimiter": ","}, "data": ["train.csv"]},
                "val_mask": {"format": {"name": "numpy"}, "data": ["val.npy"]},
                "test_mask": {"format": {"name": "numpy"}, "data": ["val.npy"]}}},
            "edge_data": {"_N:_E:_N": {}}}"#,
    );
    text(files, "edges0.txt", "3 0\n1 0\n");
    text(files, "edges1.txt", "2 2\n");
    array(files, "feat-0.npy", &[1], &[0_f32, 1.0]);
    array(files, "feat-1.npy", &[1], &[2_f32, 3.0]);
    array(files, "label.npy", &[], &[0_i64, 1, 0, 1]);
    text(files, "train.csv", "1\n1\n0\n0\n");
    array(files, "val.npy", &[], &[0_u8, 0, 1, 0]);
}

/// Two papers and two authors, with edges as arrays and features as text.
fn typed_chunked(files: &mut Files) {
    text(
        files,
        "metadata.json",
        r#"{"graph_name": "fuzz", "node_type": ["paper", "author"], "num_nodes_per_chunk": [[1, 1], [2]],
            "edge_type": ["author:writes:paper"],
            "edges": {"author:writes:paper": {"format": {"name": "numpy"}, "data": ["writes0.npy", "writes1.npy"]}},
            "node_data": {"paper": {"feat": {"format": {"name": "csv"}, "data": ["feat0.csv", "feat1.csv"]}}},
            "edge_data": {"author:writes:paper": {"weight": {"format": {"name": "numpy"}, "data": ["weight.npy"]}}}}"#,
    );
    array(files, "writes0.npy", &[2], &[1_i64, 0, 0, 1]);
    array(files, "writes1.npy", &[2], &[1_i64, 1]);
    text(files, "feat0.csv", "0.5,-1e-3\n");
    text(files, "feat1.csv", "3,4\n");
    array(files, "weight.npy", &[], &[1_f32, 2.0, 3.0]);
}

/// The tables of [`tables`], as a node type and a relation.
fn typed_tables(files: &mut Files) {
    let edges = include_bytes!("../seeds/edges.parquet").to_vec();
    files.insert("edges/node__to__node.parquet".to_owned(), edges);
    files.insert("nodes/node.parquet".to_owned(), include_bytes!("../seeds/nodes.parquet").to_vec());
}

/// Four edges between four named nodes, each table in two row groups, as the importer's tests write them.
fn tables(files: &mut Files) {
    files.insert("edges.parquet".to_owned(), include_bytes!("../seeds/edges.parquet").to_vec());
    files.insert("nodes.parquet".to_owned(), include_bytes!("../seeds/nodes.parquet").to_vec());
}
