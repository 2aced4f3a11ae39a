//! The pages of feature rows in host memory.

use uva_options::named;

named! {
    /// The pages of the feature table that CPU threads read.
    pub enum HostPages = Auto {
        /// 2 MiB pages if the file is on smaller ones, a copy fits into memory, and the run is long enough to gain from
        /// it.
        Auto = "auto",
        /// The pages of the mapped file.
        Mapped = "mapped",
        /// A copy of the table on 2 MiB pages.
        Huge = "huge",
    }
}
