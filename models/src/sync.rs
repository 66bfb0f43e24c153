//! The library's sync primitives, in the same call shapes, over shuttle.
//!
//! A timed wait has no time here. A deadline that is [`far`] never passes, so that a lost wake-up
//! shows as a deadlock; one that is [`near`] passes or not as the scheduler's dice say, also while
//! the wish is being granted.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

pub(crate) use crossbeam::utils::CachePadded;
use shuttle::rand::Rng;
pub(crate) use shuttle::sync::atomic;

pub(crate) use crate::local::{LocalKey, local_keys as thread_local};
pub(crate) use crate::swap::{ArcSwap, ArcSwapOption, Guard};

const A_DAY: Duration = Duration::from_secs(86_400);

/// A deadline that never passes.
pub(crate) fn far() -> Instant {
    near() + 2 * A_DAY
}

/// A deadline that may pass at any moment.
#[allow(
    clippy::disallowed_methods,
    reason = "only tells far from near; no model reads time"
)]
pub(crate) fn near() -> Instant {
    Instant::now()
}

/// Another thread may go on here.
pub(crate) fn point() {
    atomic::AtomicBool::new(false).load(atomic::Ordering::SeqCst);
}

/// A mutex whose `lock` gives the guard.
#[derive(Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard {
            mutex: self,
            guard: Some(self.lock_inner()),
        }
    }

    fn lock_inner(&self) -> shuttle::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A guard that a condition variable can take and give back.
pub(crate) struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    guard: Option<shuttle::sync::MutexGuard<'a, T>>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard
            .as_ref()
            .expect("only a wait takes the guard, and gives it back")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard
            .as_mut()
            .expect("only a wait takes the guard, and gives it back")
    }
}

/// A lock for many readers or one writer.
#[derive(Default)]
pub(crate) struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> RwLock<T> {
        RwLock(shuttle::sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> shuttle::sync::RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// As `read`: shuttle prefers no waiting writer.
    pub(crate) fn read_recursive(&self) -> shuttle::sync::RwLockReadGuard<'_, T> {
        self.read()
    }

    pub(crate) fn write(&self) -> shuttle::sync::RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a timed wait ended.
pub(crate) struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub(crate) fn timed_out(&self) -> bool {
        self.0
    }
}

fn let_others_run<T>(guard: &mut MutexGuard<'_, T>) {
    guard.guard = None;
    shuttle::thread::yield_now();
    guard.guard = Some(guard.mutex.lock_inner());
}

/// A condition variable that takes `&mut guard`.
#[derive(Default)]
pub(crate) struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Condvar {
        Condvar(shuttle::sync::Condvar::new())
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some(inner) = guard.guard.take() {
            let woken = self.0.wait(inner).unwrap_or_else(PoisonError::into_inner);
            guard.guard = Some(woken);
        }
    }

    pub(crate) fn wait_until<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        let passes = deadline < near() + A_DAY && shuttle::rand::thread_rng().gen_bool(0.5);
        if passes {
            // The others run for a while; whatever they do to us happens before we look again.
            let_others_run(guard);
        } else {
            self.wait(guard);
        }
        WaitTimeoutResult(passes)
    }

    /// A wait that is so short that whoever waits looks again by himself: the others run for a
    /// while. What has to wake him is not looked for here.
    pub(crate) fn wait_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        _: Duration,
    ) -> WaitTimeoutResult {
        let_others_run(guard);
        WaitTimeoutResult(true)
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
