//! The committed test vectors, made by a second implementation in plain Python, compared with this crate.

use std::path::PathBuf;
use std::process::Command;

use crate::common::{Graph, Ids, content};
use serde_json::Value;
use uva_graph::Split;
use uva_sample::philox::{RandomPurpose, StreamKey, philox4x32};
use uva_sample::{
    BatchBounds, BatchKey, BatchSampler, ChunkOrder, EpochOrder, Expand, FanoutPer, Follow, MiniBatch,
    OrderEdges, Proximity, SamplerKind, SamplerOptions, SeedOrder, SeedSequences, Sequenced, Walks,
};

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn vectors() -> Value {
    let path = repository().join("docs/test-vectors.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// The entries of the array `name`, of which there must be some.
pub fn entries<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    let array = value[name].as_array().unwrap_or_else(|| panic!("{name} is an array"));
    assert!(!array.is_empty(), "{name} has entries");
    array
}

pub fn integer<T: TryFrom<i128>>(value: &Value) -> T {
    let wide = value.as_u64().map(i128::from).or_else(|| value.as_i64().map(i128::from));
    wide.and_then(|wide| T::try_from(wide).ok())
        .unwrap_or_else(|| panic!("{value} is not an integer of this type"))
}

pub fn integers<T: TryFrom<i128>>(value: &Value) -> Vec<T> {
    value.as_array().unwrap_or_else(|| panic!("{value} is not an array")).iter().map(integer).collect()
}

fn words<const N: usize>(value: &Value) -> [u32; N] {
    integers(value).try_into().unwrap()
}

pub fn split(value: &Value) -> Split {
    Split::ALL.into_iter().find(|split| Some(split.name()) == value.as_str()).unwrap()
}

fn stream_key(value: &Value) -> StreamKey {
    let purpose = match value["purpose"].as_str().unwrap() {
        "neighbors" => RandomPurpose::Neighbors,
        "seed_shuffle" => RandomPurpose::SeedShuffle,
        "walks" => RandomPurpose::Walks,
        "subgraphs" => RandomPurpose::Subgraphs,
        "negatives" => RandomPurpose::Negatives,
        "weights" => RandomPurpose::Weights,
        "proximity" => RandomPurpose::Proximity,
        other => panic!("no purpose {other}"),
    };
    StreamKey {
        seed: integer(&value["seed"]),
        node: integer(&value["node"]),
        purpose,
        layer: integer(&value["layer"]),
        batch: integer(&value["batch"]),
        epoch: integer(&value["epoch"]),
        split: split(&value["split"]),
    }
}

#[test]
fn philox_words_agree() {
    for case in entries(&vectors(), "philox") {
        assert_eq!(philox4x32(words(&case["key"]), words(&case["counter"])), words(&case["words"]), "{case}");
    }
}

#[test]
fn streams_and_their_counters_agree() {
    for case in entries(&vectors(), "streams") {
        let key = stream_key(&case["stream"]);
        for (block, counter) in (0..).zip(entries(case, "counters")) {
            assert_eq!(key.counter(block), words::<4>(counter), "{case}");
        }
        let mut stream = key.stream();
        for word in integers::<u32>(&case["words"]) {
            assert_eq!(stream.next_u32(), word, "{case}");
        }
    }
}

#[test]
fn bounded_draws_agree() {
    for case in entries(&vectors(), "bounded") {
        let mut stream = stream_key(&case["stream"]).stream();
        let drawn: Vec<u32> =
            integers(&case["bounds"]).into_iter().map(|bound| stream.bounded(bound)).collect();
        assert_eq!(drawn, integers::<u32>(&case["values"]), "{case}");
    }
}

#[test]
fn wide_bounded_draws_agree() {
    for case in entries(&vectors(), "bounded_wide") {
        let mut stream = stream_key(&case["stream"]).stream();
        let drawn: Vec<u64> =
            integers(&case["bounds"]).into_iter().map(|bound| stream.bounded_u64(bound)).collect();
        assert_eq!(drawn, integers::<u64>(&case["values"]), "{case}");
    }
}

#[test]
fn shuffles_agree() {
    for case in entries(&vectors(), "shuffles") {
        let count = integer(&case["count"]);
        let mut order =
            SeedOrder::new(integer(&case["seed"]), split(&case["split"]), count, true, count, false).unwrap();
        order.prepare(integer(&case["epoch"])).unwrap();
        assert_eq!(order.batch(0), integers::<u32>(&case["positions"]), "{case}");
    }
}

#[test]
fn orders_of_chunks_agree() {
    for case in entries(&vectors(), "chunk_orders") {
        let (count, chunk) = (integer(&case["count"]), integer(&case["chunk"]));
        let seed = integer(&case["seed"]);
        let mut order = ChunkOrder::new(seed, Split::Train, count, Some(chunk), count, false).unwrap();
        order.prepare(integer(&case["epoch"])).unwrap();
        let rows: Vec<usize> = order.batch(0).flatten().collect();
        assert_eq!(rows, integers::<usize>(&case["rows"]), "{case}");
    }
}

/// The graph of a case, without weights.
fn graph_of(case: &Value) -> Graph {
    let indices = match case["indices_dtype"].as_str() {
        Some("int32") => Ids::I32(integers(&case["indices"])),
        _ => Ids::I64(integers(&case["indices"])),
    };
    let original_ids = (!case["orig_id"].is_null()).then(|| integers(&case["orig_id"]));
    Graph { indptr: integers(&case["indptr"]), indices, original_ids, home: None, weights: None }
}

#[test]
fn orders_of_seeds_that_follow_a_graph_agree() {
    for case in entries(&vectors(), "seed_orders") {
        let (graph, train) = (graph_of(&case["graph"]), integers::<i64>(&case["train"]));
        let (seed, len) = (integer(&case["seed"]), train.len());
        let edges = OrderEdges::from_name(case["edges"].as_str().unwrap()).unwrap();
        let expected: Vec<u32> = entries(case, "sequences").iter().flat_map(integers::<u32>).collect();
        let count = expected.len() / len;
        let made = Proximity::new(graph.csc(), &train, edges, seed).unwrap().sequences(0..count as u32);
        assert_eq!(made, expected, "{case}");
        let sequences = SeedSequences::new(made, count, len);
        for expected in entries(case, "epochs") {
            let segment = integer(&case["segment"]);
            for (name, follow) in
                [("in_turns", Follow::InTurns(count)), ("segments", Follow::Segments(segment))]
            {
                let sequenced = Sequenced { sequences: sequences.clone(), follow };
                let of = (true, Some(&sequenced));
                let mut order = EpochOrder::new(seed, Split::Train, len, of, len, false).unwrap();
                order.prepare(integer(&expected["epoch"])).unwrap();
                assert_eq!(order.batch(0), integers::<u32>(&expected[name]), "{name}: {case}");
            }
        }
    }
}

/// Picks are positions in a list; a node whose neighbours are nodes 1, 2, 3, … shows them. Lists too long to be built
/// are checked by `picks_of_any_length_agree`.
#[test]
fn picks_agree() {
    let mut checked = 0;
    for case in entries(&vectors(), "picks") {
        let degree: usize = integer(&case["degree"]);
        if degree > 1 << 20 {
            continue;
        }
        let key = stream_key(&case["stream"]);
        // Node 0 of this graph has the id of the case's stream.
        let mut lists = vec![Vec::new(); degree + 1];
        lists[0] = (1..=degree as i64).collect();
        let mut graph = Graph::from_lists(&lists);
        let mut original: Vec<i64> = (0..=degree as i64).collect();
        original[0] = key.node as i64;
        graph.original_ids = Some(original);

        let fanouts = [integer(&case["fanout"])];
        let mut sampler = graph.sampler(&fanouts, case["replace"].as_bool().unwrap(), key.seed);
        let mut batch = graph.room(1, fanouts);
        let batch_key = BatchKey { split: key.split, epoch: key.epoch, batch: key.batch };
        sampler.sample_into(batch_key, &[0], &mut batch).unwrap();
        let block = batch.block(0).unwrap();
        let positions: Vec<i64> =
            block.indices.iter().map(|&local| batch.nodes()[local as usize] - 1).collect();
        assert_eq!(positions, integers::<i64>(&case["positions"]), "{case}");
        checked += 1;
    }
    assert!(checked >= 12, "{checked} cases were checked");
}

#[test]
fn picks_of_any_length_agree() {
    for case in entries(&vectors(), "picks") {
        let (degree, fanout): (u32, i32) = (integer(&case["degree"]), integer(&case["fanout"]));
        let replace = case["replace"].as_bool().unwrap();
        let mut stream = stream_key(&case["stream"]).stream();
        let mut picks = Vec::new();
        if fanout == -1 || degree == 0 || (!replace && degree <= fanout as u32) {
            picks.extend(0..degree);
        } else if replace {
            picks.extend((0..fanout).map(|_| stream.bounded(degree)));
        } else {
            for j in degree - fanout as u32..degree {
                let drawn = stream.bounded(j + 1);
                picks.push(if picks.contains(&drawn) { j } else { drawn });
            }
        }
        assert_eq!(picks, integers::<u32>(&case["positions"]), "{case}");
    }
}

#[test]
fn batches_of_all_graphs_agree() {
    let vectors = vectors();
    let graphs = entries(&vectors, "graphs");
    assert_eq!(graphs.len(), 39);
    for case in graphs {
        let indices = match case["indices_dtype"].as_str() {
            Some("int32") => Ids::I32(integers(&case["indices"])),
            Some("int64") => Ids::I64(integers(&case["indices"])),
            other => panic!("no such dtype: {other:?}"),
        };
        let original_ids = (!case["orig_id"].is_null()).then(|| integers(&case["orig_id"]));
        let weights = (!case["weight_bits"].is_null())
            .then(|| integers(&case["weight_bits"]).into_iter().map(f32::from_bits).collect());
        let graph = Graph { indptr: integers(&case["indptr"]), indices, original_ids, home: None, weights };
        let options = SamplerOptions {
            kind: match case["options"]["kind"].as_str() {
                None => SamplerKind::default(),
                Some(name) => SamplerKind::from_name(name).unwrap(),
            },
            edge_ids: case["options"]["edge_ids"].as_bool().unwrap_or(false),
            trees: None,
            fanouts: integers(&case["options"]["fanouts"]).into(),
            fanout_per: FanoutPer::Relation,
            replace: case["options"]["replace"].as_bool().unwrap(),
            seed: integer(&case["options"]["seed"]),
            batch_dependency: match &case["options"]["batch_dependency"] {
                Value::Null => 1,
                kappa => integer(kappa),
            },
            expand: match case["options"]["expand"].as_str() {
                None => Expand::All,
                Some(name) => Expand::from_name(name).unwrap(),
            },
            walks: match &case["options"]["walks"] {
                Value::Null => Walks::default(),
                walks => {
                    let of = |name: &str| integer(&walks[name]);
                    Walks { count: of("count"), length: of("length"), stop: of("stop") }
                }
            },
        };
        let batch_size: usize = integer(&case["batch_size"]);

        let order_of = |split: Split, epoch| {
            let index: Vec<i64> = integers(&case["splits"][split.name()]);
            let mut order =
                SeedOrder::new(options.seed, split, index.len(), split == Split::Train, batch_size, false)
                    .unwrap();
            order.prepare(epoch).unwrap();
            (index, order)
        };
        for expected in entries(case, "orders") {
            let (_, order) = order_of(split(&expected["split"]), integer(&expected["epoch"]));
            let all: Vec<u32> = (0..order.batches()).flat_map(|batch| order.batch(batch)).copied().collect();
            assert_eq!(all, integers::<u32>(&expected["positions"]), "{}: {expected}", case["name"]);
        }

        let csc = graph.csc();
        let bytes = options.fanouts.hop_of_all().map(|_| 1 << 20);
        let bounds = BatchBounds::for_options(&options, batch_size, csc.nodes(), csc.edges(), bytes);
        let mut batch = MiniBatch::with_bounds(&bounds.unwrap());
        let mut sampler = graph.sampler_for(&options);
        for expected in entries(case, "batches") {
            let key = BatchKey {
                split: split(&expected["split"]),
                epoch: integer(&expected["epoch"]),
                batch: integer(&expected["batch"]),
            };
            let (index, order) = order_of(key.split, key.epoch);
            let seeds: Vec<i64> =
                order.batch(key.batch as usize).iter().map(|&position| index[position as usize]).collect();
            let counts = sampler.sample_into(key, &seeds, &mut batch).unwrap();

            assert_eq!(counts.seeds(), integer::<usize>(&expected["seeds"]));
            let (nodes, blocks) = content(&batch);
            assert_eq!(nodes, integers::<i64>(&expected["nodes"]), "{}: {key}", case["name"]);
            let expected_blocks = entries(expected, "blocks");
            assert_eq!(blocks.len(), expected_blocks.len());
            for (layer, ((indptr, indices), block)) in blocks.iter().zip(expected_blocks).enumerate() {
                assert_eq!(counts.blocks()[layer].destinations, integer::<usize>(&block["destinations"]));
                assert_eq!(counts.blocks()[layer].sources, integer::<usize>(&block["sources"]));
                assert_eq!(*indptr, integers::<i32>(&block["indptr"]), "{}: {key}", case["name"]);
                assert_eq!(*indices, integers::<i32>(&block["indices"]), "{}: {key}", case["name"]);
                let weights = batch.block(layer).unwrap().weights;
                match &block["weight_bits"] {
                    Value::Null => assert!(weights.is_empty() && !options.kind.weighs_edges()),
                    bits => {
                        let found: Vec<u32> = weights.iter().map(|weight| weight.to_bits()).collect();
                        assert_eq!(found, integers::<u32>(bits), "{}: {key}", case["name"]);
                    }
                }
                let edge_ids = batch.block(layer).unwrap().edge_ids;
                match &block["edge_ids"] {
                    Value::Null => assert!(edge_ids.is_empty()),
                    ids => assert_eq!(edge_ids, integers::<i64>(ids), "{}: {key}", case["name"]),
                }
            }
            let hash = format!("{:016x}", counts.hash);
            assert_eq!(Some(hash.as_str()), expected["hash"].as_str(), "{}: {key}", case["name"]);
        }
    }
}

#[test]
fn every_kind_has_test_vectors_and_rows_in_the_documentation() {
    let page = |name: &str| std::fs::read_to_string(repository().join("docs").join(name)).unwrap();
    let vectors: Value = serde_json::from_str(&page("test-vectors.json")).unwrap();
    let told: Vec<_> =
        entries(&vectors, "graphs").iter().map(|case| case["options"]["kind"].as_str()).collect();
    let (samplers, commands, contract) =
        (page("guide/samplers.md"), page("reference/commands.md"), page("spec/reproducible-batches.md"));
    for kind in SamplerKind::ALL {
        let name = Some(kind.name()).filter(|_| kind != SamplerKind::default());
        assert!(told.contains(&name), "docs/test-vectors.json has no batches of {kind}");
        assert!(
            samplers.contains(&format!("\n| `{kind}` | ")),
            "the table of docs/guide/samplers.md has no row {kind}"
        );
        assert!(
            commands.contains(&format!("\n| `{kind}` | ")),
            "the table of docs/reference/commands.md has no row {kind}"
        );
        assert!(
            contract.contains(&format!("`{kind}`")),
            "docs/spec/reproducible-batches.md does not say {kind}"
        );
    }
}

#[test]
fn the_second_implementation_still_makes_these_vectors() {
    let root = repository();
    for script in ["reference.py", "typed.py"] {
        let output = Command::new("python3")
            .arg(root.join("tests/reference").join(script))
            .arg("--check")
            .arg(root.join("docs/test-vectors.json"))
            .output()
            .expect("python3 can be started; it is a prerequisite");
        assert!(
            output.status.success(),
            "{script}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
