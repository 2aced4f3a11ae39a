//! Batches that contradict themselves or the model.

use super::batches::{TypedBatch, options_of, trainer};
use tch::Kind;
use uva_batch::{BatchColumns, Column, ColumnKey};
use uva_model::ModelKind;

fn refusal(columns: &BatchColumns<'_>) -> String {
    let mut trainer = trainer(&options_of(ModelKind::Rsage), Kind::Float);
    trainer.train_batch(0, 0, columns, &mut || Ok(())).unwrap_err().to_string()
}

#[test]
fn batches_that_would_be_read_out_of_bounds_are_refused_by_column() {
    let whole = TypedBatch::random(1);
    trainer(&options_of(ModelKind::Rsage), Kind::Float)
        .train_batch(0, 0, &whole.columns(), &mut || Ok(()))
        .unwrap();
    let at = |column: Column, level: usize, part: usize| ColumnKey { part, ..column.at(level) };
    let mut other = TypedBatch::random(1);
    other.lists[1][1].1.fill(90);
    let refused = refusal(&other.columns());
    assert!(refused.contains("block1.author__writes__paper") && refused.contains("source 90"), "{refused}");
    let mut other = TypedBatch::random(1);
    other.lists[0][0].0.pop();
    let refused = refusal(&other.columns());
    assert!(
        refused.contains("4 seeds, of which 3 are of the type paper") || refused.contains("offsets"),
        "{refused}"
    );
    for (column, name) in [
        (at(Column::Indices, 1, 2), "a batch without block1.paper__by__author.indices"),
        (Column::X.part(2), "a batch without x.tag"),
    ] {
        let refused = refusal(&whole.columns().without(column));
        assert!(refused.contains(name), "{refused}");
    }
    let narrow =
        whole.columns().with(Column::X.part(1), crate::tests::support::f32_rows(&whole.rows[0].0, 3));
    let refused = refusal(&narrow);
    assert!(refused.contains("x.author: 3 columns for a model of 7"), "{refused}");
}
