//! Gives tests and examples the folder of libtorch as its run path, so that they start with nothing exported. Built
//! without the feature `train` there is no libtorch, no variable, and nothing to do.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // torch-sys (`links = "tch"`) passes it only to direct dependants, which do not inherit its link arguments.
    if let Some(folder) = std::env::var_os("DEP_TCH_LIBTORCH_LIB") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{}", folder.to_string_lossy());
    }
}
