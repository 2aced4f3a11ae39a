//! The choice of other ranks' rows to copy.

use uva_graph::{Dataset, Split};
use uva_plan::{CachePolicy, Hotness, rank_rows};
use uva_rows::cache::map_bytes;
use uva_sample::{BatchKey, MiniBatch, divided_sampler};

use super::measure::workload;
use crate::feed::ranks::{RankExchange, RankExchanges};
use crate::plan::RunPlan;
use crate::sampler::cache::SampledGraph;
use crate::sampler::order_making::epoch_order;
use crate::{LoaderOptions, RuntimeError};

/// The rows of other ranks that batches read most: as many as fit into the cache of these ranks with its map.
///
/// If each rank has the whole graph, the batches are those of all ranks that [`CachePolicy::PRESAMPLE`] counts. An
/// epoch's seeds are shuffled, so these rows are also those that each rank's own batches read most. If the lists are
/// divided too, all ranks together sample their own batches of the first training epoch, and each counts its own.
///
/// # Errors
/// Errors of sampling the batches.
pub(crate) fn remote_rows(
    dataset: &Dataset,
    plan: &RunPlan,
    ranks: &RankExchanges,
) -> Result<Vec<i64>, RuntimeError> {
    let Some(own) = dataset.own_rows() else { return Ok(Vec::new()) };
    let range = own.nodes();
    let row_bytes = dataset.table().row_bytes().max(1) as u64;
    let room = ranks.cache_bytes().saturating_sub(map_bytes(dataset.nodes())) / row_bytes;
    let hotness = match ranks.lists() {
        None => CachePolicy::PRESAMPLE.hotness_policy()?.hotness(&workload(dataset, &plan.options)?)?,
        Some(link) => of_own_batches(dataset, plan, link)?,
    };
    let others = rank_rows(&hotness).into_iter().filter(|&node| !range.contains(&u64::from(node)));
    Ok(others.take(room as usize).map(i64::from).collect())
}

/// The number of this rank's batches of the first training epoch that read each row. All ranks have the same number of
/// batches.
fn of_own_batches(dataset: &Dataset, plan: &RunPlan, link: &RankExchange) -> Result<Hotness, RuntimeError> {
    let options: &LoaderOptions = &plan.options;
    let mut exchange = link.take()?;
    let mut hotness = Hotness { feature_reads: vec![0; dataset.nodes()], ..Hotness::default() };
    {
        let divided = RankExchanges::divided(dataset, Box::new(&mut *exchange))?;
        let graph = SampledGraph::new(dataset, None)?;
        let mut sampler = divided_sampler(graph.view(), &options.sampling(), divided)?;
        let mut order = epoch_order(dataset, options, Split::Train)?;
        order.prepare(0)?;
        let mut batch = MiniBatch::with_bounds(plan.layout.bounds());
        for number in 0..plan.schedule.batches(Split::Train) as u32 {
            let number = number * options.part.of + options.part.index;
            let positions = order.batch(number as usize);
            let ids = dataset.split(Split::Train);
            let seeds: Vec<i64> = positions.iter().map(|position| ids[*position as usize]).collect();
            sampler.sample_into(
                BatchKey { split: Split::Train, epoch: 0, batch: number },
                &seeds,
                &mut batch,
            )?;
            for &node in batch.nodes() {
                hotness.feature_reads[node as usize] += 1;
            }
        }
    }
    link.put_back(exchange);
    Ok(hotness)
}
