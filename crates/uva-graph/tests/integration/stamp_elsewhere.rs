//! The stamp of a dataset whose directory cannot be written lies in the cache directory. The test starts itself again,
//! with an XDG_CACHE_HOME for that process alone.

use std::fs;
use std::process::Command;

use crate::common::{names, settle, small};
use uva_graph::Dataset;

const INSIDE: &str = "UVATRAIN_TEST_STAMP_INSIDE";

#[test]
fn the_stamp_of_an_unwritable_directory_is_in_the_cache() {
    if let Some(path) = std::env::var_os(INSIDE) {
        let first = Dataset::open(path.as_ref()).unwrap();
        let second = Dataset::open(path.as_ref()).unwrap();
        println!("{} {}", first.verification().from_stamp, second.verification().from_stamp);
        println!("left {:?}", first.verification().stamp);
        return;
    }
    let small = small();
    settle(&small.path);
    // A directory at the stamp's path refuses it even for root, whom permissions do not stop.
    fs::create_dir(small.path.join(".uvatrain-stamp.json")).unwrap();
    let before = names(&small.path);
    let cache = small.directory.path().join("cache");
    let inside = |cache: &std::path::Path| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "stamp_elsewhere::the_stamp_of_an_unwritable_directory_is_in_the_cache",
                "--nocapture",
            ])
            .env(INSIDE, &small.path)
            .env("XDG_CACHE_HOME", cache)
            .output()
            .unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let said = inside(&cache);
    assert!(said.contains("false true"), "{said}");
    assert!(said.contains("cache/uvatrain/stamps/"), "{said}");
    let said = inside(&cache);
    assert!(said.contains("true true"), "{said}");
    assert_eq!(names(&cache.join("uvatrain/stamps")).len(), 1);
    assert_eq!(names(&small.path), before);
}
