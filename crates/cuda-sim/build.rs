//! Gives the shared library the name that programs ask the loader for.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    // Programs probe for a driver by dlopen and dlclose. Streams are threads, and their code must outlive that.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
