//! Bytes that are written once: no process can change them afterwards, whatever descriptor it holds.

use std::os::fd::AsFd;

use uva_mem::{FrozenBytes, RegionError, SharedRegion};

fn counted() -> FrozenBytes {
    let fill = |bytes: &mut [u8]| (0..).zip(bytes).for_each(|(place, byte)| *byte = (place % 251) as u8);
    FrozenBytes::create("frozen-test", 10_000, fill).unwrap()
}

#[test]
fn every_receiver_of_the_descriptor_reads_what_was_filled_in() {
    let frozen = counted();
    let again =
        FrozenBytes::from_fd("frozen-test", frozen.fd().try_clone_to_owned().unwrap(), 10_000).unwrap();
    assert!((0..).zip(again.bytes()).all(|(place, byte)| *byte == (place % 251) as u8));
    assert_eq!(frozen.bytes(), again.bytes());
}

#[test]
fn nothing_can_change_them_any_more() {
    let frozen = counted();
    let fd = frozen.fd();
    assert!(rustix::io::pwrite(fd, b"other", 0).is_err());
    assert!(rustix::fs::ftruncate(fd, 1).is_err());
    assert!(rustix::fs::ftruncate(fd, 1 << 20).is_err());
    assert_eq!(frozen.bytes()[..3], [0, 1, 2]);
}

#[test]
fn a_descriptor_that_could_still_be_written_is_refused() {
    let open = SharedRegion::create("open", 4096).unwrap();
    let refused =
        FrozenBytes::from_fd("open", open.fd().unwrap().try_clone_to_owned().unwrap(), 4096).unwrap_err();
    assert!(matches!(&refused, RegionError::Mismatch { what, .. } if what.contains("changed")), "{refused}");
    let file = tempfile::tempfile().unwrap();
    let refused = FrozenBytes::from_fd("file", file.as_fd().try_clone_to_owned().unwrap(), 0).unwrap_err();
    assert!(matches!(&refused, RegionError::Mismatch { what, .. } if what.contains("memfd")), "{refused}");
}

#[test]
fn another_size_than_agreed_is_refused_with_both() {
    let frozen = counted();
    let fd = frozen.fd().try_clone_to_owned().unwrap();
    let refused = FrozenBytes::from_fd("frozen-test", fd, 9_999).unwrap_err().to_string();
    assert!(refused.contains("10000") && refused.contains("9999"), "{refused}");
}
