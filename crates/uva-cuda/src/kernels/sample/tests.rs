use super::*;
use crate::module::SAMPLE;

fn header(name: &str) -> &'static str {
    SAMPLE.headers.iter().find(|(known, _)| *known == name).unwrap().1
}

#[test]
fn the_constants_are_those_of_the_header() {
    let defined = |name: &str| {
        let prefix = format!("#define {name} ");
        header("sample.cuh").lines().find_map(|line| line.strip_prefix(&prefix)?.trim().parse().ok())
    };
    assert_eq!(defined("UVA_SAMPLE_BLOCK_THREADS"), Some(BLOCK_THREADS as usize));
    assert_eq!(defined("UVA_SAMPLE_LAYERS"), Some(LAYERS));
}

/// The fields of a struct in the header, in order, each with its type's bytes.
fn fields(name: &str) -> Vec<(String, usize)> {
    let text = header("sample.cuh");
    let body = text.split_once(&format!("struct {name} {{")).unwrap().1.split_once("};").unwrap().0;
    body.lines()
        .filter_map(|line| line.split("//").next()?.trim().strip_suffix(';'))
        .map(|field| {
            let (kind, name) = field.rsplit_once([' ', '*']).unwrap();
            let bytes = if field.contains('*') || kind.contains("long long") { 8 } else { 4 };
            (name.split('[').next().unwrap().to_owned(), bytes)
        })
        .collect()
}

/// The fields of a struct here, in order, as its debug output names them.
fn fields_of(value: impl std::fmt::Debug) -> Vec<String> {
    let text = format!("{value:#?}");
    let of_the_struct = |line: &str| line.starts_with("    ") && !line.starts_with("     ");
    text.lines()
        .filter(|line| of_the_struct(line))
        .filter_map(|line| Some(line.trim().split_once(": ")?.0.to_owned()))
        .collect()
}

#[test]
fn arguments_and_report_have_the_fields_of_the_header() {
    let names = |name: &str| fields(name).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names("SampleArguments"), fields_of(SampleArguments::default()));
    assert_eq!(names("SampleReport"), fields_of(SampleReport::default()));
    assert_eq!(names("SampleLayer"), fields_of(SampleLayer::default()));
    // With the sizes equal and the order too, equal widths leave no way to differ.
    let narrow: Vec<String> = fields("SampleArguments")
        .into_iter()
        .filter(|(_, bytes)| *bytes == 4)
        .map(|(name, _)| name)
        .collect();
    let expected =
        ["batch", "epoch_and_split", "batch_dependency", "stamp", "layer", "fanout", "replace", "group"];
    assert_eq!(narrow, expected);
}

#[test]
fn every_kernel_that_is_launched_is_in_the_source_and_at_its_place() {
    for name in NAMES {
        assert!(SAMPLE.text.contains(&format!(" {name}(")), "{name}");
    }
    let places = [
        BEGIN,
        SEEDS,
        CHECK,
        LISTS,
        OFFSETS,
        PICKS,
        IDS,
        IDS + 1,
        FRESH,
        ASSIGN,
        RELABEL,
        NODES,
        EDGE_IDS,
        LABOR,
        LABOR + 1,
        WEIGH,
        TOTALS,
        WEIGHTED,
    ];
    assert!(places.into_iter().eq(0..NAMES.len()));
    for (place, step) in [
        (LISTS, "lists"),
        (OFFSETS, "offsets"),
        (PICKS, "picks"),
        (FRESH, "fresh"),
        (EDGE_IDS, "edge_ids"),
        (WEIGH, "weigh"),
        (TOTALS, "totals"),
        (WEIGHTED, "weighted"),
    ] {
        assert_eq!(NAMES[place], format!("sample_{step}"));
    }
    assert_eq!(NAMES[IDS + IdWidth::I32 as usize], "sample_ids_i32");
    assert_eq!(NAMES[IDS + IdWidth::I64 as usize], "sample_ids_i64");
    assert_eq!(NAMES[LABOR + IdWidth::I32 as usize], "sample_labor_i32");
    assert_eq!(NAMES[LABOR + IdWidth::I64 as usize], "sample_labor_i64");
}

#[test]
fn a_report_is_read_from_its_bytes() {
    let mut bytes = [0; SampleReport::BYTES];
    for word in 0..SampleReport::BYTES / 8 {
        bytes[word * 8..][..8].copy_from_slice(&(word as u64 + 1).to_ne_bytes());
    }
    let report = SampleReport::from_bytes(&bytes);
    assert_eq!((report.stamp, report.hash, report.no_room, report.done), (1, 4, 20, 29));
    assert_eq!(report.layers[0], SampleLayer { destinations: 30, sources: 31, edges: 32 });
    assert_eq!(report.layers[31].edges, 125);
}

fn arguments() -> SampleArguments {
    SampleArguments {
        indptr: 0x1000,
        indices: 0x2000,
        nodes: 10,
        edges: 20,
        batch_dependency: 1,
        stamp: 1,
        fanout: 3,
        group: 256,
        seeds: 2,
        batch_nodes: 0x3000,
        nodes_room: 8,
        block_indptr: 0x4000,
        destinations_room: 2,
        block_indices: 0x5000,
        edges_room: 6,
        local_ids: 0x6000,
        slots: 0x7000,
        begins: 0x8000,
        degrees: 0x9000,
        totals: 0xa000,
        report: 0xb000,
        ..SampleArguments::default()
    }
}

#[test]
fn arguments_that_no_memory_can_satisfy_are_refused() {
    let good = arguments();
    good.check(IdWidth::I64).unwrap();
    SampleArguments { indices: 0x2004, ..good }.check(IdWidth::I32).unwrap();
    for (wrong, told) in [
        (SampleArguments { indptr: 0, ..good }, "indptr"),
        (SampleArguments { nodes: u64::MAX / 4, ..good }, "indptr"),
        (SampleArguments { indices: 0x2004, ..good }, "aligned to 8"),
        (SampleArguments { cached_lists: 1, ..good }, "the cached indptr"),
        (SampleArguments { cached_lists: 11, cached_indptr: 0x100, ..good }, "more lists"),
        (SampleArguments { original_ids: 0x104, original_ids_wide: 1, ..good }, "the original ids"),
        (SampleArguments { nodes_room: 1 << 31, ..good }, "2^31"),
        (SampleArguments { edges_room: 1 << 31, ..good }, "2^31"),
        (SampleArguments { seeds: 9, ..good }, "9 seeds"),
        (SampleArguments { stamp: 0, ..good }, "its stamp"),
        (SampleArguments { fanout: 0, ..good }, "fanout"),
        (SampleArguments { layer: 32, ..good }, "layer 32"),
        (SampleArguments { report: 0xb004, ..good }, "the report"),
        (SampleArguments { totals: 0, ..good }, "the totals"),
        (SampleArguments { home_indptr: 0x100, ..good }, "the places in the dataset"),
        (SampleArguments { weights: 0x102, ..good }, "the weights"),
        (SampleArguments { existing: 0x104, ..good }, "the weights"),
        (SampleArguments { existing: 0x104, weights: 0x108, ..good }, "the heaviest weights"),
        (SampleArguments { kept_indptr: 0x100, kept_indices: 0x200, ..good }, "keeps"),
        (SampleArguments { kept_indptr: 0x100, layer: 1, ..good }, "keeps"),
        (SampleArguments { edge_ids: 0x104, ..good }, "the edge ids"),
    ] {
        let error = wrong.check(IdWidth::I64).unwrap_err();
        assert!(error.to_string().contains(told), "{error} should tell {told}");
    }
}
