//! The command-line program from outside, as its users run it: the real binary, each test in a
//! directory of its own.

mod in_doubt;
mod look;
pub(crate) mod program;
mod resume;
mod rows;
mod sides;
mod upkeep;
mod verify;
mod work;
