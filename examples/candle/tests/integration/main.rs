//! The example as a program: it runs, and what it learns is in the edges.

mod trains;
