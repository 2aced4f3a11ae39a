//! Compiles the kernels and their shim for this host, by the system's C++ compiler. No CUDA is needed.

use std::env;
use std::path::PathBuf;

fn main() {
    let crate_folder =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let kernels = crate_folder.join("../../kernels");
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++17")
        .files(["shim/fiber.cpp", "shim/block.cpp", "shim/entries.cpp"])
        .include("shim")
        // Kernels see one memory through pointers of several types, as CUDA lets them.
        .flag_if_supported("-fno-strict-aliasing")
        // CUDA's own pragmas.
        .flag_if_supported("-Wno-unknown-pragmas")
        // Tests are run optimised, and `launch` is timed by nobody.
        .opt_level(2);
    if env::var_os("CARGO_FEATURE_SELFTEST").is_some() {
        build.define("UVA_SHIM_SELFTEST", None);
    }
    build.compile("uva_kernel_shim");
    println!("cargo:rerun-if-changed={}", kernels.display());
    println!("cargo:rerun-if-changed=shim");
}
