//! The line about what was checked.

use uva_graph::Verification;

use crate::ui::format;

/// What was checked when the dataset was opened.
pub(super) fn checked(verification: &Verification) -> String {
    let seconds = format::seconds(verification.seconds);
    match (verification.features_checked, verification.edges_checked) {
        (true, _) => format!("everything, feature values included, in {seconds}"),
        (false, true) => {
            format!("shapes, edges, labels, splits in {seconds}; values: info --verify")
        }
        (false, false) => {
            format!("shapes, sizes in {seconds}; edges by an earlier run; values: info --verify")
        }
    }
}
