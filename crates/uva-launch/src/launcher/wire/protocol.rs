//! Version of the implicit layout that a launcher and an attached process share. The layout comprises the columns of a
//! batch, the fields of a header in a slot, the words of the control page, and the fields of messages. The two
//! processes come from separate builds, for example a program and a Python module, and builds of one version may
//! differ. Each side therefore compares the other's number with its own before it reads anything else.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::LazyLock;

use serde::Serialize;
use serde_json::Value;
use uva_batch::{BatchHeader, COLUMNS};
use uva_runtime::backend::Backend;
use uva_runtime::options::part::Part;
use uva_runtime::sampler::cache::Caches;
use uva_runtime::{LoaderOptions, Passes, RuntimeError, control};

use super::messages::{AttachReply, AttachedJob, Knock, Setup};

/// The version of this crate, which must be equal in the program and in the attached process.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The number of that layout: a hash of its [description](description), computed once.
#[must_use]
pub fn protocol() -> u32 {
    static PROTOCOL: LazyLock<u32> = LazyLock::new(|| number_of(&description()));
    *PROTOCOL
}

/// FNV-1a with 32 bits.
fn number_of(description: &str) -> u32 {
    description.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Everything that both sides must agree on, from the declarations themselves.
fn description() -> String {
    format!(
        "ring {}, hand-over {}, control page of 2 samplers {} words, {} a role\n{}\n{COLUMNS:?}\n{}",
        uva_mem::ring::VERSION,
        uva_mem::handover::VERSION,
        control::words(2),
        control::COUNTERS_USED,
        BatchHeader::fields(),
        messages()
    )
}

/// The fields of the messages between the two.
fn messages() -> String {
    let setup = Setup {
        stages: Vec::new(),
        serves: 1,
        handed: Vec::new(),
        dataset: PathBuf::from("data"),
        loader: LoaderOptions::default(),
        passes: Passes::default(),
        backend: Backend::Cpu,
        caches: Caches::default(),
        job: json(&AttachedJob::default()),
    };
    let knock = Knock { version: String::new(), protocol: 0, pid: 1, part: Part::default(), secret: None };
    let mut found = BTreeSet::new();
    fields(&json(&AttachReply::Welcome { setup: Box::new(setup), secret: None }), "answer", &mut found);
    fields(&json(&knock), "knock", &mut found);
    fields(&json(&RuntimeError::failed("")), "error", &mut found);
    found.into_iter().collect::<Vec<_>>().join(" ")
}

fn json(message: &impl Serialize) -> Value {
    serde_json::to_value(message).expect("messages are sent as JSON")
}

/// The paths of an object's fields.
fn fields(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            object.iter().for_each(|(name, value)| fields(value, &format!("{path}.{name}"), found));
        }
        _ => drop(found.insert(path.to_owned())),
    }
}

/// Compares version and number of the other side with this one's.
///
/// # Errors
/// Both sides' version or number, and the remedy.
pub(crate) fn check(version: &str, number: u32) -> Result<(), String> {
    if version != VERSION {
        return Err(format!(
            "one side is uvatrain {version}, the other {VERSION}: the launcher and the Python module must have the same \
             version; install both from one checkout"
        ));
    }
    if number != protocol() {
        let own = protocol();
        return Err(format!(
            "both sides are uvatrain {VERSION}, but different builds: one has protocol {number}, the other protocol {own}; \
             reinstall the module from the checkout that the launcher was built from (`pip install --force-reinstall \
             ./crates/uva-py`), or rebuild the launcher"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_before_numbers() {
        assert_eq!(check(VERSION, protocol()), Ok(()));
        let other = check("0.0.7", protocol()).unwrap_err();
        assert!(other.contains("0.0.7") && other.contains(VERSION), "{other}");
        let number = protocol().wrapping_add(70);
        let other = check(VERSION, number).unwrap_err();
        for part in [format!("protocol {number}"), format!("protocol {}", protocol()), "pip install".into()] {
            assert!(other.contains(&part), "{part} in {other}");
        }
    }

    #[test]
    fn every_word_of_the_description_counts_and_it_names_what_is_shared() {
        let description = description();
        for part in [
            "sample_began",
            "gather_ns",
            "name: \"input_nodes\"",
            "values: One(I64)",
            "answer.Welcome.setup.loader.fanouts",
            "answer.Welcome.setup.caches.rows",
            "knock.secret",
            "error.Failed.remedy",
        ] {
            assert!(description.contains(part), "{part} in {description}");
            let changed = description.replacen(part, "other", 1);
            assert_ne!(number_of(&changed), number_of(&description), "{part}");
        }
    }
}
