//! liburcu, by flavour and by the way in which it takes over what was retired.

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use super::boxed::BoxCell;
use crate::payload::Payload;
use crate::scheme::{Role, Scheme, Visitor};

/// `struct rcu_head`.
#[repr(C)]
pub struct Head([*mut c_void; 2]);

/// An object with the head that `call_rcu` needs; `defer_rcu` needs none, but the size is to be equal.
#[repr(C)]
pub struct Node<P> {
    head: Head,
    payload: P,
}

// SAFETY: the head is liburcu's alone, and it may move between threads.
unsafe impl<P: Send> Send for Node<P> {}
// SAFETY: readers see the payload only.
unsafe impl<P: Sync> Sync for Node<P> {}

/// The shim's functions; `struct shim` in the C file.
#[repr(C)]
pub struct Shim {
    prepare: unsafe extern "C" fn(c_int),
    finish: unsafe extern "C" fn(c_int),
    join: unsafe extern "C" fn(c_int),
    part: unsafe extern "C" fn(c_int),
    idle: unsafe extern "C" fn(),
    enter: unsafe extern "C" fn(),
    leave: unsafe extern "C" fn(),
    enter_leave: unsafe extern "C" fn(u32),
    enter_load_leave: unsafe extern "C" fn(*const c_void, usize, u32) -> u64,
    synchronize: unsafe extern "C" fn(),
    call: unsafe extern "C" fn(*mut Head, unsafe extern "C" fn(*mut Head)),
    defer: unsafe extern "C" fn(unsafe extern "C" fn(*mut c_void), *mut c_void),
    barrier: unsafe extern "C" fn(),
}

unsafe extern "C" {
    safe static scoreboard_memb: Shim;
    safe static scoreboard_bp: Shim;
    safe static scoreboard_qsbr: Shim;
}

/// One flavour of liburcu.
pub trait Flavour: Send + Sync + 'static {
    /// The rows of its readers, of `call_rcu` and of `defer_rcu`.
    const NAMES: [&'static str; 3];
    fn shim() -> &'static Shim;
}

macro_rules! flavour {
    ($flavour:ident, $name:literal, $shim:ident) => {
        #[doc = concat!("The flavour `", $name, "`.")]
        pub struct $flavour;

        impl Flavour for $flavour {
            const NAMES: [&'static str; 3] = [
                concat!("liburcu:", $name),
                concat!("liburcu:", $name, "-call-rcu"),
                concat!("liburcu:", $name, "-defer-rcu"),
            ];
            fn shim() -> &'static Shim {
                &$shim
            }
        }
    };
}

flavour!(Memb, "memb", scoreboard_memb);
flavour!(Bp, "bp", scoreboard_bp);
flavour!(Qsbr, "qsbr", scoreboard_qsbr);

unsafe extern "C" fn drop_called<P>(head: *mut Head) {
    // SAFETY: the head is the first field of a boxed node, which was retired once.
    drop(unsafe { Box::from_raw(head.cast::<Node<P>>()) });
}

unsafe extern "C" fn drop_deferred<P>(node: *mut c_void) {
    // SAFETY: the pointer is a boxed node, which was retired once.
    drop(unsafe { Box::from_raw(node.cast::<Node<P>>()) });
}

fn node<P>(payload: P) -> Node<P> {
    Node {
        head: Head([ptr::null_mut(); 2]),
        payload,
    }
}

/// Readers only.
pub const READS: usize = 0;
/// `call_rcu`: a helper thread frees.
pub const CALL: usize = 1;
/// `defer_rcu`: a queue of the thread's own, which waits for a grace period when it is full.
pub const DEFER: usize = 2;

/// One flavour, with one way to hand over what was retired.
pub struct Liburcu<F: Flavour, const WAY: usize>(PhantomData<F>);

impl<F: Flavour, const WAY: usize> Drop for Liburcu<F, WAY> {
    fn drop(&mut self) {
        // SAFETY: prepared when this was made, by the same thread.
        unsafe { (F::shim().finish)(c_int::from(WAY == DEFER)) };
    }
}

/// A thread that is registered.
pub struct Member<F: Flavour, const WAY: usize>(PhantomData<(F, *mut ())>);

impl<F: Flavour, const WAY: usize> Drop for Member<F, WAY> {
    fn drop(&mut self) {
        // SAFETY: the thread joined when this was made, and is outside of sections.
        unsafe { (F::shim().part)(c_int::from(WAY == DEFER)) };
    }
}

/// Leaves on drop.
pub struct Section<F: Flavour>(PhantomData<(F, *mut ())>);

impl<F: Flavour> Drop for Section<F> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: entered when this was made, on this thread.
        unsafe { (F::shim().leave)() };
    }
}

impl<F: Flavour, const WAY: usize> Scheme for Liburcu<F, WAY> {
    const NAME: &'static str = F::NAMES[WAY];
    const ROLES: &'static [Role] = if WAY == READS {
        &[Role::Guard, Role::Deref, Role::Synchronize]
    } else {
        &[Role::Update, Role::Stall]
    };
    const SWELLS: bool = WAY == CALL;

    type Cell<P: Payload> = BoxCell<Node<P>>;
    type Local = Member<F, WAY>;
    type Guard<'a, P: Payload> = Section<F>;

    fn new() -> Self {
        if WAY != READS {
            // SAFETY: the thread that measures is always the same, and lives as long as the process.
            unsafe { (F::shim().prepare)(c_int::from(WAY == DEFER)) };
        }
        Self(PhantomData)
    }

    fn cell<P: Payload>(&self, value: P) -> BoxCell<Node<P>> {
        BoxCell::new(node(value))
    }

    fn local(&self) -> Member<F, WAY> {
        // SAFETY: parted from when the member goes, which stays on this thread.
        unsafe { (F::shim().join)(c_int::from(WAY == DEFER)) };
        Member(PhantomData)
    }

    #[inline]
    fn enter<'a, P: Payload>(
        &'a self,
        _: &'a mut Member<F, WAY>,
        _: &'a BoxCell<Node<P>>,
    ) -> Section<F> {
        // SAFETY: the thread is a member.
        unsafe { (F::shim().enter)() };
        Section(PhantomData)
    }

    #[inline]
    fn load<P: Payload>(_: &mut Section<F>, cell: &BoxCell<Node<P>>) -> u64 {
        // SAFETY: never null, and protected by the section.
        unsafe { &*cell.0.load(Acquire) }.payload.first()
    }

    #[inline]
    fn replace<P: Payload>(&self, local: &mut Member<F, WAY>, cell: &BoxCell<Node<P>>, value: P) {
        let section = self.enter(local, cell);
        black_box(cell.0.load(Acquire));
        drop(section);
        let old = cell.0.swap(Box::into_raw(Box::new(node(value))), AcqRel);
        // SAFETY: never null, and not retired yet.
        unsafe { &*old }.payload.leave();
        if WAY == DEFER {
            // SAFETY: the swap made the node unreachable, it came from a box, and it is retired once.
            unsafe { (F::shim().defer)(drop_deferred::<P>, old.cast()) };
        } else {
            // SAFETY: as above; the head is the node's first field.
            unsafe { (F::shim().call)(old.cast(), drop_called::<P>) };
        }
    }

    fn idle(_: &mut Member<F, WAY>) {
        // SAFETY: the thread is a member, and outside of sections.
        unsafe { (F::shim().idle)() };
    }

    fn synchronize(&self) {
        // SAFETY: the caller is outside of sections.
        unsafe { (F::shim().synchronize)() };
    }

    fn settle(&self) {
        if WAY == CALL {
            // SAFETY: the caller is outside of sections.
            unsafe { (F::shim().barrier)() };
        }
    }

    fn enter_leave<P: Payload>(&self, _: &mut Member<F, WAY>, _: &BoxCell<Node<P>>, times: u32) {
        // SAFETY: the thread is a member.
        unsafe { (F::shim().enter_leave)(times) };
    }

    fn enter_load_leave<P: Payload>(
        &self,
        _: &mut Member<F, WAY>,
        cell: &BoxCell<Node<P>>,
        times: u32,
    ) -> u64 {
        let offset = offset_of!(Node<P>, payload);
        // SAFETY: the thread is a member, the slot holds a node, and every payload begins with a word.
        unsafe { (F::shim().enter_load_leave)(cell.0.as_ptr().cast_const().cast(), offset, times) }
    }
}

/// Shows every flavour and way to `visitor`, but for one: `defer_rcu` takes a lock and waits for a grace period under it,
/// which in the qsbr flavour waits for the next writer, who is online and waits for the lock.
pub fn each(visitor: &mut impl Visitor) {
    visitor.visit::<Liburcu<Memb, READS>>();
    visitor.visit::<Liburcu<Memb, CALL>>();
    visitor.visit::<Liburcu<Memb, DEFER>>();
    visitor.visit::<Liburcu<Bp, READS>>();
    visitor.visit::<Liburcu<Bp, CALL>>();
    visitor.visit::<Liburcu<Bp, DEFER>>();
    visitor.visit::<Liburcu<Qsbr, READS>>();
    visitor.visit::<Liburcu<Qsbr, CALL>>();
}
