//! Choices of a run before its roles start: what to cache, and where to sample.

use std::cell::RefCell;
use std::sync::Arc;

use serde_json::{Value, json};
use uva_graph::{Dataset, Split};
use uva_plan::{CachePlan, CachedKinds};

use crate::data_report::data_report;
use crate::launcher::{Launcher, without_mps};
use uva_options::Spelling;
use uva_runtime::backend::{Backend, BackendDecision, CufileReport, SamplerChoice};
use uva_runtime::feed::rows::{RowTree, training_bytes};
use uva_runtime::machine::memory::MemoryLine;
use uva_runtime::options::seed_order::MadeOrder;
use uva_runtime::pipeline::dry_run::{DryRun, PlannedCaches};
use uva_runtime::plan::RunPlan;
use uva_runtime::plan::topology::Placement;
use uva_runtime::sampler::cache::{CacheContents, described, summary};
use uva_runtime::telemetry::metrics::{CacheOutcome, CacheTotals, End, Event, InForce, Observer, Start};
use uva_runtime::tune::measurement::{self, TargetRun};
use uva_runtime::tune::planning::{
    Budget, CacheRequest, GPU_CACHE, HOST_CACHE, HostCacheParts, SamplerVerdict, Search, SearchResult,
    budget_on_cpu, cacheable, check_cached_sums, check_kinds, check_plan_fits, read_plan, workload,
};
use uva_runtime::{FeatureChoice, Features, LoaderOptions, PageChoice, RuntimeError};

/// A function that computes the bytes of the GPU's memory that a training batch leaves free, for a run with this plan.
pub(crate) type BytesLeft<'a> = &'a mut dyn FnMut(
    &Arc<Dataset>,
    &RunPlan,
    Option<&mut Launcher>,
    &mut dyn Observer,
) -> Result<u64, RuntimeError>;

/// A run as requested and checked. Choices left to the program are open: the division of the GPU, the place of
/// sampling, and the contents of caches.
#[derive(Debug)]
pub(crate) struct Draft {
    pub dataset: Arc<Dataset>,
    pub plan: RunPlan,
    /// The requested caches.
    caches: Option<CacheRequest>,
    /// The plan from a file, and the warnings about it.
    planned: Option<(CachePlan, Vec<String>)>,
    /// Whether the training rows of a hop set go to the GPU's memory if they fit.
    place_is_open: bool,
    /// The GPU that samples for all ranks, if it is not the one with the rows. Cached lists are in its memory.
    lists_on: Option<Backend>,
}

/// A run before its roles start, with all choices made.
#[derive(Clone, Debug)]
pub(crate) struct PreparedRun {
    pub dataset: Arc<Dataset>,
    pub plan: RunPlan,
    /// The contents of the caches.
    pub contents: CacheContents,
    /// The plan by which they were filled.
    cache_plan: Option<CachePlan>,
}

impl Draft {
    /// Creates the draft of a run that works on this backend, or may switch to it. Reads the plan's file, if there is
    /// one, and checks it against dataset and options.
    pub fn new(
        dataset: Dataset,
        plan: RunPlan,
        backend: &Backend,
        caches: Option<CacheRequest>,
    ) -> Result<Self, RuntimeError> {
        if backend.gpu_sampler().is_some() && plan.options.samplers != 1 {
            return Err(RuntimeError::option(
                "samplers",
                plan.options.samplers,
                "with `sampler=gpu`, exactly one sampler runs on a GPU",
            ));
        }
        if let Some(requested) = &caches {
            plan.options.check_cache(&dataset, requested.option())?;
        }
        backend.check_features(&plan.layout, plan.options.gathers_before_sums)?;
        let plan = plan.sized(&dataset, backend, Split::Train)?;
        let dataset = Arc::new(dataset);
        let planned = match &caches {
            Some(CacheRequest::Planned(path)) => Some(read_plan(path, &dataset, &plan.options)?),
            _ => None,
        };
        let eviction = match (&caches, &planned) {
            (Some(CacheRequest::Find { policy, .. }), _) => policy.eviction(),
            (_, Some((cache_plan, _))) => cache_plan.policy.eviction(),
            (_, None) => None,
        };
        plan.check_prepare(backend, eviction)?;
        plan.check_look_ahead(eviction)?;
        plan.check_eviction(backend, eviction)?;
        let plan = plan.with_row_places(&dataset, backend)?;
        if let Some(asked) = caches.as_ref().filter(|asked| !asked.is_before_disk())
            && backend.device_slots().is_some()
        {
            check_cached_sums(&plan, asked.option())?;
        }
        Ok(Self { dataset, plan, caches, planned, place_is_open: false, lists_on: None })
    }

    /// Sets whether the place of a hop set's training rows, in the GPU's memory or not, is open.
    pub fn place_is_open(self, open: bool) -> Self {
        Self { place_is_open: open, ..self }
    }

    /// Caches lists on the GPU of this backend, if there is one, which samples for all ranks.
    pub fn lists_on(self, samplers: Option<&Backend>) -> Self {
        Self { lists_on: samplers.cloned(), ..self }
    }

    /// Settles the choices that the decision leaves to a measurement, before the GPU is divided. Measures if no result
    /// is stored, by the launcher's planner or in this process.
    pub fn settle(
        &self,
        decision: BackendDecision,
        mut launcher: Option<&mut Launcher>,
        observer: &mut dyn Observer,
    ) -> Result<BackendDecision, RuntimeError> {
        let observer = RefCell::new(observer);
        let wanted = Search { gathers: true, ..Search::default() };
        let mut measure = |backend: &Backend| {
            let plan = self.plan.clone().on(backend.clone());
            let mut observer = observer.borrow_mut();
            let found = search(&self.dataset, &plan, &wanted, launcher.as_deref_mut(), &mut **observer)?;
            found.figures.ok_or_else(|| RuntimeError::failed("there is nothing to measure"))
        };
        let note = &mut |line: &str| observer.borrow_mut().note(line);
        measurement::settle(decision, &self.wanted(), Some(&mut measure), note)
    }

    /// Settles the choices from stored results only, without messages.
    pub fn settle_by_stored(&self, decision: BackendDecision) -> Result<BackendDecision, RuntimeError> {
        measurement::settle(decision, &self.wanted(), None, &mut |_| {})
    }

    fn wanted(&self) -> TargetRun {
        let gather_threads = self.plan.options.gather_threads;
        let cached = self.caches.as_ref().is_some_and(|asked| !asked.is_before_disk());
        TargetRun::of(&self.dataset, gather_threads, cached)
    }

    /// The processes and memory of the run, with its stages placed like this. `more` is memory that the plan does not
    /// include.
    pub fn dry_run(&self, backend: &Backend, placement: Placement, more: Vec<MemoryLine>) -> DryRun {
        let caches = match (&self.planned, &self.caches) {
            (Some((plan, _)), _) => PlannedCaches::Plan(plan),
            (None, Some(request)) => PlannedCaches::Find(request),
            (None, None) => PlannedCaches::None,
        };
        let plan = self.plan.clone().on(backend.clone());
        let mut dry = DryRun::new(&self.dataset, &plan, placement, &caches, more);
        if self.place_is_open && backend.device_slots().is_some() {
            let mib = training_bytes(&self.dataset, &plan).div_ceil(1 << 20);
            dry.decided_at_start
                .push(format!("place: whether the {mib} MiB of training rows and a batch fit on the GPU"));
        }
        if plan.cufile_might_read(&self.dataset).is_some() {
            dry.decided_at_start.push("reader: whether cuFile reads into the GPU's memory".to_owned());
        }
        dry
    }

    /// Makes the open choices for this backend. `launcher` is present if the roles are processes.
    pub fn prepare(
        self,
        backend: Backend,
        mut launcher: Option<&mut Launcher>,
        bytes_left: BytesLeft<'_>,
        observer: &mut dyn Observer,
    ) -> Result<PreparedRun, RuntimeError> {
        let Self { dataset, plan, caches, planned, place_is_open, lists_on } = self;
        let plan = plan.with_pages_placed(&dataset);
        let plan = match place_is_open {
            true => placed(&dataset, plan.on(backend), launcher.as_deref_mut(), &mut *bytes_left, observer)?,
            false => plan.on(backend),
        };
        let plan = match plan.cufile_might_read(&dataset) {
            Some((ordinal, files)) => {
                plan.by_cufile(CufileReport::in_child(&without_mps(), ordinal, &files))?
            }
            None => plan,
        };
        let planned = planned.map(|(cache_plan, warnings)| {
            warnings.iter().for_each(|warning| observer.note(warning));
            cache_plan
        });
        let (caches, before_disk) = match caches {
            Some(CacheRequest::BeforeDisk { budget }) => (None, Some(budget)),
            caches => (caches, None),
        };
        let before_disk = match before_disk {
            Some(budget) => HostCacheParts::new(&dataset, &plan, budget, &mut |line| observer.note(line))?,
            None => None,
        };
        let measured = plan.backend.cuda().is_some_and(|cuda| cuda.sampler == SamplerChoice::Auto);
        let kinds = cacheable(&plan.backend, &plan.options);
        // Another GPU samples, and has the lists.
        let kinds = CachedKinds { lists: kinds.lists || lists_on.is_some(), ..kinds };
        if caches.is_some() && !measured {
            check_kinds(kinds, &plan.backend)?;
        }
        let find = match caches {
            Some(CacheRequest::Find { budget, policy, timed_by }) => {
                let bytes = match budget {
                    Budget::Bytes(bytes) => bytes,
                    Budget::Auto if plan.backend.device_slots().is_none() => {
                        let (bytes, reason) = budget_on_cpu(&dataset)?;
                        observer.note(&format!("`gpu_cache=auto`: {reason}"));
                        bytes
                    }
                    Budget::Auto => bytes_left(&dataset, &plan, launcher.as_deref_mut(), observer)?,
                };
                Search { caches: Some((bytes, policy)), timed_by, ..Search::default() }
            }
            Some(CacheRequest::Planned(_) | CacheRequest::BeforeDisk { .. }) | None => {
                before_disk.map(HostCacheParts::search).unwrap_or_default()
            }
        };
        let rows_only = before_disk.is_some();
        let of_lists = lists_on.filter(|_| !rows_only).zip(find.caches);
        // A policy that evicts caches only rows.
        let of_lists = of_lists.filter(|(_, (_, policy))| policy.eviction().is_none());
        let find = match of_lists.is_some() && !kinds.rows {
            true => Search::default(),
            false => find,
        };
        let wanted = Search { sampler: measured, ..find };
        let found = search(&dataset, &plan, &wanted, launcher.as_deref_mut(), observer)?;
        let plan = match &found.sampler {
            Some(verdict) => sample_where(&dataset, plan, verdict, launcher.as_deref_mut(), observer)?,
            None => plan,
        };
        let option = if rows_only { HOST_CACHE } else { GPU_CACHE };
        // The CPU reads the rows of a host cache, for slots in any memory.
        let reader = if rows_only { &Backend::Cpu } else { &plan.backend };
        let usable = |cached| usable(cached, &dataset, (reader, kinds), option, observer);
        let mut cache_plan = found.plan.or(planned).map(usable).transpose()?;
        if let Some((backend, caches)) = of_lists {
            let wanted = Search { caches: Some(caches), ..Search::default() };
            let there = plan.clone().on(backend);
            let lists = search(&dataset, &there, &wanted, launcher.as_deref_mut(), observer)?.plan;
            cache_plan = match (cache_plan, lists) {
                (Some(rows), Some(lists)) => Some(rows.with_lists_of(lists)),
                (rows, lists) => rows.or(lists),
            };
        }
        let Some(cache_plan) = cache_plan else {
            let contents = before_disk.map(HostCacheParts::without_plan).transpose()?.unwrap_or_default();
            let plan = plan.with_caches(contents.caches().clone());
            return Ok(PreparedRun { dataset, plan, contents, cache_plan: None });
        };
        let contents = match launcher {
            Some(launcher) => launcher.fill_caches(&dataset, &cache_plan)?,
            None => CacheContents::of_plan(&dataset, &cache_plan)?,
        };
        let counted = workload(&dataset, &plan.options)?;
        let contents = contents.chosen_by(cache_plan.counted_epochs(&counted));
        let contents = match before_disk {
            Some(parts) => contents.keeping(parts.kept_bytes),
            None => contents,
        };
        let plan = plan.with_caches(contents.caches().clone());
        observer.note(&format!("caches: {}", summary(&cache_plan)));
        if (rows_only || plan.backend.device_slots().is_none()) && plan.caches.are_there() {
            observer.note(if plan.options.features == Features::Disk {
                "the caches are in host memory, where a hit of a row saves a read from disk"
            } else {
                "the caches are in host memory, where a hit saves no time: they show the hits of caches on a GPU"
            });
        }
        Ok(PreparedRun { dataset, plan, contents, cache_plan: Some(cache_plan) })
    }
}

/// The run over a hop set with its training rows in the GPU's memory, if a training batch leaves room for them.
fn placed(
    dataset: &Arc<Dataset>,
    plan: RunPlan,
    launcher: Option<&mut Launcher>,
    bytes_left: BytesLeft<'_>,
    observer: &mut dyn Observer,
) -> Result<RunPlan, RuntimeError> {
    if launcher.is_none() {
        let why = "with `in_process`, the GPU memory that a batch leaves free is not measured";
        return Ok(plan.beside_device(why));
    }
    let need = training_bytes(dataset, &plan);
    let left = bytes_left(dataset, &plan, launcher, observer)?;
    let gib = |bytes: u64| format!("{:.2} GiB", bytes as f64 / (1_u64 << 30) as f64);
    let (rows, room) = (gib(need), gib(left));
    Ok(if need <= left {
        plan.on_device(format!("{rows} of training rows fit into the {room} that a batch leaves"))
    } else {
        let why = format!(
            "{rows} of training rows do not fit into the {room} that a batch leaves of the GPU's memory"
        );
        plan.beside_device(&why)
    })
}

fn search(
    dataset: &Arc<Dataset>,
    plan: &RunPlan,
    search: &Search,
    launcher: Option<&mut Launcher>,
    observer: &mut dyn Observer,
) -> Result<SearchResult, RuntimeError> {
    if *search == Search::default() {
        return Ok(SearchResult::default());
    }
    match launcher {
        Some(launcher) => {
            launcher.find_caches(dataset.path(), &plan.options, &plan.backend, search, observer)
        }
        None => {
            let told = std::cell::RefCell::new(observer);
            search.run(dataset, &plan.options, &plan.backend, &|line| told.borrow_mut().note(line))
        }
    }
}

/// The run, sampled in the place that was measured to be faster.
fn sample_where(
    dataset: &Dataset,
    plan: RunPlan,
    verdict: &SamplerVerdict,
    launcher: Option<&mut Launcher>,
    observer: &mut dyn Observer,
) -> Result<RunPlan, RuntimeError> {
    observer.note(&verdict.reason);
    let mut backend = plan.backend.clone();
    if let Backend::Cuda(cuda) = &mut backend {
        cuda.sampler = if verdict.on_gpu { SamplerChoice::Gpu } else { SamplerChoice::Cpu };
    }
    if verdict.on_gpu {
        // Exactly one sampler works on a GPU.
        let options = LoaderOptions { samplers: 1, ..plan.options.clone() };
        let alone = RunPlan::new(dataset, &options, plan.schedule.passes())?;
        let alone = RunPlan { features: plan.features, pages: plan.pages, ..alone.on(backend) };
        return Ok(alone.checkpointed(plan.checkpointed));
    }
    if let Some(launcher) = launcher {
        backend = launcher.without_gpu_sampler(&backend)?;
    }
    Ok(plan.on(backend))
}

/// The part of a cache plan that this run reads. `option` is the option with its bytes.
fn usable(
    mut plan: CachePlan,
    dataset: &Dataset,
    (backend, kinds): (&Backend, CachedKinds),
    option: &str,
    observer: &mut dyn Observer,
) -> Result<CachePlan, RuntimeError> {
    if !kinds.lists && plan.lists.count > 0 {
        observer.note(
            "the plan's lists are not cached: the CPU samples, and cached lists require a sampler on the GPU",
        );
        plan.leave_out_lists();
    }
    if !kinds.rows && plan.rows.count > 0 {
        observer.note(
            "the plan's rows are not cached: only `gather=zero-copy` and `gather=dma` read rows cached on the GPU",
        );
        plan.leave_out_rows();
    }
    check_plan_fits(&plan, dataset, backend, option)?;
    Ok(plan)
}

impl PreparedRun {
    /// The prepared run of each rank that divides its epochs, with batches on the rank's `backend`. Ranks cache the
    /// same rows. A standby rank shares its GPU with a sampler and its lists, and caches only the hottest rows, in
    /// `standby_bytes`.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if memory cannot be allocated.
    pub fn of_each_rank(
        &self,
        backend: &dyn Fn(usize) -> Backend,
        standby_bytes: u64,
    ) -> Result<Vec<Self>, RuntimeError> {
        let for_standby = match self.cache_plan.as_ref().filter(|_| self.plan.options.standby.ranks > 0) {
            Some(plan) => {
                let plan = plan.clone().with_rows_within(standby_bytes);
                (self.contents.with_rows_of(&plan)?, Some(plan))
            }
            None => (self.contents.clone(), None),
        };
        let of_rank = |index| {
            let plan = self.plan.of_rank(&self.dataset, index).on(backend(index as usize));
            let (contents, cache_plan) = match u64::from(index) < plan.schedule.trainers() {
                true => (self.contents.clone(), self.cache_plan.clone()),
                false => for_standby.clone(),
            };
            let plan = plan.with_caches(contents.caches().clone());
            Self { dataset: Arc::clone(&self.dataset), plan, contents, cache_plan }
        };
        Ok((0..self.plan.options.part.of).map(of_rank).collect())
    }

    /// The number of cached rows, for people.
    pub fn cached_rows(&self) -> String {
        match self.cache_plan.as_ref().map(|plan| &plan.rows).filter(|rows| rows.count > 0) {
            Some(rows) => {
                let share = 100.0 * rows.hit_rate;
                format!("{} rows are cached: {share:.1} % of the reads are expected to hit", rows.count)
            }
            None => "no row is cached: the size is too small for a row and a map of all nodes".to_owned(),
        }
    }

    /// The metrics' first line, which shows `options` unchanged. `roles` states whether roles are processes or threads;
    /// `more` lists other values in force.
    pub fn start_event(&self, options: Value, roles: &str, more: &[(&str, Value)]) -> Event {
        let dataset = &self.dataset;
        let schedule = &self.plan.schedule;
        let loader = &self.plan.options;
        let report = data_report(dataset, loader);
        let mut in_force = json!({
            "roles": roles,
            "prepare": loader.prepare.name(),
            "device": self.plan.backend.device_name(),
            "gather": self.plan.backend.gather_name(),
            "samplers": loader.samplers,
            "gather_threads": loader.gather_threads,
            "feature_type": loader.feature_type,
            "feature_slots": loader.all_feature_slots(),
            "batch_slots": self.plan.batch_slots(),
            "feature_slot_bytes": self.plan.feature_slot_bytes(),
            "batch_slot_bytes": self.plan.layout.batch_bytes(),
            "caches": self.cache_plan.as_ref().map(|plan| described(plan, self.plan.caches.counted_epochs)),
            "sampler": self.plan.backend.cuda().map_or("cpu", |cuda| cuda.sampler.name()),
            "train_batches": schedule.train_batches(),
            "start": schedule.passes().start,
        });
        report.add_in_force(&mut in_force, self.plan.features.as_ref());
        if let Some(walks) = loader.sampling().walks_in_force() {
            in_force["walks"] = walks.into();
        }
        InForce::of(&self.plan.backend).replace_in(&mut in_force);
        if let Some(features) = &self.plan.features {
            in_force["features"] = features.in_force();
        }
        if let Some(pages) = &self.plan.pages {
            in_force["host_pages"] = pages.in_force();
        }
        if loader.features == Features::Disk {
            in_force["look_ahead"] = self.plan.look_ahead().into();
            in_force["kept_rows"] = RowTree::of(&self.plan).kept_rows().into();
        }
        if let Some(order) = &loader.made_order {
            in_force["seed_order"] = order.in_force();
        }
        if let Some(shapes) = &loader.shapes {
            in_force["pad"] = shapes.in_force();
        }
        if let Some(mut slots) = self.plan.gpu_slots() {
            slots.reason = Spelling::CommandLine.sentence(&slots.reason);
            in_force["gpu_slots"] = json!(slots);
        }
        for (name, value) in more {
            in_force[*name] = value.clone();
        }
        let mut of_dataset = json!({
            "name": dataset.name(),
            "path": dataset.path(),
            "nodes": dataset.nodes(),
            "edges": dataset.edges(),
        });
        let rest = [
            ("classes", json!(dataset.classes())),
            ("train", json!(dataset.seed_count(Split::Train))),
            ("valid", json!(dataset.seed_count(Split::Valid))),
            ("test", json!(dataset.seed_count(Split::Test))),
            ("fingerprint", json!(dataset.fingerprint())),
            ("verification", json!(dataset.verification())),
        ];
        for (name, value) in report.content().into_iter().chain(rest) {
            of_dataset[name] = value;
        }
        report.add_to_dataset(&mut of_dataset);
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Event::Start(Start { version, dataset: of_dataset, options, in_force })
    }

    /// Traces the run's input: the dataset, and the plan of its batches.
    pub fn log_start(&self, roles: &str) {
        let dataset = &self.dataset;
        let verification = dataset.verification();
        tracing::info!(
            path = %dataset.path().display(),
            nodes = dataset.nodes(),
            edges = dataset.edges(),
            classes = dataset.classes(),
            seconds = verification.seconds,
            from_stamp = verification.from_stamp,
            "the dataset is open"
        );
        let schedule = &self.plan.schedule;
        tracing::info!(
            roles,
            prepare = self.plan.options.prepare.name(),
            device = self.plan.backend.device_name(),
            gather = self.plan.backend.gather_name(),
            samplers = self.plan.options.samplers,
            epochs = schedule.passes().epochs,
            train_batches = schedule.train_batches(),
            valid_batches = schedule.valid_batches(),
            test_batches = schedule.test_batches(),
            batch_slots = self.plan.batch_slots(),
            batch_slot_bytes = self.plan.layout.batch_bytes(),
            feature_slots = self.plan.options.all_feature_slots(),
            feature_slot_bytes = self.plan.feature_slot_bytes(),
            cached_lists = self.plan.caches.lists,
            cached_rows = self.plan.caches.rows,
            "the batches are planned"
        );
    }

    /// Traces the result.
    pub fn log_end(&self, end: &End) {
        tracing::info!(
            epochs = end.epochs,
            batches = end.batches,
            seconds = end.seconds,
            training_seconds = end.training_seconds,
            bottleneck = end.bottleneck.as_deref().unwrap_or("unknown"),
            "the run has ended"
        );
    }

    /// The place of feature rows and the order of seeds, as lines for people. Empty for a table in memory and shuffled
    /// seeds.
    pub fn choices(&self) -> Vec<String> {
        let features = self.plan.features.iter().flat_map(FeatureChoice::notes);
        let order = self.plan.options.made_order.iter().map(MadeOrder::note);
        let pages = self.plan.pages.iter().flat_map(PageChoice::notes);
        features.chain(pages).chain(order.map(|note| Spelling::CommandLine.sentence(&note))).collect()
    }

    /// The opened dataset and the cost of its check, as a line for people.
    pub fn opened(&self) -> String {
        data_report(&self.dataset, &self.plan.options).opened()
    }

    /// The results of the caches, with the expectations of the plan.
    pub fn cache_outcome(&self, totals: &CacheTotals) -> Option<CacheOutcome> {
        let plan = self.cache_plan.as_ref()?;
        let expected = [plan.lists.hit_rate, plan.rows.hit_rate];
        Some(CacheOutcome::of(totals, expected, self.plan.caches.counted_epochs))
    }
}
