//! The call, against a stand-in that judges what it is given (tests/metis.c).

use std::path::{Path, PathBuf};
use std::process::Command;

use uva_metis::{Lists, Metis, MetisError};

/// The stand-in with numbers of this type.
fn stand_in(folder: &Path, number: &str) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/metis.c");
    let library = folder.join(format!("libmetis-{number}.so"));
    let compiler = std::env::var_os("CXX").unwrap_or("c++".into());
    let mut build = Command::new(compiler);
    build
        .args(["-x", "c", "-shared", "-fPIC"])
        .arg(format!("-DIDX={number}"))
        .arg(source)
        .arg("-o")
        .arg(&library);
    let built = build.output().expect("a C++ compiler is needed");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library
}

/// Nodes 0 to 4 in a ring, the edge between 4 and 0 of weight 2.
const RING: Lists<'static> = Lists {
    begins: &[0, 2, 4, 6, 8, 10],
    entries: &[1, 4, 0, 2, 1, 3, 2, 4, 0, 3],
    weights: &[1, 2, 1, 1, 1, 1, 1, 1, 2, 1],
    marks: &[true, false, false, true, false],
};

#[test]
fn numbers_of_either_width_reach_the_library_and_its_parts_come_back() {
    let temp = tempfile::tempdir().unwrap();
    for number in ["int32_t", "int64_t"] {
        let metis = Metis::open_at(&stand_in(temp.path(), number)).unwrap();
        assert_eq!(metis.divide(RING, 2), Ok(vec![0, 0, 0, 1, 1]), "{number}");
        assert_eq!(metis.divide(RING, 5), Ok(vec![0, 1, 2, 3, 4]), "{number}");
        let one_way = Lists { weights: &[1, 1, 1, 1, 1, 1, 1, 1, 2, 1], ..RING };
        let Err(MetisError::Refused { code: -2, .. }) = metis.divide(one_way, 2) else {
            panic!("weights that differ by direction were taken")
        };
        let no_marks = Lists { marks: &[false; 5], ..RING };
        let refused = metis.divide(no_marks, 2).unwrap_err().to_string();
        assert_eq!(refused, "METIS_PartGraphKway returned -3: it could not get the memory that it needs");
    }
}

#[test]
fn a_file_that_is_no_metis_says_what_it_lacks_and_none_how_to_install_it() {
    let temp = tempfile::tempdir().unwrap();
    let missing = Metis::open_at(&temp.path().join("libmetis.so.5")).unwrap_err().to_string();
    assert!(missing.contains("No such file") && missing.contains("apt install libmetis5"), "{missing}");
    // The stand-in under another name of its functions.
    let source = temp.path().join("other.c");
    std::fs::write(&source, "int METIS_SetDefaultOptions(void *options) { return 1; }").unwrap();
    let other = temp.path().join("libother.so");
    let compiler = std::env::var_os("CXX").unwrap_or("c++".into());
    let built = Command::new(compiler)
        .args(["-x", "c", "-shared", "-fPIC"])
        .arg(&source)
        .arg("-o")
        .arg(&other)
        .status();
    assert!(built.unwrap().success());
    let lacking = Metis::open_at(&other).unwrap_err().to_string();
    assert!(lacking.ends_with("libother.so is no METIS 5: it has no METIS_PartGraphKway"), "{lacking}");
}
