//! Feature rows read from disk for each batch: the batches and losses of rows in memory, by every reader and every way
//! to prepare; the metrics of the reads; and runs with a faulty system or file.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::support::arrays::header;
use crate::support::command::{recorded, run_with};
use crate::support::extent::some_of;
use crate::support::runs::{Metrics, samplers_of, small_graph, wait_for_batches};
use crate::support::{Uvatrain, directory, uvatrain, uvatrain_behind};

const TRAIN: &str = "train graph --fanouts 5,4 --batch-size 100 --hidden 16 --train-threads 1 --device cpu";

fn train(directory: &Path, options: &str) -> Uvatrain {
    uvatrain(directory, format!("{TRAIN} --metrics run.jsonl {options}").split_whitespace())
}

/// The results that must not depend on where rows are read.
type Learned = (Vec<(u64, u64, String, String)>, Vec<String>, String);

/// Trains, and returns the results, the start's `features`, and the end.
fn learned(directory: &Path, options: &str) -> (Learned, Value, Value) {
    train(directory, options).run().succeeds();
    let metrics = Metrics::read(&directory.join("run.jsonl"));
    let valid = metrics.of("epoch").map(|epoch| epoch["valid_accuracy"].to_string()).collect();
    let end = metrics.of("end").last().expect("an end").clone();
    let start = metrics.of("start").last().expect("a start");
    let learned = (metrics.trained(), valid, end["test_accuracy"].to_string());
    (learned, start["in_force"]["features"].clone(), end)
}

#[test]
fn rows_from_disk_give_the_hashes_and_losses_of_memory_for_every_reader() {
    let temp = directory();
    small_graph(temp.path());
    let sieve = "--gpu-cache 96KiB --cache-policy sieve";
    // 4000 rows of 96 bytes, and half of that for the most-read rows. The second is smaller than a batch.
    let (kept, little) =
        ("--host-cache 300KiB --look-ahead 5", "--host-cache 60KiB --look-ahead 1 --in-process");
    let of_workers = "--host-cache 200KiB --prepare whole --samplers 2";
    for (options, ways) in [
        (
            "--epochs 2",
            &[
                "",
                "--in-process --look-ahead 0",
                "--prepare whole --samplers 2",
                "--gather-threads 3 --samplers 2",
                sieve,
                kept,
                little,
                of_workers,
            ][..],
        ),
        ("--model gcn --aggregate host --epochs 1", &["", sieve, kept]),
        ("--aggregate host --epochs 1", &["--prepare whole --samplers 2"]),
    ] {
        let (expected, features, end) =
            learned(temp.path(), &format!("{options} --eval sampled --features memory"));
        assert_eq!((&features["from"], &features["reason"]), (&"memory".into(), &"requested".into()));
        assert!(end.get("disk").is_none(), "{end}");
        for (number, way) in some_of(ways).enumerate() {
            // Every reader with the first way; the others with the first reader that the system allows.
            let readers = if number == 0 { &["auto", "pread", "mmap"][..] } else { &["auto"] };
            for &reader in readers {
                let line = format!("{options} --eval sampled {way} --features disk --reader {reader}");
                let (found, features, end) = learned(temp.path(), &line);
                assert_eq!(found, expected, "{line}");
                assert_eq!(features["from"], "disk", "{line}");
                let taken = features["reader"].as_str().unwrap();
                assert!(reader == "auto" || reader == taken, "{line}: {features}");
                assert!(features["how"].as_str().unwrap().len() > 10, "{features}");
                let number = |name: &str| end["disk"][name].as_u64().unwrap();
                let (asked, read, reads) = (number("bytes_asked"), number("bytes_read"), number("reads"));
                // Rows of 96 bytes.
                assert!(asked > 0 && asked.is_multiple_of(96) && read > 0 && reads > 0, "{end}");
                assert!(reads * 64 * 1024 >= read, "{end}");
            }
        }
    }
}

#[test]
fn bytes_asked_are_those_of_all_rows_that_no_cache_had() {
    let temp = directory();
    small_graph(temp.path());
    let rows = |metrics: &Metrics, of: &str| -> u64 {
        metrics.of("batch").map(|batch| batch["cache"][of].as_u64().unwrap()).sum()
    };
    // A full evaluation reads the mapped table: only training batches request rows.
    let line = "--epochs 2 --features disk --look-ahead 0 --eval full --gpu-cache 96KiB --cache-policy";
    let mut shares = Vec::new();
    for policy in ["sieve", "presample", "fifo"] {
        let (_, _, end) = learned(temp.path(), &format!("{line} {policy}"));
        let metrics = Metrics::read(&temp.path().join("run.jsonl"));
        let (all, hits) = (rows(&metrics, "rows"), rows(&metrics, "row_hits"));
        assert!(hits > 0 && hits < all, "{policy}: {hits} of {all}");
        assert_eq!(end["disk"]["bytes_asked"], (all - hits) * 96, "{policy}: {end}");
        assert_eq!(end["cache"]["row_hits"], hits);
        shares.push(hits);
    }
    let (_, _, end) = learned(temp.path(), "--epochs 2 --features disk --look-ahead 0 --eval full");
    let metrics = Metrics::read(&temp.path().join("run.jsonl"));
    let nodes: u64 = metrics.of("batch").map(|batch| batch["input_nodes"].as_u64().unwrap()).sum();
    assert_eq!(end["disk"]["bytes_asked"], nodes * 96);
}

/// Counts of reads from disk: bytes requested, bytes read, reads, and rows by source.
fn counts(disk: &Value) -> [u64; 7] {
    let names =
        ["bytes_asked", "bytes_read", "reads", "cached_rows", "kept_rows", "ahead_rows", "demanded_rows"];
    names.map(|name| disk[name].as_u64().unwrap_or_else(|| panic!("no {name}: {disk}")))
}

#[test]
#[ignore = "4 s of a core: scripts/measure/long_tests.sh"]
fn disk_reads_of_batches_add_up_to_the_runs_and_kept_rows_save_reads() {
    let temp = directory();
    small_graph(temp.path());
    let took = |options: &str| {
        let line = format!("--epochs 3 --eval full --features disk {options}");
        let (_, _, end) = learned(temp.path(), &line);
        let metrics = Metrics::read(&temp.path().join("run.jsonl"));
        let mut sum = [0; 7];
        for batch in metrics.of("batch") {
            let of_batch = counts(&batch["disk"]);
            let rows: u64 = of_batch[3..].iter().sum();
            assert_eq!(rows, batch["input_nodes"].as_u64().unwrap(), "{batch}");
            if let Some(cache) = batch.get("cache") {
                assert_eq!(cache["row_hits"], of_batch[3], "{batch}");
            }
            sum = std::array::from_fn(|at| sum[at] + of_batch[at]);
        }
        assert_eq!(sum, counts(&end["disk"]), "{options}");
        assert!(end["disk"]["iops"].as_f64().unwrap() > 0.0, "{end}");
        sum
    };
    // Nothing in memory, and nothing ahead.
    let [all, _, _, cached, kept, ahead, demanded] = took("--look-ahead 0");
    assert_eq!((cached, kept, ahead, demanded * 96), (0, 0, 0, all));
    let [known, _, _, cached, kept, ahead, _] = took("--host-cache 300KiB --look-ahead 3");
    assert!(cached > 0 && kept > 0 && ahead > 0 && known < all, "{cached} {kept} {ahead} {known}");
    let [asked, _, _, cached, kept, ahead, _] = took("--host-cache 300KiB --look-ahead 0");
    assert!(cached > 0 && kept > 0 && ahead == 0 && asked < all, "{cached} {kept} {asked}");
    // Without a cache of its own, rows of batches that are known together are read once for all of them.
    let [asked, _, _, cached, _, ahead, _] = took("--look-ahead 6");
    assert!(cached == 0 && ahead > 0 && asked < all, "{ahead} {asked}");
    let [.., cached, kept, ahead, _] = took("--host-cache 300KiB --prepare whole");
    assert!(cached > 0 && (kept, ahead) == (0, 0), "{cached} {kept} {ahead}");
    let report = uvatrain(temp.path(), ["report", "run.jsonl", "--out", "page.html"]).run().succeeds();
    drop(report);
    let page = fs::read_to_string(temp.path().join("page.html")).unwrap();
    assert!(page.contains("read when they were needed") && page.contains("Reads from disk"));
}

#[test]
fn a_sampler_killed_while_its_batches_are_examined_ends_the_run_by_name() {
    let temp = directory();
    small_graph(temp.path());
    let options = "--epochs 100000 --features disk --look-ahead 6 --host-cache 200KiB --samplers 2";
    let mut run = train(temp.path(), options).limit(Duration::from_secs(60)).start();
    wait_for_batches(&mut run, &temp.path().join("run.jsonl"), 3);
    samplers_of(&run, 2)[1].signal(rustix::process::Signal::KILL);
    run.wait().refuses(1, &["sampler 1", "killed by SIGKILL"]);
}

#[test]
fn where_the_table_fits_auto_reads_from_memory_and_says_why() {
    let temp = directory();
    small_graph(temp.path());
    let (_, features, _) = learned(temp.path(), "--epochs 1");
    assert_eq!(features["from"], "memory");
    let reason = features["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("the table of 0.00 GiB fits into the ") && reason.contains("GiB available of")
    );
    // An option on the command line is also printed for users.
    let told = train(temp.path(), "--epochs 1 --features disk --reader mmap").run().succeeds();
    assert!(told.stderr.contains("feature rows are read from disk by mmap"), "{}", told.stderr);
    assert!(told.stdout.contains("read from disk") && told.stdout.contains("reads of"), "{told}");
}

#[test]
fn a_command_gets_the_same_columns_and_halves_are_widened() {
    let temp = directory();
    let generate = "generate graph --nodes 4000 --avg-degree 12 --feat-dim 24 --classes 4 --feat-dtype f16";
    uvatrain(temp.path(), generate.split_whitespace()).run().succeeds();
    for (options, values) in [("", "f16 "), ("--feature-type float32", "f32 ")] {
        let said = |from: &str| {
            let steps = "attach; take 2; features; pass valid 0; close";
            let run = run_with(temp.path(), &format!("{options} --features {from}"), None, steps);
            let said = run.run().succeeds().stdout;
            let found = (said, recorded(temp.path()));
            let _ = fs::remove_file(temp.path().join("record"));
            found
        };
        let expected = said("memory");
        // The type of a batch's values and the hash of their bytes; each batch taken and its hash.
        assert!(expected.0.contains(values) && expected.1.len() > 2, "{expected:?}");
        assert_eq!(said("disk"), expected, "{options}");
    }
    let pipeline = |from: &str| {
        let args = format!("bench pipeline graph --fanouts 5,4 --batch-size 100 --features {from} --json");
        uvatrain(temp.path(), args.split_whitespace()).run().succeeds().json()
    };
    let (disk, memory) = (pipeline("disk"), pipeline("memory"));
    assert_eq!(disk["hash"], memory["hash"]);
    assert!(memory.get("disk").is_none());
    // Two bytes a value in the table.
    let asked = disk["disk"]["bytes_asked"].as_u64().unwrap();
    assert!(asked > 0 && asked.is_multiple_of(24 * 2), "{disk}");
    assert!(disk["disk"]["reads_per_second"].as_f64().unwrap() > 0.0, "{disk}");
}

/// Keeps this many of a split's nodes.
fn shorten(split: &Path, nodes: u64) {
    let file = fs::read(split).unwrap();
    let begin = 10 + usize::from(u16::from_le_bytes([file[8], file[9]]));
    let ids = file[begin..][..8 * nodes as usize].to_vec();
    fs::write(split, [header("<i8", &[nodes], false), ids].concat()).unwrap();
}

/// 300 MB of rows, and a limit on what each process may allocate that holds libtorch, threads and stacks, but no table.
/// The pages of mapped files do not count, so the index arrays may be mapped. Some 10 s on two cores, since the table
/// is written and read.
#[test]
#[ignore = "11 s of a core: scripts/measure/long_tests.sh"]
fn a_table_beyond_the_process_limit_trains_with_the_losses_of_memory() {
    const MOST_KIB: u64 = 200_000;
    let temp = directory();
    let graph =
        "generate graph --nodes 300000 --avg-degree 6 --feat-dim 256 --classes 4 --train-share 0.01 --seed 5";
    uvatrain(temp.path(), graph.split_whitespace()).run().succeeds();
    let table = fs::metadata(temp.path().join("graph/feat.npy")).unwrap().len();
    assert!(table > MOST_KIB * 1024 * 3 / 2, "{table} bytes");
    let line = format!("{TRAIN} --metrics run.jsonl --epochs 1 --eval sampled --features disk");
    let limited = |options: &str| {
        let line = format!("{line} {options}");
        uvatrain_behind(temp.path(), &format!("ulimit -d {MOST_KIB}"), line.split_whitespace()).run()
    };
    // Memory for the rows of nearly all nodes is refused by the system: the limit holds.
    limited(&format!("--host-cache {}MiB", table >> 20)).refuses(1, &["memory"]);
    for split in ["graph/valid_idx.npy", "graph/test_idx.npy"] {
        shorten(&temp.path().join(split), 1000);
    }
    let (expected, ..) = learned(temp.path(), "--epochs 1 --eval sampled --features memory");
    for reader in ["auto", "pread"] {
        limited(&format!("--host-cache 16MiB --reader {reader}")).succeeds();
        let metrics = Metrics::read(&temp.path().join("run.jsonl"));
        assert_eq!(metrics.trained(), expected.0, "{reader}");
        let end = metrics.of("end").last().unwrap();
        assert!(end["disk"]["bytes_read"].as_u64().unwrap() > 0, "{end}");
    }
}

#[test]
fn options_that_cannot_work_are_refused_with_what_to_do() {
    let temp = directory();
    small_graph(temp.path());
    train(temp.path(), "--features tape").run().refuses(2, &["--features", "memory", "disk"]);
    train(temp.path(), "--features memory --reader pread").run().refuses(2, &["--reader", "--features"]);
    let ahead = "--features disk --look-ahead";
    train(temp.path(), &format!("{ahead} 8"))
        .run()
        .refuses(2, &["--look-ahead 8", "8 batch slots", "7 or less"]);
    train(temp.path(), &format!("{ahead} 64")).run().refuses(2, &["--look-ahead", "62, or auto"]);
    let whole = train(temp.path(), &format!("{ahead} 2 --prepare whole")).run();
    whole.refuses(2, &["--look-ahead 2", "--prepare whole"]);
    let sieve = train(temp.path(), &format!("{ahead} 1 --gpu-cache 1MiB --cache-policy sieve")).run();
    sieve.refuses(2, &["--look-ahead 1", "--cache-policy sieve", "--host-cache"]);
    train(temp.path(), "--host-cache 1MiB --gpu-cache 1MiB")
        .run()
        .refuses(2, &["--host-cache", "--gpu-cache"]);
    train(temp.path(), "--features disk --host-cache 900TiB")
        .run()
        .refuses(3, &["--host-cache", "are available"]);
    let told = train(temp.path(), "--epochs 1 --host-cache 1MiB").run().succeeds().stderr;
    assert!(told.contains("--host-cache is not used"), "{told}");
    let on_gpu = |options: &str| {
        let line = format!(
            "run graph --fanouts 5,4 --batch-size 100 --device cuda:0 --features disk {options} -- true"
        );
        uvatrain(temp.path(), line.split_whitespace()).simulated().run()
    };
    on_gpu("--gather zero-copy").refuses(2, &["--features disk", "--gather zero-copy", "--gather dma"]);
    on_gpu("--sampler gpu --samplers 1").refuses(2, &["--features disk", "--sampler gpu", "--sampler cpu"]);
    let evicts = on_gpu("--gpu-cache 1MiB --cache-policy sieve");
    evicts.refuses(2, &["--cache-policy sieve", "--gather dma", "presample"]);
    for (sums, named) in [
        ("--aggregate device", &["--features disk", "--aggregate device", "--aggregate host"][..]),
        ("--aggregate host --gpu-cache 1MiB", &["--gpu-cache", "--features disk", "--host-cache"]),
    ] {
        let line = format!("{TRAIN} --features disk {sums}").replace("--device cpu", "--device cuda:0");
        uvatrain(temp.path(), line.split_whitespace()).simulated().run().refuses(2, named);
    }
}

#[test]
#[ignore = "6 s of a core: scripts/measure/long_tests.sh"]
fn a_table_truncated_replaced_or_written_to_ends_the_run_by_name() {
    let temp = directory();
    let graph = small_graph(temp.path());
    let table = graph.join("feat.npy");
    let whole = fs::read(&table).unwrap();
    type Deed = fn(&Path);
    let deeds: [(Deed, &str); 4] = [
        (|table| File::options().write(true).open(table).unwrap().set_len(4096).unwrap(), "and has 4096"),
        (
            |table| {
                fs::copy(table, table.with_extension("new")).unwrap();
                fs::rename(table.with_extension("new"), table).unwrap();
            },
            "another file has taken its place",
        ),
        (
            |table| {
                let file = File::options().write(true).open(table).unwrap();
                file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
            },
            "it was written to",
        ),
        (
            |table| {
                let file = File::options().write(true).open(table).unwrap();
                let before = file.metadata().unwrap().modified().unwrap();
                file.write_all_at(&[0; 4096], 1 << 12).unwrap();
                file.set_modified(before).unwrap();
            },
            "its status change time differs",
        ),
    ];
    for (way, reader, deeds) in [
        ("", "auto", &deeds[..]),
        ("", "mmap", &deeds[..1]),
        ("--prepare whole --samplers 2", "auto", &deeds[..1]),
        ("--in-process", "pread", &deeds[..1]),
        // The whole table is in memory after a while.
        ("--host-cache 10MiB --look-ahead 5", "auto", &deeds[2..]),
    ] {
        for (deed, says) in deeds {
            fs::write(&table, &whole).unwrap();
            let _ = fs::remove_file(temp.path().join("run.jsonl"));
            let options = format!("--epochs 100000 --eval sampled --features disk --reader {reader} {way}");
            let mut run = train(temp.path(), &options).limit(Duration::from_secs(60)).start();
            wait_for_batches(&mut run, &temp.path().join("run.jsonl"), 3);
            deed(&table);
            let ended = run.wait().ends_with(1);
            for what in ["graph/feat.npy: it changed while it was read", says] {
                assert!(ended.stderr.contains(what), "{options}: {}", ended.stderr);
            }
            assert!(!ended.stderr.contains("SIGBUS"), "{options}: {}", ended.stderr);
        }
    }
}

/// Specifies which program the test below starts after it has set a filter, and its arguments, one per line.
const BEHIND: &str = "UVATRAIN_TEST_BEHIND_FILTER";

/// Starts a program that must not use io_uring, as under Docker's default filter.
#[test]
fn the_filter() {
    let Ok(words) = std::env::var(BEHIND) else { return };
    let words: Vec<&str> = words.lines().collect();
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut program = [
        // The number of the system call is the first field of what a filter sees.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter {
            code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
            jt: 0,
            jf: 1,
            k: libc::SYS_io_uring_setup as u32,
        },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program outlives the calls, which copy it; its length is that of the array.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program), 0);
    }
    let error = Command::new(words[0]).args(&words[1..]).env_remove(BEHIND).exec();
    panic!("{}: {error}", words[0]);
}

/// `uvatrain` without permission to use io_uring.
fn behind_filter(directory: &Path, line: &str) -> Uvatrain {
    let own = std::env::current_exe().unwrap();
    let words = format!("export {BEHIND}=\"$(printf '%s\\n' \"$@\")\"");
    let shell = format!("{words}\nexec '{}' batches::disk::the_filter --exact --nocapture", own.display());
    uvatrain_behind(directory, &shell, line.split_whitespace())
}

#[test]
fn where_io_uring_is_forbidden_threads_read_or_the_option_is_refused() {
    let temp = directory();
    small_graph(temp.path());
    let (expected, features, _) = learned(temp.path(), "--epochs 1 --features disk --reader pread");
    if features["how"].as_str().unwrap().contains("without O_DIRECT") {
        println!("skipped: the file system does not support O_DIRECT, so io_uring is not used");
        return;
    }
    let line = format!("{TRAIN} --metrics run.jsonl --epochs 1 --features disk");
    let told = behind_filter(temp.path(), &line).run().succeeds();
    let says =
        "uring is not used: io_uring is refused: Operation not permitted (os error 1): a seccomp filter";
    assert!(told.stderr.contains(says), "{}", told.stderr);
    let metrics = Metrics::read(&temp.path().join("run.jsonl"));
    assert_eq!(metrics.trained(), expected.0);
    let features = &metrics.of("start").last().unwrap()["in_force"]["features"];
    assert_eq!(features["reader"], "pread");
    assert!(features["passed_over"][0].as_str().unwrap().starts_with(says), "{features}");
    let refused = behind_filter(temp.path(), &format!("{line} --reader uring")).run();
    let refused = refused.ends_with(3);
    for part in ["--reader uring", "graph/feat.npy", "a seccomp filter", "--reader auto"] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    let doctor = behind_filter(temp.path(), "doctor").run().succeeds().stdout;
    assert!(doctor.contains("io_uring is refused") && doctor.contains("seccomp profile"), "{doctor}");
}
