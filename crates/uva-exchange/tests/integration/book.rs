//! The owner of each row.

use proptest::prelude::*;
use uva_exchange::{Book, BookError};

#[test]
fn rows_belong_to_the_range_that_contains_them_and_empty_parts_own_none() {
    let book = Book::new(&[0, 0, 3, 3, 3, 10, 10]).unwrap();
    assert_eq!((book.parts(), book.rows()), (6, 10));
    let owners: Vec<_> = (0..12).map(|row| book.owner(row)).collect();
    let (one, four) = (Some(1), Some(4));
    assert_eq!(owners, [one, one, one, four, four, four, four, four, four, four, None, None]);
    assert_eq!((book.range(0), book.range(4)), (0..0, 3..10));
    assert_eq!(book.owner(u64::MAX), None);
}

#[test]
fn boundaries_that_do_not_partition_are_refused_by_name() {
    assert_eq!(Book::new(&[]), Err(BookError::TooFew(0)));
    assert_eq!(Book::new(&[0]), Err(BookError::TooFew(1)));
    assert_eq!(Book::new(&[1, 2]), Err(BookError::First(1)));
    let descending = BookError::Descending { index: 2, value: 4, before: 5 };
    assert_eq!(descending.to_string(), "boundary 2 is 4, below the 5 before it");
    assert_eq!(Book::new(&[0, 5, 4]), Err(descending));
    assert_eq!(Book::new(&[0, 1 << 63]), Err(BookError::TooManyRows(1 << 63)));
    assert_eq!(Book::even(5, 0), Err(BookError::TooFew(1)));
    assert_eq!(Book::even(7, 3).unwrap().bounds(), [0, 3, 5, 7]);
    assert_eq!(Book::even(1, 3).unwrap().bounds(), [0, 1, 1, 1]);
}

proptest! {
    #[test]
    fn each_row_has_exactly_the_owner_whose_range_contains_it(
        lengths in prop::collection::vec(0u64..6, 1..9),
    ) {
        let mut bounds = vec![0];
        for length in lengths {
            bounds.push(bounds[bounds.len() - 1] + length);
        }
        let book = Book::new(&bounds).unwrap();
        for row in 0..book.rows() + 2 {
            let owners: Vec<_> = (0..book.parts()).filter(|&part| book.range(part).contains(&row)).collect();
            prop_assert_eq!(book.owner(row).into_iter().collect::<Vec<_>>(), owners);
        }
    }
}
