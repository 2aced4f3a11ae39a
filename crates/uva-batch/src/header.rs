//! The header of a slot, at its start: the identity of the batch and the number of used rows of each column.

use std::time::Duration;

use bytemuck::{Pod, Zeroable};
use uva_graph::{NodeType, Relation, Split};
use uva_sample::{BatchBounds, BatchCounts, BatchKey, BlockSize, ListReads, RelationEnds, TypeSize};

use crate::ColumnKey;
use crate::schema::Rows;

/// The kind of hand-over of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOver {
    /// A batch.
    Batch,
    /// A slot without a batch: the consumer changes to another pass, or has changed.
    Skipped,
    /// A slot without a batch, after which no slot follows.
    End,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
struct PackedSize {
    destinations: u32,
    sources: u32,
    edges: u32,
}

impl From<BlockSize> for PackedSize {
    /// Local ids are 32 bits, so every count is.
    fn from(BlockSize { destinations, sources, edges }: BlockSize) -> Self {
        let [destinations, sources, edges] = [destinations, sources, edges].map(|count| count as u32);
        Self { destinations, sources, edges }
    }
}

/// Disk reads for the rows of a batch, and the places where the rows were found.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct BatchReads {
    /// Bytes of rows requested from disk since the batch before, for this batch and ahead for later ones.
    pub bytes_asked: u64,
    /// Bytes that were read for these requests.
    pub bytes_read: u64,
    /// Number of reads for these bytes.
    pub reads: u64,
    /// Rows of this batch found in a cache of rows.
    pub cached_rows: u64,
    /// Rows that were in memory since an earlier batch.
    pub kept_rows: u64,
    /// Rows that had been read ahead and not yet used by a batch.
    pub ahead_rows: u64,
    /// Rows that this batch had to read itself.
    pub demanded_rows: u64,
}

/// The fields of a header that every batch has.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct FixedHeader {
    hash: u64,
    /// Times in nanoseconds, by the clock that all processes of the machine share.
    sample_began: u64,
    sample_ns: u64,
    gather_began: u64,
    gather_ns: u64,
    list_reads: u64,
    list_reads_cached: u64,
    rows_cached: u64,
    disk: BatchReads,
    link_bytes: u64,
    queue: u32,
    pace: u32,
    kind: u32,
    split: u16,
    /// 1 if the producer or a worker chooses batch by batch whether it sums, and summed this batch.
    summed: u16,
    epoch: u32,
    batch: u32,
    sampler: u32,
    layer_count: u32,
    type_count: u32,
    relation_count: u32,
}

/// The sizes of one block.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
struct BlockHeader {
    /// The size with padding, like that of all columns.
    padded: PackedSize,
    real: PackedSize,
}

/// The seeds and nodes of one type.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
struct TypeHeader {
    /// With padding, like all columns.
    seeds: u32,
    nodes: u32,
    real_seeds: u32,
    real_nodes: u32,
}

/// The header of a slot. The sampler writes it; the producer adds the start and the duration of its gather.
#[derive(Clone, Debug)]
pub struct BatchHeader {
    fixed: FixedHeader,
    /// The entries after the fixed fields, one for each node type.
    types: Vec<TypeHeader>,
    /// The entries after them: for each layer, one for each relation.
    blocks: Vec<BlockHeader>,
}

impl BatchHeader {
    /// Bytes reserved for the header of a batch of this many node types and blocks, a multiple of a cache line.
    #[must_use]
    pub const fn bytes(types: usize, blocks: usize) -> usize {
        Self::used_bytes(types, blocks).next_multiple_of(64)
    }

    const fn used_bytes(types: usize, blocks: usize) -> usize {
        size_of::<FixedHeader>() + types * size_of::<TypeHeader>() + blocks * size_of::<BlockHeader>()
    }

    /// The header's fields and their sizes, which processes compare with each other.
    #[must_use]
    pub fn fields() -> String {
        let bytes = [size_of::<FixedHeader>(), size_of::<TypeHeader>(), size_of::<BlockHeader>()];
        let (of_type, of_block) = (TypeHeader::default(), BlockHeader::default());
        format!("{bytes:?} bytes of {:?} {of_type:?} {of_block:?}", FixedHeader::zeroed())
    }

    /// The header of a sampled batch.
    pub fn of_batch(key: BatchKey, counts: &BatchCounts) -> Self {
        // Local ids are 32 bits, so every count is.
        let fixed = FixedHeader {
            hash: counts.hash,
            split: key.split as u16,
            epoch: key.epoch,
            batch: key.batch,
            type_count: counts.types().len() as u32,
            layer_count: counts.layers() as u32,
            relation_count: counts.blocks().len().checked_div(counts.layers()).unwrap_or(0) as u32,
            list_reads: counts.list_reads.all,
            list_reads_cached: counts.list_reads.cached,
            ..FixedHeader::zeroed()
        };
        let of_type = |real: &TypeSize| TypeHeader {
            real_seeds: real.seeds as u32,
            real_nodes: real.nodes as u32,
            ..TypeHeader::default()
        };
        let of_block = |&real: &BlockSize| BlockHeader { real: real.into(), ..BlockHeader::default() };
        let types = counts.types().iter().map(of_type).collect();
        let mut header = Self { fixed, types, blocks: counts.blocks().iter().map(of_block).collect() };
        header.set_padded(counts);
        header
    }

    /// Records the counts of the batch with its padding, which all columns have from now on.
    pub fn set_padded(&mut self, counts: &BatchCounts) {
        for (to, from) in self.types.iter_mut().zip(counts.types()) {
            (to.seeds, to.nodes) = (from.seeds as u32, from.nodes as u32);
        }
        for (to, &from) in self.blocks.iter_mut().zip(counts.blocks()) {
            to.padded = from.into();
        }
    }

    /// The header of a hand-over without a batch.
    #[must_use]
    pub fn without_batch(kind: HandOver) -> Self {
        let fixed = FixedHeader { kind: kind as u32, ..FixedHeader::zeroed() };
        Self { fixed, types: Vec::new(), blocks: Vec::new() }
    }

    /// Reads a slot's header and checks it against the slot's bounds: another process wrote the header, and its counts
    /// become slice lengths here.
    ///
    /// # Errors
    /// Returns the field that is out of bounds, and its bound.
    pub fn read(payload: &[u8], bounds: &BatchBounds) -> Result<Self, String> {
        let (types, blocks) = (bounds.types.len(), bounds.blocks.len());
        let bytes = payload
            .get(..Self::used_bytes(types, blocks))
            .ok_or_else(|| format!("a batch of {} bytes has no header", payload.len()))?;
        let (fixed, counted) = bytes.split_at(size_of::<FixedHeader>());
        let (types, blocks) = counted.split_at(types * size_of::<TypeHeader>());
        let fixed: FixedHeader = bytemuck::pod_read_unaligned(fixed);
        match fixed.kind {
            0 => {
                let types = types.chunks_exact(size_of::<TypeHeader>()).map(bytemuck::pod_read_unaligned);
                let blocks = blocks.chunks_exact(size_of::<BlockHeader>()).map(bytemuck::pod_read_unaligned);
                let header = Self { fixed, types: types.collect(), blocks: blocks.collect() };
                header.check(bounds)?;
                Ok(header)
            }
            1 | 2 => Ok(Self { fixed, types: Vec::new(), blocks: Vec::new() }),
            other => Err(format!("kind {other} of hand-over is unknown")),
        }
    }

    /// Writes the header to the start of a slot.
    pub fn write(&self, payload: &mut [u8]) {
        let mut rest = payload;
        let types: &[u8] = bytemuck::cast_slice(&self.types);
        for bytes in [bytemuck::bytes_of(&self.fixed), types, bytemuck::cast_slice(&self.blocks)] {
            let (to, behind) = std::mem::take(&mut rest).split_at_mut(bytes.len());
            to.copy_from_slice(bytes);
            rest = behind;
        }
    }

    fn check(&self, bounds: &BatchBounds) -> Result<(), String> {
        if self.fixed.split > 2 {
            return Err(format!("split {} is unknown", self.fixed.split));
        }
        if self.fixed.summed > 1 {
            return Err(format!("way {} of its rows is unknown", self.fixed.summed));
        }
        let relations = if bounds.blocks.is_empty() { 0 } else { bounds.relations.len() };
        for (what, count, expected) in [
            ("layers", self.fixed.layer_count, bounds.layers()),
            ("node types", self.fixed.type_count, bounds.types.len()),
            ("relations", self.fixed.relation_count, relations),
        ] {
            if count as usize != expected {
                return Err(format!("{count} {what} in a slot for {expected}"));
            }
        }
        for (number, (counts, most)) in self.types.iter().zip(&bounds.types).enumerate() {
            let of = || if self.types.len() > 1 { format!(" of type {number}") } else { String::new() };
            within("nodes", &of, counts.nodes, most.nodes)?;
            within("seeds", &of, counts.seeds, (counts.nodes as usize).min(most.seeds))?;
            within("nodes without padding", &of, counts.real_nodes, counts.nodes as usize)?;
            within("seeds without padding", &of, counts.real_seeds, counts.seeds as usize)?;
        }
        for (at, (BlockHeader { padded: counts, real: own }, capacity)) in
            self.blocks.iter().zip(&bounds.blocks).enumerate()
        {
            let (layer, relation) = (at / relations, at % relations);
            let of = || {
                let of_relation =
                    if relations > 1 { format!(", relation {relation}") } else { String::new() };
                format!(" of layer {layer}{of_relation}")
            };
            let RelationEnds { source, destination } = bounds.relations[relation];
            let nodes = |of: NodeType| self.types[of.index()].nodes as usize;
            within("edges", &of, counts.edges, capacity.edges)?;
            within("sources", &of, counts.sources, nodes(source))?;
            // Destinations are the first of the sources, if they are of one type.
            let most = if source == destination { counts.sources as usize } else { nodes(destination) };
            within("destinations", &of, counts.destinations, most.min(capacity.destinations))?;
            within("edges without padding", &of, own.edges, counts.edges as usize)?;
            within("sources without padding", &of, own.sources, counts.sources as usize)?;
            within("destinations without padding", &of, own.destinations, counts.destinations as usize)?;
        }
        Ok(())
    }

    /// The slot's kind of hand-over.
    pub fn kind(&self) -> HandOver {
        match self.fixed.kind {
            0 => HandOver::Batch,
            1 => HandOver::Skipped,
            _ => HandOver::End,
        }
    }

    /// The identity of the batch.
    pub fn key(&self) -> BatchKey {
        let split = match self.fixed.split {
            0 => Split::Train,
            1 => Split::Valid,
            _ => Split::Test,
        };
        BatchKey { split, epoch: self.fixed.epoch, batch: self.fixed.batch }
    }

    /// The batch's hash.
    pub fn hash(&self) -> u64 {
        self.fixed.hash
    }

    /// Duration of sampling in nanoseconds.
    pub fn sample_ns(&self) -> u64 {
        self.fixed.sample_ns
    }

    /// Duration of the gather in host memory, in nanoseconds.
    pub fn gather_ns(&self) -> u64 {
        self.fixed.gather_ns
    }

    /// The start times of sampling and gathering.
    pub fn began(&self) -> [Duration; 2] {
        [self.fixed.sample_began, self.fixed.gather_began].map(Duration::from_nanos)
    }

    /// Index of the sampler that made the batch.
    pub fn sampler(&self) -> u32 {
        self.fixed.sampler
    }

    /// The reads of the graph.
    pub fn list_reads(&self) -> ListReads {
        ListReads { all: self.fixed.list_reads, cached: self.fixed.list_reads_cached }
    }

    /// Rows from the feature cache that the CPU looked up. If a kernel looks them up, the gather's report has the
    /// number.
    pub fn rows_cached(&self) -> u64 {
        self.fixed.rows_cached
    }

    /// Bytes of own rows and sums that crossed the link to a GPU, if the CPU made some of them and a cache on the GPU
    /// had the rest.
    pub fn link_bytes(&self) -> u64 {
        self.fixed.link_bytes
    }

    /// Records the bytes that crossed the link.
    pub fn set_link_bytes(&mut self, bytes: u64) {
        self.fixed.link_bytes = bytes;
    }

    /// Batches that waited for the consumer when the producer began with this one.
    pub fn queue(&self) -> u32 {
        self.fixed.queue
    }

    /// Number of the producer's threads that gathered this batch; 0 if a GPU gathered.
    pub fn pace(&self) -> u32 {
        self.fixed.pace
    }

    /// Records the number of waiting batches and the number of threads that gather this one.
    pub fn set_pace(&mut self, queue: u32, pace: u32) {
        (self.fixed.queue, self.fixed.pace) = (queue, pace);
    }

    /// Records the number of rows from the feature cache.
    pub fn set_rows_cached(&mut self, rows: u64) {
        self.fixed.rows_cached = rows;
    }

    /// Disk reads for the batch's rows; all zeros if rows are read from memory.
    pub fn disk(&self) -> BatchReads {
        self.fixed.disk
    }

    /// Records the disk reads for the batch's rows.
    pub fn set_disk(&mut self, reads: BatchReads) {
        self.fixed.disk = reads;
    }

    /// Whether the producer or a worker that chooses batch by batch summed this batch's rows. False with a producer
    /// that sums in every batch.
    pub fn is_summed(&self) -> bool {
        self.fixed.summed == 1
    }

    /// Records whether a producer that chooses batch by batch sums the rows.
    pub fn set_summed(&mut self, summed: bool) {
        self.fixed.summed = u16::from(summed);
    }

    /// Records the sampler that made the batch, and the start and end of sampling by the clock that all processes
    /// share.
    pub fn set_sampled(&mut self, sampler: u32, began: Duration, ended: Duration) {
        (self.fixed.sampler, self.fixed.sample_began) = (sampler, began.as_nanos() as u64);
        self.fixed.sample_ns = ended.saturating_sub(began).as_nanos() as u64;
    }

    /// Records the time at which the producer began with the batch. On a GPU the gather's report has the duration.
    pub fn set_gather_began(&mut self, began: Duration) {
        self.fixed.gather_began = began.as_nanos() as u64;
    }

    /// Records the time at which the producer finished the batch.
    pub fn set_gathered(&mut self, ended: Duration) {
        self.fixed.gather_ns = (ended.as_nanos() as u64).saturating_sub(self.fixed.gather_began);
    }

    /// Whether the batch is padded: it then has at least one padding node.
    pub fn is_padded(&self) -> bool {
        self.real_nodes() < self.nodes()
    }

    fn sum(&self, count: impl Fn(&TypeHeader) -> u32) -> usize {
        self.types.iter().map(|of_type| count(of_type) as usize).sum()
    }

    /// Number of seeds without padding. These are the first of the seeds.
    pub fn real_seeds(&self) -> usize {
        self.sum(|of_type| of_type.real_seeds)
    }

    /// Numbers of seeds and nodes of a type without padding.
    pub fn real_of_type(&self, node_type: NodeType) -> TypeSize {
        let TypeHeader { real_seeds, real_nodes, .. } =
            self.types.get(node_type.index()).copied().unwrap_or_default();
        TypeSize { seeds: real_seeds as usize, nodes: real_nodes as usize }
    }

    /// Number of nodes without padding.
    pub fn real_nodes(&self) -> usize {
        self.sum(|of_type| of_type.real_nodes)
    }

    /// The size of a layer's block of the first relation without padding.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub fn real_layer(&self, layer: usize) -> BlockSize {
        self.real_block(layer, Relation::ONLY)
    }

    /// The size of a block without padding.
    ///
    /// # Panics
    /// If the layer or relation does not exist.
    pub fn real_block(&self, layer: usize, relation: Relation) -> BlockSize {
        counts_of(&self.entry(layer, relation).real)
    }

    /// Number of seeds of all types, padding included, as in all columns.
    pub fn seeds(&self) -> usize {
        self.sum(|of_type| of_type.seeds)
    }

    /// Number of nodes of all types, the seeds and padding included.
    pub fn nodes(&self) -> usize {
        self.sum(|of_type| of_type.nodes)
    }

    /// Numbers of seeds and of all nodes of a type, padding included; 0 if the type does not exist.
    pub fn of_type(&self, node_type: NodeType) -> TypeSize {
        let TypeHeader { seeds, nodes, .. } = self.types.get(node_type.index()).copied().unwrap_or_default();
        TypeSize { seeds: seeds as usize, nodes: nodes as usize }
    }

    /// Rows that an array of this kind has in the batch.
    ///
    /// # Panics
    /// If the layer, node type or relation does not exist.
    pub fn rows(&self, rows: Rows, key: ColumnKey) -> usize {
        let block = || self.block(key.layer, key.relation());
        // The tables of a hop set have rows of the only type.
        let one = self.types.len() == 1;
        let of_type = || self.of_type(if one { NodeType::ONLY } else { key.node_type() });
        match rows {
            Rows::Seeds => of_type().seeds,
            Rows::Nodes => of_type().nodes,
            Rows::Offsets => block().destinations + 1,
            Rows::Edges => block().edges,
            Rows::Outermost => self.outermost().destinations,
        }
    }

    /// The size of the outermost layer's block, whose sources are the batch's nodes, in a homogeneous graph.
    pub fn outermost(&self) -> BlockSize {
        self.blocks.last().map_or_else(BlockSize::default, |last| counts_of(&last.padded))
    }

    /// The size of a layer's block of the first relation.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub fn layer(&self, layer: usize) -> BlockSize {
        self.block(layer, Relation::ONLY)
    }

    /// The size of a block.
    ///
    /// # Panics
    /// If the layer or relation does not exist.
    pub fn block(&self, layer: usize, relation: Relation) -> BlockSize {
        counts_of(&self.entry(layer, relation).padded)
    }

    fn entry(&self, layer: usize, relation: Relation) -> &BlockHeader {
        let relations = self.fixed.relation_count as usize;
        assert!(relation.index() < relations, "relation {} of {relations}", relation.0);
        &self.blocks[layer * relations + relation.index()]
    }
}

/// Checks a count of a header; `of` describes what it counts.
fn within(what: &str, of: &dyn Fn() -> String, count: u32, most: usize) -> Result<(), String> {
    if count as usize <= most { Ok(()) } else { Err(format!("{count} {what}{} in a slot for {most}", of())) }
}

fn counts_of(counts: &PackedSize) -> BlockSize {
    BlockSize {
        destinations: counts.destinations as usize,
        sources: counts.sources as usize,
        edges: counts.edges as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of batches of 10 seeds with fanouts of 3 and 2.
    fn bounds() -> BatchBounds {
        BatchBounds::new(10, [3, 2], 500, 3000).unwrap()
    }

    fn header() -> BatchHeader {
        let first = BlockSize { destinations: 7, sources: 25, edges: 21 };
        let second = BlockSize { destinations: 25, sources: 40, edges: 50 };
        let mut counts = BatchCounts::of_blocks(7, [first, second]);
        counts.hash = 0x1234;
        let mut header = BatchHeader::of_batch(BatchKey { split: Split::Valid, epoch: 5, batch: 3 }, &counts);
        header.set_sampled(3, Duration::from_nanos(5), Duration::from_nanos(22));
        header.check(&bounds()).unwrap();
        header
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let mut payload = [0xff; BatchHeader::bytes(1, 2)];
        header().write(&mut payload);
        let read = BatchHeader::read(&payload, &bounds()).unwrap();
        assert_eq!(read.kind(), HandOver::Batch);
        assert_eq!(read.key(), BatchKey { split: Split::Valid, epoch: 5, batch: 3 });
        assert_eq!((read.hash(), read.sample_ns(), read.gather_ns()), (0x1234, 17, 0));
        assert_eq!((read.seeds(), read.nodes()), (7, 40));
        assert_eq!(read.layer(1), BlockSize { destinations: 25, sources: 40, edges: 50 });
    }

    #[test]
    fn counts_of_each_type_and_relation_are_read_as_they_were_written() {
        let (author, paper) = (NodeType(0), NodeType(1));
        let relations = vec![
            RelationEnds { source: paper, destination: paper },
            RelationEnds { source: author, destination: paper },
        ];
        let types = vec![TypeSize { seeds: 0, nodes: 9 }, TypeSize { seeds: 4, nodes: 8 }];
        let block = |destinations, sources, edges| BlockSize { destinations, sources, edges };
        let blocks = vec![block(4, 8, 10), block(4, 9, 12), block(8, 8, 10), block(8, 9, 12)];
        let bounds = BatchBounds { types, blocks, relations, edge_ids: false, weights: false, trees: false };
        let mut header = BatchHeader::of_batch(
            BatchKey { split: Split::Train, epoch: 0, batch: 0 },
            &BatchCounts::default(),
        );
        header.fixed = FixedHeader { type_count: 2, relation_count: 2, layer_count: 2, ..header.fixed };
        let of_type = |seeds, nodes| TypeHeader { seeds, nodes, real_seeds: seeds, real_nodes: nodes };
        header.types = vec![of_type(0, 3), of_type(2, 5)];
        let sizes = [block(2, 4, 3), block(2, 1, 1), block(4, 5, 2), block(4, 3, 4)];
        header.blocks = sizes.map(|size| BlockHeader { padded: size.into(), real: size.into() }).to_vec();
        let mut payload = vec![0xff; BatchHeader::bytes(2, 4)];
        header.write(&mut payload);
        let read = BatchHeader::read(&payload, &bounds).unwrap();
        assert_eq!((read.seeds(), read.nodes(), read.is_padded()), (2, 8, false));
        assert_eq!(read.of_type(paper), TypeSize { seeds: 2, nodes: 5 });
        assert_eq!(read.block(1, Relation(1)), sizes[3]);
        assert_eq!(read.rows(Rows::Offsets, crate::Column::Indptr.between(1, Relation(0))), 5);
        assert_eq!(read.rows(Rows::Nodes, crate::Column::X.of(author)), 3);
        let refused = |change: &dyn Fn(&mut BatchHeader)| {
            let mut header = header.clone();
            change(&mut header);
            header.write(&mut payload.clone());
            header.check(&bounds).unwrap_err()
        };
        assert_eq!(refused(&|header| header.types[1].nodes = 9), "9 nodes of type 1 in a slot for 8");
        assert_eq!(
            refused(&|header| header.blocks[1].padded.sources = 4),
            "4 sources of layer 0, relation 1 in a slot for 3"
        );
        // Destinations of another type than the sources are bounded by the nodes of their own.
        assert_eq!(
            refused(&|header| header.blocks[3].padded.destinations = 6),
            "6 destinations of layer 1, relation 1 in a slot for 5"
        );
        assert_eq!(refused(&|header| header.fixed.type_count = 1), "1 node types in a slot for 2");
        assert_eq!(refused(&|header| header.fixed.relation_count = 3), "3 relations in a slot for 2");
    }

    #[test]
    fn hand_overs_without_a_batch_keep_their_kind_in_any_payload() {
        for kind in [HandOver::Skipped, HandOver::End] {
            let mut payload = [0xff; BatchHeader::bytes(1, 2)];
            BatchHeader::without_batch(kind).write(&mut payload);
            assert_eq!(BatchHeader::read(&payload, &bounds()).unwrap().kind(), kind);
        }
    }
}
