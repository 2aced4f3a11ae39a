//! Tests of layouts: no arrays overlap, and no header makes a range that leaves its array.

use std::ops::Range;
use std::path::Path;

use proptest::prelude::*;
use uva_graph::npy::{NpyType, write_array};
use uva_graph::{Dataset, NodeType, Split};
use uva_io::generate::{self, Common, PowerLaw};
use uva_sample::{BatchBounds, BatchCounts, BatchKey, BlockSize, SamplerKind, SamplerOptions};

use super::arrangement::limit_rows;
use super::batch_layout::{CACHE_LINE, PAGE};
use super::packed::REPORT_BYTES;
use super::*;
use crate::{Aggregation, BatchHeader, BatchSpec, Column, ColumnKey, FeatureType, HandOver};

/// 500 nodes with rows of 12 bytes, edges with rows of 20.
fn small_graph(directory: &Path) -> Dataset {
    let path = directory.join("graph");
    let common =
        Common { nodes: 500, average_degree: 6.0, feature_dim: 3, classes: 2, seed: 1, ..Common::default() };
    generate::write(&path, &PowerLaw::of(common), &|_| {}).expect("a graph");
    let edges = Dataset::open(&path).expect("a dataset").edges();
    let rows = vec![0_f32; 5 * edges];
    write_array(&path.join("edge_feat.npy"), NpyType::F32, &[5], &rows).expect("edge features");
    Dataset::open(&path).expect("a dataset")
}

/// The graph of `small_graph` with three labels per node.
fn multi_label_graph(directory: &Path) -> Dataset {
    let path = small_graph(directory).path().to_owned();
    let head = "{'descr': '|u1', 'fortran_order': False, 'shape': (500, 3), }";
    let mut label = b"\x93NUMPY\x01\x00".to_vec();
    let padded = format!("{head:<117}\n");
    label.extend((padded.len() as u16).to_le_bytes());
    label.extend(padded.into_bytes());
    label.extend((0..1500).map(|value| (value % 2) as u8));
    std::fs::write(path.join("label.npy"), label).expect("labels");
    // The generator's file states two classes.
    std::fs::remove_file(path.join("meta.json")).expect("the generator's meta.json");
    Dataset::open(&path).expect("a dataset")
}

impl BatchLayout {
    /// The end of each copied column's capacity, in the order of [`BatchLayout::copied`].
    fn ends(&self) -> Vec<usize> {
        self.places.iter().filter(|place| place.is_copied()).map(|place| place.room().end).collect()
    }
}

fn options(fanouts: &[i32], batch_size: usize, slot_bytes: Option<u64>) -> BatchSpec {
    let sampling = SamplerOptions { fanouts: fanouts.into(), ..SamplerOptions::default() };
    BatchSpec {
        sampling,
        batch_size,
        target: NodeType::ONLY,
        slot_bytes,
        feature_type: FeatureType::Table,
        aggregation: Aggregation::None,
        gathers_before_sums: false,
        chooses_sums: false,
        asked: Vec::new(),
        shapes: None,
        tables: None,
    }
}

/// The specification with these columns, for this kind of sampler.
fn with(mut spec: BatchSpec, kind: SamplerKind, degrees: bool, edge_ids: bool) -> BatchSpec {
    spec.asked.extend((edge_ids && kind == SamplerKind::WEIGHTED).then_some(Column::EdgeAttr));
    (spec.sampling.kind, spec.sampling.edge_ids) = (kind, edge_ids);
    spec.asked.extend(degrees.then_some(Column::Degrees));
    spec.asked.extend(edge_ids.then_some(Column::EdgeIds));
    spec
}

/// The header of a batch that fills its slot to the last element.
fn full(layout: &BatchLayout) -> BatchHeader {
    let bounds = &layout.bounds;
    let blocks = bounds.blocks.iter().map(|bound| BlockSize {
        destinations: bound.destinations,
        sources: bound.sources.min(bounds.nodes()),
        edges: bound.edges,
    });
    let counts = BatchCounts::of_blocks(bounds.seeds(), blocks);
    BatchHeader::of_batch(BatchKey { split: Split::Train, epoch: 0, batch: 0 }, &counts)
}

#[test]
fn what_is_written_through_the_arrays_is_read_back_through_the_ranges() {
    for (multi_label, degrees, edge_ids, sampler_kind) in [
        (false, false, false, SamplerKind::NEIGHBOR),
        (true, false, false, SamplerKind::NEIGHBOR),
        (false, true, false, SamplerKind::LABOR),
        (false, false, true, SamplerKind::WEIGHTED),
        (false, false, false, SamplerKind::LADIES),
        (false, true, true, SamplerKind::FASTGCN),
        (false, false, false, SamplerKind::WALK),
    ] {
        let temp = tempfile::tempdir().unwrap();
        let dataset = if multi_label { multi_label_graph(temp.path()) } else { small_graph(temp.path()) };
        let options = with(options(&[3, 2], 10, None), sampler_kind, degrees, edge_ids);
        let layout = BatchLayout::new(&dataset, &options).unwrap();
        let of_labels = *layout.place(Column::Labels).unwrap();
        assert_eq!(of_labels.width, multi_label.then_some(3));
        let label_bytes = 10 * of_labels.row_bytes();
        // A slot is page-aligned; so is this.
        let mut memory = vec![0_u64; layout.batch_bytes() / 8 + 512];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut memory);
        let skip = bytes.as_ptr().align_offset(PAGE);
        let payload = &mut bytes[skip..skip + layout.batch_bytes()];

        // Every element of every array gets a distinct value, so that an overlap would be detected.
        let mut columns = layout.columns_mut(payload);
        let labels = columns.take::<u8>(Column::Labels);
        let nodes = columns.take::<i64>(Column::InputNodes);
        assert_eq!((nodes.len(), labels.len()), (layout.node_capacity(), label_bytes));
        (7..).zip(columns.take::<i32>(Column::Degrees)).for_each(|(value, degree)| *degree = value);
        (0..).zip(nodes).for_each(|(value, node)| *node = value);
        (0..).zip(labels).for_each(|(value, label): (usize, _)| *label = value as u8);
        for (layer, block) in columns.take_blocks().into_iter().enumerate() {
            let base = 1_000_000 * (layer as i32 + 1);
            (base..).zip(block.indptr).for_each(|(value, to)| *to = value);
            (-base..).zip(block.indices).for_each(|(value, to)| *to = value);
            let base = 3 * i64::from(base);
            (base..).zip(block.edge_ids).for_each(|(value, to)| *to = value);
            let weights = (base..).zip(block.weights);
            weights.for_each(|(value, to)| *to = f32::from_bits(value as u32));
        }
        assert!(columns.take::<i64>(Column::InputNodes).is_empty(), "a column is lent once");
        drop(columns);
        full(&layout).write(payload);

        let header = layout.read_header(payload).unwrap();
        let read = |column: Column, layer| &payload[layout.range(&header, column.at(layer))];
        let there = |column: Column, layer| layout.place(column.at(layer)).is_some();
        let nodes: &[i64] = bytemuck::cast_slice(read(Column::InputNodes, 0));
        assert_eq!(read(Column::Seeds, 0), &read(Column::InputNodes, 0)[..80]);
        assert!(nodes.iter().copied().eq(0..layout.node_capacity() as i64));
        let labels = read(Column::Labels, 0);
        assert!(labels.iter().copied().eq((0..label_bytes).map(|value| value as u8)));
        assert_eq!(there(Column::Degrees, 0), degrees);
        if degrees {
            let read: &[i32] = bytemuck::cast_slice(read(Column::Degrees, 0));
            assert!(read.iter().copied().eq(7..7 + layout.node_capacity() as i32));
        }
        for (layer, bounds) in layout.blocks().iter().enumerate() {
            let base = 1_000_000 * (layer as i32 + 1);
            let indptr: &[i32] = bytemuck::cast_slice(read(Column::Indptr, layer));
            assert!(indptr.iter().copied().eq(base..=base + bounds.destinations as i32));
            let indices: &[i32] = bytemuck::cast_slice(read(Column::Indices, layer));
            assert!(indices.iter().copied().eq(-base..-base + bounds.edges as i32));
            assert_eq!(there(Column::EdgeIds, layer), edge_ids);
            if edge_ids {
                let (read, base) =
                    (bytemuck::cast_slice::<_, i64>(read(Column::EdgeIds, layer)), 3 * i64::from(base));
                assert!(read.iter().copied().eq(base..base + bounds.edges as i64));
            }
            assert_eq!(there(Column::Weights, layer), sampler_kind.weighs_edges());
            if there(Column::Weights, layer) {
                let (read, base) =
                    (bytemuck::cast_slice::<_, u32>(read(Column::Weights, layer)), 3 * base as u32);
                assert!(read.iter().copied().eq(base..base + bounds.edges as u32));
            }
        }
    }
}

#[test]
fn a_slot_of_sums_has_a_row_for_each_destination_not_for_each_node() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = small_graph(temp.path());
    let of = |aggregation| {
        let spec = BatchSpec { aggregation, ..options(&[3, 2], 10, None) };
        BatchLayout::new(&dataset, &spec).unwrap()
    };
    let header = sampled();
    let [none, mean, gcn] = [Aggregation::None, Aggregation::Mean, Aggregation::Degrees].map(of);
    let bytes = |layout: &BatchLayout, column| layout.range(&header, column).len();
    // 40 nodes, of which 25 are destinations, and rows of three float32.
    assert_eq!((bytes(&none, Column::X), bytes(&none, Column::Aggregated)), (40 * 12, 0));
    assert_eq!((bytes(&mean, Column::X), bytes(&mean, Column::Aggregated)), (25 * 12, 25 * 12));
    assert_eq!((bytes(&gcn, Column::X), bytes(&gcn, Column::Aggregated)), (0, 25 * 12));
    assert!(gcn.place(Column::X).is_none());
    for aggregation in [Aggregation::Sum, Aggregation::Max] {
        assert_eq!(bytes(&of(aggregation), Column::X), 25 * 12);
        assert_eq!(bytes(&of(aggregation), Column::Aggregated), 25 * 12);
    }
    for layout in [&mean, &gcn] {
        assert_eq!(layout.batch_bytes(), none.batch_bytes());
        assert_eq!(layout.arrays_bytes(), none.arrays_bytes());
        assert_eq!(layout.bounds(), none.bounds());
        assert_eq!(layout.used_bytes(&header), layout.range(&header, Column::Aggregated).end);
    }
    assert_eq!(none.used_bytes(&header), none.range(&header, Column::X).end);
}

#[test]
fn a_slot_of_a_choosing_producer_holds_rows_or_sums_and_its_header_says() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = small_graph(temp.path());
    let of = |aggregation, chooses_sums| {
        let spec = BatchSpec { aggregation, chooses_sums, ..options(&[3, 2], 10, None) };
        BatchLayout::new(&dataset, &spec).unwrap()
    };
    let none = of(Aggregation::None, false);
    let raw = sampled();
    let mut summed = sampled();
    summed.set_summed(true);
    for aggregation in [Aggregation::Mean, Aggregation::Degrees] {
        let (always, chooses) = (of(aggregation, false), of(aggregation, true));
        assert_eq!(chooses.feature_slot_bytes(), none.feature_slot_bytes().max(always.feature_slot_bytes()));
        assert_eq!(chooses.range(&raw, Column::X), none.range(&raw, Column::X));
        assert!(chooses.range(&raw, Column::Aggregated).is_empty());
        let bytes = |layout: &BatchLayout, column| layout.range(&summed, column).len();
        for column in [Column::X, Column::Aggregated] {
            assert_eq!(bytes(&chooses, column), bytes(&always, column), "{aggregation} {column}");
        }
        let [own, sums] = [Column::X, Column::Aggregated].map(|column| chooses.range(&summed, column));
        assert!(own.end <= sums.start && sums.start.is_multiple_of(CACHE_LINE), "{own:?} {sums:?}");
        assert_eq!(chooses.used_bytes(&raw), none.used_bytes(&raw));
        assert_eq!(chooses.used_bytes(&summed), sums.end);
        assert!(sums.end <= chooses.feature_slot_bytes());
        let full_of_sums = {
            let mut header = full(&chooses);
            header.set_summed(true);
            header
        };
        assert!(chooses.used_bytes(&full_of_sums) <= chooses.feature_slot_bytes());
        assert_eq!(chooses.aggregation_of(&raw), Aggregation::None);
        assert_eq!(chooses.aggregation_of(&summed), aggregation);
        assert_eq!(always.aggregation_of(&raw), aggregation);
    }
    // The header cannot mark a batch as summed in a slot of any other producer.
    let mut payload = vec![0; none.batch_bytes()];
    summed.write(&mut payload);
    assert!(none.read_header(&payload).unwrap_err().contains("summed by choice"));
    assert!(of(Aggregation::Mean, true).read_header(&payload).unwrap().is_summed());
}

#[test]
fn slot_bytes_bound_the_rows_that_are_gathered_before_they_are_summed() {
    let of = |aggregation, gathers_before_sums| {
        let spec = BatchSpec { aggregation, gathers_before_sums, ..options(&[3, 3], 10, None) };
        let bounds = BatchBounds::new(10, [3, 3], 500, 3000).unwrap();
        let bounds = limit_rows(bounds, 1200, 12, 3, &spec).unwrap();
        let outermost = *bounds.blocks.last().unwrap();
        (outermost.destinations, outermost.sources, bounds.nodes())
    };
    // 100 rows of three float32, of 160.
    assert_eq!(of(Aggregation::None, false), (40, 100, 100));
    for aggregation in [Aggregation::Mean, Aggregation::Degrees] {
        assert_eq!(of(aggregation, true), (40, 100, 100), "{aggregation}");
        assert_eq!(of(aggregation, false), (40, 160, 160), "{aggregation}");
    }
}

#[test]
fn slot_bytes_below_the_seeds_rows_are_refused_with_the_option() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = small_graph(temp.path());
    let bounds = BatchBounds::new(100, [2], 500, 3000).unwrap();
    let refused = limit_rows(bounds, 1000, 12, 3, &options(&[2], 100, None));
    let refused = refused.unwrap_err();
    assert!(refused.to_string().contains("`slot_bytes=1000`: it holds 83 feature rows"), "{refused}");
    let layout = BatchLayout::new(&dataset, &options(&[-1], 100, Some(6000))).unwrap();
    assert!(layout.node_capacity() <= 500 && layout.node_capacity() >= 100);
}

/// The header of a sampled batch, well within the bounds of [3, 2] and 10 seeds.
fn sampled() -> BatchHeader {
    let first = BlockSize { destinations: 7, sources: 25, edges: 21 };
    let second = BlockSize { destinations: 25, sources: 40, edges: 50 };
    let mut counts = BatchCounts::of_blocks(7, [first, second]);
    counts.hash = 0x1234;
    BatchHeader::of_batch(BatchKey { split: Split::Valid, epoch: 5, batch: 3 }, &counts)
}

/// Every byte of a header is set to every other value: the ranges that are then read lie within the slot, or the
/// header is rejected.
#[test]
fn no_flipped_byte_makes_a_range_that_leaves_its_array() {
    let temp = tempfile::tempdir().unwrap();
    let layout = BatchLayout::new(&small_graph(temp.path()), &options(&[3, 2], 10, None)).unwrap();
    let mut payload = vec![0; layout.batch_bytes()];
    sampled().write(&mut payload);
    let ends = layout.ends();
    let (mut refused, mut read) = (0, 0);
    for at in 0..layout.header_bytes() {
        for flip in 1..=255 {
            payload[at] ^= flip;
            match layout.read_header(&payload) {
                Err(_) => refused += 1,
                Ok(header) if header.kind() == HandOver::Batch => {
                    read += 1;
                    for (range, end) in layout.copied(&header).zip(&ends) {
                        assert!(range.end <= *end, "byte {at} xor {flip}: {range:?} beyond {end}");
                    }
                    assert!(layout.range(&header, Column::X).end <= layout.feature_slot_bytes());
                    assert!(header.seeds() <= header.nodes());
                    for layer in 0..layout.layers() {
                        let counts = header.layer(layer);
                        assert!(counts.destinations <= counts.sources && counts.sources <= header.nodes());
                    }
                    // Other fields may differ, but no method panics.
                    let _ = (header.key(), header.hash());
                }
                Ok(_) => {}
            }
            payload[at] ^= flip;
        }
    }
    // Both cases must occur for this test to be effective: the high bytes of every count are refused, hash and
    // times are not.
    assert!(refused > 3000 && read > 5000, "{refused} refused, {read} read");
}

/// Packed columns have the sizes that they have on the host, and one copy of the first bytes transfers all of them.
#[test]
fn on_a_gpu_columns_follow_the_report_without_gaps() {
    let temp = tempfile::tempdir().unwrap();
    let spec = with(options(&[3, 2], 10, None), SamplerKind::WEIGHTED, true, true);
    let layout = BatchLayout::new(&small_graph(temp.path()), &spec).unwrap();
    for (header, is_full) in [(sampled(), false), (full(&layout), true)] {
        let mut end = REPORT_BYTES;
        for (place, range) in layout.packed(&header) {
            assert_eq!(range.start, end.next_multiple_of(CACHE_LINE), "{:?}", place.key);
            assert_eq!(range, layout.packed_range(&header, place.key));
            end = range.end;
        }
        for place in layout.columns() {
            let range = layout.packed_range(&header, place.key);
            assert_eq!(range.len(), layout.range(&header, place.key).len(), "{}", place.key);
        }
        let nodes = layout.packed_range(&header, Column::InputNodes);
        assert_eq!(layout.packed_range(&header, Column::Seeds).start, nodes.start);
        let features = layout.packed_range(&header, Column::X);
        assert_eq!(features.start, end.next_multiple_of(PAGE));
        assert_eq!(features.end, layout.packed_bytes(&header));
        assert!(end <= layout.upload_bytes(false));
        // A batch that fills its slot leaves only the bytes of rounding.
        assert!(!is_full || end.next_multiple_of(CACHE_LINE) == layout.upload_bytes(false));
        assert!(is_full || end < layout.upload_bytes(false), "{end} of {}", layout.upload_bytes(false));
        // A sampler on a GPU leaves only the labels and the edge features to be sent.
        let first_on_gpu =
            layout.packed(&header).find(|(place, _)| place.key.column.spec().made_on_gpu).unwrap().1;
        assert!(!is_full || first_on_gpu.start == layout.upload_bytes(true));
    }
    assert!(layout.packed_range(&sampled(), Column::InputId).is_empty());
}

#[test]
fn a_payload_that_is_cut_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let layout = BatchLayout::new(&small_graph(temp.path()), &options(&[3, 2], 10, None)).unwrap();
    let mut payload = vec![0; layout.batch_bytes()];
    sampled().write(&mut payload);
    for length in [0, 1, BatchHeader::bytes(1, 0), layout.header_bytes(), layout.batch_bytes() - 1] {
        let refused = layout.read_header(&payload[..length]).unwrap_err();
        assert!(refused.contains(&length.to_string()), "{refused}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn arrays_begin_on_cache_lines_and_do_not_overlap(
        fanouts in proptest::collection::vec(prop_oneof![Just(-1), 1..9], 1..5),
        batch_size in 1_usize..600,
        slot_bytes in 16_000_u64..100_000,
        degrees in any::<bool>(),
        edge_ids in any::<bool>(),
        aggregation in proptest::sample::select(&Aggregation::ALL[..]),
        sampler_kind in proptest::sample::select(&SamplerKind::ALL[..]),
    ) {
        // One dataset for all cases: only its sizes matter.
        static DATASET: std::sync::OnceLock<(tempfile::TempDir, Dataset)> = std::sync::OnceLock::new();
        let (_, dataset) = DATASET.get_or_init(|| {
            let temp = tempfile::tempdir().unwrap();
            let dataset = small_graph(temp.path());
            (temp, dataset)
        });
        let options = with(options(&fanouts, batch_size, Some(slot_bytes)), sampler_kind, degrees, edge_ids);
        let layout = BatchLayout::new(dataset, &BatchSpec { aggregation, ..options }).unwrap();
        let header = full(&layout);
        let mut ranges: Vec<_> = layout.copied(&header).collect();
        prop_assert_eq!(ranges.iter().map(|range| range.end).collect::<Vec<_>>(), layout.ends());
        let layers = layout.layers();
        ranges.extend((0..layers).filter_map(|l| Some(layout.place(Column::EdgeAttr.at(l))?.used(&header))));
        prop_assert!(ranges.last().is_none_or(|range| range.end <= layout.arrays_bytes()));
        let features = [Column::X, Column::Aggregated].map(|column| layout.range(&header, column));
        let rows: usize = features.iter().map(Range::len).sum();
        let first = ranges.len();
        ranges.extend(features.into_iter().filter(|range| !range.is_empty()));
        prop_assert_eq!(ranges.len() - first, if aggregation.keeps_own_rows() { 2 } else { 1 });
        prop_assert_eq!(ranges[first].start % PAGE, 0);
        let mut end = layout.header_bytes();
        for range in ranges {
            prop_assert_eq!(range.start % CACHE_LINE, 0);
            prop_assert!(range.start >= end, "{:?} begins before {}", range, end);
            end = range.end;
        }
        prop_assert_eq!(end, layout.feature_slot_bytes());
        prop_assert!(layout.device_slot_bytes() >= end);
        prop_assert_eq!(end, layout.used_bytes(&header));
        prop_assert!(rows as u64 <= slot_bytes);
        // Without gaps: no batch uses more than the largest.
        prop_assert!(SlotRoom::largest(&layout).holds(&layout, &header));
        let arrays = layout.packed(&header).last().map_or(0, |(_, range)| range.end);
        let mut end = arrays.next_multiple_of(PAGE);
        for (place, range) in layout.packed_features(&header) {
            prop_assert_eq!(range.start, end);
            prop_assert_eq!(range.len(), place.used(&header).len());
            end = range.end.next_multiple_of(CACHE_LINE);
        }
        prop_assert_eq!(layout.packed_bytes(&header).next_multiple_of(CACHE_LINE), end);
    }
}

#[test]
fn a_batch_of_a_hop_set_has_a_table_for_each_hop_read_and_no_layers() {
    let temp = tempfile::tempdir().expect("a directory");
    let dataset = small_graph(temp.path());
    let spec = BatchSpec { tables: Some(3), ..options(&[], 10, None) };
    let layout = BatchLayout::new(&dataset, &spec).expect("a layout");
    assert!(!layout.sizes_vary() && !layout.reads_rows_by_id() && layout.layers() == 0);
    assert_eq!((layout.parts(Column::X), layout.parts(Column::Labels)), (Some(3), None));
    assert_eq!(layout.feature_columns(), [0, 1, 2].map(|table| Column::X.part(table)));
    assert_eq!((layout.tables(), layout.row_bytes(), layout.table_row_bytes()), (3, 12, 36));
    let key = BatchKey { split: Split::Train, epoch: 0, batch: 0 };
    let counts = BatchCounts::of_blocks(7, []);
    let header = BatchHeader::of_batch(key, &counts);
    let ranges: Vec<_> = (0..3).map(|table| layout.range(&header, Column::X.part(table))).collect();
    for (range, next) in ranges.iter().zip(&ranges[1..]) {
        assert_eq!((range.len(), range.start % 64), (7 * 12, 0));
        // Ten rows, and the rest of a cache line.
        assert_eq!(next.start - range.start, 128);
    }
    assert_eq!(ranges[0].start % PAGE, 0);
    assert_eq!(layout.used_bytes(&header), ranges[2].end);
    assert_eq!(layout.range(&header, Column::X.part(3)), 0..0);
    let mut payload = vec![0_u8; layout.feature_slot_bytes()];
    header.write(&mut payload);
    assert_eq!(layout.read_header(&payload).map(|header| header.seeds()), Ok(7));
    let graph = BatchLayout::new(&dataset, &options(&[2], 10, None)).expect("a layout");
    assert!(graph.sizes_vary() && graph.reads_rows_by_id() && graph.parts(Column::X).is_none());
    assert_eq!((graph.tables(), graph.table_row_bytes()), (1, 12));
    assert_eq!(graph.feature_columns(), FEATURE_COLUMNS.map(ColumnKey::from));
}
