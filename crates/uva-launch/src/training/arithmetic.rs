//! The environment variables of a process that computes with libtorch.

/// Without the first two variables, the order of MKL's sums may differ between processes. With the last two, glibc
/// serves allocations up to `allocation` bytes from its heap, and keeps up to `kept` freed bytes at the heap's end.
/// `threads` is the number of threads of one operation.
pub(super) fn arithmetic(threads: Option<usize>, allocation: usize, kept: usize) -> Vec<(String, String)> {
    let mut environment = vec![
        ("MKL_CBWR".to_owned(), "AUTO,STRICT".to_owned()),
        ("MKL_DYNAMIC".to_owned(), "FALSE".to_owned()),
        ("MALLOC_MMAP_THRESHOLD_".to_owned(), allocation.to_string()),
        ("MALLOC_TRIM_THRESHOLD_".to_owned(), kept.to_string()),
    ];
    if let Some(threads) = threads {
        environment.push(("OMP_NUM_THREADS".to_owned(), threads.to_string()));
    }
    environment
}
