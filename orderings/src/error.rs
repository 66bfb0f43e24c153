//! What may fail in the library's set, memory that is not to be had, never does here.

use std::convert::Infallible;

/// The set's result.
pub(crate) type Result<T, E = Infallible> = std::result::Result<T, E>;
