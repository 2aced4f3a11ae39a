//! Parts of a dataset: their nodes and lists, value by value, and refusals.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{Small, names, small};
use uva_graph::npy::{NpyArray, NpyType};
use uva_graph::part::{PartOptions, WrittenPart, directory_name, verify_parts, write_parts};
use uva_graph::reorder::{NodeOrder, write_reordered};
use uva_graph::{Dataset, GraphError, Labels, PartitionMap, Split, Verify, mix};

/// Pseudorandom numbers, determined by a seed and their index.
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = mix(self.0.wrapping_add(0x9E37_79B9_7F4A_7C15));
        (self.0 % bound as u64) as usize
    }
}

/// A dataset of this many nodes with everything that a dataset can have: empty lists, repeated edges and loops,
/// edge weights, types and features, original ids.
pub(crate) fn random(seed: u64, nodes: usize) -> Small {
    let (small, mut draws) = (small(), Draws(seed));
    let mut ends = vec![0_i64];
    let mut ids = Vec::new();
    for _ in 0..nodes {
        let entries = [0, 1, 2, 3, 7][draws.below(5)];
        ids.extend((0..entries).map(|_| draws.below(nodes) as i32));
        ends.push(ids.len() as i64);
    }
    let of_edges = |factor: f32| ids.iter().zip(1..).map(|(_, at)| factor * at as f32).collect::<Vec<f32>>();
    small.write("indptr", NpyType::I64, &[], &ends);
    small.write("indices", NpyType::I32, &[], &ids);
    small.write("weight", NpyType::F32, &[], &of_edges(0.5));
    let types: Vec<u16> = (0..ids.len()).map(|at| (60_000 + 977 * at) as u16).collect();
    small.write("edge_type", NpyType::U16, &[], &types);
    small.write("edge_feat", NpyType::F32, &[1], &of_edges(-1.0));
    let features: Vec<u16> = (0..nodes as u16 * 3).collect();
    small.write("feat", NpyType::F16, &[3], &features);
    let labels: Vec<i64> = (0..nodes as i64).map(|node| node % 7 - 1).collect();
    small.write("label", NpyType::I64, &[], &labels);
    let original: Vec<i64> = (0..nodes as i64).map(|node| (7 * node + 3) % nodes as i64).collect();
    small.write("orig_id", NpyType::I64, &[], &original);
    // In no order, and a third of the nodes each; the rest is in no split.
    let mut order: Vec<i64> = (0..nodes as i64).collect();
    (1..nodes).for_each(|at| order.swap(at, draws.below(at + 1)));
    let third = nodes / 3;
    for (split, ids) in ["train_idx", "valid_idx", "test_idx"].into_iter().zip(order.chunks(third)) {
        small.write(split, NpyType::I64, &[], ids);
    }
    small
}

/// The map of these owners, an entry a node by the dataset's own ids.
pub(crate) fn map_of(dataset: &Dataset, owners: &[u16], parts: u32) -> PartitionMap {
    let mut of = vec![0; owners.len()];
    for (node, &part) in owners.iter().enumerate() {
        of[dataset.original_ids().map_or(node, |ids| ids[node] as usize)] = part;
    }
    PartitionMap { parts, of, summary: None }
}

fn options(map: &PartitionMap, hops: u32) -> PartOptions<'_> {
    PartOptions { map, hops, split_eval: false }
}

fn cut(dataset: &Dataset, options: &PartOptions<'_>, out: &Path) -> Result<Vec<WrittenPart>, GraphError> {
    write_parts(dataset, options, out, &|_| ())
}

fn list(dataset: &Dataset, node: i64) -> Vec<i64> {
    let csc = dataset.csc();
    let edges = csc.indptr[node as usize]..csc.indptr[node as usize + 1];
    edges.map(|edge| csc.indices.get(edge as usize)).collect()
}

/// The nodes at each distance up to `hops`, one hop after the other over sets.
fn closure(dataset: &Dataset, roots: &[i64], hops: u32) -> Vec<BTreeSet<i64>> {
    let mut levels = vec![roots.iter().copied().collect::<BTreeSet<i64>>()];
    for _ in 0..hops {
        let seen: BTreeSet<i64> = levels.iter().flatten().copied().collect();
        let next = levels.last().unwrap().iter().flat_map(|&node| list(dataset, node));
        levels.push(next.filter(|node| !seen.contains(node)).collect());
    }
    levels
}

/// Whether `hops` hops from the node end in `whole`, the nodes with whole lists.
fn is_inside(dataset: &Dataset, node: i64, hops: u32, whole: &dyn Fn(i64) -> bool) -> bool {
    hops == 0
        || whole(node) && list(dataset, node).iter().all(|&next| is_inside(dataset, next, hops - 1, whole))
}

/// The bytes of row `row` of a table.
fn row(bytes: &[u8], size: usize, row: usize) -> &[u8] {
    &bytes[row * size..(row + 1) * size]
}

fn check_part(whole: &Dataset, part: &Dataset, options: &PartOptions<'_>, number: usize, said: &WrittenPart) {
    let owners = options.map.by_node(whole).unwrap();
    let train: Vec<i64> = of_part(whole.split(Split::Train), &owners, number);
    let mut roots = train.clone();
    if options.split_eval {
        let eval = [Split::Valid, Split::Test].map(|split| of_part(whole.split(split), &owners, number));
        roots.extend(eval.concat());
    }
    let levels = closure(whole, &roots, options.hops);
    let nodes: BTreeSet<i64> = levels.iter().flatten().copied().collect();
    let original = |node: i64| whole.original_ids().unwrap()[node as usize];
    // Ascending old ids, by the names that random words are keyed by.
    let ids: Vec<i64> = nodes.iter().copied().collect();
    assert!(part.original_ids().unwrap().iter().copied().eq(ids.iter().map(|&node| original(node))));
    let outermost = levels.last().unwrap();
    let has_list = |node: i64| nodes.contains(&node) && !outermost.contains(&node);
    let mut edges = 0;
    for (place, &node) in ids.iter().enumerate() {
        let (own, csc) = (whole.csc(), part.csc());
        let listed: Vec<i64> = list(part, place as i64).iter().map(|&at| ids[at as usize]).collect();
        assert_eq!(listed, if has_list(node) { list(whole, node) } else { Vec::new() }, "node {node}");
        assert_eq!(csc.whole_degree(place), own.degree(node as usize), "node {node}");
        let (from, to) = (own.indptr[node as usize] as usize, csc.indptr[place] as usize);
        for edge in 0..listed.len() {
            assert_eq!(part.weights().unwrap()[to + edge], whole.weights().unwrap()[from + edge]);
            assert_eq!(part.edge_types().unwrap()[to + edge], whole.edge_types().unwrap()[from + edge]);
            let [of_part, of_whole] = [part, whole].map(|dataset| dataset.edge_features().unwrap());
            assert_eq!(row(of_part.bytes, 4, to + edge), row(of_whole.bytes, 4, from + edge));
        }
        edges += listed.len();
        assert_eq!(row(part.features().bytes, 6, place), row(whole.features().bytes, 6, node as usize));
        assert_eq!(row(part.labels().bytes(), 8, place), row(whole.labels().bytes(), 8, node as usize));
    }
    assert_eq!((part.nodes(), part.edges(), part.classes()), (ids.len(), edges, whole.classes()));

    let named = |split: Split| part.split(split).iter().map(|&at| ids[at as usize]).collect::<Vec<i64>>();
    assert_eq!(named(Split::Train), train);
    let is_whole = |node: i64| has_list(node) || nodes.contains(&node) && list(whole, node).is_empty();
    for split in [Split::Valid, Split::Test] {
        let expected = match options.split_eval {
            true => of_part(whole.split(split), &owners, number),
            false => {
                let inside = |node: &i64| is_inside(whole, *node, options.hops, &is_whole);
                whole.split(split).iter().copied().filter(inside).collect()
            }
        };
        assert_eq!(named(split), expected, "{split} of part {number}");
    }
    let halo = ids.iter().filter(|&&node| usize::from(owners[node as usize]) != number).count();
    assert_eq!(
        (said.nodes, said.edges, said.halo, said.train, said.valid, said.test),
        (
            ids.len() as u64,
            edges as u64,
            halo as u64,
            train.len() as u64,
            part.split(Split::Valid).len() as u64,
            part.split(Split::Test).len() as u64
        )
    );
    let of = part.part().unwrap();
    assert_eq!((of.number as usize, of.hops, of.halo), (number, options.hops, halo as u64));
    assert_eq!((&of.fingerprint, of.method.as_str()), (&whole.fingerprint(), "given"));
}

fn of_part(ids: &[i64], owners: &[u16], number: usize) -> Vec<i64> {
    ids.iter().copied().filter(|&node| usize::from(owners[node as usize]) == number).collect()
}

#[test]
fn every_part_is_the_closure_of_its_training_nodes_value_by_value() {
    for seed in 0..6 {
        let small = random(seed, 60);
        let whole = small.open();
        let mut draws = Draws(seed + 100);
        let parts = 2 + draws.below(3);
        let owners: Vec<u16> = (0..60).map(|_| draws.below(parts) as u16).collect();
        let map = map_of(&whole, &owners, parts as u32);
        for (hops, split_eval) in [(1, false), (2, false), (2, true), (3, false)] {
            let options = PartOptions { split_eval, ..options(&map, hops) };
            let out = small.directory.path().join(format!("out-{hops}-{split_eval}"));
            let written = cut(&whole, &options, &out).unwrap();
            let mut trained = Vec::new();
            for (number, said) in written.iter().enumerate() {
                let path = out.join(directory_name(number));
                let part = Dataset::open_verified(&path, Verify::FullWithFeatures).unwrap();
                check_part(&whole, &part, &options, number, said);
                let bytes: u64 =
                    names(&path).iter().map(|name| fs::metadata(path.join(name)).unwrap().len()).sum();
                assert!(bytes <= said.bytes, "{bytes} bytes, estimated {}", said.bytes);
                trained.extend(of_part(whole.split(Split::Train), &owners, number));
            }
            // No training node is lost, and none is trained by two.
            trained.sort_unstable();
            let mut train = whole.split(Split::Train).to_vec();
            train.sort_unstable();
            assert_eq!(trained, train);
            check_description(&out, &whole, &options, &written);
            let checked = verify_parts(&out, Some(&whole)).unwrap();
            assert_eq!((checked.parts, checked.absent), ((0..parts).collect(), Vec::new()));
        }
    }
}

fn check_description(out: &Path, whole: &Dataset, options: &PartOptions<'_>, written: &[WrittenPart]) {
    // Opening compares its counts with the map.
    let map = PartitionMap::open(out, whole).unwrap();
    assert_eq!(map.of, options.map.of);
    let said = map.summary.unwrap();
    assert_eq!((said.hops, said.parts), (options.hops, options.map.parts));
    let owners = options.map.by_node(whole).unwrap();
    let crosses = |node: &i64| {
        let other = |next: &&i64| owners[**next as usize] != owners[*node as usize];
        list(whole, *node).iter().filter(other).count() as u64
    };
    assert_eq!(said.edge_cut, (0..whole.nodes() as i64).map(|node| crosses(&node)).sum::<u64>());
    let parts = said.closures().unwrap();
    assert_eq!((said.layout(), parts.split_eval), (Some("closure"), options.split_eval));
    let without_bytes = |part: &WrittenPart| WrittenPart { bytes: 0, ..part.clone() };
    assert_eq!(parts.written, written.iter().map(without_bytes).collect::<Vec<_>>());
    let text: Value = serde_json::from_slice(&fs::read(out.join("partition.json")).unwrap()).unwrap();
    assert_eq!(text["written"][1]["dir"], Value::from("part-1"));
}

#[test]
fn one_part_of_enough_hops_is_the_whole_and_an_isolated_node_is_a_part() {
    let small = random(7, 30);
    // A ring, so that every node is near every other, except that node 0 has no list and is in none.
    let ids: Vec<i32> = (1..30).map(|node| if node == 29 { 1 } else { node + 1 }).collect();
    let ends: Vec<i64> = [0].into_iter().chain(0..30).collect();
    small.write("indptr", NpyType::I64, &[], &ends);
    small.write("indices", NpyType::I32, &[], &ids);
    small.write("weight", NpyType::F32, &[], &[1_f32; 29]);
    small.write("edge_type", NpyType::U16, &[], &[5_u16; 29]);
    small.write("edge_feat", NpyType::F32, &[1], &[1_f32; 29]);
    small.write("train_idx", NpyType::I64, &[], &[4_i64, 0]);
    let whole = small.open();
    let at = |name: &str| small.directory.path().join(name);
    cut(&whole, &options(&map_of(&whole, &[0; 30], 1), 32), &at("one")).unwrap();
    for file in [
        "indptr",
        "indices",
        "weight",
        "edge_type",
        "edge_feat",
        "feat",
        "label",
        "orig_id",
        "train_idx",
        "valid_idx",
    ] {
        let [ours, theirs] = [at("one").join("part-0"), small.path.clone()]
            .map(|path| NpyArray::open(&path.join(format!("{file}.npy"))).unwrap());
        assert_eq!((ours.shape(), ours.bytes()), (theirs.shape(), theirs.bytes()), "{file}");
    }

    let owners: Vec<u16> = (0..30).map(|node| u16::from(node == 0)).collect();
    let written = cut(&whole, &options(&map_of(&whole, &owners, 2), 2), &at("alone")).unwrap();
    assert_eq!((written[1].nodes, written[1].edges, written[1].halo, written[1].train), (1, 0, 0, 1));
    let alone = Dataset::open(&at("alone").join("part-1")).unwrap();
    assert_eq!((alone.split(Split::Train), alone.original_ids()), (&[0][..], Some(&[3][..])));
    // The largest class is in the other part.
    assert!(matches!(alone.labels(), Labels::Single([-1])) && alone.classes() == whole.classes());
}

/// A partition of a random dataset into two, and its directory.
fn two_parts(hops: u32) -> (Small, PathBuf) {
    let small = random(11, 40);
    let owners: Vec<u16> = (0..40).map(|node| node % 2).collect();
    let out = small.directory.path().join("out");
    let whole = small.open();
    cut(&whole, &options(&map_of(&whole, &owners, 2), hops), &out).unwrap();
    (small, out)
}

#[test]
fn a_part_with_an_edited_description_is_refused_and_one_without_opens() {
    let (small, out) = two_parts(2);
    let (_other, foreign) = two_parts(1);
    let json = out.join("partition.json");
    let own = fs::read_to_string(&json).unwrap();
    for text in [
        own.replacen("\"hops\": 2", "\"hops\": 3", 1),
        fs::read_to_string(foreign.join("partition.json")).unwrap(),
    ] {
        assert_ne!(text, own);
        fs::write(&json, text).unwrap();
        for path in [out.join("part-1"), out.join("part-0/../part-1"), out.join("part-1/.")] {
            let error = Dataset::open_verified(&path, Verify::HeadersOnly).unwrap_err();
            assert!(error.is_bad_input(), "{error}");
            let message = error.to_string();
            assert!(message.contains("partition.json: it is not the partition that part 1"), "{message}");
        }
    }
    fs::write(&json, own).unwrap();
    Dataset::open(&out.join("part-1")).unwrap();
    // As on a machine without the other part.
    let alone = small.directory.path().join("alone");
    fs::rename(out.join("part-1"), &alone).unwrap();
    assert_eq!(Dataset::open(&alone).unwrap().part().unwrap().number, 1);
}

#[test]
fn checking_all_parts_finds_what_opening_them_does_not() {
    let (small, out) = two_parts(1);
    let whole = small.open();
    assert_eq!(verify_parts(&out, None).unwrap().parts, [0, 1]);
    let wrong = |file: &str, change: &dyn Fn(&mut Vec<u8>), source: Option<&Dataset>| {
        let path = out.join(file);
        let before = fs::read(&path).unwrap();
        let mut bytes = before.clone();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        let error = verify_parts(&out, source).map(|_| ()).unwrap_err();
        fs::write(&path, before).unwrap();
        assert!(error.is_bad_input(), "{error}");
        error.to_string()
    };
    let last = |bytes: &mut Vec<u8>| *bytes.last_mut().unwrap() ^= 1;
    let message = wrong("part-1/feat.npy", &last, Some(&whole));
    assert!(message.contains("part-1/feat.npy: the features of node"), "{message}");
    let part = Dataset::open(&out.join("part-0")).unwrap();
    let Labels::Single(labels) = part.labels() else { panic!("a class a node") };
    // Another valid class.
    let node = labels.iter().position(|label| [0, 2].contains(label)).unwrap();
    let message = wrong("part-0/label.npy", &|bytes| bytes[128 + 8 * node] ^= 1, Some(&whole));
    assert!(
        message.contains(&format!("part-0/label.npy: the labels of node {node} (original id ")),
        "{message}"
    );
    // The first training node is replaced by one of another part.
    let owner = |node: usize| part.original_ids().unwrap()[node] as usize;
    let map = PartitionMap::open(&out, &whole).unwrap();
    let foreign = (0..part.nodes()).find(|&node| map.of[owner(node)] == 1).unwrap();
    let message =
        wrong("part-0/train_idx.npy", &|bytes| bytes[128..136].copy_from_slice(&foreign.to_le_bytes()), None);
    assert!(message.contains("which belongs to part 1 by partition.npy, not to part 0"), "{message}");
    fs::rename(out.join("part-0"), small.directory.path().join("away")).unwrap();
    let checked = verify_parts(&out, Some(&whole)).unwrap();
    assert_eq!((checked.parts, checked.absent, checked.with_source), (vec![1], vec![0], true));
    fs::rename(out.join("part-1"), out.join("part-0")).unwrap();
    let message = verify_parts(&out, None).unwrap_err().to_string();
    assert!(message.contains("it is not part 0 of the partition in its parent directory"), "{message}");
}

#[test]
fn in_degrees_of_the_whole_graph_are_checked_fingerprinted_and_reordered() {
    let (small, out) = two_parts(1);
    let path = out.join("part-0");
    let part = Dataset::open(&path).unwrap();
    let (fingerprint, nodes) = (part.fingerprint(), part.nodes());
    let degrees = part.csc().degrees.unwrap().to_vec();
    assert!((0..nodes).any(|node| part.csc().degree(node) < degrees[node] as usize), "no list is cut");

    let order: Vec<i64> = (0..nodes as i64).rev().collect();
    let reordered = small.directory.path().join("reordered");
    write_reordered(&part, &NodeOrder::from_first(nodes, &order).unwrap(), &reordered, &|_| ()).unwrap();
    let reordered = Dataset::open(&reordered).unwrap();
    assert!(reordered.csc().degrees.unwrap().iter().eq(degrees.iter().rev()));
    assert_eq!(reordered.part(), part.part());

    let file = path.join("degree.npy");
    let write = |degrees: &[i32]| {
        fs::remove_file(&file).unwrap();
        uva_graph::npy::write_array(&file, NpyType::I32, &[], degrees).unwrap();
    };
    let mut more = degrees.clone();
    more[0] += 1;
    write(&more);
    assert_ne!(Dataset::open(&path).unwrap().fingerprint(), fingerprint);
    let listed = (0..nodes).find(|&node| part.csc().degree(node) > 0).unwrap();
    let mut fewer = degrees.clone();
    fewer[listed] = part.csc().degree(listed) as i32 - 1;
    write(&fewer);
    let message = Dataset::open(&path).unwrap_err().to_string();
    assert!(message.contains(&format!("the in-degree of node {listed} at offset")), "{message}");
    write(&degrees[1..]);
    let message = Dataset::open(&path).unwrap_err().to_string();
    assert!(message.contains("degree.npy") && message.contains("one in-degree for each node"), "{message}");
    fs::remove_file(&file).unwrap();
    let error = Dataset::open(&path).unwrap_err();
    assert!(error.is_bad_input() && error.to_string().contains("degree.npy: cannot open"), "{error}");
}

#[test]
fn a_writer_that_ends_half_way_leaves_nothing() {
    let small = random(3, 40);
    let owners: Vec<u16> = (0..40).map(|node| node % 4).collect();
    let (whole, out) = (small.open(), small.directory.path().join("new/out"));
    let map = map_of(&whole, &owners, 4);
    let before = names(small.directory.path());
    for last in ["closures", "parts"] {
        let dies = |progress: uva_graph::Progress| {
            assert!(!out.exists(), "it is there before it is complete");
            assert!(progress.stage != last || progress.done == 0, "killed");
        };
        let ended =
            catch_unwind(AssertUnwindSafe(|| write_parts(&whole, &options(&map, 2), &out, &dies).is_ok()));
        assert!(ended.is_err(), "it did not reach {last}");
        assert_eq!(names(small.directory.path()), before);
    }
}

#[test]
fn what_cannot_be_cut_is_refused_before_anything_is_written() {
    let small = random(5, 40);
    let whole = small.open();
    let out = small.directory.path().join("out");
    let owners: Vec<u16> = (0..40).map(|node| node % 2).collect();
    let halves = map_of(&whole, &owners, 2);
    let refusal = |dataset: &Dataset, map: &PartitionMap, hops: u32| {
        let error = cut(dataset, &options(map, hops), &out).unwrap_err();
        assert!(error.is_bad_input() && !out.exists(), "{error}");
        error.to_string()
    };
    assert_eq!(refusal(&whole, &halves, 0), "`hops`: invalid number of hops 0: expected 1 to 32");
    assert_eq!(refusal(&whole, &halves, 33), "`hops`: invalid number of hops 33: expected 1 to 32");
    let short = PartitionMap { of: halves.of[1..].to_vec(), ..halves.clone() };
    assert!(refusal(&whole, &short, 2).starts_with("`map`: it has 39 entries, but "));
    let message = refusal(&whole, &PartitionMap { parts: 3, ..halves.clone() }, 2);
    assert!(message.starts_with("`map`: part 2 of 3 has none of the 13 training nodes"), "{message}");
    small.write::<i64>("train_idx", NpyType::I64, &[], &[]);
    assert!(refusal(&small.open(), &halves, 2).contains("has no training nodes to divide"));

    cut(&whole, &options(&halves, 2), &out).unwrap();
    let message = cut(&whole, &options(&halves, 2), &out).unwrap_err().to_string();
    assert!(message.contains("exists already"), "{message}");
    let part = Dataset::open(&out.join("part-0")).unwrap();
    let error = cut(&part, &options(&halves, 1), &small.directory.path().join("again")).unwrap_err();
    assert!(error.to_string().contains("is a part itself"), "{error}");
}
