//! Sets the folder of libtorch as the run path of this crate's test binaries, so that they start without environment
//! variables.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // torch-sys (`links = "tch"`) passes it only to direct dependants, and does not propagate its own link arguments.
    if let Some(folder) = std::env::var_os("DEP_TCH_LIBTORCH_LIB") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{}", folder.to_string_lossy());
    }
}
