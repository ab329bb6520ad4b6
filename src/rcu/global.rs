//! The domain that every thread shares and nobody closes.

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::time::Duration;

use crate::sync::{Arc, GLOBAL_ID, Weak, global, plain_local};
use crate::thread::Home;

use super::core::{Config, Core, Owner};
use super::record::Record;

global! {
    /// The global domain's state.
    pub(super) fn core() -> Core = Core::new(GLOBAL_ID, Weak::new(), Config::DEFAULT);
}

plain_local! {
    /// The thread's record in the global domain, for one look-up less than `thread::local` takes.
    static RECORD: Cell<*const Record> = Cell::new(ptr::null());
}

/// Enters the global domain.
#[inline]
pub(super) fn enter() -> NonNull<Record> {
    let core = core();
    let record = RECORD.with(Cell::get);
    // SAFETY: null, or the thread's own record, which is never freed, until `take_back` clears the word.
    match unsafe { record.as_ref() } {
        Some(record) => {
            record.enter(&core.clock);
            NonNull::from(record)
        }
        None => core.enter_slow(),
    }
}

/// The calling thread's record, if it has registered one.
#[inline]
pub(super) fn registered() -> Option<Owner<'static>> {
    let record = RECORD.with(Cell::get);
    // SAFETY: as in enter.
    let record = unsafe { record.as_ref() }?;
    // SAFETY: the thread's own, until `take_back` clears the word.
    Some(unsafe { Owner::of(record) })
}

/// Notes the record that the calling thread has registered in the global domain.
pub(super) fn remember(record: *const Record) {
    RECORD.with(|word| word.set(record));
}

/// What the map of a thread's nodes holds for the global domain.
pub(super) fn home() -> &'static dyn Home {
    &GlobalHome
}

struct GlobalHome;

impl Home for GlobalHome {
    unsafe fn take_back(&self, node: NonNull<()>) {
        let _set = RECORD.try_with(|word| word.set(ptr::null()));
        // SAFETY: the caller's promises are passed on.
        unsafe { core().take_back(node) };
    }

    unsafe fn is_disused(&self, _: NonNull<()>) -> bool {
        false
    }
}

/// The global domain: one per process, open for ever, of no size.
///
/// Everything of this crate takes it by default. The functions at the crate's root are its methods.
///
/// Its objects are dropped by the threads that retire; it has no worker. [`barrier`](crate::barrier) empties it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Global;

impl Global {
    pub(super) fn core(&self) -> &'static Core {
        core()
    }

    /// Sets what takes the panics of destructors, instead of the next [`barrier`](crate::barrier). `None` takes it off.
    ///
    /// The hook runs on the thread that ran the destructor. A panic of the hook itself is kept for the next barrier.
    pub fn set_panic_hook(&self, hook: Option<Arc<super::domain::PanicHook>>) {
        self.core().panics.set_hook(hook);
    }

    /// Sets what is told of a reader that has held a grace period up for `after`. `None` takes it off. See
    /// [`DomainBuilder::on_stall`](crate::DomainBuilder::on_stall).
    pub fn set_stall_hook(&self, after: Duration, hook: Option<Arc<super::stall::StallHook>>) {
        self.core().stalls.set(after, hook);
    }
}
