//! `scripts/gpu-suite.sh` and `scripts/peers-gpu`, as far as they go without a GPU: the steps that drive the binary,
//! under the stand-ins for NVIDIA's driver and for the control program of MPS.

mod support;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use support::directory;

/// `python3 scripts/SCRIPT ARGS…`, where nothing that is installed can be imported: a PyTorch that sees a GPU, for
/// instance.
fn script(script: &str, args: &[&str], variables: &[(&str, &str)]) -> Output {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(script);
    let mut command = Command::new("python3");
    command.args(["-I", "-S", "-B"]).arg(path).args(args).envs(variables.iter().copied());
    command.env_remove("GPU_SUITE_TORCH").output().unwrap()
}

#[track_caller]
fn ends(output: &Output, code: i32, part: &str) {
    let said = [&output.stderr, &output.stdout].map(|bytes| String::from_utf8_lossy(bytes)).concat();
    assert!(output.status.code() == Some(code) && said.contains(part), "{}: {said}", output.status);
}

/// What `gpu-carry.sh` puts together, from what cargo has made for these tests.
fn carried(folder: &Path) -> PathBuf {
    let bin = folder.join("bin");
    std::fs::create_dir(&bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_uvatrain"), bin.join("uvatrain")).unwrap();
    symlink(cuda_sim::library_folder().join("libcuda.so"), bin.join("libcuda_sim.so")).unwrap();
    let control = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cuda-sim/nvidia-cuda-mps-control");
    symlink(control.canonicalize().unwrap(), bin.join("nvidia-cuda-mps-control")).unwrap();
    bin
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn peers_need_a_gpu_and_say_what_they_cannot_understand() {
    let program = env!("CARGO_BIN_EXE_uvatrain");
    let peers = |args: &[&str]| script("peers-gpu", &[&["--uvatrain", program], args].concat(), &[]);
    ends(&peers(&[]), 3, "PyTorch");
    ends(&peers(&["--row-bytes", "7"]), 2, "multiples of 4");
    ends(&peers(&["--table-size", "4G"]), 2, "4GiB");
    ends(&peers(&["--rounds", "0"]), 2, "from 1");
    ends(&script("peers-gpu", &["--uvatrain", "/nonexistent/uvatrain"], &[]), 2, "not found");
}

#[test]
fn the_suite_says_what_it_lacks_and_what_it_cannot_understand() {
    let folder = directory();
    let out = folder.path().join("out");
    let suite = |args: &[&str]| script("gpu_suite.py", &[&[out.to_str().unwrap()], args].concat(), &[]);
    ends(&suite(&["--only", "speed"]), 2, "no step speed");
    ends(&suite(&["--bin", "/nonexistent"]), 2, "gpu-carry.sh");
    assert!(!out.exists());
}

#[test]
fn without_a_gpu_the_suite_does_nothing_and_says_so() {
    let folder = directory();
    let (out, bin) = (folder.path().join("out"), carried(folder.path()));
    let args = [out.to_str().unwrap(), "--bin", bin.to_str().unwrap()];
    // No device for the driver, should there be one.
    ends(&script("gpu_suite.py", &args, &[("CUDA_VISIBLE_DEVICES", "")]), 3, "no GPU");
    let summary = json(&out.join("summary.json"));
    assert_eq!(summary["steps"]["machine"]["status"], "failed");
    assert_eq!(summary["steps"]["pcie"]["status"], "left out");
}

#[test]
fn the_suite_trains_by_every_way_measures_and_leaves_its_files() {
    let folder = directory();
    let (out, bin) = (folder.path().join("out"), carried(folder.path()));
    let args = [
        out.to_str().unwrap(),
        "--bin",
        bin.to_str().unwrap(),
        "--simulate",
        "--only",
        "machine,training,pcie,mps-sweep,caches",
    ];
    ends(&script("gpu_suite.py", &args, &[]), 0, "SIMULATED");
    let summary = json(&out.join("summary.json"));
    for (name, step) in summary["steps"].as_object().unwrap() {
        assert_eq!(step["status"], "passed", "{name}: {step}");
    }
    let correctness = json(&out.join("correctness.json"));
    let ways = correctness["training"]["ways"].as_object().unwrap();
    assert!(ways.len() == 9 && ways.values().all(|way| way["farthest_loss"] == 0.0), "{ways:?}");
    assert_eq!(json(&out.join("pcie.json"))["simulator"], true);
    let shares = json(&out.join("training.json"))["mps-sweep"]["shares"].clone();
    let multiprocessors: Vec<u64> =
        shares.as_array().unwrap().iter().map(|share| share["multiprocessors"].as_u64().unwrap()).collect();
    assert_eq!(multiprocessors, [9, 13, 26, 66, 132]);
    let files: Vec<_> = std::fs::read_dir(&out).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(files.len() <= 8, "{files:?}");
}

#[test]
fn where_correctness_fails_nothing_is_measured() {
    let folder = directory();
    let (out, bin) = (folder.path().join("out"), carried(folder.path()));
    let only = |steps| {
        let args = [out.to_str().unwrap(), "--bin", bin.to_str().unwrap(), "--simulate", "--only", steps]
            .map(str::to_owned);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        script("gpu_suite.py", &args, &[("CUDA_SIM_FAIL", "producer:cuLaunchKernel:50=719")])
    };
    ends(&only("training,pcie"), 1, "CUDA_ERROR_LAUNCH_FAILED");
    // Neither in the same run nor in one that goes on after it.
    for _ in 0..2 {
        let summary = json(&out.join("summary.json"));
        assert_eq!(summary["steps"]["pcie"]["status"], "left out", "{summary}");
        ends(&only("pcie"), 1, "correctness comes first");
    }
    assert!(!out.join("pcie.json").exists());
}
