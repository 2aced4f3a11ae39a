//! Batches of disjoint trees through a runtime: their columns, and what is refused.

use serde_json::json;
use uva_batch::Column;
use uva_graph::npy::NpyType;
use uva_graph::{NodeType, Split};
use uva_options::PartialOptions;
use uva_runtime::LoaderOptions;
use uva_runtime::options::Prepare;
use uva_sample::{Expand, TimePick, TimeRule};

use super::typed::{check, fixture, options, runtime};

const PAPER: NodeType = NodeType(0);
const PAPER_TIMES: [i64; 6] = [2, 0, 3, 4, 1, 5];
const WRITES: &str = "edges/author__writes__paper";

/// The library with times of the edges of `writes`, and of the training papers.
fn timed() -> fixture::Library {
    let mut library = fixture::library();
    library.write(&format!("{WRITES}/time"), NpyType::I64, &[], &[1_i64, 2, 2, 3, 0, 1, 4, 4, 5, 9, 9, 9]);
    library.write("nodes/paper/train_time", NpyType::I64, &[], &[3_i64, 9, 5]);
    library.change(|meta| meta["edges"][1]["order"] = json!("time"));
    library
}

fn limited(rule: TimeRule) -> LoaderOptions {
    LoaderOptions { time_rule: Some(rule), seed_time: Some(-4), ..options() }
}

#[test]
fn trees_are_those_of_a_sampler_with_samplers_and_workers() {
    let library = timed();
    let dataset = library.open();
    let rules = [
        LoaderOptions { disjoint: true, ..options() },
        limited(TimeRule::UntilSeed),
        LoaderOptions { time_window: Some(3), time_pick: TimePick::Last, ..limited(TimeRule::BeforeSeed) },
        LoaderOptions { disjoint: true, expand: Expand::New, ..limited(TimeRule::Decreasing) },
    ];
    for (samplers, prepare) in [(1, Prepare::Roles), (3, Prepare::Roles), (2, Prepare::Whole)] {
        for rule in &rules {
            let options = LoaderOptions { samplers, prepare, ..rule.clone() };
            let mut runtime = runtime(&library, options.clone()).unwrap();
            let mut batches = 0;
            while let Some(batch) = runtime.next_batch().unwrap() {
                check(&dataset, &options, &batch);
                let times = batch.column_of(Column::SeedTime.of(PAPER)).map(|times| times.i64().unwrap());
                assert_eq!(times.is_ok(), options.time_rule.is_some());
                let of_train = dataset.split_times_of(PAPER, Split::Train).unwrap();
                let input_id = batch.column_of(Column::InputId.of(PAPER)).unwrap().i64().unwrap();
                let wanted = input_id.iter().map(|&at| match batch.split() {
                    Split::Train => of_train[at as usize],
                    _ => -4,
                });
                assert!(times.map_or(true, |times| times.iter().copied().eq(wanted)));
                batches += 1;
            }
            // Two batches of training papers and one to validate, in two epochs.
            assert_eq!(batches, 6);
        }
    }
}

#[test]
fn seeds_have_the_times_of_their_nodes_without_others() {
    let mut library = timed();
    // Papers are neighbours in these relations, whose lists ascend by the times below.
    library.change(|meta| {
        for edges in [0, 3, 4] {
            meta["edges"][edges]["order"] = json!("time");
        }
    });
    std::fs::remove_file(library.path.join("nodes/paper/train_time.npy")).unwrap();
    library.write("nodes/paper/time", NpyType::I64, &[], &PAPER_TIMES);
    let mut runtime = runtime(&library, limited(TimeRule::UntilSeed)).unwrap();
    while let Some(batch) = runtime.next_batch().unwrap() {
        let times = batch.column_of(Column::SeedTime.of(PAPER)).unwrap().i64().unwrap();
        assert!(batch.seeds_of(PAPER).iter().map(|seed| &PAPER_TIMES[*seed as usize]).eq(times));
    }
}

#[test]
fn what_trees_do_not_support_is_refused_by_name() {
    let refusal = |library: &fixture::Library, change: &dyn Fn(&mut LoaderOptions)| {
        let mut options = limited(TimeRule::UntilSeed);
        change(&mut options);
        let refused = runtime(library, options).map(drop).unwrap_err();
        assert_eq!(refused.exit_code(), 2, "{refused}");
        refused.to_string()
    };
    let mut library = timed();
    let missing = refusal(&library, &|options| options.seed_time = None);
    let wanted = "time_rule: seeds of paper have no time: valid_time.npy, time.npy or seed_time";
    assert!(missing.contains(wanted), "{missing}");
    let labor = refusal(&library, &|options| options.sampler_kind = uva_runtime::SamplerKind::LABOR);
    assert!(labor.contains("not supported with disjoint trees, which share no nodes"), "{labor}");
    let last = refusal(&library, &|options| (options.time_pick, options.replace) = (TimePick::Last, true));
    assert!(last.contains("time_pick=last"), "{last}");
    library.change(|meta| _ = meta["edges"][1].as_object_mut().unwrap().remove("order"));
    let unsorted = refusal(&library, &|_| ());
    assert!(
        unsorted.contains("author__writes__paper") && unsorted.contains("\"order\": \"time\""),
        "{unsorted}"
    );
    let untimed = refusal(&fixture::library(), &|_| ());
    assert!(untimed.contains("time_rule: no relation and no node type has time.npy"), "{untimed}");
    let alone = |field: &str, text: &str| {
        let mut given = PartialOptions::<LoaderOptions>::default();
        given.give(field, text)?;
        given.check_use(&given.options())
    };
    for (field, text) in [("time_window", "3"), ("time_pick", "last"), ("seed_time", "-3")] {
        let refused = alone(field, text).unwrap_err().to_string();
        assert!(refused.contains(field) && refused.contains("time_rule"), "{refused}");
    }
    let negative = alone("time_window", "-1").unwrap_err().to_string();
    assert!(negative.contains("time_window"), "{negative}");
}
