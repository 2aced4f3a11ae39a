//! The first bytes of a slot: which batch it holds and how much of each array is in use.

use bytemuck::{Pod, Zeroable};
use uva_graph::Split;
use uva_sample::{BatchCounts, BatchKey, LayerCounts, MAX_LAYERS};

use super::BatchLayout;

/// What a hand-over stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A batch.
    Batch,
    /// Nothing: its sequence number lies between training's end and the test pass.
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

/// The first bytes of a slot. Written by the sampler; the producer adds how long it gathered.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct BatchHeader {
    hash: u64,
    sample_ns: u64,
    gather_ns: u64,
    kind: u32,
    split: u32,
    epoch: u32,
    batch: u32,
    seeds: u32,
    nodes: u32,
    layer_count: u32,
    layers: [LayerHeader; MAX_LAYERS],
    padding: u32,
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
        let bytes = payload
            .get(..size_of::<Self>())
            .ok_or_else(|| format!("a batch of {} bytes has no header", payload.len()))?;
        let header: Self = bytemuck::pod_read_unaligned(bytes);
        match header.kind {
            0 => header.check(payload.len(), layout)?,
            1 | 2 => {}
            other => return Err(format!("kind {other} of hand-over is unknown")),
        }
        Ok(header)
    }

    /// Writes it to the front of a slot.
    pub fn write(&self, payload: &mut [u8]) {
        payload[..size_of::<Self>()].copy_from_slice(bytemuck::bytes_of(self));
    }

    fn check(&self, length: usize, layout: &BatchLayout) -> Result<(), String> {
        let within = |what: &str, count: u32, most: usize| {
            if count as usize <= most { Ok(()) } else { Err(format!("{count} {what} in a slot for {most}")) }
        };
        if self.split > 2 {
            return Err(format!("split {} is unknown", self.split));
        }
        if self.layer_count as usize != layout.layers().len() {
            return Err(format!("{} layers in a slot for {}", self.layer_count, layout.layers().len()));
        }
        if length < layout.batch_bytes() {
            return Err(format!("{length} bytes where a batch has {}", layout.batch_bytes()));
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

    pub fn set_sample_ns(&mut self, nanoseconds: u64) {
        self.sample_ns = nanoseconds;
    }

    pub fn set_gather_ns(&mut self, nanoseconds: u64) {
        self.gather_ns = nanoseconds;
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
