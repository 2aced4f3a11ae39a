//! `OUT.propagating`: what is finished of a hop set that is being made, and how an interrupted run is resumed.
//!
//! | file | what it is for |
//! |---|---|
//! | `folder` | the names that a run creates there; a folder with any other entry is refused, and none is removed |
//! | `lock` | one process at a time; its file marks the folder as one of this program's |
//! | `part` | some columns of one hop, as they are computed |
//! | `transpose` | the graph with all edges reversed, for `col` |
//! | `journal` | the options, and every finished part and file with length and hash |
//! | `assemble` | parts put together to the files of the hop set |
//! | `remaining_work` | what an earlier run has left to do |

pub(crate) mod assemble;
pub(crate) mod folder;
pub(crate) mod journal;
pub(crate) mod lock;
pub(crate) mod part;
pub(crate) mod remaining_work;
pub(crate) mod transpose;
