//! Plans of caches.

use std::collections::BTreeMap;
use std::fs;
use std::sync::OnceLock;

use uva_graph::Dataset;
use uva_plan::{CachePlan, PlanRequest, Workload};
use uva_sample::SamplerOptions;

use crate::dataset;
use crate::files::{self, directory};

const PLAN: &str = "plan.json";

fn whole() -> &'static BTreeMap<String, Vec<u8>> {
    static WHOLE: OnceLock<BTreeMap<String, Vec<u8>>> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let directory = directory();
        files::write(directory.path(), dataset::whole());
        let graph = Dataset::open(directory.path()).expect("a dataset");
        let folder = directory.path().join("plan");
        fs::create_dir(&folder).expect("a directory");
        made(&graph).write(&folder.join(PLAN)).expect("room for a plan");
        files::read(&folder)
    })
}

fn made(graph: &Dataset) -> CachePlan {
    let options = SamplerOptions { fanouts: [2, 2].into(), ..SamplerOptions::default() };
    let workload = Workload::of(graph, options, 4);
    uva_plan::plan(&PlanRequest::new(graph, workload, 600), None).expect("a plan")
}

pub fn plan(input: &[u8]) -> bool {
    let mut files = whole().clone();
    files::change(&mut files, input);
    let directory = directory();
    files::write(directory.path(), &files);
    let Ok(plan) = CachePlan::read(&directory.path().join(PLAN)) else { return false };
    assert_eq!(plan.list_ids.len() as u64, plan.lists.count);
    let nodes = plan.dataset.nodes;
    assert!(plan.list_ids.iter().chain(&plan.row_ids).all(|&id| (id as u64) < nodes));
    true
}

pub fn seeds() -> Vec<Vec<u8>> {
    files::seeds(whole())
}
