//! The benches of the link, as the program calls them. One program, one module a subject.

mod gather;
