//! The stamp: the checks that it saves, its invalidation, and its path.

use std::fs;
use std::time::{Duration, SystemTime};

use crate::common::{INDICES, Small, names, settle, small};
use uva_graph::npy::NpyType;
use uva_graph::{Dataset, Verify};

const STAMP: &str = ".uvatrain-stamp.json";

/// A dataset whose files were last changed long ago: younger files get no stamp.
fn settled() -> Small {
    let small = small();
    settle(&small.path);
    small
}

fn age(small: &Small, seconds: u64) {
    let then = SystemTime::now() - Duration::from_secs(seconds);
    for name in names(&small.path) {
        fs::File::options().write(true).open(small.path.join(name)).unwrap().set_modified(then).unwrap();
    }
    settle(&small.path);
}

#[test]
fn the_second_open_skips_only_the_edges() {
    let small = settled();
    let first = small.open();
    assert!(first.verification().edges_checked && !first.verification().from_stamp);
    assert_eq!(first.verification().stamp.as_deref(), Some(small.path.join(STAMP).as_path()));
    let second = small.open();
    assert!(!second.verification().edges_checked && second.verification().from_stamp);
    assert!(names(&small.path).iter().all(|name| !name.ends_with(".partial")));
    for how in [Verify::Full, Verify::FullWithFeatures] {
        let full = Dataset::open_verified(&small.path, how).unwrap();
        assert!(full.verification().edges_checked && !full.verification().from_stamp);
    }
    let headers = Dataset::open_verified(&small.path, Verify::HeadersOnly).unwrap();
    assert!(!headers.verification().edges_checked && !headers.verification().from_stamp);
}

#[test]
fn a_file_of_another_time_or_size_makes_the_stamp_void() {
    let small = settled();
    small.open();
    small.write("indices", NpyType::I32, &[], &[1, 2, 99, 1, 0]);
    let message = small.refusal(Verify::Stamp);
    assert!(message.contains("indices.npy: entry 2"), "{message}");
    small.write("indices", NpyType::I32, &[], &INDICES);
    assert!(small.open().verification().edges_checked);
    age(&small, 1800);
    assert!(small.open().verification().edges_checked);
    assert!(small.open().verification().from_stamp);
    small.write("weight", NpyType::F32, &[], &[1_f32; 5]);
    assert!(small.open().verification().edges_checked, "a file that is new is a change too");
}

#[test]
fn bytes_written_in_place_under_the_old_time_make_the_stamp_void() {
    let small = settled();
    small.open();
    assert!(small.open().verification().from_stamp);
    let indices = fs::File::options().write(true).open(small.file("indices")).unwrap();
    let before = indices.metadata().unwrap();
    small.change("indices", |bytes| bytes[136..140].copy_from_slice(&99_i32.to_le_bytes()));
    indices.set_modified(before.modified().unwrap()).unwrap();
    let after = fs::metadata(small.file("indices")).unwrap();
    assert_eq!((before.len(), before.modified().unwrap()), (after.len(), after.modified().unwrap()));
    let message = small.refusal(Verify::Stamp);
    assert!(message.contains("indices.npy: entry 2"), "{message}");
}

#[test]
fn a_stamp_without_status_change_times_counts_as_none() {
    let small = settled();
    small.open();
    let path = small.path.join(STAMP);
    let mut stamp: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for file in stamp["files"].as_object_mut().unwrap().values_mut() {
        assert!(file.as_object_mut().unwrap().shift_remove("changed_ns").is_some());
    }
    fs::write(&path, stamp.to_string()).unwrap();
    assert!(small.open().verification().edges_checked);
    assert!(small.open().verification().from_stamp);
}

#[test]
fn other_permissions_or_a_hard_link_cost_one_check() {
    use std::os::unix::fs::PermissionsExt;
    let small = settled();
    small.open();
    fs::set_permissions(small.file("indices"), fs::Permissions::from_mode(0o600)).unwrap();
    settle(&small.path);
    assert!(small.open().verification().edges_checked);
    assert!(small.open().verification().from_stamp);
    fs::hard_link(small.file("indices"), small.directory.path().join("link")).unwrap();
    settle(&small.path);
    assert!(small.open().verification().edges_checked);
    assert!(small.open().verification().from_stamp);
}

#[test]
fn files_changed_a_moment_ago_get_no_stamp() {
    let small = settled();
    small.write("indices", NpyType::I32, &[], &INDICES);
    let future = SystemTime::now() + Duration::from_secs(60);
    fs::File::options().write(true).open(small.file("indices")).unwrap().set_modified(future).unwrap();
    assert_eq!(small.open().verification().stamp, None);
    assert!(!small.path.join(STAMP).exists());
}

#[test]
fn a_broken_stamp_is_as_good_as_none() {
    let small = settled();
    small.open();
    let stamp = fs::read_to_string(small.path.join(STAMP)).unwrap();
    for broken in
        ["", "{", "[]", &stamp.replace("\"version\": 1", "\"version\": 0"), &stamp[..stamp.len() / 2]]
    {
        fs::write(small.path.join(STAMP), broken).unwrap();
        assert!(small.open().verification().edges_checked, "{broken}");
        assert!(small.open().verification().from_stamp);
    }
}

#[test]
fn a_planted_stamp_is_neither_followed_nor_waited_for() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let small = settled();
    let victim = small.directory.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    let (stamp, partial) = (small.path.join(STAMP), small.path.join(format!("{STAMP}.partial")));
    // The former temporary name of a stamp.
    std::os::unix::fs::symlink(&victim, &partial).unwrap();
    let plant = |what| match what {
        "link" => std::os::unix::fs::symlink(&victim, &stamp).unwrap(),
        "pipe" => mknodat(CWD, &stamp, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
        "zero" => std::os::unix::fs::symlink("/dev/zero", &stamp).unwrap(),
        _ => {}
    };
    for what in ["link", "pipe", "zero", "nothing"] {
        let _ = fs::remove_file(&stamp);
        plant(what);
        assert!(small.open().verification().edges_checked, "{what}");
        assert!(fs::symlink_metadata(&stamp).unwrap().is_file(), "{what}");
        assert!(small.open().verification().from_stamp, "{what}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine", "{what}");
        assert!(fs::symlink_metadata(&partial).unwrap().is_symlink(), "{what}");
    }
}
