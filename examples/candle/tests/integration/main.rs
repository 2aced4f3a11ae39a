//! Tests of the example as a program: it runs, and it learns from the edges.

mod trains;
