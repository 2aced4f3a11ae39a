//! Compares the moved bytes with a plain loop: a figure for wrong bytes is invalid.

use super::error::PcieError;

/// Compared bytes: all of a gather up to this size, and about as many in rows evenly spread over a larger one.
const COMPARED_BYTES: usize = 32 << 20;

/// Compares gathered rows with the table's. Returns the number of compared rows, which always include the first and the
/// last.
///
/// `what` names the gather in the error.
///
/// # Errors
/// [`PcieError::Wrong`] for the first row that differs.
pub fn verify_rows(
    what: &str,
    table: &[u8],
    row_bytes: usize,
    ids: &[i64],
    out: &[u8],
) -> Result<usize, PcieError> {
    let wrong = |position: usize, byte: usize| PcieError::Wrong {
        what: what.to_owned(),
        position,
        id: ids[position],
        byte,
    };
    // Odd, so that no pattern of a power of two is missed.
    let step = ((ids.len().saturating_mul(row_bytes)) / COMPARED_BYTES) | 1;
    let mut looked_at = 0;
    let last = ids.len().checked_sub(1);
    for position in (0..ids.len()).step_by(step).chain(last.filter(|last| last % step != 0)) {
        let row = &out[position * row_bytes..][..row_bytes];
        let expected = &table[ids[position] as usize * row_bytes..][..row_bytes];
        if row != expected {
            let byte = row.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(0);
            return Err(wrong(position, byte));
        }
        looked_at += 1;
    }
    Ok(looked_at)
}

/// Compares returned bytes with those that were sent; `from` is the position of the first.
pub(super) fn check_bytes(what: &str, from: usize, expected: &[u8], found: &[u8]) -> Result<(), PcieError> {
    match expected.iter().zip(found).position(|(a, b)| a != b) {
        _ if expected == found => Ok(()),
        differs => {
            let position = from + differs.unwrap_or_else(|| expected.len().min(found.len()));
            Err(PcieError::WrongBytes { what: what.to_owned(), position })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(ids: &[i64], table: &[u8], row_bytes: usize) -> Vec<u8> {
        ids.iter().flat_map(|&id| table[id as usize * row_bytes..][..row_bytes].to_vec()).collect()
    }

    #[test]
    fn one_wrong_byte_is_found_and_named() {
        let table: Vec<u8> = (0..1000u32).map(|i| (i * 7 / 3) as u8).collect();
        let ids = [3, 0, 99, 50];
        let out = gathered(&ids, &table, 10);
        assert_eq!(verify_rows("a gather", &table, 10, &ids, &out).unwrap(), 4);
        for at in 0..out.len() {
            let mut wrong = out.clone();
            wrong[at] ^= 1;
            let error = verify_rows("a gather", &table, 10, &ids, &wrong).unwrap_err();
            let PcieError::Wrong { position, id, byte, .. } = error else { panic!("{error}") };
            assert_eq!((position, id, byte), (at / 10, ids[at / 10], at % 10));
        }
    }

    #[test]
    fn a_row_from_the_wrong_place_is_found() {
        let table: Vec<u8> = (0..100u8).collect();
        let out = gathered(&[1, 2, 3], &table, 4);
        assert!(verify_rows("a gather", &table, 4, &[1, 3, 2], &out).is_err());
    }

    #[test]
    fn of_a_large_gather_rows_all_over_it_are_compared_the_last_one_too() {
        let row_bytes = 1 << 20;
        let table = vec![7; row_bytes];
        let ids = vec![0; 100];
        let mut out = vec![7; 100 * row_bytes];
        let looked_at = verify_rows("a gather", &table, row_bytes, &ids, &out).unwrap();
        assert!((30..100).contains(&looked_at), "{looked_at}");
        *out.last_mut().unwrap() = 8;
        assert!(verify_rows("a gather", &table, row_bytes, &ids, &out).is_err());
    }

    #[test]
    fn nothing_gathered_is_right() {
        assert_eq!(verify_rows("a gather", &[], 10, &[], &[]).unwrap(), 0);
    }
}
