//! Hop sets whose rows cuFile's stand-in reads into the memory of a GPU: the losses and hashes of the CPU, the fallback
//! on a machine without cuFile, and failing reads.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::runs::{Metrics, small_graph};
use crate::support::{Uvatrain, directory, uvatrain};

const TRAIN: &str = "--model sign --batch-size 200 --hidden 8 --lr 0.05 --train-threads 1 --epochs 1 --dropout 0 \
                     --shuffle chunks --chunk 30";

fn propagated(name: &str, options: &str) -> TempDir {
    let temp = directory();
    small_graph(temp.path());
    uvatrain(temp.path(), format!("propagate graph {name} --hops 2 {options}").split_whitespace())
        .run()
        .succeeds();
    temp
}

fn train(directory: &Path, set: &str, options: &str) -> Uvatrain {
    let _ = fs::remove_file(directory.join("run.jsonl"));
    uvatrain(directory, format!("train {set} {TRAIN} --metrics run.jsonl {options}").split_whitespace())
}

fn on_gpu(directory: &Path, set: &str, options: &str) -> Uvatrain {
    train(directory, set, &format!("--device cuda:0 --place disk {options}")).simulated()
}

/// Hashes and losses of all batches, and the test.
type Learned = (Vec<(u64, u64, String, String)>, String);

/// The results of a successful run, the values in force, its end, and its messages.
fn learned(directory: &Path, run: Uvatrain) -> (Learned, Value, Value, String) {
    let told = run.run().succeeds().said();
    let metrics = Metrics::read(&directory.join("run.jsonl"));
    let end = metrics.of("end").last().expect("an end").clone();
    let start = metrics.of("start").last().expect("a start")["in_force"].clone();
    ((metrics.trained(), end["test_accuracy"].to_string()), start, end, told)
}

#[test]
#[ignore = "4 s of a core: scripts/measure/long_tests.sh"]
fn rows_brought_by_cufile_have_the_cpus_losses_and_the_choice_is_shown() {
    let temp = propagated("hops", "");
    let folder = temp.path();
    let (expected, ..) = learned(folder, train(folder, "hops", "--device cpu --in-process"));
    assert!(expected.0.len() > 3);
    // Interrupted and resumed.
    let run = on_gpu(folder, "hops", "--reader cufile --partition none --slots 1 --ipc-signals stamps");
    let run = run.with_cufile().env("CUDA_SIM_CUFILE", "short").env("CUDA_SIM_DELAY_US", "200");
    let (found, start, end, told) =
        learned(folder, run.env("CUDA_SIM_CUFILE_FAIL", "producer:cuFileRead:5=4"));
    assert_eq!(found, expected);
    assert_eq!(
        (&start["hops"]["reader"], &start["hops"]["place"]),
        (&"cufile".into(), &"disk".into()),
        "{start}"
    );
    assert!(
        told.contains("rows are read from disk by cufile (from the disk into the GPU's memory"),
        "{told}"
    );
    let disk = &end["disk"];
    assert!(disk["bytes_asked"].as_u64().unwrap() > 0 && disk["bytes_asked"] == disk["bytes_read"], "{end}");
    // In compatibility mode only if named explicitly: others pass through host memory as well.
    let compat = |reader: &str, way: &str| {
        let run = on_gpu(folder, "hops", &format!("--reader {reader} {way}")).with_cufile();
        learned(folder, run.env("CUDA_SIM_CUFILE", "compat"))
    };
    let (found, start, ..) = compat("cufile", "--in-process");
    assert_eq!((found, &start["hops"]["reader"]), (expected.clone(), &"cufile (compat)".into()), "{start}");
    let how = start["features"]["how"].as_str().unwrap();
    assert!(how.contains("compatibility mode") && how.contains("nvidia-fs"), "{how}");
    let (found, start, _, told) = compat("auto", "--partition green");
    assert_eq!(found, expected);
    let line = start["features"]["passed_over"][0].as_str().unwrap();
    assert!(line.starts_with("cufile is not used: it would pass through host memory"), "{line}");
    assert!(told.contains(line) && start["hops"]["reader"] != "cufile", "{told}");
    // Auto chooses it, and batches stay in place while the consumer runs ahead.
    let run = on_gpu(folder, "hops", "--partition green --slots 3").with_cufile();
    let run = run.env("CUDA_SIM_DROPOUT", "device").env("CUDA_SIM_DELAY_US", "200");
    let (found, start, ..) = learned(folder, run);
    assert_eq!(start["hops"]["reader"], "cufile", "{start}");
    let number = |text: &str| text.parse::<f64>().unwrap();
    for (one, other) in expected.0.iter().zip(&found.0) {
        assert_eq!((one.0, one.1, &one.2), (other.0, other.1, &other.2));
        let (one, other) = (number(&one.3), number(&other.3));
        assert!((one - other).abs() <= 1e-3 * one.abs(), "losses {one} and {other}");
    }
}

#[test]
fn without_cufile_runs_fall_back_by_name_or_refuse_with_the_reason() {
    let temp = propagated("hops", "");
    let folder = temp.path();
    on_gpu(folder, "hops", "--reader cufile")
        .run()
        .refuses(3, &["--reader cufile", "libcufile.so.0 cannot be opened"]);
    let (_, start, ..) = learned(folder, on_gpu(folder, "hops", "--partition green"));
    let line = start["features"]["passed_over"][0].as_str().unwrap();
    assert!(line.starts_with("cufile is not used: libcufile.so.0 cannot be opened"), "{line}");
    // A library of that name without the functions: the C library.
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mut libc = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let libc = libc.find(|path| path.contains("/libc.so") || path.contains("/libc-")).expect("a C library");
    let other = folder.join("library");
    fs::create_dir(&other).unwrap();
    symlink(libc, other.join("libcufile.so.0")).unwrap();
    let run = on_gpu(folder, "hops", "--reader cufile");
    let path = format!("{}:{}", other.display(), cuda_sim::library_folder().display());
    let path = match std::env::var("LD_LIBRARY_PATH") {
        Ok(rest) => format!("{path}:{rest}"),
        Err(_) => path,
    };
    run.env("LD_LIBRARY_PATH", path).run().refuses(3, &["--reader cufile", "has no cuFileDriverOpen"]);
    let refused = on_gpu(folder, "hops", "--reader cufile").with_cufile();
    let refused = refused.env("CUDA_SIM_CUFILE_FAIL", "cuFileDriverOpen:1=5001").run();
    refused.refuses(3, &["cuFileDriverOpen failed: CU_FILE_DRIVER_NOT_INITIALIZED (5001)", "nvidia-fs"]);
    let propagate = "propagate graph rows --hops 1 --layout rows";
    uvatrain(folder, propagate.split_whitespace()).run().succeeds();
    on_gpu(folder, "rows", "--reader cufile")
        .run()
        .refuses(2, &["--reader cufile", "--layout rows", "--layout hops"]);
    let on_cpu = train(folder, "hops", "--device cpu --place disk --reader cufile").run();
    on_cpu.refuses(3, &["--reader cufile", "--device cuda:0"]);
    let in_memory = train(folder, "hops", "--device cuda:0 --place gpu --features disk --reader cufile");
    in_memory.simulated().run().refuses(2, &["--reader cufile", "--place gpu", "--place disk"]);
    let table = "train graph --fanouts 2 --batch-size 100 --features disk --reader cufile --device cpu";
    uvatrain(folder, table.split_whitespace()).run().refuses(2, &["--reader cufile", "hop set"]);
}

#[test]
fn a_read_that_fails_ends_the_run_with_the_files_name() {
    let temp = propagated("hops", "");
    for (code, says) in [("5", "os error 5"), ("5044", "CU_FILE_IO_ERROR (5044)")] {
        let run = on_gpu(temp.path(), "hops", "--reader cufile --partition none").with_cufile();
        let ended =
            run.env("CUDA_SIM_CUFILE_FAIL", format!("producer:cuFileRead:7={code}")).run().ends_with(1);
        for what in ["hops/", ".npy: cannot read ", says] {
            assert!(ended.stderr.contains(what), "{what}: {}", ended.stderr);
        }
    }
}
