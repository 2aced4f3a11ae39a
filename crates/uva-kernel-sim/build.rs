//! Compiles the kernels and their shim for this host, by the system's C++ compiler. No CUDA is needed.

use std::env;
use std::path::PathBuf;

use uva_kernels::block::{BatchBlocks, BlockArguments};
use uva_kernels::cache::{CacheInsertion, InsertArguments};
use uva_kernels::copies::{CopyArguments, DeviceCopy};
use uva_kernels::gather::{GatherArguments, GatherReport};
use uva_kernels::order::OrderArguments;
use uva_kernels::sample::{SampleArguments, SampleReport};
use uva_kernels::sums::{ContinuedArguments, SumArguments};
use uva_kernels::tables::{GatheredTable, TablesArguments};
use uva_kernels::verdict::VerdictArguments;

fn main() {
    let crate_folder =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    // A link to the folder of the checkout, so that the package of this crate holds the files.
    let kernels = crate_folder.join("kernels");
    let generated = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let write = |name: &str, lines: Vec<String>| {
        std::fs::write(generated.join(name), lines.join("\n") + "\n")
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    };
    let mut sources: Vec<String> =
        uva_kernels::SOURCES.iter().map(|source| format!("#include \"{}\"", source.name)).collect();
    // uva-kernels lays out the headers' structs itself; here the C++ compiler agrees.
    sources.extend(
        [
            ("BatchBlocks", BatchBlocks::BYTES),
            ("BlockArguments", BlockArguments::BYTES),
            ("CacheInsertion", CacheInsertion::BYTES),
            ("ContinuedArguments", ContinuedArguments::BYTES),
            ("CopyArguments", CopyArguments::BYTES),
            ("DeviceCopy", DeviceCopy::BYTES),
            ("InsertArguments", InsertArguments::BYTES),
            ("GatherArguments", GatherArguments::BYTES),
            ("GatherReport", GatherReport::BYTES),
            ("OrderArguments", OrderArguments::BYTES),
            ("SampleArguments", SampleArguments::BYTES),
            ("SampleReport", SampleReport::BYTES),
            ("SumArguments", SumArguments::BYTES),
            ("GatheredTable", GatheredTable::BYTES),
            ("TablesArguments", TablesArguments::BYTES),
            ("VerdictArguments", VerdictArguments::BYTES),
        ]
        .map(|(name, bytes)| {
            format!("static_assert(sizeof({name}) == {bytes}, \"as in crates/uva-kernels\");")
        }),
    );
    write("sources.h", sources);
    let entries = uva_kernels::entry_points();
    write("entry_points.h", entries.iter().map(|entry| format!("ENTRY({}),", entry.name)).collect());
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++17")
        .files(["shim/fiber.cpp", "shim/block.cpp", "shim/entries.cpp"])
        .include("shim")
        .include(&kernels)
        .include(&generated)
        // Kernels see one memory through pointers of several types, as CUDA lets them.
        .flag_if_supported("-fno-strict-aliasing")
        // CUDA's own pragmas.
        .flag_if_supported("-Wno-unknown-pragmas")
        // Tests are run optimised, and no measurement times `launch`.
        .opt_level(2);
    if env::var_os("CARGO_FEATURE_SELFTEST").is_some() {
        build.define("UVA_SHIM_SELFTEST", None);
    }
    build.compile("uva_kernel_shim");
    println!("cargo:rerun-if-changed={}", kernels.display());
    println!("cargo:rerun-if-changed=shim");
}
