//! Names of compiled kernels, and their dependencies.

use uva_kernels::{KernelSource, OPTIONS};

use crate::code::cubin_cache::CubinKey;
use crate::code::nvrtc::CompileTarget;

/// Kernels are shipped as machine code: the driver would compile PTX at each start.
pub(crate) fn machine_code(capability: (u32, u32)) -> CompileTarget {
    CompileTarget::Cubin(capability.0, capability.1)
}

/// An entry's label for human readers.
pub(crate) fn label(source: &KernelSource<'_>, target: CompileTarget) -> String {
    format!("{}-{}", source.name.trim_end_matches(".cu"), target.name())
}

/// All inputs of a compilation. Not the output: PTX has random names in it. `nvrtc` is the version found. Shipped
/// kernels work with any NVRTC, or without one.
pub(crate) fn key(source: &KernelSource<'_>, target: CompileTarget, nvrtc: Option<(u32, u32)>) -> CubinKey {
    let target = target.name();
    let version = nvrtc.map_or("carried".to_owned(), |(major, minor)| format!("{major}.{minor}"));
    let mut parts: Vec<&[u8]> =
        vec![env!("CARGO_PKG_VERSION").as_bytes(), version.as_bytes(), target.as_bytes()];
    parts.extend(OPTIONS.iter().map(|option| option.as_bytes()));
    parts.push(source.name.as_bytes());
    parts.push(source.text.as_bytes());
    for (name, text) in source.headers {
        parts.push(name.as_bytes());
        parts.push(text.as_bytes());
    }
    CubinKey::of(&parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_depends_on_source_header_target_and_compiler() {
        let headers = [("a.cuh", "one")];
        let source = KernelSource { name: "x.cu", text: "text", headers: &headers };
        let first = key(&source, CompileTarget::Cubin(9, 0), Some((13, 0)));
        assert_eq!(first, key(&source, CompileTarget::Cubin(9, 0), Some((13, 0))));
        assert_ne!(first, key(&source, CompileTarget::Cubin(8, 0), Some((13, 0))));
        assert_ne!(first, key(&source, CompileTarget::Ptx(9, 0), Some((13, 0))));
        assert_ne!(first, key(&source, CompileTarget::Cubin(9, 0), Some((13, 1))));
        assert_ne!(first, key(&source, CompileTarget::Cubin(9, 0), None));
        assert_ne!(
            key(&source, CompileTarget::Cubin(8, 0), None),
            key(&source, CompileTarget::Cubin(9, 0), None)
        );
        assert_ne!(
            first,
            key(&KernelSource { text: "other", ..source }, CompileTarget::Cubin(9, 0), Some((13, 0)))
        );
        assert_ne!(
            first,
            key(
                &KernelSource { headers: &[("a.cuh", "two")], ..source },
                CompileTarget::Cubin(9, 0),
                Some((13, 0))
            )
        );
        assert_ne!(
            first,
            key(
                &KernelSource { headers: &[("b.cuh", "one")], ..source },
                CompileTarget::Cubin(9, 0),
                Some((13, 0))
            )
        );
    }
}
