//! Finds libtorch on this machine by file names, without loading it.
//!
//! The training program gets its folder in `LD_LIBRARY_PATH`. NVRTC may be next to it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::code::cubin_cache::user_cache_folder;

/// The series that the built-in models are made for. A program built for another series does not load.
pub const SERIES: &str = "2.11";
/// The variable that names a folder.
pub const VARIABLE: &str = "UVATRAIN_LIBTORCH";

/// The library that every libtorch installation has.
const LIBRARY: &str = "libtorch_cpu.so";

/// A libtorch of the right series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Libtorch {
    /// The folder of its libraries.
    pub lib: PathBuf,
    /// Its version, if it states one.
    pub version: Option<String>,
    /// The origin of the path: the option, the variable or the place.
    pub found_by: String,
}

impl Libtorch {
    /// The folder above its libraries: `torch` of a Python package, or an unpacked archive.
    pub fn root(&self) -> &Path {
        self.lib.parent().unwrap_or(&self.lib)
    }
}

/// The error of an unsuccessful search, with every place and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoLibtorch {
    /// Place and reason, in the order of the search.
    pub tried: Vec<String>,
}

impl fmt::Display for NoLibtorch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no libtorch {SERIES} was found ({})", self.tried.join("; "))
    }
}

/// Whether the search may start a Python process to find its package `torch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskPython {
    /// Yes: last, if no other place has one.
    Yes,
    /// No: only the site-packages of an active environment are searched.
    No,
}

/// Searches for libtorch. `option` decides if it is given, else [`VARIABLE`] if it is set; then no other place is
/// searched. Without either, the order is: `LIBTORCH`, next to this program, the Python environment that this program
/// is installed in, the user's cache folder, the active virtual or conda environment, the packages of `python3`.
///
/// A place is a folder that holds `lib/libtorch_cpu.so`, or `lib` itself.
///
/// # Errors
/// [`NoLibtorch`] with every place that was searched.
pub fn find(option: Option<&Path>, python: AskPython) -> Result<Libtorch, NoLibtorch> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let named =
        option.map(|path| (path.to_owned(), "`libtorch`")).or_else(|| Some((variable(VARIABLE)?, VARIABLE)));
    if let Some((path, by)) = named {
        return look(&path, by).map_err(|reason| NoLibtorch { tried: vec![reason] });
    }
    let mut places: Vec<(PathBuf, &str)> = Vec::new();
    places.extend(variable("LIBTORCH").map(|path| (path, "LIBTORCH")));
    if let Ok(program) = std::env::current_exe() {
        places.extend(beside(&program).into_iter().map(|path| (path, "next to the program")));
        let packages = environment_of(&program).into_iter().flat_map(|root| packages(&root, "torch"));
        places.extend(packages.map(|path| (path, "the program's environment")));
    }
    places.extend(cached().into_iter().map(|path| (path, "the cache folder")));
    for name in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        let packages = variable(name).into_iter().flat_map(|root| packages(&root, "torch"));
        places.extend(packages.map(|path| (path, name)));
    }
    let mut tried = Vec::new();
    for (path, by) in places {
        match look(&path, by) {
            Ok(found) => return Ok(found),
            Err(reason) => tried.push(reason),
        }
    }
    if python == AskPython::Yes {
        match of_python() {
            Ok(path) => match look(&path, "the package torch of python3") {
                Ok(found) => return Ok(found),
                Err(reason) => tried.push(reason),
            },
            Err(reason) => tried.push(reason),
        }
    }
    Err(NoLibtorch { tried })
}

/// The libtorch in this folder, or why there is none.
fn look(path: &Path, by: &str) -> Result<Libtorch, String> {
    // A relative path would refer to another folder in a program started elsewhere.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let lib = [path.join("lib"), path.clone(), path.join("torch/lib")]
        .into_iter()
        .find(|folder| folder.join(LIBRARY).is_file())
        .ok_or_else(|| format!("{by}: no lib/{LIBRARY} in {}", path.display()))?;
    let found = Libtorch { version: lib.parent().and_then(version), lib, found_by: by.to_owned() };
    match &found.version {
        Some(version) if !is_of_series(version) => {
            Err(format!("{by}: {} is {version}, and {SERIES} is required", found.root().display()))
        }
        _ => Ok(found),
    }
}

fn is_of_series(version: &str) -> bool {
    version.strip_prefix(SERIES).is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
}

/// The version in an archive's `build-version`, or in a package's `version.py`.
fn version(root: &Path) -> Option<String> {
    let read = |name: &str| uva_mem::files::read_regular(&root.join(name), 1 << 16).ok();
    if let Some(text) = read("build-version") {
        return Some(String::from_utf8(text).ok()?.trim().to_owned());
    }
    let text = String::from_utf8(read("version.py")?).ok()?;
    let line = text.lines().find(|line| line.starts_with("__version__ ="))?;
    Some(line.split_once('=')?.1.trim().trim_matches(['\'', '"']).to_owned())
}

/// Places next to a program: its folder, the `lib` of its prefix, and, for a build in a checkout, the target of
/// `scripts/setup/libtorch.sh`.
fn beside(program: &Path) -> Vec<PathBuf> {
    let Some(folder) = program.parent() else { return Vec::new() };
    let mut places = vec![folder.join("libtorch")];
    let above = folder.parent();
    places.extend(above.map(|prefix| prefix.join("lib/libtorch")));
    let target = above.filter(|above| above.file_name().is_some_and(|name| name == "target"));
    places.extend(target.and_then(Path::parent).map(|checkout| checkout.join(".libtorch/torch")));
    places
}

/// Folders of the user's cache, newest version first.
fn cached() -> Vec<PathBuf> {
    let Some(cache) = user_cache_folder() else { return Vec::new() };
    let mut found = matching(&cache, "libtorch-");
    if found.is_empty() {
        found.push(cache.join("libtorch-*"));
    }
    found
}

/// The Python environment that this program is installed in by pip, detected by its module `uvatrain`; `None`
/// otherwise.
pub fn own_environment() -> Option<PathBuf> {
    environment_of(&std::env::current_exe().ok()?)
}

/// The Python environment of a program: `ROOT/bin/PROGRAM` with `ROOT/lib/python3.*/site-packages/uvatrain`.
fn environment_of(program: &Path) -> Option<PathBuf> {
    let folder = program.parent().filter(|folder| folder.ends_with("bin"))?;
    let root = folder.parent()?;
    packages(root, "uvatrain").iter().any(|package| package.is_dir()).then(|| root.to_owned())
}

/// The paths of this package in the Pythons of an environment. They may not exist.
fn packages(root: &Path, name: &str) -> Vec<PathBuf> {
    let pythons = matching(&root.join("lib"), "python3");
    pythons.into_iter().map(|python| python.join("site-packages").join(name)).collect()
}

/// The entries of a folder whose names begin with this, in descending order.
fn matching(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix)))
        .map(|entry| entry.path())
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found
}

/// The folder of `python3`'s package `torch`, which is not imported. The current folder is not searched for packages.
fn of_python() -> Result<PathBuf, String> {
    const CODE: &str = "import sys; sys.path = [place for place in sys.path if place]; import importlib.util as u; \
                        s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')";
    let asked =
        Command::new("python3").args(["-c", CODE]).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let output = asked.map_err(|error| format!("python3: {error}"))?;
    let path = String::from_utf8(output.stdout).unwrap_or_default();
    match path.trim() {
        "" => Err("python3: it has no package torch".to_owned()),
        path => Ok(PathBuf::from(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn libtorch(root: &Path, version: &str) {
        std::fs::create_dir_all(root.join("lib")).unwrap();
        std::fs::write(root.join("lib").join(LIBRARY), "").unwrap();
        std::fs::write(root.join("version.py"), format!("x = 1\n__version__ = '{version}'\n")).unwrap();
    }

    #[test]
    fn a_folder_its_lib_and_the_one_around_it_are_the_same_place() {
        let temp = tempfile::tempdir().unwrap();
        let torch = temp.path().join("torch");
        libtorch(&torch, "2.11.0+cpu");
        for named in [torch.clone(), torch.join("lib"), temp.path().to_owned()] {
            let found = find(Some(&named), AskPython::No).unwrap();
            assert_eq!((found.root(), found.version.as_deref()), (&*torch, Some("2.11.0+cpu")), "{named:?}");
            assert_eq!(found.found_by, "`libtorch`");
        }
    }

    #[test]
    fn an_archive_names_its_version_in_an_optional_file() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("lib")).unwrap();
        std::fs::write(temp.path().join("lib").join(LIBRARY), "").unwrap();
        assert_eq!(find(Some(temp.path()), AskPython::No).unwrap().version, None);
        std::fs::write(temp.path().join("build-version"), "2.11.1\n").unwrap();
        assert_eq!(find(Some(temp.path()), AskPython::No).unwrap().version.as_deref(), Some("2.11.1"));
    }

    #[test]
    fn another_series_and_an_empty_folder_are_refused_by_path() {
        let temp = tempfile::tempdir().unwrap();
        let said = || find(Some(temp.path()), AskPython::No).unwrap_err().to_string();
        assert!(
            said().contains("`libtorch`") && said().contains(temp.path().to_str().unwrap()),
            "{}",
            said()
        );
        for version in ["2.1.0", "2.110.0", "2.12.0+cu130"] {
            libtorch(temp.path(), version);
            assert!(said().contains(&format!("is {version}, and 2.11 is required")), "{}", said());
        }
    }

    #[test]
    fn only_a_build_in_a_checkout_looks_for_the_linked_libtorch() {
        let places = beside(Path::new("/x/target/debug/uvatrain"));
        assert!(places.contains(&"/x/.libtorch/torch".into()), "{places:?}");
        let places = beside(Path::new("/x/bin/uvatrain"));
        assert_eq!(places, [PathBuf::from("/x/bin/libtorch"), "/x/lib/libtorch".into()]);
    }

    #[test]
    fn of_several_in_a_cache_or_an_environment_the_newest_comes_first() {
        let temp = tempfile::tempdir().unwrap();
        for python in ["python3.10", "python3.9", "other"] {
            std::fs::create_dir_all(temp.path().join("lib").join(python)).unwrap();
        }
        let found = packages(temp.path(), "torch");
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|path| path.ends_with("site-packages/torch")));
        assert!(packages(&temp.path().join("absent"), "torch").is_empty());
    }

    #[test]
    fn a_program_belongs_to_the_environment_that_contains_its_module() {
        let temp = tempfile::tempdir().unwrap();
        let program = temp.path().join("bin/uvatrain");
        assert_eq!(environment_of(&program), None);
        std::fs::create_dir_all(temp.path().join("lib/python3.12/site-packages/torch")).unwrap();
        assert_eq!(
            environment_of(&program),
            None,
            "a folder that has a Python and is not an environment with uvatrain"
        );
        std::fs::create_dir(temp.path().join("lib/python3.12/site-packages/uvatrain")).unwrap();
        assert_eq!(environment_of(&program).as_deref(), Some(temp.path()));
        assert_eq!(environment_of(&temp.path().join("libexec/uvatrain")), None);
    }
}
