//! How a child ends when an answer is wrong, and the ways it can be broken on purpose.

use firstseen::Error;

use super::exit::exit_now;

/// What was found; the child's exit code tells it to the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Acknowledged and not there.
    Lost = 10,
    /// There twice.
    Doubled = 11,
    /// In part.
    Torn = 12,
    /// Any other answer, or error, that should not be.
    Wrong = 13,
}

impl Kind {
    pub(crate) const ALL: [Kind; 4] = [Kind::Lost, Kind::Doubled, Kind::Torn, Kind::Wrong];
}

/// A canary: what the oracle must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    Not,
    /// Batches that are acknowledged and never committed.
    AckFirst,
    /// An id whose counter rises twice.
    CountTwice,
    /// Ids without their rows, and a kill.
    Torn,
}

impl Broken {
    pub(crate) fn named(name: &str) -> Broken {
        let all = [
            Broken::Not,
            Broken::AckFirst,
            Broken::CountTwice,
            Broken::Torn,
        ];
        let found = all.into_iter().find(|b| format!("{b:?}") == name);
        found.unwrap_or_else(|| panic!("not broken like this: {name}"))
    }
}

/// Ends the process: its answers can't be trusted any more.
pub(crate) fn fail(kind: Kind, text: &str) -> ! {
    eprintln!("soak: {kind:?}: {text}");
    exit_now(kind as i32)
}

/// What a call returned, which must not be an error.
pub(crate) fn must<T>(what: &str, result: Result<T, Error>) -> T {
    result.unwrap_or_else(|error| fail(Kind::Wrong, &format!("{what}: {error}")))
}

/// SIGKILL, at this very point.
pub(crate) fn kill_self() -> ! {
    let own = rustix::process::getpid();
    rustix::process::kill_process(own, rustix::process::Signal::KILL).expect("a signal to oneself");
    unreachable!("killed");
}
