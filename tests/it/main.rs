//! The one integration binary: linking RocksDB is slow, so everything that does not need a
//! process of its own is here.

#[cfg(feature = "testing")]
mod approximate;
mod asynchronous;
#[cfg(feature = "testing")]
mod cases;
#[cfg(feature = "cli")]
mod cli;
#[cfg(feature = "testing")]
mod concurrency;
#[cfg(feature = "testing")]
mod format;
#[cfg(feature = "testing")]
mod fuzz_seeds;
#[cfg(feature = "testing")]
mod histories;
#[cfg(feature = "testing")]
mod history;
#[cfg(feature = "testing")]
mod kit;
#[cfg(feature = "testing")]
mod model;
#[cfg(feature = "testing")]
#[path = "../support/number.rs"]
mod number;
#[cfg(all(feature = "cli", feature = "raw", feature = "testing"))]
mod playbook;
#[cfg(feature = "testing")]
mod programs;
mod protocol;
#[cfg(all(feature = "raw", feature = "testing"))]
mod raw;
mod tidy;
