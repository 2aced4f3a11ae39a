//! An NVIDIA GPU, seen from outside: device files, /proc, and programs in PATH. CUDA is never loaded.

use std::path::{Path, PathBuf};

use super::{Check, read};

/// All checks of this file.
pub fn checks() -> Vec<Check> {
    vec![driver(), mps()]
}

fn driver() -> Check {
    const NAME: &str = "NVIDIA GPU";
    let device = Path::new("/dev/nvidiactl").exists();
    let library = find_library("libcuda.so.1");
    let models = models(Path::new("/proc/driver/nvidia/gpus"));
    let no_use_yet = "nothing to do: this version trains on the CPU only";
    match (device, library) {
        (true, Some(library)) => {
            let version =
                read("/sys/module/nvidia/version").unwrap_or_else(|| "of unknown version".to_owned());
            let models = if models.is_empty() { "no GPU listed".to_owned() } else { models.join(", ") };
            Check::note(NAME, format!("{models}; driver {version}, {}", library.display()), no_use_yet)
        }
        (true, None) => Check::note(
            NAME,
            "/dev/nvidiactl is there, but libcuda.so.1 is not: a container without the driver's libraries",
            "start the container with --gpus all (nvidia-container-toolkit)",
        ),
        (false, Some(library)) => Check::note(
            NAME,
            format!(
                "{} is there, but /dev/nvidiactl is not: no GPU, or its driver is not loaded",
                library.display()
            ),
            "sudo modprobe nvidia, on a machine that has a GPU",
        ),
        (false, None) => Check::note(NAME, "none: no /dev/nvidiactl, no libcuda.so.1", no_use_yet),
    }
}

fn mps() -> Check {
    const NAME: &str = "CUDA MPS";
    match in_path("nvidia-cuda-mps-control") {
        Some(path) => Check::ok(NAME, path.display().to_string()),
        None => Check::note(
            NAME,
            "no nvidia-cuda-mps-control in PATH; it shares a GPU between processes",
            "nothing to do without a GPU; it comes with the NVIDIA driver",
        ),
    }
}

/// What each GPU calls itself, from the driver's files.
fn models(gpus: &Path) -> Vec<String> {
    let Ok(folders) = std::fs::read_dir(gpus) else { return Vec::new() };
    let mut models: Vec<String> = folders
        .filter_map(|folder| std::fs::read_to_string(folder.ok()?.path().join("information")).ok())
        .filter_map(|text| Some(text.lines().find_map(|l| l.strip_prefix("Model:"))?.trim().to_owned()))
        .collect();
    models.sort();
    models
}

/// Where the dynamic linker would find a library, looked up by hand so that nothing of it runs.
fn find_library(name: &str) -> Option<PathBuf> {
    let wanted = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let usual = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/lib/wsl/lib",
    ];
    std::env::split_paths(&wanted)
        .chain(usual.into_iter().map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|path| path.exists())
}

fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_models_come_from_the_drivers_files() {
        let folder = tempfile::tempdir().unwrap();
        let gpu = folder.path().join("0000:01:00.0");
        std::fs::create_dir(&gpu).unwrap();
        std::fs::write(gpu.join("information"), "Model: \t\t Some GPU\nIRQ: 5\n").unwrap();
        assert_eq!(models(folder.path()), ["Some GPU"]);
        assert!(models(&folder.path().join("absent")).is_empty());
    }
}
