//! The first bytes of a slot: which batch it holds and how much of each array is in use.

use std::time::Duration;

use bytemuck::{Pod, Zeroable};
use uva_graph::Split;
use uva_sample::{BatchCounts, BatchKey, LayerCounts, ListReads, MAX_LAYERS};

use super::BatchLayout;

/// What a hand-over stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A batch.
    Batch,
    /// Nothing: the consumer is about to turn elsewhere, or has (`schedule`).
    Skipped,
    /// Nothing, and nothing follows.
    End,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
struct LayerHeader {
    destinations: u32,
    sources: u32,
    edges: u32,
}

/// The first bytes of a slot. Written by the sampler; the producer adds when and how long it gathered.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct BatchHeader {
    hash: u64,
    /// Nanoseconds of the clock that processes share, and from there on.
    sample_began: u64,
    sample_ns: u64,
    gather_began: u64,
    gather_ns: u64,
    list_reads: u64,
    list_reads_cached: u64,
    rows_cached: u64,
    queue: u32,
    pace: u32,
    kind: u32,
    split: u32,
    epoch: u32,
    batch: u32,
    seeds: u32,
    nodes: u32,
    layer_count: u32,
    sampler: u32,
    layers: [LayerHeader; MAX_LAYERS],
}

impl BatchHeader {
    /// Bytes kept for it, a multiple of a cache line.
    pub const BYTES: usize = size_of::<Self>().next_multiple_of(64);

    /// The header of a sampled batch.
    pub fn of_batch(key: BatchKey, counts: &BatchCounts) -> Self {
        let mut header = Self {
            hash: counts.hash,
            split: key.split as u32,
            epoch: key.epoch,
            batch: key.batch,
            // Local ids are 32 bits, so every count is.
            seeds: counts.seeds as u32,
            nodes: counts.nodes as u32,
            layer_count: counts.layer_count as u32,
            list_reads: counts.list_reads.all,
            list_reads_cached: counts.list_reads.cached,
            ..Self::zeroed()
        };
        for (to, from) in header.layers.iter_mut().zip(counts.layers()) {
            *to = LayerHeader {
                destinations: from.destinations as u32,
                sources: from.sources as u32,
                edges: from.edges as u32,
            };
        }
        header
    }

    /// The header of a hand-over without a batch.
    pub fn without_batch(kind: Kind) -> Self {
        Self { kind: kind as u32, ..Self::zeroed() }
    }

    /// Reads a slot's header and holds it against the slot's capacities: another process wrote it, and its counts
    /// become lengths of slices here.
    ///
    /// # Errors
    /// What it holds that it cannot.
    pub fn read(payload: &[u8], layout: &BatchLayout) -> Result<Self, String> {
        let header = Self::read_alone(payload, layout)?;
        if header.kind() == Kind::Batch && payload.len() < layout.batch_bytes() {
            return Err(format!("{} bytes where a batch has {}", payload.len(), layout.batch_bytes()));
        }
        Ok(header)
    }

    /// As [`BatchHeader::read`], where the arrays are elsewhere.
    ///
    /// # Errors
    /// As there.
    pub fn read_alone(payload: &[u8], layout: &BatchLayout) -> Result<Self, String> {
        let bytes = payload
            .get(..size_of::<Self>())
            .ok_or_else(|| format!("a batch of {} bytes has no header", payload.len()))?;
        let header: Self = bytemuck::pod_read_unaligned(bytes);
        match header.kind {
            0 => header.check(layout)?,
            1 | 2 => {}
            other => return Err(format!("kind {other} of hand-over is unknown")),
        }
        Ok(header)
    }

    /// Writes it to the front of a slot.
    pub fn write(&self, payload: &mut [u8]) {
        payload[..size_of::<Self>()].copy_from_slice(bytemuck::bytes_of(self));
    }

    fn check(&self, layout: &BatchLayout) -> Result<(), String> {
        let within = |what: &str, count: u32, most: usize| {
            if count as usize <= most { Ok(()) } else { Err(format!("{count} {what} in a slot for {most}")) }
        };
        if self.split > 2 {
            return Err(format!("split {} is unknown", self.split));
        }
        if self.layer_count as usize != layout.layers().len() {
            return Err(format!("{} layers in a slot for {}", self.layer_count, layout.layers().len()));
        }
        within("nodes", self.nodes, layout.node_capacity())?;
        within("seeds", self.seeds, (self.nodes as usize).min(layout.seed_capacity()))?;
        for (layer, (counts, capacity)) in self.layers.iter().zip(layout.layers()).enumerate() {
            let what = |of: &str| format!("{of} of layer {layer}");
            within(&what("edges"), counts.edges, capacity.edges)?;
            within(&what("sources"), counts.sources, self.nodes as usize)?;
            let destinations = (counts.sources as usize).min(capacity.destinations);
            within(&what("destinations"), counts.destinations, destinations)?;
        }
        Ok(())
    }

    pub fn kind(&self) -> Kind {
        match self.kind {
            0 => Kind::Batch,
            1 => Kind::Skipped,
            _ => Kind::End,
        }
    }

    pub fn key(&self) -> BatchKey {
        let split = match self.split {
            0 => Split::Train,
            1 => Split::Valid,
            _ => Split::Test,
        };
        BatchKey { split, epoch: self.epoch, batch: self.batch }
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }

    pub fn sample_ns(&self) -> u64 {
        self.sample_ns
    }

    pub fn gather_ns(&self) -> u64 {
        self.gather_ns
    }

    /// When sampling and gathering began.
    pub fn began(&self) -> [Duration; 2] {
        [self.sample_began, self.gather_began].map(Duration::from_nanos)
    }

    /// Which sampler made it.
    pub fn sampler(&self) -> u32 {
        self.sampler
    }

    /// What was read of the graph.
    pub fn list_reads(&self) -> ListReads {
        ListReads { all: self.list_reads, cached: self.list_reads_cached }
    }

    /// Rows that came from the feature cache; in a slot on a GPU the gather's report says.
    pub fn rows_cached(&self) -> u64 {
        self.rows_cached
    }

    /// Batches that waited for the consumer when the producer turned to this one.
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// How many of its threads the producer used for it; 0 where a GPU gathered.
    pub fn pace(&self) -> u32 {
        self.pace
    }

    pub fn set_pace(&mut self, queue: u32, pace: u32) {
        (self.queue, self.pace) = (queue, pace);
    }

    pub fn set_rows_cached(&mut self, rows: u64) {
        self.rows_cached = rows;
    }

    /// Who sampled it, and from when ([`since_boot`](crate::clock::since_boot)) to when.
    pub fn set_sampled(&mut self, sampler: u32, began: Duration, ended: Duration) {
        (self.sampler, self.sample_began) = (sampler, began.as_nanos() as u64);
        self.sample_ns = ended.saturating_sub(began).as_nanos() as u64;
    }

    /// When the producer turned to it; on a GPU how long it took is known later, and elsewhere.
    pub fn set_gather_began(&mut self, began: Duration) {
        self.gather_began = began.as_nanos() as u64;
    }

    /// When the producer was done with it.
    pub fn set_gathered(&mut self, ended: Duration) {
        self.gather_ns = (ended.as_nanos() as u64).saturating_sub(self.gather_began);
    }

    pub fn seeds(&self) -> usize {
        self.seeds as usize
    }

    pub fn nodes(&self) -> usize {
        self.nodes as usize
    }

    pub fn layer(&self, layer: usize) -> LayerCounts {
        let counts = &self.layers[layer];
        LayerCounts {
            destinations: counts.destinations as usize,
            sources: counts.sources as usize,
            edges: counts.edges as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use uva_graph::Dataset;

    use super::*;
    use crate::LoaderOptions;
    use crate::batch::layout::tests::small_graph;

    fn layout(dataset: &Dataset) -> BatchLayout {
        let options = LoaderOptions { fanouts: vec![3, 2], batch_size: 10, ..LoaderOptions::default() };
        BatchLayout::new(dataset, &options).unwrap()
    }

    fn header(layout: &BatchLayout) -> BatchHeader {
        let mut counts =
            BatchCounts { seeds: 7, nodes: 40, layer_count: 2, hash: 0x1234, ..Default::default() };
        counts.layers[0] = LayerCounts { destinations: 7, sources: 25, edges: 21 };
        counts.layers[1] = LayerCounts { destinations: 25, sources: 40, edges: 50 };
        let mut header = BatchHeader::of_batch(BatchKey { split: Split::Valid, epoch: 5, batch: 3 }, &counts);
        header.set_sampled(3, Duration::from_nanos(5), Duration::from_nanos(22));
        header.check(layout).unwrap();
        header
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let temp = tempfile::tempdir().unwrap();
        let layout = layout(&small_graph(temp.path()));
        let mut payload = vec![0xff; layout.batch_bytes()];
        header(&layout).write(&mut payload);
        let read = BatchHeader::read(&payload, &layout).unwrap();
        assert_eq!(read.kind(), Kind::Batch);
        assert_eq!(read.key(), BatchKey { split: Split::Valid, epoch: 5, batch: 3 });
        assert_eq!((read.hash(), read.sample_ns(), read.gather_ns()), (0x1234, 17, 0));
        assert_eq!((read.seeds(), read.nodes()), (7, 40));
        assert_eq!(read.layer(1), LayerCounts { destinations: 25, sources: 40, edges: 50 });
    }

    #[test]
    fn hand_overs_without_a_batch_keep_their_kind_in_any_payload() {
        let temp = tempfile::tempdir().unwrap();
        let layout = layout(&small_graph(temp.path()));
        for kind in [Kind::Skipped, Kind::End] {
            let mut payload = [0xff; BatchHeader::BYTES];
            BatchHeader::without_batch(kind).write(&mut payload);
            assert_eq!(BatchHeader::read(&payload, &layout).unwrap().kind(), kind);
        }
    }

    /// Every byte of a header, set to every other value: what is then read lies within the slot, or is refused.
    #[test]
    fn no_flipped_byte_makes_a_range_that_leaves_its_array() {
        let temp = tempfile::tempdir().unwrap();
        let layout = layout(&small_graph(temp.path()));
        let mut payload = vec![0; layout.batch_bytes()];
        header(&layout).write(&mut payload);
        let ends = layout.ends();
        let (mut refused, mut read) = (0, 0);
        for at in 0..size_of::<BatchHeader>() {
            for flip in 1..=255 {
                payload[at] ^= flip;
                match BatchHeader::read(&payload, &layout) {
                    Err(_) => refused += 1,
                    Ok(header) if header.kind() == Kind::Batch => {
                        read += 1;
                        for (range, end) in layout.used(&header).zip(&ends) {
                            assert!(range.end <= *end, "byte {at} xor {flip}: {range:?} beyond {end}");
                        }
                        assert!(layout.features_range(&header).end <= layout.feature_slot_bytes());
                        assert!(header.seeds() <= header.nodes());
                        for layer in 0..layout.layers().len() {
                            let counts = header.layer(layer);
                            assert!(
                                counts.destinations <= counts.sources && counts.sources <= header.nodes()
                            );
                        }
                        // Whatever else differs, it is the same batch's slot: no method panics.
                        let _ = (header.key(), header.hash());
                    }
                    Ok(_) => {}
                }
                payload[at] ^= flip;
            }
        }
        // Both happen, or this test looks at nothing: the high bytes of every count are refused, hash and times are
        // not.
        assert!(refused > 3000 && read > 5000, "{refused} refused, {read} read");
    }

    #[test]
    fn a_payload_that_is_cut_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let layout = layout(&small_graph(temp.path()));
        let mut payload = vec![0; layout.batch_bytes()];
        header(&layout).write(&mut payload);
        for length in [0, 1, size_of::<BatchHeader>() - 1, BatchHeader::BYTES, layout.batch_bytes() - 1] {
            let refused = BatchHeader::read(&payload[..length], &layout).unwrap_err();
            assert!(refused.contains(&length.to_string()), "{refused}");
        }
    }
}
