//! A separate program from `integration`: the test counts its process's threads, and other tests start some.

mod common;

use uva_runtime::Runtime;

/// Names of this process's threads that are roles.
fn roles() -> Vec<String> {
    std::fs::read_dir("/proc/self/task")
        .unwrap()
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok())
        .filter(|name| name.starts_with("uva-"))
        .collect()
}

#[test]
fn a_runtime_dropped_in_the_middle_ends_its_threads() {
    let temp = tempfile::tempdir().unwrap();
    let graph = common::graph(temp.path(), 2000, 8.0);
    let builder = Runtime::builder(&graph).fanouts([4, 3]).batch_size(64).samplers(3).epochs(50);
    let mut runtime = builder.build().unwrap();
    for _ in 0..5 {
        runtime.next_batch().unwrap();
    }
    assert_eq!(roles().len(), 4, "three samplers and a producer: {:?}", roles());
    drop(runtime);
    assert_eq!(roles(), Vec::<String>::new(), "drop joins every role's thread");
}
