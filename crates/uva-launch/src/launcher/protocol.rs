//! Version of the implicit layout that a launcher and an attached process share. The layout comprises the fields of a
//! header in a slot, the words of the control page, and the content of a message. The two come from separate builds,
//! for example a program and a Python module, and builds of one version may differ. So each compares the other's number
//! with its own before it trusts anything else.

/// Raised with every change of that layout; a test in this file detects such changes.
pub const PROTOCOL: u32 = 28;

/// The version that both sides must have: that of this crate, in the program and in the attached process.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Compares the version of the other side with this one's.
///
/// # Errors
/// Both sides' version, and what to do.
pub(super) fn check_version(version: &str) -> Result<(), String> {
    if version != VERSION {
        return Err(format!(
            "one side is uvatrain {version}, the other {VERSION}: the launcher and the module have to be of one version; \
             pip install the module from the launcher's checkout, or the other way round"
        ));
    }
    Ok(())
}

/// Compares version and number of the other side with this one's.
///
/// # Errors
/// Both sides' version or number, and what to do.
pub(super) fn check(version: &str, number: u32) -> Result<(), String> {
    check_version(version)?;
    if number != PROTOCOL {
        return Err(format!(
            "both sides are uvatrain {VERSION}, but of different builds: one has protocol {number}, the other protocol {PROTOCOL}; \
             reinstall the module from the checkout that the launcher was built from (pip install --force-reinstall \
             ./crates/uva-py), or build the launcher anew"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use serde_json::Value;
    use uva_batch::{BatchHeader, HandOver};

    use super::*;
    use crate::launcher::messages::{Answer, AttachedJob, Knock, Setup};
    use uva_runtime::backend::Backend;
    use uva_runtime::cache::Caches;
    use uva_runtime::control;
    use uva_runtime::part::Part;
    use uva_runtime::{LoaderOptions, Passes};

    #[test]
    fn versions_come_before_numbers_and_another_number_is_another_build() {
        assert_eq!(check(VERSION, PROTOCOL), Ok(()));
        let other = check("0.0.7", PROTOCOL).unwrap_err();
        assert!(other.contains("0.0.7") && other.contains(VERSION), "{other}");
        let other = check(VERSION, PROTOCOL + 70).unwrap_err();
        for part in
            [format!("protocol {}", PROTOCOL + 70), format!("protocol {PROTOCOL}"), "pip install".into()]
        {
            assert!(other.contains(&part), "{part} in {other}");
        }
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

    #[test]
    fn the_number_is_raised_with_what_it_stands_for() {
        let setup = Setup {
            stages: Vec::new(),
            serves: 1,
            handed: Vec::new(),
            dataset: PathBuf::from("data"),
            loader: LoaderOptions::default(),
            passes: Passes::default(),
            backend: Backend::Cpu,
            caches: Caches::default(),
            job: serde_json::to_value(AttachedJob::default()).unwrap(),
        };
        let (version, part) = (VERSION.to_owned(), Part::default());
        let knock = Knock { version, protocol: PROTOCOL, pid: 1, part, secret: None };
        let mut found = BTreeSet::new();
        fields(
            &serde_json::to_value(Answer::Welcome { setup: Box::new(setup), secret: None }).unwrap(),
            "",
            &mut found,
        );
        fields(&serde_json::to_value(knock).unwrap(), "knock", &mut found);
        let messages = found.into_iter().collect::<Vec<_>>().join(" ");
        let header = format!("{:?}", BatchHeader::without_batch(HandOver::Batch));
        let header = header.split(" layers: ").next().unwrap_or_default().replace(": 0", "");
        let stands_for = format!(
            "ring {}, hand-over {}, control page of 2 samplers {} words, {} a role, {} bytes of {header} layers, {messages}",
            uva_mem::ring::VERSION,
            uva_mem::handover::VERSION,
            control::words(2),
            control::COUNTERS_USED,
            BatchHeader::BYTES
        );
        // If this fails: raise PROTOCOL, and write down here what it stands for from then on.
        assert_eq!((PROTOCOL, stands_for.as_str()), (28, STANDS_FOR));
    }

    const STANDS_FOR: &str = "ring 1, hand-over 1, control page of 2 samplers 104 words, 15 a role, 960 bytes of BatchHeader { hash, \
        sample_began, sample_ns, gather_began, gather_ns, list_reads, list_reads_cached, rows_cached, disk: \
        BatchReads { bytes_asked, bytes_read, reads, cached_rows, kept_rows, ahead_rows, demanded_rows }, \
        link_bytes, queue, pace, kind, split, summed, epoch, batch, seeds, nodes, layer_count, sampler, \
        real_seeds, real_nodes, layers, .Welcome.secret .Welcome.setup.backend \
        .Welcome.setup.caches.counted_epochs .Welcome.setup.caches.dynamic .Welcome.setup.caches.kept_rows \
        .Welcome.setup.caches.list_homes .Welcome.setup.caches.list_weights .Welcome.setup.caches.lists \
        .Welcome.setup.caches.reordered .Welcome.setup.caches.rows .Welcome.setup.dataset .Welcome.setup.handed \
        .Welcome.setup.job.events .Welcome.setup.loader.aggregate_argmax .Welcome.setup.loader.aggregation \
        .Welcome.setup.loader.batch_dependency .Welcome.setup.loader.batch_size .Welcome.setup.loader.batch_slots \
        .Welcome.setup.loader.checked_files .Welcome.setup.loader.degrees \
        .Welcome.setup.loader.drop_last .Welcome.setup.loader.edge_attr .Welcome.setup.loader.edge_ids \
        .Welcome.setup.loader.expand .Welcome.setup.loader.fanouts .Welcome.setup.loader.feature_slots \
        .Welcome.setup.loader.feature_type .Welcome.setup.loader.features .Welcome.setup.loader.first_layer \
        .Welcome.setup.loader.gather_threads \
        .Welcome.setup.loader.gathers_before_sums .Welcome.setup.loader.hops .Welcome.setup.loader.input_id \
        .Welcome.setup.loader.input_nodes .Welcome.setup.loader.look_ahead .Welcome.setup.loader.made_order \
        .Welcome.setup.loader.order_edges .Welcome.setup.loader.order_file .Welcome.setup.loader.order_tolerance \
        .Welcome.setup.loader.pad .Welcome.setup.loader.part.index .Welcome.setup.loader.part.of \
        .Welcome.setup.loader.pin_cores .Welcome.setup.loader.pin_samplers .Welcome.setup.loader.prepare \
        .Welcome.setup.loader.reader .Welcome.setup.loader.replace .Welcome.setup.loader.sampler_kind \
        .Welcome.setup.loader.samplers .Welcome.setup.loader.seed .Welcome.setup.loader.seed_order \
        .Welcome.setup.loader.shapes .Welcome.setup.loader.shared_samplers .Welcome.setup.loader.shuffled.test .Welcome.setup.loader.shuffled.train \
        .Welcome.setup.loader.shuffled.valid .Welcome.setup.loader.slot_bytes .Welcome.setup.loader.slot_room \
        .Welcome.setup.loader.standby.from .Welcome.setup.loader.standby.ranks .Welcome.setup.loader.sums_by_counts .Welcome.setup.loader.sums_chosen_for .Welcome.setup.loader.walk_length \
        .Welcome.setup.loader.walk_stop .Welcome.setup.loader.walks .Welcome.setup.passes.epochs \
        .Welcome.setup.passes.start.batch .Welcome.setup.passes.start.epoch .Welcome.setup.passes.steered \
        .Welcome.setup.passes.test .Welcome.setup.passes.validate .Welcome.setup.serves .Welcome.setup.stages knock.part.index \
        knock.part.of knock.pid knock.protocol knock.secret knock.version";
}
