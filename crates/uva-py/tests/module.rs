//! The Python module, which cargo builds together with this test: scripts/test.sh tests it from Python.

use std::path::PathBuf;

#[test]
fn the_library_that_python_loads_exports_the_modules_beginning() {
    // The folder of this program contains the library as well.
    let program = std::env::current_exe().unwrap();
    let library: PathBuf = program.with_file_name("lib_core.so");
    let bytes = std::fs::read(&library).unwrap_or_else(|error| panic!("{}: {error}", library.display()));
    let name = b"\0PyInit__core\0";
    assert!(bytes.windows(name.len()).any(|window| window == name), "{}", library.display());
}
