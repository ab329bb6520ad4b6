//! The one place that names `std`'s or loom's primitives.
//!
//! Everything above takes atomics, cells, locks and thread-locals from here, so that one `cfg` turns the whole crate
//! into something that loom can explore.

#[cfg(not(loom))]
mod imp {
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence,
    };
    pub(crate) use std::sync::{Mutex as RawMutex, MutexGuard};
    pub(crate) use std::thread;

    /// `std`'s cell with loom's interface.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        #[inline]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }

    /// Declares thread-locals without a destructor, built at compile time.
    macro_rules! plain_local {
        ($($(#[$meta:meta])* $vis:vis static $name:ident: $ty:ty = $init:expr;)*) => {
            std::thread_local! { $($(#[$meta])* $vis static $name: $ty = const { $init };)* }
        };
    }

    /// Declares a thread-local with a destructor.
    macro_rules! dropping_local {
        ($(#[$meta:meta])* $vis:vis static $name:ident: $ty:ty = $init:expr;) => {
            std::thread_local! { $(#[$meta])* $vis static $name: $ty = const { $init }; }
        };
    }

    /// Declares a `fn() -> &'static T` over a static.
    macro_rules! global {
        ($(#[$meta:meta])* $vis:vis fn $name:ident() -> $ty:ty = $init:expr;) => {
            $(#[$meta])*
            #[inline]
            $vis fn $name() -> &'static $ty {
                static VALUE: $ty = $init;
                &VALUE
            }
        };
    }

    /// Makes a function `const`, which loom's types can't be.
    macro_rules! const_fn {
        ($(#[$meta:meta])* $vis:vis fn $($rest:tt)*) => { $(#[$meta])* $vis const fn $($rest)* };
    }

    /// Nanoseconds since the first call in this process.
    pub(crate) fn now() -> u64 {
        use std::sync::OnceLock;
        use std::time::Instant;
        static START: OnceLock<Instant> = OnceLock::new();
        let start = START.get_or_init(Instant::now);
        u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Parks the calling thread for at most `timeout`.
    pub(crate) fn park_timeout(timeout: std::time::Duration) {
        thread::park_timeout(timeout);
    }

    pub(crate) use {const_fn, dropping_local, global, plain_local};
}

#[cfg(loom)]
mod imp {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence,
    };
    pub(crate) use loom::sync::{Mutex as RawMutex, MutexGuard};
    pub(crate) use loom::thread;

    macro_rules! plain_local {
        ($($(#[$meta:meta])* $vis:vis static $name:ident: $ty:ty = $init:expr;)*) => {
            loom::thread_local! { $($(#[$meta])* $vis static $name: $ty = $init;)* }
        };
    }

    macro_rules! dropping_local {
        ($(#[$meta:meta])* $vis:vis static $name:ident: $ty:ty = $init:expr;) => {
            loom::thread_local! { $(#[$meta])* $vis static $name: $ty = $init; }
        };
    }

    macro_rules! global {
        ($(#[$meta:meta])* $vis:vis fn $name:ident() -> $ty:ty = $init:expr;) => {
            $(#[$meta])*
            $vis fn $name() -> &'static $ty {
                loom::lazy_static! { static ref VALUE: $ty = $init; }
                &VALUE
            }
        };
    }

    macro_rules! const_fn {
        ($(#[$meta:meta])* $vis:vis fn $($rest:tt)*) => { $(#[$meta])* $vis fn $($rest)* };
    }

    /// Loom has no time, so nobody parks for a while.
    pub(crate) fn park_timeout(_: std::time::Duration) {
        thread::yield_now();
    }

    /// Loom has no time.
    pub(crate) fn now() -> u64 {
        0
    }

    pub(crate) use {const_fn, dropping_local, global, plain_local};
}

mod edge;

pub(crate) use edge::*;
pub(crate) use imp::*;
pub(crate) use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
pub(crate) use std::sync::atomic::compiler_fence;
pub(crate) use std::sync::{Arc, Weak};

/// A lock that no panic poisons: the code under it is this crate's own and never a user's.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(RawMutex<T>);

impl<T> Mutex<T> {
    const_fn! {
        pub(crate) fn new(value: T) -> Self {
            Self(RawMutex::new(value))
        }
    }

    /// Locks. ThreadSanitizer can't see into the standard library's way of waiting, so under it the lock is tried again.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        while cfg!(tsan) {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            thread::yield_now();
        }
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Locks unless somebody else has the lock.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }
}

/// Names a thread, also under loom, which doesn't model that.
pub(crate) type ThreadHandle = std::thread::Thread;

/// The calling thread.
pub(crate) fn this_thread() -> ThreadHandle {
    std::thread::current()
}

/// Whether the calling thread is unwinding.
pub(crate) fn panicking() -> bool {
    std::thread::panicking()
}

/// Identity of a domain, a slab or a queue; never reused within a process.
///
/// [`NOBODY`] names nothing, [`GLOBAL_ID`] the global domain.
pub(crate) fn next_id() -> u64 {
    use std::sync::atomic::AtomicU64;
    static NEXT: AtomicU64 = AtomicU64::new(GLOBAL_ID + 1);
    // Relaxed: only uniqueness matters. 64 bits don't wrap.
    NEXT.fetch_add(1, Relaxed)
}

/// Nobody's identity.
pub(crate) const NOBODY: u64 = 0;

/// Identity of the global domain.
pub(crate) const GLOBAL_ID: u64 = 1;
