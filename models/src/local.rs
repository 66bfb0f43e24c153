//! Thread-locals of the scheduler's threads, in the standard library's call shapes.

use std::cell::RefCell;

/// The key of a value that each thread has for itself.
pub(crate) struct LocalKey<T: 'static>(pub(crate) &'static shuttle::thread::LocalKey<T>);

impl<T: 'static> LocalKey<RefCell<T>> {
    pub(crate) fn with_borrow<R>(&'static self, run: impl FnOnce(&T) -> R) -> R {
        self.0.with(|value| run(&value.borrow()))
    }

    pub(crate) fn with_borrow_mut<R>(&'static self, run: impl FnOnce(&mut T) -> R) -> R {
        self.0.with(|value| run(&mut value.borrow_mut()))
    }

    pub(crate) fn set(&'static self, value: T) {
        self.with_borrow_mut(|place| *place = value);
    }
}

/// Declares keys, as `thread_local!` does.
macro_rules! local_keys {
    ($($(#[$attr:meta])* static $name:ident: $type:ty = $init:expr;)*) => {$(
        $(#[$attr])*
        static $name: $crate::sync::LocalKey<$type> = {
            ::shuttle::thread_local! { static INNER: $type = $init; }
            $crate::sync::LocalKey(&INNER)
        };
    )*};
}
pub(crate) use local_keys;
