//! The contents of a run's caches, as memory that its roles share.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use uva_cuda::memory::JoinedMemory;
use uva_graph::Dataset;
use uva_graph::reorder::{NodeOrder, ReorderedLayout};
use uva_mem::{FrozenBytes, RegionError};
use uva_plan::CachePlan;

use super::caches::Caches;
use super::joined::JoinedRows;
use crate::RuntimeError;

const GRAPH: &str = "uvatrain-reordered-graph";
const ROWS: &str = "uvatrain-cached-rows";

/// The contents of a run's caches, made once and shared by all roles. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct CacheContents {
    caches: Caches,
    graph: Option<Arc<FrozenBytes>>,
    rows: Option<Arc<FrozenBytes>>,
    joined: Option<Arc<JoinedMemory>>,
}

impl CacheContents {
    /// Fills memory with the plan's choice: the ids of the rows, and the graph in the order of the list cache, unless
    /// the dataset has that order already. The graph uses as much memory as the adjacency, once for the whole run.
    ///
    /// # Errors
    /// [`RuntimeError::Input`] if the plan names nodes that the dataset lacks; [`RuntimeError::Failed`] if memory
    /// cannot be allocated.
    pub fn of_plan(dataset: &Dataset, plan: &CachePlan) -> Result<Self, RuntimeError> {
        let graph = graph_of_plan(dataset, plan)?;
        let Self { caches, rows, .. } = Self::rows_of_plan(plan)?;
        let caches = Caches {
            lists: plan.list_ids.len(),
            list_weights: plan.dataset.weight_bytes > 0,
            list_homes: plan.dataset.home_bytes > 0,
            reordered: graph.is_some(),
            ..caches
        };
        Ok(Self { caches, graph, rows, joined: None })
    }

    /// Only the plan's rows: no list is cached, and the graph keeps its order.
    fn rows_of_plan(plan: &CachePlan) -> Result<Self, RuntimeError> {
        let caches = Caches {
            rows: usize::try_from(plan.rows.count).unwrap_or(usize::MAX),
            dynamic: plan.policy.eviction(),
            ..Caches::default()
        };
        let rows = if caches.holds_chosen_rows() { Some(Arc::new(ids(ROWS, &plan.row_ids)?)) } else { None };
        Ok(Self { caches, rows, ..Self::default() })
    }

    /// Only the rows of these nodes, cached permanently. `nodes` may be empty.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if memory cannot be allocated.
    pub fn of_rows(nodes: &[i64]) -> Result<Self, RuntimeError> {
        let caches = Caches { rows: nodes.len(), ..Caches::default() };
        let rows = if nodes.is_empty() { None } else { Some(Arc::new(ids(ROWS, nodes)?)) };
        Ok(Self { caches, rows, ..Self::default() })
    }

    /// The rows of these nodes, which several GPUs hold in this memory in that order.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if memory cannot be allocated.
    pub(crate) fn of_joined(rows: &JoinedRows) -> Result<Self, RuntimeError> {
        Ok(Self { joined: Some(Arc::clone(&rows.memory)), ..Self::of_rows(&rows.nodes)? })
    }

    /// Replaces the rows by those of this plan, for a GPU with another share of rows.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if memory cannot be allocated.
    pub fn with_rows_of(&self, plan: &CachePlan) -> Result<Self, RuntimeError> {
        let Self { caches, rows, .. } = Self::rows_of_plan(plan)?;
        let dynamic = caches.dynamic.filter(|_| caches.rows > 0);
        Ok(Self {
            caches: Caches { rows: caches.rows, dynamic, ..self.caches.clone() },
            rows,
            ..self.clone()
        })
    }

    /// Sets the number of the run's first epochs on which the plan was based
    /// ([`counted_epochs`](CachePlan::counted_epochs)).
    #[must_use]
    pub fn chosen_by(mut self, counted_epochs: u32) -> Self {
        self.caches.counted_epochs = counted_epochs;
        self
    }

    /// Adds memory for rows of tables on disk that are kept as batches read them, and for their maps.
    #[must_use]
    pub fn keeping(mut self, bytes: u64) -> Self {
        self.caches.kept_bytes = Some(bytes);
        self
    }

    /// The numbers of the caches.
    pub fn caches(&self) -> &Caches {
        &self.caches
    }

    /// The reordered graph, if there is one.
    pub fn graph(&self) -> Option<&Arc<FrozenBytes>> {
        self.graph.as_ref()
    }

    /// The ids of the cached rows, if a policy chose them.
    pub fn rows(&self) -> Option<&Arc<FrozenBytes>> {
        self.rows.as_ref()
    }

    /// The memory of rows that several GPUs already hold.
    pub fn joined(&self) -> Option<&Arc<JoinedMemory>> {
        self.joined.as_ref()
    }
}

/// The graph in the order of the plan's lists; `None` without lists, or if the dataset has that order.
fn graph_of_plan(dataset: &Dataset, plan: &CachePlan) -> Result<Option<Arc<FrozenBytes>>, RuntimeError> {
    if plan.list_ids.is_empty() {
        return Ok(None);
    }
    let order = NodeOrder::from_first(dataset.nodes(), &plan.list_ids)
        .map_err(|error| RuntimeError::input(format!("the cache plan's lists: {error}")))?;
    // A plan made for narrower ids than the file's relies on the copy that has them.
    let same_ids = plan.dataset.index_bytes == dataset.csc().indices.id_bytes() as u64;
    if order.is_identity() && same_ids {
        return Ok(None);
    }
    Ok(Some(Arc::new(reordered_graph(dataset, &order)?)))
}

/// The graph in this order, in shared memory.
pub(crate) fn reordered_graph(dataset: &Dataset, order: &NodeOrder) -> Result<FrozenBytes, RuntimeError> {
    let layout = ReorderedLayout::new(dataset);
    let mut filled = Ok(());
    let region =
        FrozenBytes::create(GRAPH, layout.bytes(), |bytes| filled = layout.fill(dataset, order, bytes));
    filled?;
    region.map_err(no_memory)
}

/// Node ids, at least one, in shared memory.
pub(crate) fn ids(name: &str, ids: &[i64]) -> Result<FrozenBytes, RuntimeError> {
    let ids: &[u8] = bytemuck::cast_slice(ids);
    FrozenBytes::create(name, ids.len(), |bytes| bytes.copy_from_slice(ids)).map_err(no_memory)
}

/// Opens the reordered graph that the launcher made.
///
/// # Errors
/// [`RuntimeError::Failed`] if the memory does not have the dataset's size.
pub fn open_graph(fd: OwnedFd, dataset: &Dataset) -> Result<FrozenBytes, RuntimeError> {
    FrozenBytes::from_fd(GRAPH, fd, ReorderedLayout::new(dataset).bytes()).map_err(no_memory)
}

/// Opens the ids of the cached rows that the launcher wrote.
///
/// # Errors
/// [`RuntimeError::Failed`] if the numbers of ids and of cached rows differ.
pub fn open_rows(fd: OwnedFd, caches: &Caches) -> Result<FrozenBytes, RuntimeError> {
    FrozenBytes::from_fd(ROWS, fd, caches.rows * size_of::<i64>()).map_err(no_memory)
}

pub(crate) fn no_memory(error: RegionError) -> RuntimeError {
    RuntimeError::failed(error.to_string())
}
