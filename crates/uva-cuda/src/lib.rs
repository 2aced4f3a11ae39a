//! All that is CUDA, behind typed calls. Being written.
