//! Failures of the engine's calls that a test asks for (feature `testing`).
//!
//! A failing call does nothing and says what the system would have said. That is how a full disk
//! and a limit of descriptors look to the store; for a failing disk it is one of the two
//! outcomes (the other one, done and yet an error, has its own door for commits).

use crate::error::Result;

use super::Home;

/// Which call of the engine fails.
#[cfg_attr(
    not(feature = "testing"),
    expect(unreachable_pub, reason = "named by every call, public for tests only")
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Place {
    /// A write to the write-ahead log.
    Write,
    /// A sync of the write-ahead log.
    Sync,
    /// The making of a column family.
    Create,
    /// The dropping of one.
    Drop,
    /// A flush of memtables that the store asks for.
    Flush,
    /// The writing of a run's file.
    RunFile,
    /// The taking in of such a file.
    Ingest,
    /// A write to the floor file.
    Floor,
    /// A write of another small file: a filter snapshot.
    SmallFile,
}

/// With what it fails.
#[cfg(feature = "testing")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Injected {
    /// No space is left on the device.
    NoSpace,
    /// The device failed.
    Io,
    /// The process has too many open files.
    OpenFiles,
}

/// Makes calls at a place fail: the first `skip` pass, the next `times` fail.
#[cfg(feature = "testing")]
#[derive(Clone, Copy, Debug)]
pub struct Injection {
    /// Where.
    pub place: Place,
    /// With what.
    pub failure: Injected,
    /// Calls that pass first.
    pub skip: u64,
    /// Calls that fail then.
    pub times: u64,
}

/// Makes an engine call, unless a test wants it to fail.
pub(super) fn at<T>(home: &Home, place: Place, call: impl FnOnce() -> Result<T>) -> Result<T> {
    #[cfg(feature = "testing")]
    home.faults.meet(place)?;
    #[cfg(not(feature = "testing"))]
    let _ = (home, place);
    call()
}

#[cfg(feature = "testing")]
pub(crate) use asked_for::Faults;

#[cfg(feature = "testing")]
mod asked_for {
    use parking_lot::Mutex;

    use super::{Injected, Injection, Place};
    use crate::engine::fault::map_text;
    use crate::error::Result;

    /// The faults of one home; they outlive the store, so that a reopening meets them too.
    #[derive(Default)]
    pub(crate) struct Faults(Mutex<Vec<Injection>>);

    impl Faults {
        pub(crate) fn add(&self, fault: Injection) {
            self.0.lock().push(fault);
        }

        pub(crate) fn clear(&self) {
            self.0.lock().clear();
        }

        pub(in crate::engine) fn meet(&self, place: Place) -> Result<()> {
            let mut faults = self.0.lock();
            let Some(i) = faults.iter().position(|f| f.place == place) else {
                return Ok(());
            };
            let fault = &mut faults[i];
            if fault.skip > 0 {
                fault.skip -= 1;
                return Ok(());
            }
            let failure = fault.failure;
            fault.times = fault.times.saturating_sub(1);
            if fault.times == 0 {
                faults.remove(i);
            }
            Err(map_text(said(failure).to_string()))
        }
    }

    /// RocksDB's words for it.
    fn said(failure: Injected) -> &'static str {
        match failure {
            Injected::NoSpace => "IO error: No space left on device: asked for by a test",
            Injected::Io => "IO error: Input/output error: asked for by a test",
            Injected::OpenFiles => "IO error: Too many open files: asked for by a test",
        }
    }
}
