//! Construction of the sources of rows for slots on a GPU from a tree.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use uva_cuda::Context;
use uva_cuda::kernels::gather::GatherKernels;
use uva_cuda::memory::PinnedTable;
use uva_graph::{Dataset, Hops, NodeType, Split as DataSplit};
use uva_rows::Cached;
use uva_rows::cuda::{
    DeviceCache, DeviceRows, DeviceSource, DeviceTable, DeviceTables, FillError, GridBound, Kernel, NoRows,
    Pinned, Spliced, SplitSource, StagingSource, TableSet,
};

use super::pinning::pinned_once;
use crate::RuntimeError;
use crate::backend::CudaBackend;
use crate::feed::rows::{HopSource, HostParts, RowCacheKind, RowTree, upload_room};
use crate::plan::RunPlan;
use crate::sampler::lane::Lane;

/// The parts from which the sources of a tree are built, for slots on a GPU.
pub(super) struct DeviceParts<'d, 's> {
    pub lane: &'s Lane,
    pub cuda: &'s CudaBackend,
    pub kernels: &'s GatherKernels,
    pub dataset: &'d Arc<Dataset>,
    pub plan: &'d RunPlan,
    /// The parts on the CPU.
    pub host: HostParts<'d, 's>,
    /// The cache on the GPU, until it is moved to a source.
    pub cache: Option<DeviceCache>,
}

/// A source, and a line for people about it.
pub(super) type DescribedSource<'d> = (Box<dyn DeviceSource + 'd>, String);

impl<'d> DeviceParts<'d, '_> {
    pub fn context(&self) -> &Arc<Context> {
        self.lane.context()
    }

    fn table_name(&self) -> String {
        format!("the feature table {}", self.dataset.path().join("feat.npy").display())
    }

    fn row_bytes(&self) -> usize {
        self.plan.layout.row_bytes()
    }

    /// The source from which kernels and copies read rows of this tree. It has no rows if CPU threads make them.
    pub fn source(&mut self, tree: &RowTree) -> Result<DescribedSource<'d>, RuntimeError> {
        match tree {
            RowTree::Pinned => self.zero_copy(None),
            RowTree::Cached(_, of) if **of == RowTree::Pinned => {
                let cache = self.cache.take();
                let cache = cache.ok_or_else(|| tree.is_not("cached: the cache on the GPU is missing"))?;
                self.zero_copy(Some(cache))
            }
            RowTree::Device => {
                let began = Instant::now();
                let bytes = self.dataset.features().bytes;
                let table = Arc::new(DeviceTable::new(self.context(), bytes, &self.table_name())?);
                let how = copied("feature table", bytes.len(), began);
                let (kernels, bound) = (self.kernels.clone(), self.lane.grid());
                let rows = DeviceRows::new(kernels, table, self.row_bytes(), self.cuda.kernel, bound)?;
                Ok((Box::new(rows), how))
            }
            // A table that only the CPU reads need not be pinned.
            RowTree::Staged(of) => Ok((Box::new(self.staged(of)?), self.read_by_cpu(of))),
            RowTree::Split(first, second) => {
                let (RowTree::Pinned, RowTree::Staged(of)) = (&**first, &**second) else {
                    return Err(tree.is_not("shared between a kernel and the CPU"));
                };
                let (table, how) = self.pinned()?;
                let (kernels, bound) = (self.kernels.clone(), self.lane.grid());
                let rows = Pinned::new(kernels, table, self.row_bytes(), self.cuda.kernel, bound)?;
                let mut split = SplitSource::new(rows, self.staged(of)?)?;
                if let Some(share) = self.cuda.split_share {
                    split.set_share(share);
                }
                Ok((Box::new(split), how))
            }
            RowTree::Spliced(of) => {
                let ids = of.in_reading_order(self.host.chosen.ids());
                let by = (self.cuda.kernel, self.lane.grid());
                let rows = of.gathered(&self.host)?;
                let how = format!("{}, in addition to {} rows on the GPU", self.read_by_cpu(of), ids.len());
                Ok((Box::new(Spliced::new(self.context(), rows, &ids, by)?), how))
            }
            RowTree::SummedOnDevice(of) => self.source(of),
            RowTree::Upload(of) => Ok((Box::new(NoRows), self.read_by_cpu(of))),
            // The kernel that continues the sums checks its cache by the table of this source.
            RowTree::Begun(of) => Ok((Box::new(self.staged(&RowTree::Mapped)?), self.read_by_cpu(of))),
            // Their rows are in tables of the filler, or come from files.
            RowTree::BySplit { .. } | RowTree::Tables(..) | RowTree::Types(_) => {
                Ok((Box::new(NoRows), String::new()))
            }
            _ => Err(tree.is_not("read by a GPU")),
        }
    }

    fn zero_copy(&self, cache: Option<DeviceCache>) -> Result<DescribedSource<'d>, RuntimeError> {
        let (table, how) = self.pinned()?;
        let rows =
            zero_copy(self.kernels, table, self.row_bytes(), self.cuda.kernel, self.lane.grid(), cache)?;
        Ok((rows, how))
    }

    fn pinned(&self) -> Result<(Arc<PinnedTable>, String), RuntimeError> {
        let pin = self.cuda.pin_table_options(&self.table_name());
        let (mut tables, how) = pinned_once(self.context(), self.dataset, &[NodeType::ONLY], &pin)?;
        let table = tables.pop().ok_or_else(|| RuntimeError::failed("no table was pinned"))?;
        Ok((table, how))
    }

    fn staged(
        &self,
        of: &RowTree,
    ) -> Result<StagingSource<Box<dyn uva_rows::HostSource + 'd>>, RuntimeError> {
        Ok(StagingSource::new(self.context(), of.gathered(&self.host)?)?)
    }

    /// Maximum number of rows of a batch that the source brings by id.
    pub fn rows_by_id(&self, tree: &RowTree) -> usize {
        match tree {
            RowTree::Upload(_)
            | RowTree::Begun(_)
            | RowTree::BySplit { .. }
            | RowTree::Tables(..)
            | RowTree::Types(_) => 0,
            _ => self.plan.slot_room().nodes,
        }
    }

    /// The training rows of a hop set in tables on the GPU, if this tree has them, with a line for people.
    pub fn tables(&self, tree: &RowTree) -> Result<Option<(DeviceTables, String)>, RuntimeError> {
        let RowTree::BySplit { others, .. } = tree else { return Ok(None) };
        let RowTree::Upload(stored) = &**others else { return Err(tree.is_not("brought by the CPU")) };
        let (rows, (hops, tables)) = (self.hop_source(stored)?, self.hops(tree)?);
        let began = Instant::now();
        let by = (self.cuda.kernel, self.lane.grid());
        let tables = training_rows(self.context(), hops, rows, tables.len(), by)?;
        let how = copied("training rows", tables.bytes(), began);
        Ok(Some((tables, how)))
    }

    /// The path of rows of this tree, which the CPU brings, for people.
    fn read_by_cpu(&self, tree: &RowTree) -> String {
        if tree.any(&|tree| matches!(tree, RowTree::Tables(..))) {
            return "rows of hops: the CPU copies them to pinned memory".to_owned();
        }
        if tree.any(&|tree| *tree == RowTree::Remote) {
            return "feature rows: the CPU receives them from this and other ranks".to_owned();
        }
        let from = if tree.reads_disk() { " from disk" } else { "" };
        format!("feature table: not pinned, the CPU reads it{from}")
    }

    /// The tables of the node types, if kernels read rows of this tree from several, with a line for people.
    pub fn table_set(&self, tree: &RowTree) -> Result<Option<(TableSet, String)>, RuntimeError> {
        let RowTree::Types(trees) = tree else { return Ok(None) };
        let layout = &self.plan.layout;
        let metagraph = layout.metagraph();
        let shapes = trees.iter().filter_map(|(of, _)| Some((*of, layout.rows_of(*of)?.bytes())));
        let shapes: Vec<(NodeType, usize)> = shapes.collect();
        let types: Vec<NodeType> = shapes.iter().map(|(of, _)| *of).collect();
        let (kernel, bound) = (self.cuda.kernel, self.lane.grid());
        let is_all = |leaf: &RowTree| trees.iter().all(|(_, tree)| tree == leaf);
        let (set, how) = match () {
            () if is_all(&RowTree::Pinned) => {
                let pin = self.cuda.pin_table_options(&self.table_name());
                let (pinned, how) = pinned_once(self.context(), self.dataset, &types, &pin)?;
                let tables = pinned.into_iter().zip(&shapes).map(|(table, (_, row_bytes))| {
                    Pinned::new(self.kernels.clone(), table, *row_bytes, kernel, bound)
                });
                (TableSet::new(self.context(), kernel, tables.collect::<Result<_, _>>()?)?, how)
            }
            () if is_all(&RowTree::Device) => {
                let (began, mut bytes) = (Instant::now(), 0);
                let mut tables = Vec::with_capacity(shapes.len());
                for (of, row_bytes) in shapes {
                    let rows = self.dataset.rows(of).map_or(&[][..], |table| table.bytes);
                    bytes += rows.len();
                    let what = format!("{} of {}", self.table_name(), metagraph.type_name(of));
                    let table = Arc::new(DeviceTable::new(self.context(), rows, &what)?);
                    tables.push(DeviceRows::new(self.kernels.clone(), table, row_bytes, kernel, bound)?);
                }
                let how = copied("feature tables", bytes, began);
                (TableSet::new(self.context(), kernel, tables)?, how)
            }
            () => return Err(tree.is_not("all pinned, or all on the GPU")),
        };
        Ok(Some((set, how)))
    }

    /// The hop set of this tree, and the numbers of the tables of batches.
    pub fn hops(&self, tree: &RowTree) -> Result<(Hops<'d>, &'d [usize]), RuntimeError> {
        let run = tree.hop_run(self.dataset, self.plan)?;
        Ok((run.hops, &run.batches.tables))
    }

    /// The source of a hop set's rows on the CPU.
    pub fn hop_source(&self, tree: &RowTree) -> Result<HopSource<'d>, RuntimeError> {
        let RowTree::Tables(_, stored) = tree else { return Err(tree.is_not("of tables")) };
        let (hops, tables) = self.hops(tree)?;
        HopSource::new(hops, tables, self.host.threads, stored)
    }

    /// Bytes of page-locked memory per slot in which the CPU makes rows or sums; `None` if it makes none in such
    /// memory.
    pub fn upload_bytes(&self, tree: &RowTree) -> Option<usize> {
        matches!(tree, RowTree::Upload(_) | RowTree::BySplit { .. }).then(|| upload_room(self.plan))
    }
}

/// A cache of this kind in the GPU's memory; a cache of chosen rows gets the rows with these ids.
pub(crate) fn cache_on_gpu(
    context: &Arc<Context>,
    dataset: &Dataset,
    threads: usize,
    kind: RowCacheKind,
    chosen: Option<&[i64]>,
) -> Result<DeviceCache, RuntimeError> {
    let table = dataset.features();
    let row_bytes = table.row_bytes();
    Ok(match kind {
        RowCacheKind::Chosen => {
            DeviceCache::filled(context, table.bytes, row_bytes, chosen.unwrap_or_default(), threads)?
        }
        RowCacheKind::Evicting { policy, rows } => {
            DeviceCache::evicting(policy, context, table.rows, row_bytes, rows)?
        }
    })
}

/// Rows of a pinned table, which kernels read over the link, and from a cache on the GPU if there is one.
pub(crate) fn zero_copy(
    kernels: &GatherKernels,
    table: Arc<PinnedTable>,
    row_bytes: usize,
    kernel: Kernel,
    bound: GridBound,
    cache: Option<DeviceCache>,
) -> Result<Box<dyn DeviceSource>, FillError> {
    let rows = Pinned::new(kernels.clone(), table, row_bytes, kernel, bound)?;
    Ok(match cache {
        None => Box::new(rows),
        Some(cache) => Box::new(Cached::on_device(rows, cache)?),
    })
}

/// The amount and duration of a copy to the GPU, for people.
fn copied(what: &str, bytes: usize, began: Instant) -> String {
    let (gigabytes, seconds) = (bytes as f64 * 1e-9, began.elapsed().as_secs_f64());
    format!("{what}: {gigabytes:.2} GB copied to the GPU in {seconds:.2} s")
}

/// Copies the training rows of `tables` tables of a hop set to the GPU.
fn training_rows(
    context: &Arc<Context>,
    hops: Hops<'_>,
    mut source: HopSource<'_>,
    tables: usize,
    by: (Kernel, GridBound),
) -> Result<DeviceTables, RuntimeError> {
    let train = hops.rows_of(DataSplit::Train);
    let mut read = |rows: Range<usize>, parts: &mut [&mut [u8]]| {
        let rows = train.start + rows.start..train.start + rows.end;
        source.gather(&[rows], parts).map(drop)
    };
    let what = "the training rows of the hop set (`place=host` reads them from host memory)";
    Ok(DeviceTables::new(context, (tables, train.len(), hops.row_bytes()), by, what, &mut read)?)
}
