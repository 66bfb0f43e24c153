//! The only place that reads time.
//!
//! Three times exist: *wall* time (milliseconds since 1970, may step), *monotonic* time
//! (milliseconds since some start, never steps), and *effective* time, which all verdicts use.
//!
//! Invariants:
//! - T1: effective time never goes back, not even across a reopening: it is the last accepted
//!   time plus monotonic time, and starts at or above the persisted high-water mark.
//! - T2: wall time ahead of effective time by at most `limit_ms` is accepted. More than that
//!   *freezes*: effective time goes on at the monotonic rate from where it was, until wall and
//!   monotonic time have agreed for an hour, or the caller accepts the jump.
//! - T3: only accepted time is ever persisted, and whatever removes a record compares with the
//!   *persisted* mark, so neither a crash nor a wrong clock makes us forget early.
//!
//! - T4: wall time is read *before* monotonic time. What passes between the two (the process may
//!   be stopped there) then counts once; the other way round it would count twice, and ids would
//!   be forgotten early.
//!
//! Concurrency: reading takes no lock unless wall time is ahead; the offset only rises. Threads
//! come to the lock in another order than they read monotonic time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Where a store's time comes from.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Clock {
    /// The system's wall and monotonic clocks.
    #[default]
    System,
    /// A clock that only moves when told to.
    #[cfg(any(test, feature = "testing"))]
    Manual(ManualClock),
}

/// A clock that only moves when told to, for tests. Clones share the time.
///
/// ```
/// use firstseen::{Clock, ManualClock};
/// use std::time::Duration;
/// let clock = ManualClock::new();
/// clock.advance(Duration::from_secs(5));
/// let _ = Clock::Manual(clock.clone());
/// ```
#[cfg(any(test, feature = "testing"))]
#[derive(Clone, Debug)]
pub struct ManualClock {
    time: std::sync::Arc<ManualTime>,
}

#[cfg(any(test, feature = "testing"))]
#[derive(Debug)]
struct ManualTime {
    mono_ms: AtomicU64,
    /// Wall time minus monotonic time, wrapping: so both move in one step.
    skew_ms: AtomicU64,
}

#[cfg(any(test, feature = "testing"))]
impl ManualTime {
    fn wall_ms(&self) -> u64 {
        let skew_ms = self.skew_ms.load(Ordering::SeqCst);
        self.mono_ms.load(Ordering::SeqCst).wrapping_add(skew_ms)
    }
}

#[cfg(any(test, feature = "testing"))]
impl Default for ManualClock {
    fn default() -> Self {
        ManualClock::new()
    }
}

#[cfg(any(test, feature = "testing"))]
impl ManualClock {
    /// A clock that shows 2026-01-01 00:00:00 UTC.
    #[must_use]
    pub fn new() -> ManualClock {
        let time = ManualTime {
            mono_ms: AtomicU64::new(1),
            skew_ms: AtomicU64::new(1_767_225_600_000 - 1),
        };
        ManualClock {
            time: std::sync::Arc::new(time),
        }
    }

    /// Lets time pass: wall and monotonic time move on together, by whole milliseconds.
    pub fn advance(&self, by: Duration) {
        self.time.mono_ms.fetch_add(millis(by), Ordering::SeqCst);
    }

    /// Sets wall time alone, as an administrator or a broken time server would.
    pub fn step_to(&self, wall: SystemTime) {
        let mono_ms = self.time.mono_ms.load(Ordering::SeqCst);
        let skew_ms = since_epoch(wall).wrapping_sub(mono_ms);
        self.time.skew_ms.store(skew_ms, Ordering::SeqCst);
    }

    /// The wall time it shows.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.time.wall_ms())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this module is the one that reads time"
)]
impl Clock {
    fn wall_ms(&self) -> u64 {
        match self {
            Clock::System => since_epoch(SystemTime::now()),
            #[cfg(any(test, feature = "testing"))]
            Clock::Manual(m) => m.time.wall_ms(),
        }
    }

    /// Milliseconds since this process first asked; starts at 1.
    fn mono_ms(&self) -> u64 {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        match self {
            Clock::System => {
                let start = START.get_or_init(Instant::now);
                1 + millis(start.elapsed())
            }
            #[cfg(any(test, feature = "testing"))]
            Clock::Manual(m) => m.time.mono_ms.load(Ordering::SeqCst),
        }
    }
}

/// The moment by which a wait must end. Waits are in real time, whatever the store's clock.
#[expect(
    clippy::disallowed_methods,
    reason = "this module is the one that reads time"
)]
pub(crate) fn deadline(wait: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(wait)
        .unwrap_or_else(|| now + Duration::from_secs(86_400 * 365))
}

/// Real time that is left until a deadline; zero once it has passed.
#[expect(
    clippy::disallowed_methods,
    reason = "this module is the one that reads time"
)]
pub(crate) fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// Lets a little real time pass, for loops that poll what nobody signals.
#[expect(
    clippy::disallowed_methods,
    reason = "this module is the one that reads time"
)]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// A started measurement of real time, for statistics only.
#[derive(Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

#[expect(
    clippy::disallowed_methods,
    reason = "this module is the one that reads time"
)]
impl Stopwatch {
    pub(crate) fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// Whether so much time has passed; if so, it starts anew.
    pub(crate) fn restart_after(&mut self, time: Duration) -> bool {
        let is_due = self.elapsed() >= time;
        if is_due {
            *self = Stopwatch::start();
        }
        is_due
    }
}

/// Whole milliseconds of a duration, saturating.
pub(crate) fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970; earlier times are 0.
pub(crate) fn since_epoch(t: SystemTime) -> u64 {
    t.duration_since(UNIX_EPOCH).map_or(0, millis)
}

/// How the store's time relates to the system's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClockState {
    /// Wall time is followed.
    Following,
    /// Wall time is behind effective time, which goes on at the monotonic rate.
    Behind {
        /// By how much.
        by: Duration,
    },
    /// Wall time jumped ahead by more than the limit; expiry goes on at the monotonic rate.
    Frozen {
        /// By how much wall time is ahead.
        by: Duration,
    },
}

/// For how long wall and monotonic time must agree before a jump is believed.
const AGREEMENT_MS: u64 = 3_600_000;
/// How far they may drift apart meanwhile.
const DRIFT_MS: u64 = 5_000;

/// Effective time.
pub(crate) struct Timekeeper {
    clock: Clock,
    limit_ms: u64,
    /// Effective time minus monotonic time.
    offset_ms: AtomicU64,
    persisted_ms: AtomicU64,
    frozen: Mutex<Option<Frozen>>,
    /// How often it froze.
    freezes: AtomicU64,
}

struct Frozen {
    since_mono_ms: u64,
    ahead_ms: u64,
}

impl Timekeeper {
    /// Starts at or above `mark_ms`, the persisted high-water mark (0: a new store).
    pub(crate) fn new(clock: Clock, limit_ms: u64, mark_ms: u64) -> Timekeeper {
        let (wall, mono) = (clock.wall_ms(), clock.mono_ms());
        let believed = mark_ms == 0 || wall.saturating_sub(mark_ms) <= limit_ms;
        let start = if believed { wall.max(mark_ms) } else { mark_ms };
        let keeper = Timekeeper {
            clock,
            limit_ms,
            offset_ms: AtomicU64::new(start.saturating_sub(mono)),
            persisted_ms: AtomicU64::new(mark_ms),
            frozen: Mutex::new(None),
            freezes: AtomicU64::new(0),
        };
        keeper.now_ms();
        keeper
    }

    /// Effective time in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        let wall = self.clock.wall_ms();
        let mono = self.clock.mono_ms();
        let now = mono + self.offset_ms.load(Ordering::Acquire);
        if wall <= now {
            return now;
        }
        self.ahead(wall, mono, now)
    }

    #[cold]
    fn ahead(&self, wall: u64, mono: u64, now: u64) -> u64 {
        let ahead_ms = wall - now;
        if ahead_ms <= self.limit_ms {
            self.offset_ms.fetch_max(wall - mono, Ordering::AcqRel);
            *self.frozen.lock() = None;
            return wall;
        }
        let mut frozen = self.frozen.lock();
        match &*frozen {
            Some(f) if f.ahead_ms.abs_diff(ahead_ms) > DRIFT_MS => *frozen = None,
            Some(f) if mono.saturating_sub(f.since_mono_ms) >= AGREEMENT_MS => {
                self.offset_ms.fetch_max(wall - mono, Ordering::AcqRel);
                *frozen = None;
                return wall;
            }
            _ => {}
        }
        if frozen.is_none() {
            self.freezes.fetch_add(1, Ordering::Relaxed);
            *frozen = Some(Frozen {
                since_mono_ms: mono,
                ahead_ms,
            });
        }
        now
    }

    /// Monotonic time in milliseconds, for what no clock's correction may cut short.
    pub(crate) fn mono_ms(&self) -> u64 {
        self.clock.mono_ms()
    }

    /// Believes wall time as it is now, however far ahead.
    pub(crate) fn accept(&self) {
        let (wall, mono) = (self.clock.wall_ms(), self.clock.mono_ms());
        self.offset_ms
            .fetch_max(wall.saturating_sub(mono), Ordering::AcqRel);
        *self.frozen.lock() = None;
    }

    /// How often expiry froze since the open. A clock that jumps again while it is frozen counts
    /// again.
    pub(crate) fn freezes(&self) -> u64 {
        self.freezes.load(Ordering::Relaxed)
    }

    /// The persisted high-water mark (T3).
    pub(crate) fn persisted_ms(&self) -> u64 {
        self.persisted_ms.load(Ordering::Acquire)
    }

    /// Records that `mark_ms` is durable.
    pub(crate) fn set_persisted(&self, mark_ms: u64) {
        self.persisted_ms.fetch_max(mark_ms, Ordering::AcqRel);
    }

    /// The relation of effective to wall time now.
    pub(crate) fn state(&self) -> ClockState {
        let now = self.now_ms();
        let wall = self.clock.wall_ms();
        if wall > now {
            ClockState::Frozen {
                by: Duration::from_millis(wall - now),
            }
        } else if now - wall > 1 {
            ClockState::Behind {
                by: Duration::from_millis(now - wall),
            }
        } else {
            ClockState::Following
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn keeper(clock: &ManualClock, mark: u64) -> Timekeeper {
        Timekeeper::new(Clock::Manual(clock.clone()), 24 * HOUR, mark)
    }

    #[test]
    fn a_step_back_never_goes_back() {
        let clock = ManualClock::new();
        let time = keeper(&clock, 0);
        let start = time.now_ms();
        clock.step_to(UNIX_EPOCH + Duration::from_millis(start - HOUR));
        assert_eq!(time.now_ms(), start);
        clock.advance(Duration::from_millis(10));
        assert_eq!(time.now_ms(), start + 10);
        assert_eq!(
            time.state(),
            ClockState::Behind {
                by: Duration::from_millis(HOUR)
            }
        );
        let reopened = keeper(&clock, start + 10);
        assert_eq!(reopened.now_ms(), start + 10);
    }

    #[test]
    fn a_jump_forward_freezes_until_it_is_believed() {
        let clock = ManualClock::new();
        let time = keeper(&clock, 0);
        let start = time.now_ms();
        clock.step_to(UNIX_EPOCH + Duration::from_millis(start + 10 * 365 * 24 * HOUR));
        assert_eq!(time.now_ms(), start);
        assert!(matches!(time.state(), ClockState::Frozen { .. }));
        clock.advance(Duration::from_millis(HOUR / 2));
        assert_eq!(time.now_ms(), start + HOUR / 2);
        clock.advance(Duration::from_millis(HOUR / 2));
        assert_eq!(time.now_ms(), start + HOUR + 10 * 365 * 24 * HOUR);
        assert_eq!(time.state(), ClockState::Following);
    }

    #[test]
    fn what_passes_between_two_readings_counts_once() {
        let clock = ManualClock::new();
        let time = keeper(&clock, 0);
        std::thread::scope(|s| {
            let readers = [0; 2].map(|_| {
                s.spawn(|| {
                    let first = time.now_ms();
                    while time.now_ms() < first + 100_000 {
                        let now = time.now_ms();
                        assert!(now <= since_epoch(clock.now()));
                    }
                })
            });
            while readers.iter().any(|r| !r.is_finished()) {
                clock.advance(Duration::from_millis(7));
            }
        });
        assert_eq!(time.now_ms(), since_epoch(clock.now()));
    }

    #[test]
    fn a_thread_that_read_before_the_freeze_does_not_end_it() {
        let clock = ManualClock::new();
        let time = keeper(&clock, 0);
        let now = time.now_ms();
        let wall = now + 48 * HOUR;
        assert_eq!(time.ahead(wall, 101, now), now);
        assert_eq!(time.ahead(wall, 100, now), now);
        assert_eq!(time.now_ms(), now);
    }

    #[test]
    fn a_jump_at_open_is_frozen_too_and_can_be_accepted() {
        let clock = ManualClock::new();
        let now = since_epoch(clock.now());
        let time = keeper(&clock, now - 48 * HOUR);
        assert_eq!(time.now_ms(), now - 48 * HOUR);
        time.accept();
        assert_eq!(time.now_ms(), now);
        assert_eq!(keeper(&clock, now - 23 * HOUR).now_ms(), now);
    }
}
