//! The kernels' sources and compile options.

/// A program for NVRTC and the headers that it includes, each by the name after `#include`.
#[derive(Debug, Clone, Copy)]
pub struct KernelSource<'a> {
    /// The file's name, for messages.
    pub name: &'static str,
    /// Its text.
    pub text: &'a str,
    /// Names and texts.
    pub headers: &'a [(&'a str, &'a str)],
}

/// A file of the folder `kernels`, by name: its name and its text. The crate has a link to that folder, so that its
/// package has the files.
macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../kernels/", $name)))
    };
}

const INTRINSICS: (&str, &str) = file!("intrinsics.cuh");
const SCAN: (&str, &str) = file!("scan.cuh");

/// Every program.
pub const SOURCES: [&KernelSource<'static>; 3] = [&GATHER, &SAMPLE, &TRAIN];

/// Gathers, the order of their visits, insertions into a cache, and sums of gathered rows.
pub const GATHER: KernelSource<'static> = KernelSource {
    name: "gather.cu",
    text: file!("gather.cu").1,
    headers: &[
        file!("cache.cuh"),
        file!("copies.cuh"),
        file!("gather.cuh"),
        file!("gather_narrow.cuh"),
        file!("gather_tables.cuh"),
        file!("gather_wide.cuh"),
        INTRINSICS,
        file!("lists.cuh"),
        file!("order.cuh"),
        SCAN,
        file!("sums.cuh"),
        file!("tuning.cuh"),
    ],
};

/// Sampling.
pub const SAMPLE: KernelSource<'static> = KernelSource {
    name: "sample.cu",
    text: file!("sample.cu").1,
    headers: &[
        INTRINSICS,
        SCAN,
        file!("sample.cuh"),
        file!("sample_pick.cuh"),
        file!("sample_select.cuh"),
        file!("sample_labor.cuh"),
        file!("sample_weighted.cuh"),
    ],
};

/// Training: preparation of a batch's blocks, and its verdict.
pub const TRAIN: KernelSource<'static> = KernelSource {
    name: "train.cu",
    text: file!("train.cu").1,
    headers: &[file!("block.cuh"), INTRINSICS, file!("lists.cuh"), file!("verdict.cuh")],
};

/// Compile options, in addition to the architecture. Line numbers are for profilers and sanitizers and cost nothing.
pub const OPTIONS: [&str; 2] = ["-std=c++17", "-lineinfo"];

pub(crate) const BLOCK_CUH: &str = file!("block.cuh").1;
pub(crate) const CACHE_CUH: &str = file!("cache.cuh").1;
pub(crate) const COPIES_CUH: &str = file!("copies.cuh").1;
pub(crate) const GATHER_CUH: &str = file!("gather.cuh").1;
pub(crate) const GATHER_TABLES_CUH: &str = file!("gather_tables.cuh").1;
pub(crate) const ORDER_CUH: &str = file!("order.cuh").1;
pub(crate) const SAMPLE_CUH: &str = file!("sample.cuh").1;
pub(crate) const SUMS_CUH: &str = file!("sums.cuh").1;
pub(crate) const TUNING_CUH: &str = file!("tuning.cuh").1;
pub(crate) const VERDICT_CUH: &str = file!("verdict.cuh").1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_kernels_is_embedded() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".cu") || name.ends_with(".cuh"))
            .collect();
        files.sort();
        let names = |source: &KernelSource<'static>| {
            source.headers.iter().map(|header| header.0).chain([source.name]).collect::<Vec<_>>()
        };
        let mut embedded: Vec<&str> = SOURCES.into_iter().flat_map(names).collect();
        embedded.sort_unstable();
        embedded.dedup();
        assert_eq!(files, embedded);
    }
}
