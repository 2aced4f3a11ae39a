//! `OUT.propagating`: the finished work of an incomplete hop set, from which an interrupted run resumes.
//!
//! | file | content |
//! |---|---|
//! | `folder` | the names that a run creates there; a folder with any other entry is refused, and not changed |
//! | `lock` | one process at a time; its file marks the folder as one of this program |
//! | `part` | some columns of one hop, as they are computed |
//! | `transpose` | the graph with all edges reversed, for `col` |
//! | `journal` | the options, and every finished part and file with length and hash |
//! | `assemble` | assembly of parts to the files of the hop set |
//! | `remaining_work` | the work that an earlier run did not finish |

pub(crate) mod assemble;
pub(crate) mod folder;
pub(crate) mod journal;
pub(crate) mod lock;
pub(crate) mod part;
pub(crate) mod remaining_work;
pub(crate) mod transpose;
