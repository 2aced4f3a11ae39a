//! Limits of files of any origin: they must not lead to files of the user's, fill the memory, or send control
//! characters to the terminal.

use std::os::unix::fs::symlink;

use super::*;

/// Writes the Planetoid graph `fuzz`, of three nodes, into `graph`.
pub fn planetoid(place: &Place) {
    let source = sources::SOURCES.iter().find(|source| source.importer == "planetoid").unwrap();
    sources::pack(&place.path("graph"), source.files(), zip::CompressionMethod::Stored);
}

/// A graph's pickle in which this many nodes share one list of this many neighbours.
fn shared_lists(nodes: u32, neighbours: usize) -> Vec<u8> {
    let mut pickle = b"\x80\x02}(J\0\0\0\0]q\x01(".to_vec();
    pickle.extend(b"K\x01".repeat(neighbours));
    pickle.push(b'e');
    for node in 1..nodes {
        pickle.push(b'J');
        pickle.extend(node.to_le_bytes());
        pickle.extend(b"h\x01");
    }
    pickle.extend(b"u.");
    pickle
}

#[test]
fn lists_that_share_their_items_are_refused_before_they_are_taken_apart() {
    let place = Place::new();
    planetoid(&place);
    let plain = ImportOptions::default();
    place.import("planetoid", "graph", &plain).unwrap();
    // 3 MB of text, which would be 4 TB of ids.
    place.write("graph/ind.fuzz.graph", shared_lists(300_000, 500_000));
    let message = place.refusal("planetoid", "graph", &plain);
    assert!(message.contains("ind.fuzz.graph: its lists share their items"), "{message}");
    // A list that two nodes share is no larger than the file permits.
    place.write("graph/ind.fuzz.graph", shared_lists(3, 2));
    assert_eq!(lists(&place.import("planetoid", "graph", &plain).unwrap()), [vec![1], vec![0, 2], vec![1]]);
}

/// A dataset whose metadata has `path` instead of one of its files.
fn naming(place: &Place, path: &str) {
    graphbolt::write(place, &graphbolt::METADATA.replacen("path: edges.csv", &format!("path: {path}"), 1));
}

#[test]
fn metadata_leads_to_no_file_outside_of_its_directory() {
    let place = Place::new();
    let plain = ImportOptions::default();
    let secret = place.write("secret", "root:x:0:0\n");
    let secret = secret.to_str().unwrap();
    for path in ["../secret", "sub/../../secret", secret, "/etc/passwd"] {
        naming(&place, path);
        fs::create_dir_all(place.path("graph/sub")).unwrap();
        let message = place.refusal("graphbolt", "graph", &plain);
        assert!(
            message.contains("metadata.yaml: the file ") && message.contains("lies outside of"),
            "{message}"
        );
        assert!(!message.contains("root:"), "{message}");
    }
    // Through a link, for each file and for the metadata itself.
    for file in ["edges.csv", "node-feat.npy", "train-seeds.npy", "valid-labels.npy"] {
        let place = Place::new();
        graphbolt::write(&place, graphbolt::METADATA);
        let elsewhere = place.path(file);
        fs::rename(place.path("graph").join(file), &elsewhere).unwrap();
        symlink(&elsewhere, place.path("graph").join(file)).unwrap();
        let message = place.refusal("graphbolt", "graph", &plain);
        assert!(message.contains(&format!("the file {file} lies outside of")), "{message}");
    }
    let place = Place::new();
    graphbolt::write(&place, graphbolt::METADATA);
    fs::remove_file(place.path("graph/metadata.yaml")).unwrap();
    symlink(place.write("secret", "root:x:0:0\n"), place.path("graph/metadata.yaml")).unwrap();
    for source in ["graph", "graph/metadata.yaml"] {
        let message = place.refusal("graphbolt", source, &plain);
        assert!(message.contains("metadata.yaml: it is a link to a place outside of"), "{message}");
        assert!(!message.contains("root:"), "{message}");
    }
}

#[test]
fn links_and_names_within_the_directory_and_a_link_to_it_are_followed() {
    let place = Place::new();
    let plain = ImportOptions::default();
    naming(&place, "./sub/../edges.csv");
    fs::create_dir_all(place.path("graph/sub")).unwrap();
    fs::rename(place.path("graph/node-feat.npy"), place.path("graph/sub/feat.npy")).unwrap();
    symlink("sub/feat.npy", place.path("graph/node-feat.npy")).unwrap();
    symlink("graph", place.path("link")).unwrap();
    for source in ["graph", "link", "link/metadata.yaml"] {
        assert_eq!(place.import("graphbolt", source, &plain).unwrap().nodes(), 4, "{source}");
    }
}

/// Asserts that a message has no control characters, and no more of a file's content than necessary to name the place.
fn assert_harmless(message: &str) {
    let obeyed = |c: char| c.is_control() || matches!(c, '\u{202e}' | '\u{2066}');
    assert!(!message.contains(obeyed), "{message:?}");
    assert!(message.chars().count() < 900, "{} characters: {message}", message.chars().count());
}

#[test]
fn messages_quote_a_file_in_short_and_escaped() {
    let plain = ImportOptions::default();
    let evil = format!("\u{1b}[2J\u{202e}\u{9b}{}", "x".repeat(20_000));
    let yaml = serde_json::Value::from(evil.as_str()).to_string();
    let metadata = |from: &str, to: &str| {
        assert!(graphbolt::METADATA.contains(from), "{from}");
        graphbolt::METADATA.replacen(from, &to.replace("EVIL", &yaml), 1)
    };
    for text in [
        metadata("num: 4", "num: EVIL"),
        metadata("format: csv", "format: EVIL"),
        metadata("format: numpy", "format: EVIL"),
        metadata("path: edges.csv", "path: EVIL"),
        metadata("path: node-feat.npy", "path: EVIL"),
        metadata("    - num: 4\n", &"    - {type: EVIL, num: 4}\n".repeat(50)),
        metadata("  - name: node_classification\n", "  - name: EVIL\n  - name: EVIL\n"),
        metadata(
            "    name: feat\n",
            "    name: EVIL\n  - {domain: node, name: EVIL, format: numpy, path: a}\n  - domain: node\n    name: a\n",
        ),
    ] {
        let place = Place::new();
        graphbolt::write(&place, &text);
        assert_harmless(&place.refusal("graphbolt", "graph", &plain));
    }
    let place = Place::new();
    graphbolt::write(&place, graphbolt::METADATA);
    place.write("graph/edges.csv", format!("{evil}\n"));
    let message = place.refusal("graphbolt", "graph", &plain);
    assert!(message.contains("line 1 is '\\x1b[2J\\u{202e}\\u{9b}xxx"), "{message}");
    assert_harmless(&message);
    for (key, value) in [("classes", &yaml), ("feat_dtype", &yaml)] {
        place.write("graph/meta.json", format!("{{\"{key}\": {value}}}"));
        assert_harmless(&place.refusal("graphbolt", "graph", &plain));
        place.write("arrays/meta.json", format!("{{\"{key}\": {value}}}"));
        place.npy("arrays/feat.npy", NpyType::F32, &[1], &[0_f32]);
        assert_harmless(&place.refusal("npy", "arrays", &plain));
    }
    let place = Place::new();
    planetoid(&place);
    for (file, bytes) in [
        ("test.index", format!("{evil}\n").into_bytes()),
        ("graph", format!("c{evil}\n{evil}\n.").into_bytes()),
        // An array of an unknown type.
        ("y", {
            let whole = fs::read(place.path("graph/ind.fuzz.y")).unwrap();
            let at = whole
                .windows(4)
                .position(|window| window == b"U\x02i4" || window == b"U\x02f4" || window == b"U\x02i8");
            let at = at.expect("a dtype");
            [&whole[..at], b"U\x05\x1b[2J\n", &whole[at + 4..]].concat()
        }),
    ] {
        planetoid(&place);
        place.write(&format!("graph/ind.fuzz.{file}"), bytes);
        assert_harmless(&place.refusal("planetoid", "graph", &plain));
    }
    let place = Place::new();
    place.write("names.txt", format!("a {evil}\n"));
    place.write("graph.npz", npz(&[(&evil[..200], npy(NpyType::I64, &[], &[0_i64]))], true));
    let numbers = place.refusal("edgelist", "names.txt", &plain);
    assert_harmless(&numbers);
    assert_harmless(&place.refusal("gnn-npz", "graph.npz", &plain));
}
