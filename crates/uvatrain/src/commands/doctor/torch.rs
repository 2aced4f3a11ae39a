//! libtorch, which the built-in models need and nothing else does.

use super::Check;

const NAME: &str = "libtorch";

/// All checks of this file.
pub fn checks() -> Vec<Check> {
    vec![if cfg!(feature = "train") { linked() } else { not_built_in() }]
}

/// A build with the models has libtorch mapped by the time this runs: the program would not have started otherwise.
fn linked() -> Check {
    let maps = super::read("/proc/self/maps").unwrap_or_default();
    let Some(library) = mapped(&maps, "libtorch_cpu.so") else {
        return Check::missing(
            NAME,
            "this build has the models, but no libtorch_cpu.so is loaded",
            "./scripts/setup/libtorch.sh && cargo build --release",
        );
    };
    let torch = library.rsplit_once("/lib/").map_or(library, |(folder, _)| folder);
    let version = version(torch).map_or_else(String::new, |version| format!("{version} "));
    Check::ok(NAME, format!("{version}in {torch}"))
}

fn not_built_in() -> Check {
    Check::missing(
        NAME,
        "this build has no models (built with --no-default-features): `train` cannot run, all else can",
        "./scripts/setup/libtorch.sh && cargo build --release",
    )
}

/// The path of the mapped library with this file name.
fn mapped<'m>(maps: &'m str, file_name: &str) -> Option<&'m str> {
    maps.lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]))
        .find(|path| path.ends_with(file_name))
}

/// The version in a wheel's `version.py`, or in the `build-version` of a libtorch archive.
fn version(torch: &str) -> Option<String> {
    if let Some(version) = super::read(&format!("{torch}/build-version")) {
        return Some(version);
    }
    let python = super::read(&format!("{torch}/version.py"))?;
    let line = python.lines().find(|line| line.starts_with("__version__ ="))?;
    Some(line.split_once('=')?.1.trim().trim_matches(['\'', '"']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_among_the_mappings() {
        let maps = "7f00-7f01 r-xp 0 fe:00 1  /x/torch/lib/libtorch_cpu.so\n7f02-7f03 rw-p 0 00:00 0 \n";
        assert_eq!(mapped(maps, "libtorch_cpu.so"), Some("/x/torch/lib/libtorch_cpu.so"));
        assert_eq!(mapped(maps, "libcuda.so.1"), None);
    }

    #[test]
    fn a_wheel_says_its_version_in_python() {
        let folder = tempfile::tempdir().unwrap();
        let torch = folder.path().to_str().unwrap();
        assert_eq!(version(torch), None);
        std::fs::write(folder.path().join("version.py"), "x = 1\n__version__ = '2.11.0+cpu'\n").unwrap();
        assert_eq!(version(torch).as_deref(), Some("2.11.0+cpu"));
    }
}
