//! State that one thread at a time works on, because the specification says so.
//!
//! Each command that is recorded names its command buffer as externally synchronized: applications may not record into
//! one from two threads at once, and the driver below relies on it. The layer relies on it too, since an atomic
//! exchange for each command would cost more than all else that a bind does. A flag that is merely read and written
//! notices nearly all of what breaks the rule, and the layer then keeps out of the way.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// A value that is used by one thread at a time.
#[derive(Debug, Default)]
pub struct Exclusive<T> {
    busy: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: references to the value are only given out by `with`, whose callers see to it that one thread at a time asks.
unsafe impl<T: Send> Sync for Exclusive<T> {}

impl<T> Exclusive<T> {
    /// Wraps a value.
    pub fn new(value: T) -> Exclusive<T> {
        Exclusive { busy: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// The value, which nobody shares any more.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    /// Runs `f` on the value; `None`, and nothing is run, when somebody is seen to be at it already.
    ///
    /// # Safety
    ///
    /// No other thread may be in `with` of the same value: the caller must be in a call that the specification has
    /// applications synchronize for that value's object.
    #[inline]
    pub unsafe fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        /// Frees the flag on every way out, an unwinding one too.
        struct Busy<'a>(&'a AtomicBool);
        impl Drop for Busy<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Release);
            }
        }
        if self.busy.load(Ordering::Acquire) {
            return None;
        }
        self.busy.store(true, Ordering::Relaxed);
        let _busy = Busy(&self.busy);
        // SAFETY: by the caller no other thread is here, and the flag keeps this one from coming in twice.
        Some(f(unsafe { &mut *self.value.get() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_in_twice_is_turned_away_and_a_panic_opens_the_door_again() {
        let value = Exclusive::new(1);
        // SAFETY: one thread.
        unsafe {
            let inner = value.with(|v| {
                *v += 1;
                value.with(|v| *v += 10)
            });
            assert_eq!(inner, Some(None));
            let panics = std::panic::AssertUnwindSafe(|| value.with(|_| panic!("on purpose")));
            assert!(std::panic::catch_unwind(panics).is_err());
            assert_eq!(value.with(|v| *v), Some(2));
        }
    }
}
