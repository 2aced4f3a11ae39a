//! Live counts of a run that need no work in its roles. Sources are the words of the control page, the state words of
//! the slots, and the system's data about the processes.

use std::collections::BTreeMap;
use std::sync::Arc;

use uva_batch::BatchLayout;
use uva_mem::ring::Ring;
use uva_mem::ring::protocol::SlotState;

use crate::control::Control;
use crate::control::role_times::Roles;
use crate::machine::memory::Resident;
use crate::plan::RingName;

/// Live counts of a run. Reading them does not affect the roles. Clones read the same run.
#[derive(Clone, Debug)]
pub struct Gauges {
    control: Arc<Control>,
    rings: Arc<[(RingName, Ring)]>,
    row_bytes: RowBytes,
    processes: Arc<[RoleProcess]>,
}

/// Bytes of a feature row, as read from the table or from those of node types.
#[derive(Clone, Debug)]
pub enum RowBytes {
    /// Each node has a row of this size. In a hop set it is the rows of a node in all tables that batches have.
    OfNode(u64),
    /// By the names of the node types with features.
    OfTypes(Arc<[(String, u64)]>),
}

impl RowBytes {
    /// Those of batches of this layout.
    pub fn of(layout: &BatchLayout) -> Self {
        if layout.is_homogeneous() {
            return Self::OfNode(layout.table_row_bytes() as u64);
        }
        let metagraph = layout.metagraph();
        let with_rows = metagraph.types().filter_map(|of| Some((of, layout.rows_of(of)?)));
        let of_type =
            with_rows.map(|(of, shape)| (metagraph.type_name(of).to_owned(), shape.table_bytes() as u64));
        Self::OfTypes(of_type.collect())
    }
}

/// A process of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleProcess {
    /// Its role, as messages name it: `sampler 0`, `producer`.
    pub role: String,
    /// Its process number.
    pub pid: u32,
}

/// The number of a ring's slots in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotStates {
    /// Ready to be written.
    pub free: usize,
    /// Held by a writer.
    pub filling: usize,
    /// Published, and not yet taken.
    pub ready: usize,
    /// Held by the reader.
    pub reading: usize,
}

impl SlotStates {
    /// The states by name, in the order in which a slot passes through them.
    pub fn each(&self) -> [(&'static str, usize); 4] {
        [("free", self.free), ("filling", self.filling), ("ready", self.ready), ("reading", self.reading)]
    }

    /// Counts the states. Each slot is read once, in order, so the sum is the number of slots, while the reads may be a
    /// few nanoseconds apart.
    fn of(ring: &Ring) -> Self {
        let mut states = Self::default();
        for slot in 0..ring.shape().slots {
            *match ring.state(slot).state() {
                SlotState::Free => &mut states.free,
                SlotState::Filling => &mut states.filling,
                SlotState::Ready => &mut states.ready,
                SlotState::Reading => &mut states.reading,
            } += 1;
        }
        states
    }
}

impl Gauges {
    /// Creates live counts of the run with this page and these rings, whose feature rows have these sizes.
    pub fn new(
        control: Arc<Control>,
        rings: Vec<(RingName, Ring)>,
        row_bytes: RowBytes,
        processes: Vec<RoleProcess>,
    ) -> Self {
        Self { control, rings: rings.into(), row_bytes, processes: processes.into() }
    }

    /// Time totals of each role so far. Time is added when a role changes its activity, so a long wait appears once it
    /// is over.
    pub fn roles(&self) -> Roles {
        self.control.roles()
    }

    /// The slots between samplers and producer (`batch`), if the run has these roles, and those before the consumer
    /// (`feature`).
    pub fn slots(&self) -> Vec<(&'static str, SlotStates)> {
        self.rings.iter().map(|(name, ring)| (name.name(), SlotStates::of(ring))).collect()
    }

    /// Bytes of the feature rows of this many input nodes, or in a typed graph of this many rows by the names of node
    /// types, as read from the tables.
    pub fn gathered_bytes(&self, input_nodes: u64, rows_by_type: &BTreeMap<String, u64>) -> u64 {
        match &self.row_bytes {
            RowBytes::OfNode(bytes) => input_nodes.saturating_mul(*bytes),
            RowBytes::OfTypes(types) => types.iter().fold(0, |sum: u64, (name, bytes)| {
                let rows = rows_by_type.get(name).copied().unwrap_or(0);
                sum.saturating_add(rows.saturating_mul(*bytes))
            }),
        }
    }

    /// The processes of the run that still exist, and the memory of each now, in bytes. Shared memory, such as the
    /// dataset's pages and the slots, counts in each of them.
    pub fn resident(&self) -> Vec<(RoleProcess, u64)> {
        let processes = self.processes.iter();
        processes.filter_map(|process| Some((process.clone(), Resident::of(process.pid)?.total()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use uva_mem::ring::{AlwaysAlive, RingShape};

    use super::*;
    use crate::LoaderOptions;
    use crate::control::{CONSUMER, Counter};

    #[test]
    fn slots_are_counted_by_state_without_exited_processes() {
        let control = Arc::new(Control::create(&LoaderOptions::default()).unwrap());
        let ring = |name| Ring::create(name, RingShape { slots: 4, payload_bytes: 8 }).unwrap();
        let (batches, features) = (ring("batch"), ring("feature"));
        let process = |role: &str, pid| RoleProcess { role: role.to_owned(), pid };
        // The largest number is never assigned to a process.
        let processes = vec![process("consumer", std::process::id()), process("producer", i32::MAX as u32)];
        let rings = vec![(RingName::Batch, batches.clone()), (RingName::Feature, features.clone())];
        let gauges = Gauges::new(Arc::clone(&control), rings, RowBytes::OfNode(480), processes);

        let (mut writer, mut reader) = (batches.writer(), batches.reader());
        for sequence in 0..2 {
            writer.acquire(sequence, &AlwaysAlive).unwrap().publish(8).unwrap();
        }
        let _read = reader.acquire(0, &AlwaysAlive).unwrap();
        let _written = writer.acquire(2, &AlwaysAlive).unwrap();
        let slots = gauges.slots();
        let ((name, states), (_, others)) = (slots[0], slots[1]);
        assert_eq!((name, states), ("batch", SlotStates { free: 1, filling: 1, ready: 1, reading: 1 }));
        assert_eq!(others, SlotStates { free: 4, ..SlotStates::default() });

        let rows = BTreeMap::from([("paper".to_owned(), 3), ("topic".to_owned(), 2)]);
        assert_eq!(gauges.gathered_bytes(5, &rows), 5 * 480);
        let types = [("paper".to_owned(), 16), ("author".to_owned(), 4), ("topic".to_owned(), 2)];
        let gauges = Gauges { row_bytes: RowBytes::OfTypes(Arc::new(types)), ..gauges };
        assert_eq!(gauges.gathered_bytes(5, &rows), 3 * 16 + 2 * 2);

        control.count(CONSUMER, Counter::Working, 2_000_000_000);
        assert_eq!(gauges.roles().consumer.working_s, 2.0);
        let resident = gauges.resident();
        assert_eq!(resident.len(), 1, "{resident:?}");
        assert!(resident[0].0.role == "consumer" && resident[0].1 > 100_000, "{resident:?}");
    }
}
