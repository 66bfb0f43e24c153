//! The one integration binary: linking RocksDB is slow, so everything that does not need a
//! process of its own is here.

#[cfg(feature = "cli")]
mod cli;
#[cfg(feature = "testing")]
mod kit;
#[cfg(feature = "testing")]
mod model;
mod protocol;
mod tidy;
