//! The sampler and its environment: datasets, the published test vectors, a device that fails or is too small.

use std::sync::Arc;

use super::gpu::{FEW_BLOCKS, Gpu, key, on_cpu, on_gpu, options};
use crate::common::{Graph, Ids};
use serde_json::Value;
use uva_cuda::kernels::gather::IdWidth;
use uva_cuda::memory::{IpcKind, PinOptions, PinPages, PinnedTable, SharedBuffer, device_to_host, fill};
use uva_cuda::{CudaError, CudaEvent, CudaStream};
use uva_graph::{Dataset, Split};
use uva_io::generate::{self, Common, PowerLaw};
use uva_sample::cuda::{
    BatchPlace, BlockPlace, CudaSampleError, CudaSampler, CudaSamplerOptions, GraphSource, PinnedArray,
};
use uva_sample::{
    BatchBounds, BatchKey, Expand, InvalidOption, NeighborSampler, SampleError, SamplerKind, SamplerOptions,
    SeedOrder,
};

/// Every node has its two successors as neighbours.
fn ring(nodes: i64) -> Graph {
    let lists: Vec<Vec<i64>> = (0..nodes).map(|node| vec![(node + 1) % nodes, (node + 2) % nodes]).collect();
    Graph::from_lists(&lists)
}

#[test]
fn a_dataset_is_pinned_and_sampled_where_it_is_mapped() {
    if !cuda_sim::in_process("cuda::machine::a_dataset_is_pinned_and_sampled_where_it_is_mapped") {
        return;
    }
    let gpu = Gpu::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph");
    generate::write(&path, &PowerLaw::of(Common { nodes: 3000, ..Common::default() }), &|_| {}).unwrap();
    let dataset = Arc::new(Dataset::open(&path).unwrap());
    let csc = dataset.csc();
    let graph = GraphSource::of_dataset(&gpu.context, &dataset, &PinOptions::default()).unwrap();
    assert_eq!((graph.csc().nodes(), graph.csc().edges()), (csc.nodes(), csc.edges()));

    let sampler = options([5, 4]);
    let bounds = BatchBounds::new(64, &sampler.fanouts, csc.nodes(), csc.edges()).unwrap();
    let of_gpu = CudaSamplerOptions {
        cached_lists: 700,
        grid: FEW_BLOCKS,
        ..CudaSamplerOptions::new(sampler.clone(), bounds.clone())
    };
    let stream = CudaStream::new(&gpu.context).unwrap();
    let mut device = CudaSampler::new(gpu.kernels.clone(), stream, graph, &of_gpu).unwrap();
    let mut cpu = NeighborSampler::new(csc, sampler).unwrap().with_cached_lists(700);
    for batch in 0..3 {
        let seeds = &dataset.split(Split::Train)[batch as usize * 64..][..64];
        let found = on_gpu(&mut device, &bounds, key(batch), seeds, &mut []);
        assert_eq!(found, on_cpu(&mut cpu, &bounds, key(batch), seeds));
    }
    let bytes = device.device_bytes();
    let of_lists = 700 * 8 + csc.indptr[700] as usize * csc.indices.id_bytes();
    assert_eq!(
        (bytes.lists, bytes.names, bytes.local_ids),
        (of_lists, 0, 3000_usize.next_multiple_of(32) * 8)
    );
    assert!(bytes.batch >= bounds.bytes());
}

fn integers<T: TryFrom<i128>>(value: &Value) -> Vec<T> {
    let integer = |value: &Value| {
        let wide = value.as_u64().map(i128::from).or_else(|| value.as_i64().map(i128::from));
        wide.and_then(|wide| T::try_from(wide).ok())
            .unwrap_or_else(|| panic!("{value} is not an integer of this type"))
    };
    value.as_array().unwrap_or_else(|| panic!("{value} is not an array")).iter().map(integer).collect()
}

#[test]
fn the_published_batches_are_made() {
    if !cuda_sim::in_process("cuda::machine::the_published_batches_are_made") {
        return;
    }
    let gpu = Gpu::new();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/test-vectors.json");
    let vectors: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut checked = 0;
    for case in vectors["graphs"].as_array().unwrap() {
        let indices = match case["indices_dtype"].as_str() {
            Some("int32") => Ids::I32(integers(&case["indices"])),
            _ => Ids::I64(integers(&case["indices"])),
        };
        let original_ids = (!case["orig_id"].is_null()).then(|| integers(&case["orig_id"]));
        let weights = (!case["weight_bits"].is_null())
            .then(|| integers(&case["weight_bits"]).into_iter().map(f32::from_bits).collect());
        let graph = Graph { indptr: integers(&case["indptr"]), indices, original_ids, home: None, weights };
        let kind = case["options"]["kind"].as_str().map(|name| SamplerKind::from_name(name).unwrap());
        let kind = kind.unwrap_or_default();
        // Those kinds are for samplers on the CPU.
        if kind.weighs_edges() {
            continue;
        }
        let plain = SamplerOptions {
            kind,
            fanouts: integers(&case["options"]["fanouts"]).into(),
            replace: case["options"]["replace"].as_bool().unwrap(),
            seed: case["options"]["seed"].as_u64().unwrap(),
            // Absent if picks change with every batch.
            batch_dependency: case["options"]["batch_dependency"].as_u64().map_or(1, |kappa| kappa as u32),
            ..SamplerOptions::default()
        };
        let sampler = SamplerOptions {
            expand: case["options"]["expand"]
                .as_str()
                .map_or(Expand::All, |name| Expand::from_name(name).unwrap()),
            edge_ids: case["options"]["edge_ids"].as_bool().unwrap_or(false),
            ..plain
        };
        let batch_size = case["batch_size"].as_u64().unwrap() as usize;
        let bounds = graph.bounds_of(batch_size, &sampler);
        let of_gpu = CudaSamplerOptions {
            cached_lists: graph.csc().nodes() / 2,
            original_ids: graph.original_ids.as_deref(),
            grid: FEW_BLOCKS,
            ..CudaSamplerOptions::new(sampler.clone(), bounds.clone())
        };
        let mut device = gpu.sampler(&graph, &of_gpu).unwrap();
        for expected in case["batches"].as_array().unwrap() {
            let number = |name: &str| expected[name].as_u64().unwrap() as u32;
            let split = Split::ALL.into_iter().find(|split| Some(split.name()) == expected["split"].as_str());
            let key = BatchKey { split: split.unwrap(), epoch: number("epoch"), batch: number("batch") };
            let index: Vec<i64> = integers(&case["splits"][key.split.name()]);
            let mut order = SeedOrder::new(
                sampler.seed,
                key.split,
                index.len(),
                key.split == Split::Train,
                batch_size,
                false,
            )
            .unwrap();
            order.prepare(key.epoch).unwrap();
            let seeds: Vec<i64> =
                order.batch(key.batch as usize).iter().map(|&place| index[place as usize]).collect();
            let (counts, nodes, blocks) = on_gpu(&mut device, &bounds, key, &seeds, &mut []).unwrap();
            assert_eq!(nodes, integers::<i64>(&expected["nodes"]), "{}: {key}", case["name"]);
            for ((indptr, indices, edge_ids), block) in
                blocks.iter().zip(expected["blocks"].as_array().unwrap())
            {
                assert_eq!(*indptr, integers::<i32>(&block["indptr"]), "{}: {key}", case["name"]);
                assert_eq!(*indices, integers::<i32>(&block["indices"]), "{}: {key}", case["name"]);
                if sampler.edge_ids {
                    assert_eq!(*edge_ids, integers::<i64>(&block["edge_ids"]), "{}: {key}", case["name"]);
                }
            }
            assert_eq!(Some(format!("{:016x}", counts.hash).as_str()), expected["hash"].as_str());
            checked += 1;
        }
    }
    assert!(checked >= 70, "{checked} batches were checked");
}

#[test]
fn the_batch_on_the_device_is_the_one_that_is_copied() {
    if !cuda_sim::in_process("cuda::machine::the_batch_on_the_device_is_the_one_that_is_copied") {
        return;
    }
    let gpu = Gpu::new();
    let graph = ring(100);
    let sampler = options([1, 2]);
    let bounds = graph.bounds(3, &sampler.fanouts);
    let of_gpu =
        CudaSamplerOptions { degrees: true, ..CudaSamplerOptions::new(sampler.clone(), bounds.clone()) };
    let mut device = gpu.sampler(&graph, &of_gpu).unwrap();
    assert_eq!(device.batch().nodes.bytes(), 0, "there is none at first");
    let counts = device.sample(key(0), &[5, 50, 95]).unwrap();
    assert!(device.device_ns() < 60_000_000_000);
    let expected =
        on_cpu(&mut NeighborSampler::new(graph.csc(), sampler).unwrap(), &bounds, key(0), &[5, 50, 95]);
    let (of_cpu, nodes, blocks) = expected.unwrap();
    assert_eq!(counts, of_cpu);
    let batch = device.batch();
    assert_eq!(batch.nodes.bytes(), nodes.len() * 8);
    assert_eq!(batch.degrees.unwrap().bytes(), nodes.len() * 4);
    let lengths: Vec<_> =
        batch.blocks.iter().map(|block| (block.indptr.bytes(), block.indices.bytes())).collect();
    let expected: Vec<_> = blocks.iter().map(|block| (block.0.len() * 4, block.1.len() * 4)).collect();
    assert_eq!(lengths, expected);
    // SAFETY: the batch is complete, and the sampler writes the next one only on request.
    if let Some(bytes) = unsafe { batch.nodes.as_host() } {
        assert_eq!(bytes, bytemuck::cast_slice::<i64, u8>(&nodes));
        // SAFETY: as above.
        let indices = unsafe { batch.blocks[1].indices.as_host() }.unwrap();
        assert_eq!(indices, bytemuck::cast_slice::<i32, u8>(&blocks[1].1));
    }
    // An invalid batch leaves no batch.
    device.sample(key(1), &[5, -1]).unwrap_err();
    assert_eq!((device.batch().nodes.bytes(), device.batch().blocks.len()), (0, 0));
}

/// All bytes of device memory.
fn read(gpu: &Gpu, memory: &SharedBuffer) -> Vec<u8> {
    let stream = CudaStream::new(&gpu.context).unwrap();
    let mut bytes = vec![0; memory.bytes()];
    // SAFETY: both ends live until the copy has been waited for.
    unsafe { device_to_host(&stream, memory.address(), &mut bytes) }.unwrap();
    stream.synchronize().unwrap();
    bytes
}

#[test]
fn a_batch_is_written_to_given_memory_and_nothing_around_it_changes() {
    if !cuda_sim::in_process(
        "cuda::machine::a_batch_is_written_to_given_memory_and_nothing_around_it_changes",
    ) {
        return;
    }
    let gpu = Gpu::new();
    let graph = ring(100);
    let sampler = SamplerOptions { edge_ids: true, ..options([1, 2]) };
    let bounds = graph.bounds_of(3, &sampler);
    let options = CudaSamplerOptions {
        degrees: true,
        own_batch: false,
        ..CudaSamplerOptions::new(sampler.clone(), bounds.clone())
    };
    let mut device = gpu.sampler(&graph, &options).unwrap();
    let seeds = [5, 50, 95];
    let refused = device.sample(key(0), &seeds).unwrap_err();
    assert!(refused.to_string().contains("given memory only"), "{refused}");
    let mut cpu = NeighborSampler::new(graph.csc(), sampler).unwrap();
    let (counts, nodes, blocks) = on_cpu(&mut cpu, &bounds, key(0), &seeds).unwrap();

    // Arrays of exactly the batch's length, with unused bytes between them.
    let mut end = 64;
    let mut place = |values: usize, each: usize| {
        let range = end..end + values * each;
        end = range.end.next_multiple_of(64) + 64;
        range
    };
    let (of_nodes, of_degrees) = (place(nodes.len(), 8), place(nodes.len(), 4));
    let of_blocks: Vec<BlockPlace> = (blocks.iter())
        .map(|(indptr, indices, edge_ids)| BlockPlace {
            indptr: place(indptr.len(), 4),
            indices: place(indices.len(), 4),
            edge_ids: place(edge_ids.len(), 8),
        })
        .collect();
    let memory = SharedBuffer::create(&gpu.context, end, IpcKind::Auto, "a batch").unwrap();
    let stream = CudaStream::new(&gpu.context).unwrap();
    // SAFETY: our own memory, which is waited for.
    unsafe { fill(&stream, memory.address(), 0x5a, memory.bytes()) }.unwrap();
    stream.synchronize().unwrap();
    let after = CudaEvent::local(&gpu.context).unwrap();
    let whole = BatchPlace {
        memory: &memory,
        nodes: of_nodes.clone(),
        degrees: of_degrees.clone(),
        blocks: of_blocks.clone(),
        after: Some(&after),
    };
    assert_eq!(device.sample_to(key(0), &seeds, &whole).unwrap(), counts);
    assert_eq!(device.batch().nodes.bytes(), 0, "it is not in the sampler's memory");
    let mut bytes = read(&gpu, &memory);
    let degrees: Vec<i32> = nodes.iter().map(|node| graph.csc().degree(*node as usize) as i32).collect();
    let mut expected: Vec<(std::ops::Range<usize>, &[u8])> = vec![
        (of_nodes.clone(), bytemuck::cast_slice(&nodes)),
        (of_degrees.clone(), bytemuck::cast_slice(&degrees)),
    ];
    for (place, (indptr, indices, edge_ids)) in of_blocks.iter().zip(&blocks) {
        expected.push((place.indptr.clone(), bytemuck::cast_slice(indptr)));
        expected.push((place.indices.clone(), bytemuck::cast_slice(indices)));
        expected.push((place.edge_ids.clone(), bytemuck::cast_slice(edge_ids)));
    }
    for (range, values) in expected {
        assert_eq!(&bytes[range.clone()], values, "{range:?}");
        bytes[range].fill(0x5a);
    }
    assert!(bytes.iter().all(|byte| *byte == 0x5a), "bytes between the arrays have changed");

    // Too little room is an error, as on the CPU, and the next batch is right again.
    let small = BatchPlace { nodes: of_nodes.start..of_nodes.end - 8, ..whole.clone() };
    let CudaSampleError::Sample(error) = device.sample_to(key(0), &seeds, &small).unwrap_err() else {
        panic!("not an error of the sampler");
    };
    assert!(matches!(error, SampleError::BatchTooLarge { .. }), "{error}");
    for wrong in [
        BatchPlace { degrees: 0..0, ..whole.clone() },
        BatchPlace { nodes: 0..memory.bytes() + 1, ..whole.clone() },
        BatchPlace { blocks: of_blocks[..1].to_vec(), ..whole.clone() },
        BatchPlace {
            blocks: of_blocks.iter().map(|block| BlockPlace { edge_ids: 0..0, ..block.clone() }).collect(),
            ..whole.clone()
        },
    ] {
        let refused = device.sample_to(key(0), &seeds, &wrong).unwrap_err();
        let told = matches!(
            refused,
            CudaSampleError::Cuda(CudaError::Refused(_))
                | CudaSampleError::Sample(SampleError::LayerMismatch { expected: 2, given: 1 })
        );
        assert!(told, "{refused}");
    }
    assert_eq!(device.sample_to(key(0), &seeds, &whole).unwrap(), counts);
}

#[test]
fn what_can_never_work_is_refused_when_the_sampler_is_made() {
    if !cuda_sim::in_process("cuda::machine::what_can_never_work_is_refused_when_the_sampler_is_made") {
        return;
    }
    let gpu = Gpu::new();
    let graph = ring(10);
    let bounds = graph.bounds(3, [2]);
    let good = CudaSamplerOptions::new(options([2]), bounds);
    let refused = |graph: &Graph, options: &CudaSamplerOptions<'_>| gpu.sampler(graph, options).unwrap_err();
    let of_sampler = |sampler| CudaSamplerOptions { sampler, ..good.clone() };
    let invalid = |error: InvalidOption| CudaSampleError::from(error);
    assert_eq!(
        refused(&graph, &of_sampler(options([0]))),
        invalid(InvalidOption::Fanout { layer: 0, fanout: 0 })
    );
    assert_eq!(
        refused(&graph, &of_sampler(SamplerOptions { batch_dependency: 0, ..options([2]) })),
        invalid(InvalidOption::BatchDependency)
    );
    let weighted = of_sampler(SamplerOptions { kind: SamplerKind::WEIGHTED, ..options([2]) });
    assert_eq!(refused(&graph, &weighted), invalid(InvalidOption::NoWeights { kind: SamplerKind::WEIGHTED }));
    for kind in SamplerKind::ALL {
        let of_kind = of_sampler(SamplerOptions { kind, ..options([2]) });
        let made = gpu.sampler(&graph.clone().unevenly_weighted(), &of_kind);
        if kind.kernels().is_some() {
            assert!(made.is_ok(), "{kind}");
        } else {
            let refused = made.unwrap_err();
            assert!(refused.to_string().contains("`sampler=cpu`"), "{refused}");
            let instead = "neighbor, labor or weighted".to_owned();
            assert_eq!(refused, invalid(InvalidOption::KindOnDevice { kind, instead }));
        }
    }
    let mismatch = SampleError::LayerMismatch { expected: 2, given: 1 };
    assert_eq!(refused(&graph, &of_sampler(options([2, 2]))), CudaSampleError::Sample(mismatch));
    let short = [1, 2, 3];
    assert_eq!(
        refused(&graph, &CudaSamplerOptions { original_ids: Some(&short), ..good.clone() }),
        invalid(InvalidOption::OriginalIds { given: 3, nodes: 10 })
    );
    let error = refused(&graph, &CudaSamplerOptions { dataset_ids: Some(&short), ..good.clone() });
    assert!(error.to_string().contains("3 ids for the 10 nodes"), "{error}");
    let mut spoilt = graph.clone();
    spoilt.indptr[4] = 21;
    let error = refused(&spoilt, &CudaSamplerOptions { cached_lists: 4, ..good.clone() });
    let list = SampleError::InvalidList { node: 3, begin: 6, end: 21, edges: 20 };
    assert_eq!(error, CudaSampleError::Sample(list));
    // Weights to be cached that the dataset lacks.
    let mut astray = graph.clone().unevenly_weighted().reordered(&(0..10).rev().collect::<Vec<_>>());
    astray.home.as_mut().unwrap().0[7] = 19;
    let weighted = SamplerOptions { kind: SamplerKind::WEIGHTED, ..options([2]) };
    let of_gpu = CudaSamplerOptions { cached_lists: 4, ..astray.on_gpu(&weighted, &good.bounds) };
    gpu.sampler(&astray, &of_gpu).unwrap();
    let error = refused(&astray, &CudaSamplerOptions { cached_weights: true, ..of_gpu });
    let list = SampleError::InvalidList { node: 2, begin: 19, end: 21, edges: 20 };
    assert_eq!(error, CudaSampleError::Sample(list));
}

#[test]
fn arrays_that_are_not_numbers_are_refused() {
    if !cuda_sim::in_process("cuda::machine::arrays_that_are_not_numbers_are_refused") {
        return;
    }
    let gpu = Gpu::new();
    let options = PinOptions { pages: PinPages::Thp, ..PinOptions::default() };
    let table = Arc::new(PinnedTable::new(&gpu.context, Arc::new(vec![0_u8; 64]), &options).unwrap());
    let part = |bytes| PinnedArray::new(Arc::clone(&table), bytes).unwrap();
    let graph = |indptr, indices| GraphSource::new(part(indptr), part(indices), IdWidth::I32);
    assert!(graph(0..16, 16..20).is_ok());
    for (indptr, indices, told) in [
        (4..20, 32..36, "indptr"),
        (0..15, 32..36, "indptr"),
        (0..16, 18..22, "indices"),
        (0..16, 20..23, "indices"),
    ] {
        let error = graph(indptr, indices).unwrap_err();
        assert!(matches!(&error, CudaError::Refused(text) if text.contains(told)), "{error}");
    }
    assert!(PinnedArray::new(Arc::clone(&table), 60..65).is_err());
    #[allow(clippy::reversed_empty_ranges, reason = "the range is to be refused")]
    let reversed = PinnedArray::new(table, 4..0);
    assert!(reversed.is_err());
}

#[test]
fn wrong_calls_are_refused_and_the_sampler_can_be_used_on() {
    if !cuda_sim::in_process("cuda::machine::wrong_calls_are_refused_and_the_sampler_can_be_used_on") {
        return;
    }
    let gpu = Gpu::new();
    let graph = ring(30);
    let sampler = options([2, 2]);
    let bounds = graph.bounds(3, &sampler.fanouts);
    let mut device = gpu.sampler(&graph, &CudaSamplerOptions::new(sampler.clone(), bounds.clone())).unwrap();
    let mut cpu = NeighborSampler::new(graph.csc(), sampler).unwrap();
    let late = BatchKey { epoch: 1 << 30, ..key(0) };
    let other = graph.bounds(3, [2]);
    let mut small = bounds.clone();
    small.types[0].nodes = 2;
    let all: Vec<i64> = (0..30).collect();
    for (key, bounds, seeds) in [
        (late, &bounds, &all[..2]),
        (key(0), &other, &all[..2]),
        (key(0), &small, &all[..3]),
        (key(0), &bounds, &all[..]),
    ] {
        let found = on_gpu(&mut device, bounds, key, seeds, &mut []);
        assert!(found.is_err());
        assert_eq!(found, on_cpu(&mut cpu, bounds, key, seeds));
    }
    let found = on_gpu(&mut device, &bounds, key(0), &all[4..7], &mut []);
    assert_eq!(found, on_cpu(&mut cpu, &bounds, key(0), &all[4..7]));
}

#[test]
fn a_device_without_room_is_reported_with_what_it_has() {
    if !cuda_sim::in_process_with(
        "cuda::machine::a_device_without_room_is_reported_with_what_it_has",
        &[("CUDA_SIM_MEMORY", "1000000")],
    ) {
        return;
    }
    let gpu = Gpu::new();
    // 8 bytes a node do not fit.
    let graph = ring(200_000);
    let bounds = graph.bounds(1, [1]);
    let error = gpu.sampler(&graph, &CudaSamplerOptions::new(options([1]), bounds)).unwrap_err();
    let CudaSampleError::Cuda(CudaError::OutOfMemory { what, bytes, total, .. }) = error else {
        panic!("{error}");
    };
    assert_eq!((what.as_str(), bytes, total), ("the map from nodes to local ids", 1_600_000, 1_000_000));
}

#[test]
fn a_launch_that_fails_is_reported_and_the_next_batch_is_right() {
    const TEST: &str = "cuda::machine::a_launch_that_fails_is_reported_and_the_next_batch_is_right";
    // The 1st to the 18th launch: each of the first batch's, one after the other.
    let faults: Vec<String> =
        (0..18).map(|fault| format!("cuLaunchKernel:{}=701", (0..=fault).sum::<u32>() + fault + 1)).collect();
    if !cuda_sim::in_process_with(TEST, &[("CUDA_SIM_FAIL", &faults.join(","))]) {
        return;
    }
    let gpu = Gpu::new();
    let graph = ring(50);
    let sampler = options([1, 2]);
    let bounds = graph.bounds(3, &sampler.fanouts);
    let mut device = gpu.sampler(&graph, &CudaSamplerOptions::new(sampler.clone(), bounds.clone())).unwrap();
    let mut cpu = NeighborSampler::new(graph.csc(), sampler).unwrap();
    let mut failed = 0;
    for batch in 0..40 {
        let seeds = [batch as i64, 7 + batch as i64, 49];
        match device.sample(key(batch), &seeds) {
            Ok(_) => {
                let expected = on_cpu(&mut cpu, &bounds, key(batch), &seeds).unwrap();
                assert_eq!(device.batch().nodes.bytes(), expected.1.len() * 8);
                // Again, with a copy; a fault may be due.
                let mut copied = uva_sample::MiniBatch::with_bounds(&bounds);
                if copied.fill(|out| device.sample_into(key(batch), &seeds, out, &mut [])).is_ok() {
                    assert_eq!((copied.counts(), copied.nodes()), (&expected.0, &expected.1[..]));
                }
            }
            Err(error) => {
                assert!(error.to_string().contains("cuLaunchKernel"), "{error}");
                failed += 1;
            }
        }
    }
    assert!(failed >= 5, "{failed} batches failed");
}
