//! What a training run finds out before its roles start: what to cache, and where to sample.

use std::sync::Arc;

use uva_cache::CachePlan;
use uva_graph::Dataset;

use super::run::{Job, TrainingRun, to_value};
use super::trial::{NotesOnly, TrialOutcome};
use crate::backend::{Backend, SamplerChoice};
use crate::cache::{
    Budget, CacheContents, CacheRequest, Found, SamplerVerdict, Search, budget_on_cpu, cacheable,
    check_plan_fits, summary,
};
use crate::launcher::{Launch, Launcher};
use crate::metrics::Observer;
use crate::plan::RunPlan;
use crate::{Passes, RuntimeError};

/// Of the GPU's memory, what `--gpu-cache auto` leaves free beside what one batch left: later batches may be larger,
/// and memory falls to pieces.
const RESERVE_SHARE: f64 = 0.05;
/// And this many bytes at least.
const RESERVE_BYTES: u64 = 256 << 20;

impl TrainingRun {
    /// Finds out what is to be found out, and makes it the plan's. `launcher` is there where the roles are processes.
    pub(super) fn prepare(
        &mut self,
        mut launcher: Option<&mut Launcher>,
        observer: &mut dyn Observer,
    ) -> Result<(), RuntimeError> {
        let measured = self.plan.backend.cuda().is_some_and(|cuda| cuda.sampler == SamplerChoice::Auto);
        if let Some(planned) = &self.planned {
            planned.1.iter().for_each(|warning| observer.note(warning));
        }
        let kinds = cacheable(&self.plan.backend);
        if self.caches.is_some() && !kinds.lists && !kinds.rows && !measured {
            return Err(RuntimeError::Usage(format!(
                "caches on the GPU are read by --sampler gpu (lists) and --gather zero-copy (rows), and this run has \
                 --sampler cpu and --gather {}",
                self.plan.backend.gather_name()
            )));
        }
        let find = match (&self.caches, &self.planned) {
            (Some(CacheRequest::Find { budget, policy }), None) => {
                let bytes = match budget {
                    Budget::Bytes(bytes) => *bytes,
                    Budget::Auto => self.what_is_left(launcher.as_deref_mut(), observer)?,
                };
                Some((bytes, *policy))
            }
            _ => None,
        };
        if find.is_none() && self.planned.is_none() && !measured {
            return Ok(());
        }
        let found =
            self.search(&Search { caches: find, sampler: measured }, launcher.as_deref_mut(), observer)?;
        if let Some(verdict) = &found.sampler {
            self.sample_where(verdict, launcher.as_deref_mut(), observer)?;
        }
        let plan = found.plan.or_else(|| self.planned.take().map(|(plan, _)| plan));
        if let Some(plan) = plan {
            self.use_caches(plan, launcher, observer)?;
        }
        Ok(())
    }

    fn search(
        &self,
        search: &Search,
        launcher: Option<&mut Launcher>,
        observer: &mut dyn Observer,
    ) -> Result<Found, RuntimeError> {
        if search.caches.is_none() && !search.sampler {
            return Ok(Found::default());
        }
        let (loader, backend) = (&self.plan.options, &self.plan.backend);
        match launcher {
            Some(launcher) => launcher.find_caches(self.dataset.path(), loader, backend, search, observer),
            None => {
                let told = std::cell::RefCell::new(observer);
                search.run(&self.dataset, loader, backend, &|line| told.borrow_mut().note(line))
            }
        }
    }

    /// Samples on the GPU or not, as measured.
    fn sample_where(
        &mut self,
        verdict: &SamplerVerdict,
        launcher: Option<&mut Launcher>,
        observer: &mut dyn Observer,
    ) -> Result<(), RuntimeError> {
        observer.note(&verdict.reason);
        if let Backend::Cuda(cuda) = &mut self.plan.backend {
            cuda.sampler = if verdict.on_gpu { SamplerChoice::Gpu } else { SamplerChoice::Cpu };
        }
        if verdict.on_gpu {
            return self.sample_alone();
        }
        if let Some(launcher) = launcher {
            self.plan.backend = launcher.without_gpu_sampler(&self.plan.backend)?;
        }
        Ok(())
    }

    /// Exactly one sampler works on a GPU: the plan is made anew for it.
    pub(super) fn sample_alone(&mut self) -> Result<(), RuntimeError> {
        if self.plan.options.samplers != 1 {
            let mut options = self.plan.options.clone();
            options.samplers = 1;
            let passes = self.plan.schedule.passes();
            let checkpointed = self.plan.checkpointed;
            self.plan = RunPlan::new(&self.dataset, &options, passes)?.on(self.plan.backend.clone());
            self.plan.checkpointed = checkpointed;
        }
        Ok(())
    }

    fn use_caches(
        &mut self,
        mut plan: CachePlan,
        launcher: Option<&mut Launcher>,
        observer: &mut dyn Observer,
    ) -> Result<(), RuntimeError> {
        let kinds = cacheable(&self.plan.backend);
        if !kinds.lists && plan.lists.count > 0 {
            observer.note(
                "the plan's lists are not cached: the CPU samples, and lists on the GPU are for a sampler there",
            );
            plan.leave_out_lists();
        }
        if !kinds.rows && plan.rows.count > 0 {
            observer.note(
                "the plan's rows are not cached: only --gather zero-copy reads rows that are kept on the GPU",
            );
            plan.leave_out_rows();
        }
        check_plan_fits(&plan, &self.dataset, &self.plan.backend)?;
        self.contents = match launcher {
            Some(launcher) => launcher.fill_caches(&self.dataset, &plan)?,
            None => CacheContents::of_plan(&self.dataset, &plan)?,
        };
        self.plan.caches = self.contents.caches().clone();
        observer.note(&format!("caches: {}", summary(&plan)));
        if self.plan.backend.device_slots().is_none() && self.plan.caches.are_there() {
            observer
                .note("they are in host memory, where a hit saves no time: they show what a GPU's would hit");
        }
        self.cache_plan = Some(plan);
        Ok(())
    }

    /// Bytes for `--gpu-cache auto`.
    fn what_is_left(
        &self,
        launcher: Option<&mut Launcher>,
        observer: &mut dyn Observer,
    ) -> Result<u64, RuntimeError> {
        if self.plan.backend.device_slots().is_none() {
            let (bytes, reason) = budget_on_cpu(&self.dataset)?;
            observer.note(&format!("--gpu-cache auto: {reason}"));
            return Ok(bytes);
        }
        let Some(launcher) = launcher else {
            return Err(RuntimeError::Usage(
                "--gpu-cache auto with --in-process: what a batch leaves is seen by a trial run in processes; give a \
                 size, or leave out --in-process"
                    .into(),
            ));
        };
        let passes = Passes { epochs: 1, ..Passes::default() };
        let (mut backend, mut options) = (self.plan.backend.clone(), self.plan.options.clone());
        if let Backend::Cuda(cuda) = &mut backend
            && cuda.sampler == SamplerChoice::Auto
        {
            // It may come to that, and then its memory is taken too.
            cuda.sampler = SamplerChoice::Gpu;
            options.samplers = 1;
        }
        let plan = RunPlan::new(&self.dataset, &options, passes)?.on(backend);
        let contents = CacheContents::default();
        let launch = Launch {
            dataset: self.dataset.path(),
            plan: &plan,
            caches: &contents,
            job: to_value(&Job::Trial(self.options.clone()))?,
            environments: self.environments(),
        };
        let outcome = launcher.run_once(launch, &mut NotesOnly(observer))?;
        let TrialOutcome { free, total } = serde_json::from_value(outcome.done)
            .map_err(|error| RuntimeError::Failed(format!("the trial's result cannot be read: {error}")))?;
        let reserve = ((total as f64 * RESERVE_SHARE) as u64).max(RESERVE_BYTES);
        let left = free.saturating_sub(reserve);
        let gib = |bytes: u64| bytes as f64 / (1_u64 << 30) as f64;
        observer.note(&format!(
            "--gpu-cache auto: one training batch left {:.2} of {:.2} GiB; {:.2} GiB are kept in reserve, {:.2} GiB may \
             be cached",
            gib(free),
            gib(total),
            gib(reserve),
            gib(left)
        ));
        Ok(left)
    }
}

/// The plan in a file, held against dataset and options, and what to warn of.
pub(super) fn read_plan(
    request: Option<&CacheRequest>,
    dataset: &Arc<Dataset>,
    plan: &RunPlan,
) -> Result<Option<(CachePlan, Vec<String>)>, RuntimeError> {
    let Some(CacheRequest::Planned(path)) = request else { return Ok(None) };
    crate::cache::read_plan(path, dataset, &plan.options).map(Some)
}
