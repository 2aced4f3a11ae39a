//! The header of a slot, at its start: the identity of the batch and the number of used rows of each column.

use std::time::Duration;

use bytemuck::{Pod, Zeroable};
use uva_graph::Split;
use uva_sample::{BatchBounds, BatchCounts, BatchKey, BlockSize, ListReads};

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
    seeds: u32,
    nodes: u32,
    layer_count: u32,
    sampler: u32,
    /// The value without padding, like `unpadded`.
    real_seeds: u32,
    real_nodes: u32,
}

/// The sizes of a layer's block.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
struct LayerHeader {
    /// The size with padding, like that of all columns.
    padded: PackedSize,
    real: PackedSize,
}

/// The header of a slot. The sampler writes it; the producer adds the start and the duration of its gather.
#[derive(Clone, Debug)]
pub struct BatchHeader {
    fixed: FixedHeader,
    /// The entries after the fixed fields, one for each layer.
    layers: Vec<LayerHeader>,
}

impl BatchHeader {
    /// Bytes reserved for the header of a batch with `layers` layers, a multiple of a cache line.
    #[must_use]
    pub const fn bytes(layers: usize) -> usize {
        Self::used_bytes(layers).next_multiple_of(64)
    }

    const fn used_bytes(layers: usize) -> usize {
        size_of::<FixedHeader>() + layers * size_of::<LayerHeader>()
    }

    /// The header's fields and their sizes, which processes compare with each other.
    #[must_use]
    pub fn fields() -> String {
        let bytes = [size_of::<FixedHeader>(), size_of::<LayerHeader>()];
        format!("{bytes:?} bytes of {:?} {:?}", FixedHeader::zeroed(), LayerHeader::default())
    }

    /// The header of a sampled batch.
    pub fn of_batch(key: BatchKey, counts: &BatchCounts) -> Self {
        let fixed = FixedHeader {
            hash: counts.hash,
            split: key.split as u16,
            epoch: key.epoch,
            batch: key.batch,
            // Local ids are 32 bits, so every count is.
            real_seeds: counts.seeds() as u32,
            real_nodes: counts.nodes() as u32,
            layer_count: counts.layers() as u32,
            list_reads: counts.list_reads.all,
            list_reads_cached: counts.list_reads.cached,
            ..FixedHeader::zeroed()
        };
        let layer = |&real: &BlockSize| LayerHeader { real: real.into(), ..LayerHeader::default() };
        let mut header = Self { fixed, layers: counts.blocks().iter().map(layer).collect() };
        header.set_padded(counts);
        header
    }

    /// Records the counts of the batch with its padding, which all columns have from now on.
    pub fn set_padded(&mut self, counts: &BatchCounts) {
        (self.fixed.seeds, self.fixed.nodes) = (counts.seeds() as u32, counts.nodes() as u32);
        for (to, &from) in self.layers.iter_mut().zip(counts.blocks()) {
            to.padded = from.into();
        }
    }

    /// The header of a hand-over without a batch.
    #[must_use]
    pub fn without_batch(kind: HandOver) -> Self {
        Self { fixed: FixedHeader { kind: kind as u32, ..FixedHeader::zeroed() }, layers: Vec::new() }
    }

    /// Reads a slot's header and checks it against the slot's bounds: another process wrote the header, and its counts
    /// become slice lengths here.
    ///
    /// # Errors
    /// Returns the field that is out of bounds, and its bound.
    pub fn read(payload: &[u8], bounds: &BatchBounds) -> Result<Self, String> {
        let (fixed_bytes, layers) = (size_of::<FixedHeader>(), bounds.blocks.len());
        let bytes = payload
            .get(..Self::used_bytes(layers))
            .ok_or_else(|| format!("a batch of {} bytes has no header", payload.len()))?;
        let fixed: FixedHeader = bytemuck::pod_read_unaligned(&bytes[..fixed_bytes]);
        match fixed.kind {
            0 => {
                let of_layers = bytes[fixed_bytes..].chunks_exact(size_of::<LayerHeader>());
                let header = Self { fixed, layers: of_layers.map(bytemuck::pod_read_unaligned).collect() };
                header.check(bounds)?;
                Ok(header)
            }
            1 | 2 => Ok(Self { fixed, layers: Vec::new() }),
            other => Err(format!("kind {other} of hand-over is unknown")),
        }
    }

    /// Writes the header to the start of a slot.
    pub fn write(&self, payload: &mut [u8]) {
        let (fixed, rest) = payload.split_at_mut(size_of::<FixedHeader>());
        fixed.copy_from_slice(bytemuck::bytes_of(&self.fixed));
        let layers: &[u8] = bytemuck::cast_slice(&self.layers);
        rest[..layers.len()].copy_from_slice(layers);
    }

    fn check(&self, bounds: &BatchBounds) -> Result<(), String> {
        let within = |what: &str, count: u32, most: usize| {
            if count as usize <= most { Ok(()) } else { Err(format!("{count} {what} in a slot for {most}")) }
        };
        if self.fixed.split > 2 {
            return Err(format!("split {} is unknown", self.fixed.split));
        }
        if self.fixed.summed > 1 {
            return Err(format!("way {} of its rows is unknown", self.fixed.summed));
        }
        if self.fixed.layer_count as usize != bounds.blocks.len() {
            return Err(format!("{} layers in a slot for {}", self.fixed.layer_count, bounds.blocks.len()));
        }
        within("nodes", self.fixed.nodes, bounds.nodes())?;
        within("seeds", self.fixed.seeds, (self.fixed.nodes as usize).min(bounds.seeds()))?;
        within("nodes without padding", self.fixed.real_nodes, self.fixed.nodes as usize)?;
        within("seeds without padding", self.fixed.real_seeds, self.fixed.seeds as usize)?;
        for (layer, (LayerHeader { padded: counts, real: own }, capacity)) in
            self.layers.iter().zip(&bounds.blocks).enumerate()
        {
            let what = |of: &str| format!("{of} of layer {layer}");
            within(&what("edges"), counts.edges, capacity.edges)?;
            within(&what("sources"), counts.sources, self.fixed.nodes as usize)?;
            let destinations = (counts.sources as usize).min(capacity.destinations);
            within(&what("destinations"), counts.destinations, destinations)?;
            let counts = [
                ("edges", own.edges, counts.edges),
                ("sources", own.sources, counts.sources),
                ("destinations", own.destinations, counts.destinations),
            ];
            for (name, count, most) in counts {
                within(&what(&format!("{name} without padding")), count, most as usize)?;
            }
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
        self.fixed.real_nodes < self.fixed.nodes
    }

    /// Number of seeds without padding. These are the first of the seeds.
    pub fn real_seeds(&self) -> usize {
        self.fixed.real_seeds as usize
    }

    /// Number of nodes without padding.
    pub fn real_nodes(&self) -> usize {
        self.fixed.real_nodes as usize
    }

    /// The size of a layer's block without padding.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn real_layer(&self, layer: usize) -> BlockSize {
        counts_of(&self.layers[layer].real)
    }

    /// Number of seeds, padding included, as in all columns.
    pub fn seeds(&self) -> usize {
        self.fixed.seeds as usize
    }

    /// Number of nodes, the seeds and padding included.
    pub fn nodes(&self) -> usize {
        self.fixed.nodes as usize
    }

    /// Rows that a column of this kind has in the batch; for a column of a layer, in this layer.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn rows(&self, rows: Rows, layer: usize) -> usize {
        match rows {
            Rows::Seeds => self.seeds(),
            Rows::Nodes => self.nodes(),
            Rows::Offsets => self.layer(layer).destinations + 1,
            Rows::Edges => self.layer(layer).edges,
            Rows::Outermost => self.outermost().destinations,
        }
    }

    /// The size of the outermost layer's block, whose sources are the batch's nodes.
    pub fn outermost(&self) -> BlockSize {
        self.layers.last().map_or_else(BlockSize::default, |last| counts_of(&last.padded))
    }

    /// The size of a layer's block.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn layer(&self, layer: usize) -> BlockSize {
        counts_of(&self.layers[layer].padded)
    }
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
        let mut payload = [0xff; BatchHeader::bytes(2)];
        header().write(&mut payload);
        let read = BatchHeader::read(&payload, &bounds()).unwrap();
        assert_eq!(read.kind(), HandOver::Batch);
        assert_eq!(read.key(), BatchKey { split: Split::Valid, epoch: 5, batch: 3 });
        assert_eq!((read.hash(), read.sample_ns(), read.gather_ns()), (0x1234, 17, 0));
        assert_eq!((read.seeds(), read.nodes()), (7, 40));
        assert_eq!(read.layer(1), BlockSize { destinations: 25, sources: 40, edges: 50 });
    }

    #[test]
    fn hand_overs_without_a_batch_keep_their_kind_in_any_payload() {
        for kind in [HandOver::Skipped, HandOver::End] {
            let mut payload = [0xff; BatchHeader::bytes(2)];
            BatchHeader::without_batch(kind).write(&mut payload);
            assert_eq!(BatchHeader::read(&payload, &bounds()).unwrap().kind(), kind);
        }
    }
}
