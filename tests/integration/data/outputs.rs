//! Outputs never replace what a command reads, nor files of a dataset, hop set, partition or checkpoint, by whatever
//! path.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::arrays::npy;
use crate::support::runs::{TRAIN, small_graph, train};
use crate::support::{assert_same_contents, contents, directory, uvatrain};

/// A dataset, and files made from it: `graph`, `hops`, `parts`, `ranges`, `kept`, and a run `run.jsonl`.
fn everything(directory: &Path) {
    small_graph(directory);
    for line in [
        "propagate graph hops --hops 1",
        "partition graph parts --parts 2 --method ldg",
        "partition graph ranges --parts 2 --method ldg --layout ranges",
        "order graph --sequences 2 --out order.npy",
        "plan graph --gpu-cache 64KiB --fanouts 5,4 --batch-size 100 --out plan.json",
    ] {
        uvatrain(directory, line.split(' ')).run().succeeds();
    }
    train(directory, "run.jsonl", "--epochs 1 --checkpoint kept").run().succeeds();
    fs::write(directory.join("ids.npy"), npy::<i64>(&[2], false, &[5, 7])).unwrap();
    fs::write(directory.join("options.toml"), "[train]\nepochs = 1\n").unwrap();
}

/// Every command with an output, which is the last word of the line.
const COMMANDS: [&str; 13] = [
    "order graph --sequences 2 --out",
    "plan graph --gpu-cache 64KiB --out",
    "plan graph --gpu-cache 64KiB --svg",
    "report run.jsonl --out",
    "bench pcie --svg",
    "predict graph --checkpoint kept --overwrite --output",
    "predict graph --checkpoint kept --overwrite --probabilities",
    "predict graph --checkpoint kept --overwrite --embeddings",
    "predict graph --checkpoint kept --overwrite --output p.npy --ids",
    "run graph --fanouts 5,4 --batch-size 100 --metrics",
    "run graph --fanouts 5,4 --batch-size 100 --trace",
    "TRAIN --metrics",
    "TRAIN --trace",
];

fn refuses(directory: &Path, line: &str, output: &str, says: &str) {
    let line = line.replace("TRAIN", TRAIN);
    let (words, option) = (line.split(' '), line.rsplit(' ').next().unwrap());
    let command = if line.starts_with("run ") { &["--", "true"][..] } else { &[] };
    let words = words.chain([output]).chain(command.iter().copied());
    uvatrain(directory, words).run().refuses(2, &[option, output, says, "name another file"]);
}

#[test]
#[ignore = "4 s of a core: scripts/measure/long_tests.sh"]
fn no_output_replaces_a_file_of_a_dataset_hop_set_partition_or_checkpoint() {
    let temp = directory();
    everything(temp.path());
    symlink("graph", temp.path().join("link")).unwrap();
    symlink("link/label.npy", temp.path().join("label")).unwrap();
    fs::create_dir(temp.path().join("sub")).unwrap();
    let before = contents(temp.path());
    symlink("graph/weight.npy", temp.path().join("dangling")).unwrap();
    for line in COMMANDS {
        refuses(temp.path(), line, "graph/train_idx.npy", "");
    }
    let absolute = temp.path().join("graph/meta.json");
    for (output, kind) in [
        // A file that the dataset could have, another spelling, and links.
        ("graph/edge_feat.npy", "the dataset in"),
        ("dangling", "weight.npy is a file of the dataset in"),
        ("sub/../graph//feat.npy", ""),
        ("link/indptr.npy", ""),
        ("label", ""),
        (absolute.to_str().unwrap(), ""),
        ("hops/sym.1.npy", "the hop set in"),
        ("hops/hops.json", "the hop set in"),
        ("parts/partition.npy", "the partition in"),
        ("ranges/partition.json", "the partition in"),
        ("ranges/part-1/feat.npy", "the dataset in"),
        ("ranges/graph/indices.npy", "the dataset in"),
        ("kept/checkpoint.json", ""),
        ("kept/tensors-0123456789abcdef.safetensors", "the checkpoint in"),
    ] {
        for line in [
            "order graph --sequences 2 --out",
            "predict graph --checkpoint kept --overwrite --ids",
            "TRAIN --metrics",
        ] {
            refuses(temp.path(), line, output, kind);
        }
    }
    fs::remove_file(temp.path().join("dangling")).unwrap();
    assert_same_contents(&before, &contents(temp.path()));
    // Other files in the same directories are valid outputs.
    for line in [
        "order graph --sequences 2 --out graph/order.npy",
        "predict graph --checkpoint kept --output hops/p.npy",
        &format!("{TRAIN} --epochs 1 --metrics kept/run.jsonl"),
    ] {
        uvatrain(temp.path(), line.split(' ')).run().succeeds();
        uvatrain(
            temp.path(),
            format!("{line} {}", if line.contains("predict") { "--overwrite" } else { "" })
                .split_whitespace(),
        )
        .run()
        .succeeds();
    }
}

#[test]
fn no_output_replaces_a_file_that_the_command_reads() {
    let temp = directory();
    everything(temp.path());
    fs::hard_link(temp.path().join("graph/feat.npy"), temp.path().join("hard.npy")).unwrap();
    symlink("ids.npy", temp.path().join("ids")).unwrap();
    symlink("ids.npy", temp.path().join("linked.npy")).unwrap();
    let before = contents(temp.path());
    for (line, output) in [
        ("TRAIN --metrics", "hard.npy"),
        ("TRAIN --input-nodes ids.npy --trace", "ids"),
        ("TRAIN --input-nodes node=ids.npy --metrics", "ids"),
        ("TRAIN --plan plan.json --metrics", "plan.json"),
        ("TRAIN --seed-order proximity:2 --order order.npy --metrics", "order.npy"),
        ("TRAIN --config options.toml --metrics", "options.toml"),
        ("run graph --fanouts 5,4 --batch-size 100 --input-nodes ids.npy --metrics", "ids"),
        ("predict graph --checkpoint kept --nodes ids.npy --overwrite --output", "linked.npy"),
        ("predict graph --checkpoint kept --nodes ids --overwrite --ids", "ids.npy"),
    ] {
        refuses(temp.path(), line, output, "which the command reads");
    }
    assert_same_contents(&before, &contents(temp.path()));
}
