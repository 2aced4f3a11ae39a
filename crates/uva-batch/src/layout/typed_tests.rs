//! Tests of layouts of typed graphs.

use uva_graph::{NodeType, Relation, Split, TypedDataset};
use uva_sample::{
    BatchBounds, BatchKey, BatchMut, Expand, Fanouts, GraphSize, MiniBatch, SamplerOptions, TypedView,
    sampler,
};

use super::BatchLayout;
use super::arrangement::limit_tables;
use crate::{Aggregation, BatchHeader, BatchSpec, Column, FeatureType, HandOver, LayoutError};

#[path = "../../../uva-graph/tests/common/typed.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod typed;

const PAPER: NodeType = NodeType(0);
const TOPIC: NodeType = NodeType(2);

fn spec(slot_bytes: Option<u64>) -> BatchSpec {
    let fanouts = Fanouts::of_relations(&[[-1, 0], [2, 1], [2, 3], [1, 1], [2, 2]].map(Vec::from));
    BatchSpec {
        sampling: SamplerOptions {
            fanouts,
            edge_ids: true,
            expand: Expand::New,
            ..SamplerOptions::default()
        },
        batch_size: 3,
        target: PAPER,
        slot_bytes,
        feature_type: FeatureType::Table,
        aggregation: Aggregation::None,
        gathers_before_sums: false,
        chooses_sums: false,
        asked: vec![Column::EdgeIds, Column::InputId],
        shapes: None,
        tables: None,
    }
}

fn names(layout: &BatchLayout) -> Vec<String> {
    layout.columns().iter().map(|place| place.key.name_in(layout.metagraph())).collect()
}

#[test]
fn columns_lie_type_by_type_then_layer_by_layer_and_relation_by_relation() {
    let library = typed::library();
    let layout = BatchLayout::new(&library.open(), &spec(Some(1 << 20))).unwrap();
    let names = names(&layout);
    let first = [
        "input_nodes.paper",
        "seeds.paper",
        "labels.paper",
        "input_nodes.author",
        "seeds.author",
        "input_nodes.topic",
        "seeds.topic",
        "block0.paper__cites__paper.indptr",
        "block0.paper__cites__paper.indices",
        "block0.author__writes__paper.indptr",
    ];
    assert_eq!(names[..10], first);
    assert_eq!(names.len(), 7 + 2 * 5 * 3 + 3 + 2, "{names:?}");
    assert_eq!(
        names[names.len() - 5..],
        ["input_id.paper", "input_id.author", "input_id.topic", "x.paper", "x.topic"]
    );
    let mut end = layout.header_bytes();
    for place in layout.columns().iter().filter(|place| place.key.column.spec().first_of.is_none()) {
        let room = place.room();
        assert!(room.start >= end && room.start.is_multiple_of(64), "{:?} begins before {end}", place.key);
        end = room.end;
    }
    assert_eq!(end, layout.feature_slot_bytes());
    // Four float32 of a paper, two bfloat16 of a topic; authors have no features.
    let bytes = |of: NodeType| layout.rows_of(of).map(|rows| rows.bytes());
    assert_eq!([0, 1, 2].map(|of| bytes(NodeType(of))), [Some(16), None, Some(4)]);
    assert_eq!(layout.feature_columns()[..2], [Column::X.of(PAPER), Column::X.of(TOPIC)]);
    for name in &names {
        assert_eq!(layout.key(name).map(|key| key.name_in(layout.metagraph())), Ok(name.clone()));
    }
}

/// Samples a batch into a slot and into separate memory.
fn sampled(
    dataset: &TypedDataset,
    layout: &BatchLayout,
    spec: &BatchSpec,
) -> (BatchHeader, Vec<u8>, MiniBatch) {
    let key = BatchKey { split: Split::Train, epoch: 1, batch: 0 };
    let mut sampler = sampler(TypedView::of(dataset), &spec.sampling).unwrap();
    let seeds: [&[i64]; 3] = [&[0, 5, 4], &[], &[]];
    let bounds =
        BatchBounds::for_graph(&spec.sampling, &[3, 0, 0], &GraphSize::of(dataset), Some(1 << 20)).unwrap();
    let mut plain = MiniBatch::with_bounds(&bounds);
    plain.fill(|out| sampler.sample_types(key, (&seeds[..]).into(), out)).unwrap();
    let mut payload = vec![0; layout.feature_slot_bytes()];
    let mut columns = layout.columns_mut(&mut payload);
    let (mut nodes, mut blocks) = (columns.take_nodes(), columns.take_blocks());
    assert_eq!((nodes.len(), blocks.len()), (3, 10));
    let mut out = BatchMut { nodes: &mut nodes, blocks: &mut blocks, trees: &mut [] };
    let counts = sampler.sample_types(key, (&seeds[..]).into(), &mut out).unwrap();
    drop((columns, nodes, blocks));
    let header = BatchHeader::of_batch(key, &counts);
    header.write(&mut payload);
    (layout.read_header(&payload).unwrap(), payload, plain)
}

#[test]
fn a_batch_sampled_into_a_slot_is_that_of_separate_memory() {
    let library = typed::library();
    let dataset = library.open();
    let spec = spec(Some(1 << 20));
    let layout = BatchLayout::new(&dataset, &spec).unwrap();
    let (header, payload, plain) = sampled(&dataset, &layout, &spec);
    assert_eq!((header.hash(), header.nodes()), (plain.hash(), plain.counts().nodes()));
    let bytes = |key| &payload[layout.range(&header, key)];
    for of in dataset.metagraph().types() {
        let nodes: &[i64] = bytemuck::cast_slice(bytes(Column::InputNodes.of(of)));
        assert_eq!(nodes, plain.nodes_of(of));
        let seeds: &[i64] = bytemuck::cast_slice(bytes(Column::Seeds.of(of)));
        assert_eq!(seeds, &nodes[..if of == PAPER { 3 } else { 0 }]);
        let rows = layout.range(&header, Column::X.of(of)).len();
        assert_eq!(rows, layout.rows_of(of).map_or(0, |rows| rows.bytes()) * nodes.len());
    }
    for layer in 0..2 {
        for relation in dataset.metagraph().relations() {
            let block = plain.block_of(layer, relation).unwrap();
            let size = header.block(layer, relation);
            assert_eq!((size.destinations, size.sources), (block.destinations, block.sources));
            let of = |column: Column| bytes(column.between(layer, relation));
            assert_eq!(bytemuck::cast_slice::<u8, i32>(of(Column::Indptr)), block.indptr);
            assert_eq!(bytemuck::cast_slice::<u8, i32>(of(Column::Indices)), block.indices);
            assert_eq!(bytemuck::cast_slice::<u8, i64>(of(Column::EdgeIds)), block.edge_ids);
        }
    }
    assert!(header.block(1, Relation(1)).edges > 0);
}

#[test]
fn slot_bytes_bound_the_rows_of_all_types_together() {
    let library = typed::library();
    let dataset = library.open();
    let full = BatchLayout::new(&dataset, &spec(Some(1 << 20))).unwrap();
    let of = |layout: &BatchLayout| layout.bounds().types.iter().map(|size| size.nodes).collect::<Vec<_>>();
    assert_eq!(of(&full), [6, 5, 3]);
    let limited = |bytes| limit_tables(full.bounds().clone(), bytes, &full.rows);
    // Three seeds have 48 bytes. Three papers and three topics more have 60, of which 32 are left.
    let bounds = limited(80).unwrap();
    assert_eq!(bounds.types.iter().map(|size| size.nodes).collect::<Vec<_>>(), [4, 5, 1]);
    assert!(bounds.blocks[5..].iter().all(|block| block.destinations <= 5));
    assert_eq!(limited(108).unwrap(), *full.bounds());
    let refused = LayoutError::RowsBelowSeeds { bytes: 40, rows: 2, row_bytes: 16, seeds: 3 };
    assert_eq!(limited(40), Err(refused));
}

#[test]
fn no_flipped_byte_makes_a_range_that_leaves_its_array() {
    let library = typed::library();
    let dataset = library.open();
    let spec = spec(Some(1 << 20));
    let layout = BatchLayout::new(&dataset, &spec).unwrap();
    let (_, payload, _) = sampled(&dataset, &layout, &spec);
    for at in 0..layout.header_bytes() {
        for flip in [1, 0x80, 0xff] {
            let mut payload = payload.clone();
            payload[at] ^= flip;
            let Ok(header) = layout.read_header(&payload) else { continue };
            if header.kind() != HandOver::Batch {
                continue;
            }
            for place in layout.columns() {
                assert!(place.used(&header).end <= place.room().end, "byte {at} xor {flip}: {:?}", place.key);
            }
        }
    }
}
