//! Files that name nodes.

use std::fs;
use std::path::Path;

use uva_graph::npy::{NpyType, write_array};
use uva_graph::{GraphError, node_file};

fn read(path: &Path) -> Result<Vec<i64>, GraphError> {
    node_file::read(path, 5, "nodes")
}

#[test]
fn ids_a_mask_and_text_are_read_in_their_order() {
    let temp = tempfile::tempdir().unwrap();
    let file = |name: &str| temp.path().join(name);
    write_array(&file("wide.npy"), NpyType::I64, &[], &[4_i64, 0, 4]).unwrap();
    write_array(&file("narrow.npy"), NpyType::I32, &[], &[4_i32, 0, 4]).unwrap();
    fs::copy(file("wide.npy"), file("array.ids")).unwrap();
    fs::write(file("ids.txt"), " 4\r\n\n0\n+4").unwrap();
    for name in ["wide.npy", "narrow.npy", "array.ids", "ids.txt"] {
        assert_eq!(read(&file(name)).unwrap(), [4, 0, 4], "{name}");
    }
    write_array(&file("mask.npy"), NpyType::Bool, &[], &[1_u8, 0, 0, 1, 1]).unwrap();
    assert_eq!(read(&file("mask.npy")).unwrap(), [0, 3, 4]);
    // Where the nodes are not known, any number names one.
    let unbounded = |name: &str| node_file::read_unbounded(&file(name), "nodes").unwrap();
    assert_eq!((unbounded("ids.txt"), unbounded("mask.npy")), (vec![4, 0, 4], vec![0, 3, 4]));
    fs::write(file("large.txt"), "99999999999").unwrap();
    assert_eq!(unbounded("large.txt"), [99_999_999_999]);
}

#[test]
fn an_invalid_node_is_refused_with_file_place_and_number_of_nodes() {
    let temp = tempfile::tempdir().unwrap();
    let outside = "outside the ids 0 to 4 of the dataset's 5 nodes";
    let refused = |name: &str, problem: &str| {
        let path = temp.path().join(name);
        let error = read(&path).unwrap_err();
        assert_eq!(error.to_string(), format!("`nodes`: {}: {problem}", path.display()));
        assert_eq!((error.field().as_deref(), error.is_bad_input()), (Some("nodes"), true));
        fs::remove_file(path).unwrap();
    };
    let array = |ids: &[i64]| write_array(&temp.path().join("ids.npy"), NpyType::I64, &[], ids).unwrap();
    let text = |text: &str| fs::write(temp.path().join("ids.txt"), text).unwrap();
    array(&[]);
    refused("ids.npy", "there is no node in it");
    array(&[0, 5]);
    refused("ids.npy", &format!("entry 1 is 5, {outside}"));
    array(&[i64::MIN]);
    refused("ids.npy", &format!("entry 0 is {}, {outside}", i64::MIN));
    text("\n\n");
    refused("ids.txt", "there is no node in it");
    text("0\n\n-1\n");
    refused("ids.txt", &format!("line 3 is -1, {outside}"));
    text("0\n1 2\n");
    refused("ids.txt", "line 2 is '1 2': expected a node id");
}

#[test]
fn other_arrays_and_files_are_refused_by_their_name() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("nodes.npy");
    let refused = |problem: &str| {
        let error = read(&path).unwrap_err();
        assert!(error.path() == Some(&*path) && error.is_bad_input(), "{error}");
        assert!(error.to_string().ends_with(problem), "{error}");
        fs::remove_file(&path).ok();
    };
    refused("No such file or directory (os error 2)");
    write_array(&path, NpyType::F32, &[], &[1.0_f32]).unwrap();
    refused("the element type is float32, it has to be int64 or int32 (ids), or bool (a mask)");
    write_array(&path, NpyType::I64, &[2], &[1_i64, 2]).unwrap();
    refused("the shape is [1, 2], it has to be [ids]");
    write_array(&path, NpyType::Bool, &[], &[1_u8, 0]).unwrap();
    refused("the shape is [2], it has to be [5], an entry for each node");
    fs::write(&path, "1\n2\n").unwrap();
    assert!(read(&path).unwrap_err().is_bad_input());
    fs::remove_file(&path).unwrap();
    let text = temp.path().join("nodes.txt");
    fs::write(&text, [0xff]).unwrap();
    let error = read(&text).unwrap_err();
    assert!(error.to_string().contains("nodes.txt: cannot read: its byte 0 is not UTF-8 text"), "{error}");
}
