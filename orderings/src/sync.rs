//! The library's atomics over loom's, with an ordering that can be weakened.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::SeqCst;

/// What is relaxed, though the set asks for more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Weakened {
    /// Nothing.
    Nothing,
    /// The store that publishes a slot.
    Release,
    /// The load that finds one.
    Acquire,
}

static WEAKENED: AtomicU8 = AtomicU8::new(Weakened::Nothing as u8);

/// Relaxes an ordering in all scenarios from now on.
pub fn weaken(what: Weakened) {
    WEAKENED.store(what as u8, SeqCst);
}

pub(crate) mod atomic {
    //! The names of `std::sync::atomic` that the set uses.

    use std::ops::{Deref, DerefMut};
    pub(crate) use std::sync::atomic::Ordering;

    use super::{SeqCst, WEAKENED, Weakened};

    fn unless(what: Weakened, order: Ordering) -> Ordering {
        match WEAKENED.load(SeqCst) == what as u8 {
            true => Ordering::Relaxed,
            false => order,
        }
    }

    macro_rules! atomics {
        ($($name:ident, $value:ty, $exclusive:ident;)*) => {$(
            /// An atomic in the checker's hands.
            #[derive(Debug)]
            pub(crate) struct $name(loom::sync::atomic::$name);

            impl $name {
                pub(crate) fn new(value: $value) -> $name {
                    $name(loom::sync::atomic::$name::new(value))
                }

                pub(crate) fn load(&self, order: Ordering) -> $value {
                    self.0.load(unless(Weakened::Acquire, order))
                }

                pub(crate) fn store(&self, value: $value, order: Ordering) {
                    self.0.store(value, unless(Weakened::Release, order));
                }

                pub(crate) fn get_mut(&mut self) -> $exclusive<'_> {
                    let value = self.0.with_mut(|value| *value);
                    $exclusive { place: self, value }
                }
            }

            /// Exclusive access: what is written is there when it ends.
            pub(crate) struct $exclusive<'a> {
                place: &'a mut $name,
                value: $value,
            }

            impl Deref for $exclusive<'_> {
                type Target = $value;

                fn deref(&self) -> &$value {
                    &self.value
                }
            }

            impl DerefMut for $exclusive<'_> {
                fn deref_mut(&mut self) -> &mut $value {
                    &mut self.value
                }
            }

            impl Drop for $exclusive<'_> {
                fn drop(&mut self) {
                    let value = self.value;
                    self.place.0.with_mut(|place| *place = value);
                }
            }
        )*};
    }

    atomics! {
        AtomicU64, u64, ExclusiveU64;
        AtomicUsize, usize, ExclusiveUsize;
    }
}
