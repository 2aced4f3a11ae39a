//! A stand-in libcuda. Being written.
