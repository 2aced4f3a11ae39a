//! Checkpoints: a state in JSON, and the tensors that it names.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::json;
use uva_model::{TrainerOptions, checkpoint as files_of};
use uva_train::{TrainDevice, Trainer, checkpoint as stored};

use crate::files::{self, directory};

fn trainer() -> Trainer {
    let options = TrainerOptions { hidden: 2, layers: 1, ..TrainerOptions::default() };
    Trainer::new(&options, 3, 2, TrainDevice::Cpu).expect("a model")
}

fn whole() -> &'static BTreeMap<String, Vec<u8>> {
    static WHOLE: OnceLock<BTreeMap<String, Vec<u8>>> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let directory = directory();
        stored::write(directory.path(), &trainer(), &json!({"dataset": "fuzz"}), &json!({"epoch": 1}))
            .expect("a checkpoint");
        files::read(directory.path())
    })
}

pub fn checkpoint(input: &[u8]) -> bool {
    let mut files = whole().clone();
    files::change(&mut files, input);
    let directory = directory();
    files::write(directory.path(), &files);
    let Ok(Some(checkpoint)) = files_of::read(directory.path()) else { return false };
    let _ = checkpoint.state::<BTreeMap<String, u64>>();
    let _ = checkpoint.model();
    stored::restore(&checkpoint, &mut trainer(), &json!({"dataset": "fuzz"})).is_ok()
}

pub fn seeds() -> Vec<Vec<u8>> {
    files::seeds(whole())
}
