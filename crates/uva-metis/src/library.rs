//! The library's functions, and the call.

#![allow(unsafe_code)]

use std::error::Error as _;
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;

use libloading::Library;

use crate::error::MetisError;
use crate::lists::Lists;

/// The variable that names the library, in place of the loader's names.
pub const VARIABLE: &str = "UVATRAIN_METIS";

/// The library's names for the loader.
const NAMES: [&str; 2] = ["libmetis.so.5", "libmetis.so"];

/// `METIS_NOPTIONS`, of METIS 5.
const OPTIONS: usize = 40;

/// Weights of a node: that every node counts, and that a marked one does.
const CONSTRAINTS: usize = 2;

const OK: c_int = 1;

/// `METIS_SetDefaultOptions`: writes -1 into each of [`OPTIONS`] numbers.
type SetDefaultOptions = unsafe extern "C" fn(*mut c_void) -> c_int;

/// `METIS_PartGraphKway`: nodes, constraints, begins, entries, weights of nodes, sizes of nodes, weights of entries,
/// parts, wanted shares, allowed imbalance, options, the cut, the part of each node.
type PartGraph<N> = unsafe extern "C" fn(
    *mut N,
    *mut N,
    *mut N,
    *mut N,
    *mut N,
    *mut N,
    *mut N,
    *mut N,
    *mut c_void,
    *mut c_void,
    *mut N,
    *mut N,
    *mut N,
) -> c_int;

/// METIS 5.
#[derive(Debug)]
pub struct Metis {
    library: Library,
    is_wide: bool,
}

impl Metis {
    /// Opens the library that [`VARIABLE`] names, or the one that the loader finds.
    ///
    /// # Errors
    /// [`MetisError::Missing`], with what the loader said and how to install METIS.
    pub fn open() -> Result<Self, MetisError> {
        match std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
            Some(path) => Self::open_at(Path::new(&path)),
            None => Self::open_first(&NAMES.map(Path::new)),
        }
    }

    /// Opens this library: a path, or a name for the loader.
    ///
    /// # Errors
    /// As [`Metis::open`].
    pub fn open_at(path: &Path) -> Result<Self, MetisError> {
        Self::open_first(&[path])
    }

    fn open_first(paths: &[&Path]) -> Result<Self, MetisError> {
        let mut said = Vec::new();
        for path in paths {
            // SAFETY: METIS's library runs nothing when it is opened. Another file under its name is the choice of the user
            // who put it there.
            match unsafe { Library::new(*path) } {
                Ok(library) => return Self::of(library, path),
                // The loader's own words are the source of libloading's error.
                Err(error) => {
                    said.push(error.source().map_or_else(|| error.to_string(), ToString::to_string));
                }
            }
        }
        Err(MetisError::Missing(format!(
            "METIS is not there ({}): install it (apt install libmetis5), or set {VARIABLE} to its library",
            said.join("; ")
        )))
    }

    fn of(library: Library, path: &Path) -> Result<Self, MetisError> {
        let lacking =
            |name: &str| MetisError::Missing(format!("{} is no METIS 5: it has no {name}", path.display()));
        // SAFETY: the type of the function in metis.h, for either width of its numbers: a pointer is a pointer.
        let defaults = unsafe { library.get::<SetDefaultOptions>(b"METIS_SetDefaultOptions\0") }
            .map_err(|_| lacking("METIS_SetDefaultOptions"))?;
        // SAFETY: only the name is asked for.
        unsafe { library.get::<*const c_void>(b"METIS_PartGraphKway\0") }
            .map_err(|_| lacking("METIS_PartGraphKway"))?;
        let mut options = [0_i64; OPTIONS];
        // SAFETY: it writes `OPTIONS` numbers of at most 64 bits.
        let code = unsafe { defaults(options.as_mut_ptr().cast()) };
        if code != OK || options[0] != -1 {
            return Err(lacking("METIS_SetDefaultOptions that works as in METIS 5"));
        }
        // Numbers of 32 bits end in the middle.
        let is_wide = options[OPTIONS - 1] == -1;
        Ok(Self { library, is_wide })
    }

    /// The part of each node, of 2 to 65,535 parts. METIS allows a part 1.03 times the mean of all nodes and of the
    /// marked ones, and does not always keep to that. Equal input gives equal parts.
    ///
    /// While it works METIS has the signals SIGABRT and SIGTERM to itself: either ends the call with an error.
    ///
    /// # Errors
    /// [`MetisError::TooLarge`], [`MetisError::Refused`].
    ///
    /// # Panics
    /// For lists whose lengths contradict each other, or with an entry that is no node.
    pub fn divide(&self, lists: Lists<'_>, parts: u16) -> Result<Vec<u16>, MetisError> {
        if self.is_wide { self.divide_by::<i64>(lists, parts) } else { self.divide_by::<i32>(lists, parts) }
    }

    /// With numbers of the library's width.
    fn divide_by<N>(&self, lists: Lists<'_>, parts: u16) -> Result<Vec<u16>, MetisError>
    where
        N: Copy + Default + TryFrom<usize>,
        u16: TryFrom<N>,
    {
        let Lists { begins, entries, weights, marks } = lists;
        let nodes = marks.len();
        let is_in_order = begins.windows(2).all(|pair| pair[0] <= pair[1]);
        assert!(
            begins.len() == nodes + 1 && begins[0] == 0 && begins[nodes] == entries.len() && is_in_order,
            "{} begins of {} entries of {nodes} nodes",
            begins.len(),
            entries.len()
        );
        assert!(weights.len() == entries.len() && entries.iter().all(|&node| (node as usize) < nodes));
        let too_large = || MetisError::TooLarge { entries: entries.len(), bits: 8 * size_of::<N>() as u32 };
        let numbers = |values: &mut dyn Iterator<Item = usize>| -> Result<Vec<N>, MetisError> {
            values.map(|value| N::try_from(value).map_err(|_| too_large())).collect()
        };
        let number = |value: usize| N::try_from(value).map_err(|_| too_large());
        let mut begins = numbers(&mut begins.iter().copied())?;
        let mut entries = numbers(&mut entries.iter().map(|&node| node as usize))?;
        let mut weights = numbers(&mut weights.iter().map(|&weight| weight as usize))?;
        let mut of_nodes = numbers(&mut marks.iter().flat_map(|&mark| [1, usize::from(mark)]))?;
        let (mut count, mut constraints, mut into) =
            (number(nodes)?, number(CONSTRAINTS)?, number(usize::from(parts))?);
        let (mut cut, mut of) = (N::default(), vec![N::default(); nodes]);
        // SAFETY: the type is the function's in metis.h for numbers of this width, which `of` found out.
        let divide = unsafe { self.library.get::<PartGraph<N>>(b"METIS_PartGraphKway\0") }
            .map_err(|error| MetisError::Missing(error.to_string()))?;
        // SAFETY: arrays have the lengths that METIS's manual asks for, with `count` nodes and 2 constraints; entries are
        // nodes, as was checked. Null stands for the defaults of what is optional. All of it lives until the call is over.
        let code = unsafe {
            divide(
                &raw mut count,
                &raw mut constraints,
                begins.as_mut_ptr(),
                entries.as_mut_ptr(),
                of_nodes.as_mut_ptr(),
                null_mut(),
                weights.as_mut_ptr(),
                &raw mut into,
                null_mut(),
                null_mut(),
                null_mut(),
                &raw mut cut,
                of.as_mut_ptr(),
            )
        };
        let refused = |meaning| MetisError::Refused { code, meaning };
        match code {
            OK => {}
            -2 => return Err(refused("its input is wrong")),
            -3 => return Err(refused("it could not get the memory that it needs")),
            _ => return Err(refused("another error, or a signal")),
        }
        let part = |number: N| u16::try_from(number).ok().filter(|part| *part < parts);
        of.into_iter().map(|number| part(number).ok_or_else(|| refused("a part that there is not"))).collect()
    }
}
