//! Batches of typed graphs in the real binary: those of the second implementation.

use std::fs;

use serde_json::{Value, json};
use uva_graph::npy::{NpyType, write_array};

use uva_runtime::options::part::Part;
use uva_runtime::{InputSeeds, LoaderOptions, Runtime};

use crate::support::command::{self, recorded};
use crate::support::runs::Metrics;
use crate::support::typed::{case_of, dataset_of, integers, write_mag};
use crate::support::{directory, ranks, uvatrain};

#[test]
fn bench_sample_has_the_batches_of_the_second_implementation() {
    let by_name = "2,1;cites=2,1;topic__covers__paper=2,1;author:writes:paper=2,1";
    for (name, fanouts) in [
        ("library", "2,1"),
        ("library", by_name),
        ("library", "rev_covers=2,1;*=2,1"),
        ("every type reordered", "2,1"),
        ("fanouts by node", "author=2,1;3,2 --fanout-per node"),
    ] {
        let temp = directory();
        let case = dataset_of(name, &temp.path().join("data"));
        let batches = case["batches"].as_array().unwrap();
        assert_eq!(batches.len(), 4, "two epochs of two batches");
        let expected = batches.iter().fold(0_u64, |sum, batch| {
            sum.wrapping_add(u64::from_str_radix(batch["hash"].as_str().unwrap(), 16).unwrap())
        });
        for threads in [1, 3] {
            let words = format!(
                "bench sample data --fanouts {fanouts} --seed 42 --batch-size 4 --batches 4 --json --threads {threads}"
            );
            let found = uvatrain(temp.path(), words.split_whitespace()).run().succeeds().json();
            assert_eq!(found["hash"], format!("{expected:016x}"), "{name}, {fanouts}, threads: {threads}");
            assert_eq!(found["verified"]["hops"], 2, "{name}");
        }
    }
}

#[test]
fn trees_are_the_same_on_any_number_of_threads_and_depend_on_the_time() {
    let temp = directory();
    let data = temp.path().join("data");
    dataset_of("library", &data);
    let times: Vec<i64> = vec![1, 2, 2, 3, 0, 1, 4, 4, 5, 9, 9, 9];
    write_array(&data.join("edges/author__writes__paper/time.npy"), NpyType::I64, &[], &times).unwrap();
    let meta = fs::read_to_string(data.join("meta.json")).unwrap();
    let mut meta: Value = serde_json::from_str(&meta).unwrap();
    meta["edges"][1]["order"] = json!("time");
    fs::write(data.join("meta.json"), meta.to_string()).unwrap();
    let hashes = ["", "--time-rule until-seed --seed-time 3", "--time-rule until-seed --seed-time 4"].map(|rule| {
        let of_threads = [1, 3].map(|threads| {
            let words = format!(
                "bench sample data --fanouts 2,2 --batch-size 4 --batches 4 --json --disjoint {rule} --threads {threads}"
            );
            let found = uvatrain(temp.path(), words.split_whitespace()).run().succeeds().json();
            assert_eq!(found["verified"]["hops"], 2, "{rule}");
            found["hash"].as_str().unwrap().to_owned()
        });
        assert_eq!(of_threads[0], of_threads[1], "{rule}");
        of_threads[0].clone()
    });
    assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2], "{hashes:?}");
}

#[test]
fn typed_batches_of_a_command_are_those_of_threads_however_made() {
    let temp = directory();
    write_mag(temp.path());
    let expected = ranks::expected(temp.path(), 2, Part::default(), false);
    for options in [
        "--samplers 1",
        "--samplers 8 --batch-slots 12",
        "--samplers 1 --prepare whole",
        "--samplers 3 --prepare whole",
        "--samplers 2 --seed-order shuffle --edge-ids --input-id --feature-type float32 --target paper",
        "--samplers 2 --ranks 1 --slot-bytes 4MiB",
    ] {
        command::run_with(temp.path(), options, None, ranks::ALL_SPLITS).run().succeeds();
        assert_eq!(recorded(temp.path()), expected, "{options}");
        fs::remove_file(temp.path().join(command::RECORD)).unwrap();
    }
}

#[test]
fn ranks_divide_typed_batches() {
    let temp = directory();
    write_mag(temp.path());
    for (count, options) in [(2, ""), (3, "--prepare whole --samplers 2"), (4, "--drop-last --samplers 2")] {
        let words = format!("--ranks {count} {options}");
        ranks::run(temp.path(), count, &words, ranks::ALL_SPLITS).run().succeeds();
        for index in 0..count {
            let (part, folder) = (Part { index, of: count }, temp.path().join(format!("r{index}")));
            let drop_last = options.contains("--drop-last");
            assert_eq!(recorded(&folder), ranks::expected(temp.path(), 2, part, drop_last), "{words}");
            fs::remove_dir_all(folder).unwrap();
        }
    }
}

#[test]
fn columns_of_a_command_are_those_of_threads_around_given_nodes() {
    let temp = directory();
    write_mag(temp.path());
    let write = |name: &str, step: usize, count: usize| {
        let ids: String = (0..count).map(|node| format!("{}\n", node * step)).collect();
        fs::write(temp.path().join(name), ids).unwrap();
    };
    write("papers.txt", 3, 250);
    write("authors.txt", 7, 130);
    let options = LoaderOptions {
        fanouts: [5, 4].into(),
        batch_size: 100,
        edge_ids: true,
        input_id: true,
        ..LoaderOptions::default()
    };
    for (files, batches) in [
        (&["papers.txt"][..], 3),
        (&["author=authors.txt"], 2),
        (&["author=authors.txt", "papers.txt"], 4),
        (&["paper=papers.txt", "author=authors.txt"], 4),
    ] {
        let given: Vec<_> = files
            .iter()
            .map(|file| match file.split_once('=') {
                Some((name, file)) => format!("{name}={}", temp.path().join(file).display()).into(),
                None => temp.path().join(file),
            })
            .collect();
        let builder = Runtime::builder(temp.path().join("graph")).options(options.clone());
        let builder = builder.input_nodes(InputSeeds::in_files(&given)).shuffle(true);
        let mut runtime = builder.build().unwrap();
        let mut expected = Vec::new();
        while let Some(batch) = runtime.next_batch().unwrap() {
            expected.push(format!("{} {}", batch.index(), command::contents(&batch)));
        }
        assert_eq!(expected.len(), batches, "{files:?}");
        let files: String = files.iter().map(|file| format!(" --input-nodes {file}")).collect();
        for how in ["--samplers 2", "--samplers 2 --prepare whole"] {
            let words = format!("{how} --edge-ids --input-id{files}");
            let found = command::run_with(temp.path(), &words, None, "attach; contents").run().succeeds();
            for line in &expected {
                assert!(found.stdout.contains(line), "{words}: {line}\n{found}");
            }
        }
    }
}

#[test]
fn seeds_of_two_types_have_the_batches_of_the_second_implementation() {
    let temp = directory();
    dataset_of("library", &temp.path().join("data"));
    let case = case_of("seeds of two types");
    for (name, ids) in [("paper", &case["splits"]["train"][0]), ("topic", &case["splits"]["train"][2])] {
        let lines: String = integers(ids).iter().map(|id| format!("{id}\n")).collect();
        fs::write(temp.path().join(name), lines).unwrap();
    }
    let batches = case["batches"].as_array().unwrap();
    let expected = batches.iter().fold(0_u64, |sum, batch| {
        sum.wrapping_add(u64::from_str_radix(batch["hash"].as_str().unwrap(), 16).unwrap())
    });
    for how in ["--samplers 1", "--samplers 3", "--samplers 2 --prepare whole"] {
        let words = format!(
            "bench pipeline data {how} --input-nodes topic=topic --input-nodes paper=paper --fanouts 2,2 --batch-size 4 \
             --replace --batch-dependency 3 --seed {} --epochs 2 --json",
            case["options"]["seed"]
        );
        let found = uvatrain(temp.path(), words.split_whitespace()).run().succeeds().json();
        assert_eq!(found["hash"], format!("{expected:016x}"), "{how}");
    }
    for (files, reason) in [
        ("papr=paper", "--input-nodes: there is no node type \"papr\", did you mean \"paper\"?"),
        ("paper=paper --input-nodes paper", "--input-nodes: nodes of type paper are given twice"),
        ("topic=paper", "--input-nodes: topic: paper: line 1 is 5, outside the ids 0 to 2"),
    ] {
        let words = format!("run data --fanouts 2,2 --input-nodes {files} -- true");
        uvatrain(temp.path(), words.split_whitespace()).run().refuses(2, &[reason]);
    }
}

#[test]
fn metrics_count_nodes_rows_and_edges_by_type_and_relation() {
    let temp = directory();
    write_mag(temp.path());
    let options = "--samplers 2 --metrics run.jsonl";
    command::run_with(temp.path(), options, None, "attach; pass train 0").run().succeeds();
    let metrics = Metrics::read(&temp.path().join("run.jsonl"));
    let start = metrics.of("start").next().expect("a start");
    assert_eq!(start["dataset"]["target"], "paper");
    let types = start["dataset"]["types"].as_array().unwrap();
    assert_eq!((&types[0]["type"], &types[0]["feature_dim"]), (&json!("paper"), &json!(4)));
    assert_eq!(types[1], json!({"type": "author", "nodes": 2270}));
    let relations = start["dataset"]["relations"].as_array().unwrap();
    let options = LoaderOptions { fanouts: [5, 4].into(), batch_size: 100, ..LoaderOptions::default() };
    let mut runtime = Runtime::builder(temp.path().join("graph")).options(options).build().unwrap();
    let mut lines = metrics.of("batch");
    while let Some(batch) = runtime.next_batch().unwrap() {
        let line = lines.next().expect("a line for each batch");
        let metagraph = batch.metagraph();
        let nodes = |of| json!(batch.nodes_of(of).len());
        let names: Vec<_> = metagraph.types().map(|of| metagraph.type_name(of)).collect();
        let found: Vec<_> = line["nodes_by_type"].as_object().unwrap().iter().collect();
        assert!(found.iter().map(|(name, _)| name.as_str()).eq(names.iter().copied()), "{line}");
        assert!(found.into_iter().map(|(_, count)| count.clone()).eq(metagraph.types().map(nodes)), "{line}");
        let with_rows = metagraph.types().filter(|of| batch.rows_of(*of).is_some());
        let rows: serde_json::Map<_, _> =
            with_rows.map(|of| (metagraph.type_name(of).to_owned(), nodes(of))).collect();
        assert_eq!(line["rows_by_type"], Value::Object(rows));
        let edges = line["edges_by_relation"].as_object().unwrap();
        assert_eq!(edges.len(), relations.len());
        for of in metagraph.relations() {
            let of_layers: Vec<_> =
                (0..batch.layers()).map(|layer| batch.block_of(layer, of).indices.len()).collect();
            assert_eq!(edges[metagraph.full_name(of)], json!(of_layers), "{line}");
        }
    }
    assert!(lines.next().is_none());
    let bench =
        "bench pipeline graph --fanouts 5,4 --batch-size 100 --samplers 2 --warm-up 1 --epochs 1 --json";
    let bench = uvatrain(temp.path(), bench.split(' ')).run().succeeds().json();
    let sum = |name: &str| {
        let of_batch = |line: &Value| {
            let counts = line[name].as_object().unwrap().values();
            counts.map(|count| count.as_u64().unwrap_or(0)).sum::<u64>()
        };
        // The bench does not count its first batch.
        metrics.of("batch").skip(1).map(of_batch).sum::<u64>()
    };
    assert_eq!(
        (&bench["input_nodes"], &bench["feature_bytes"]),
        (&json!(sum("nodes_by_type")), &json!(16 * sum("rows_by_type")))
    );
}

#[test]
fn what_typed_graphs_do_not_support_is_refused_with_the_reason() {
    let temp = directory();
    dataset_of("library", &temp.path().join("data"));
    let refused = |words: &str, reason: &str| {
        uvatrain(temp.path(), words.split_whitespace()).run().refuses(2, &[reason]);
    };
    refused("bench sample data --sampler-kind ladies", "neighbor, labor or weighted sample it");
    refused("bench sample data --sampler-kind weighted", "weight");
    refused("bench sample data --sampler-kind labor --disjoint", "use --sampler-kind neighbor or weighted");
    refused(
        "bench sample data --time-rule until-seed --seed-time 3",
        "no relation and no node type has time.npy",
    );
    refused("bench sample data --time-window 3", "--time-rule");
    refused(
        "train data --model sage",
        "--model sage: for one node type and one relation, and DATA is a typed graph: use --model rsage",
    );
    refused(
        "bench sample data --fanouts 2;rites=1",
        "there is no relation \"rites\", did you mean \"writes\"?",
    );
    refused(
        "bench sample data --fanouts writes=2",
        "paper__cites__paper has no list, and there is no default",
    );
    refused("bench sample data --fanouts 2;writes=1,1", "author__writes__paper has 2 hops, the others 1");
    refused("bench sample data --fanouts 2;writes=1;writes=2", "writes has two lists");
    refused("bench sample data --fanouts 2;writes=1 --fanout-per node", "there is no node type \"writes\"");
    refused("bench sample data --fanout-per node --sampler-kind labor", "--fanout-per");
    refused("bench sample data --target papr", "there is no node type \"papr\", did you mean \"paper\"?");
    refused("bench sample data --target topic", "nodes/topic/train_idx.npy: the training split is empty");
    for (option, reason) in [
        ("--roles 1:2", "--roles: not supported for typed graphs: each rank samples its own batches"),
        ("--gpu-cache 1MiB", "--gpu-cache: not supported for typed graphs yet"),
        ("--plan none.plan", "--plan: not supported for typed graphs yet"),
        ("--seed-order proximity", "--seed-order proximity: not supported for typed graphs"),
        ("--aggregate mean", "--aggregate mean: not supported for typed graphs"),
    ] {
        refused(&format!("run data --device cpu --fanouts 2,1 {option} -- true"), reason);
    }
    let meta = temp.path().join("data/meta.json");
    let without = fs::read_to_string(&meta).unwrap().replace("\"target\"", "\"no_target\"");
    fs::write(&meta, without).unwrap();
    refused("bench sample data", "\"target\" is missing");
    let words = "bench sample data --target paper --fanouts 2,1 --json";
    uvatrain(temp.path(), words.split_whitespace()).run().succeeds();
}
