//! A cache plan in words, and in the form of the metrics' first line.

use uva_plan::{CachePlan, PlanShare};

/// A plan in a line for people.
pub fn summary(plan: &CachePlan) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let part = |what: &str, share: &PlanShare| {
        format!(
            "{} {what} ({:.1} MiB, {:.1} % of the reads expected)",
            share.count,
            mib(share.bytes + share.map_bytes),
            100.0 * share.hit_rate
        )
    };
    format!(
        "{} and {} of {:.1} MiB; chosen by {}",
        part("lists", &plan.lists),
        part("rows", &plan.rows),
        mib(plan.budget_bytes),
        plan.policy
    )
}

/// A plan in the form of the metrics' first line: sizes and expectations, without the curves. The policy counted the
/// run's first `counted_epochs` epochs.
pub fn described(plan: &CachePlan, counted_epochs: u32) -> serde_json::Value {
    serde_json::json!({
        "counted_epochs": counted_epochs,
        "policy": plan.policy,
        "budget_bytes": plan.budget_bytes,
        "lists": plan.lists,
        "rows": plan.rows,
        "model": plan.model,
        "predictions": plan.predictions,
        "planned_s": plan.profile.seconds,
    })
}
