//! Rows of several tables read from disk: the rows of the mapped files, by every reader and every way to prepare.

use uva_graph::npy::NpyType;
use uva_options::ByteSize;
use uva_runtime::backend::{GatherChoice, SamplerChoice};
use uva_runtime::options::Prepare;
use uva_runtime::tune::planning::{Budget, HostCacheParts};
use uva_runtime::{DiskReader, FeatureType, Features, LoaderOptions, LookAhead, RowTree, Runtime};

use super::typed::{check, fixture, options, planned, runtime};
use crate::stand_in;

/// A dataset with float32 rows of papers, bfloat16 rows of topics, and rows of authors of an odd size.
fn three_tables() -> fixture::Library {
    let library = fixture::library();
    let authors: Vec<u8> = (0..35).collect();
    library.write("nodes/author/feat", NpyType::U8, &[7], &authors);
    library
}

fn from_disk() -> LoaderOptions {
    LoaderOptions { features: Features::Disk, ..options() }
}

/// Checks all batches of a runtime against the mapped files, and returns their number.
fn checked(library: &fixture::Library, options: &LoaderOptions, mut runtime: Runtime) -> usize {
    let (dataset, mut batches) = (library.open(), 0);
    while let Some(batch) = runtime.next_batch().unwrap() {
        batch.confirm().unwrap();
        check(&dataset, options, &batch);
        batches += 1;
    }
    batches
}

#[test]
fn rows_of_every_type_come_from_disk_by_every_reader() {
    for library in [fixture::library(), three_tables()] {
        for reader in [DiskReader::Auto, DiskReader::Pread, DiskReader::Mmap] {
            for (prepare, look_ahead) in [
                (Prepare::Roles, LookAhead::Auto),
                (Prepare::Roles, LookAhead::Batches(0)),
                (Prepare::Roles, LookAhead::Batches(3)),
                (Prepare::Whole, LookAhead::Auto),
            ] {
                let options = LoaderOptions { reader, prepare, look_ahead, samplers: 2, ..from_disk() };
                let started = runtime(&library, options.clone()).unwrap();
                assert_eq!(checked(&library, &options, started), 6, "{reader} {prepare} {look_ahead}");
            }
        }
    }
}

#[test]
fn each_table_is_read_from_its_file_with_rows_of_its_own_kept() {
    let library = three_tables();
    let (dataset, plan) = planned(&library, &from_disk(), uva_runtime::backend::Backend::Cpu);
    let RowTree::Types(types) = RowTree::of(&plan) else { panic!("several tables") };
    // Every table fits into the default memory.
    let rows: Vec<_> = types.iter().map(|(of, tree)| (of.index(), tree.kept_rows())).collect();
    assert_eq!(rows, [(0, Some(6)), (1, Some(5)), (2, Some(3))]);
    let said = RowTree::of(&plan).to_string();
    assert_eq!(said, "3 tables: file read for each batch, read ahead");
    let budget = Budget::Bytes(4 * 14 + (16 + 72) * 3 + (7 + 72) * 5 + (4 + 72) * 3);
    let kept = HostCacheParts::new(&dataset, &plan, budget, &mut |_| {}).unwrap().unwrap();
    let caches = kept.without_plan().unwrap();
    let plan = plan.with_caches(caches.caches().clone());
    let RowTree::Types(types) = RowTree::of(&plan) else { panic!("several tables") };
    let rows: usize = types.iter().map(|(_, tree)| tree.kept_rows().unwrap()).sum();
    assert!((9..14).contains(&rows), "{rows} rows of {}", ByteSize::from_bytes(947));
    let runtime = Runtime::start_with(dataset, plan, caches).unwrap();
    assert_eq!(checked(&library, &from_disk(), runtime), 6);
}

#[test]
fn rows_of_one_type_are_widened_next_to_rows_that_are_not() {
    let library = fixture::library();
    let all = |features| {
        let options = LoaderOptions { features, feature_type: FeatureType::Float32, ..options() };
        let mut runtime = runtime(&library, options).unwrap();
        let mut rows = Vec::new();
        while let Some(batch) = runtime.next_batch().unwrap() {
            rows.extend(
                ["x.paper", "x.topic"].map(|name| batch.column(name).unwrap().bytes().unwrap().to_vec()),
            );
        }
        rows
    };
    let expected = all(Features::Memory);
    assert!(expected.len() == 12 && expected[1].len().is_multiple_of(8), "{expected:?}");
    assert_eq!(all(Features::Disk), expected);
}

#[test]
fn rows_from_disk_reach_slots_on_a_gpu_through_the_cpu() {
    if !cuda_sim::in_process("typed_disk::rows_from_disk_reach_slots_on_a_gpu_through_the_cpu") {
        return;
    }
    let library = three_tables();
    for look_ahead in [LookAhead::Auto, LookAhead::Batches(0)] {
        let options = LoaderOptions { look_ahead, samplers: 2, ..from_disk() };
        let (shared, plan) =
            planned(&library, &options, stand_in::on_gpu(GatherChoice::Dma, SamplerChoice::Cpu));
        let runtime = Runtime::start(shared, plan).unwrap();
        assert_eq!(checked(&library, &options, runtime), 6);
    }
    let on_gpu = stand_in::on_gpu(GatherChoice::ZeroCopy, SamplerChoice::Cpu);
    let (shared, plan) = planned(&library, &from_disk(), on_gpu);
    let said = Runtime::start(shared, plan).map(drop).unwrap_err().to_string();
    assert!(said.contains("features=disk") && said.contains("gather=zero-copy"), "{said}");
}

#[test]
fn types_without_features_and_without_nodes_have_no_reads() {
    let library = fixture::library();
    std::fs::remove_file(library.file("nodes/paper/feat")).unwrap();
    let mut started = runtime(&library, from_disk()).unwrap();
    while let Some(batch) = started.next_batch().unwrap() {
        assert!(batch.column("x.paper").is_err() && batch.column("x.topic").is_ok());
    }
    std::fs::remove_file(library.file("nodes/topic/feat")).unwrap();
    let refused = runtime(&library, from_disk()).map(drop).unwrap_err();
    let said = refused.to_string();
    assert!(
        refused.exit_code() == 2 && said.contains("features=disk: ") && said.contains("feat.npy"),
        "{said}"
    );
}
