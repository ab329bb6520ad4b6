//! What only the inside can test: exhausted slots, lists, what the table builds on.

use static_assertions::{assert_impl_all, assert_not_impl_any, const_assert_eq};

use crate::rcu::{Domain, Global, Guard};

use super::chain::{Chain, List, Stack};
use super::page::Page;
use super::slot::Slot;
use super::state::LAST_GENERATION;
use super::waiting::{Arrivals, Dead, Queue};
use super::{AfterGrace, Candidate, Immediate, Key, Link, Policy, Ref, Slab, SlotPtr, Vacant};

assert_impl_all!(Slab<u8, u8>: Send, Sync);
assert_impl_all!(Slab<u8, u8, AfterGrace, Domain>: Send, Sync);
assert_impl_all!(Ref<u8, u8>: Send, Sync, Clone);
assert_impl_all!(Vacant<u8, u8>: Send, Sync);
assert_impl_all!(Link<u8, u8>: Send, Sync);
assert_impl_all!(Candidate<'static, u8, u8>: Copy);
assert_not_impl_any!(Candidate<'static, u8, u8>: Send, Sync);
assert_not_impl_any!(Slab<u8, u8>: Clone);
const_assert_eq!(size_of::<Option<Ref<u8, u8>>>(), size_of::<usize>());
const_assert_eq!(size_of::<Option<Vacant<u8, u8>>>(), size_of::<usize>());
const_assert_eq!(size_of::<Link<u8, u8>>(), size_of::<usize>());

fn slab<P: Policy<Domain>>(domain: &Domain) -> Slab<u64, u64, P, Domain> {
    Slab::builder().domain(domain).build(|blank| blank.index())
}

/// Gives the next free slot its last life.
fn exhaust<P: Policy<Domain>>(slab: &Slab<u64, u64, P, Domain>) -> Key {
    let vacant = slab.reserve();
    let index = vacant.key().index();
    // SAFETY: the vacant slot keeps its page.
    unsafe { Slot::state(vacant.slot()) }.skip_to(LAST_GENERATION - 1);
    let last = vacant.publish(1);
    let key = Ref::key(&last);
    assert_eq!(key.to_raw(), (index, LAST_GENERATION));
    assert_eq!(slab.get(key).as_deref(), Some(&1));
    key
}

fn exhausted_slot_is_never_used_again<P: Policy<Domain>>() {
    let domain = Domain::new();
    let slab = slab::<P>(&domain);
    let key = exhaust(&slab);
    domain.barrier();
    let per_page = slab.stats().page_slots;
    let others: Vec<_> = (0..per_page - 1).map(|n| slab.insert(n as u64)).collect();
    assert_eq!(slab.stats().pages, 1);
    assert!(others.iter().all(|o| Ref::key(o).index() != key.index()));
    assert!(slab.get(key).is_none());
    drop(others);
    domain.barrier();
    // The page goes all the same, and its number with it.
    assert_eq!(slab.shrink(), 1);
    let next = slab.insert(2);
    assert!(Ref::key(&next).index() >= per_page as u64);
    assert_eq!(Ref::key(&next).generation(), 1);
}

#[test]
fn exhausted_slot_is_never_used_again_immediate() {
    exhausted_slot_is_never_used_again::<Immediate>();
}

#[test]
fn exhausted_slot_is_never_used_again_after_grace() {
    exhausted_slot_is_never_used_again::<AfterGrace>();
}

#[test]
fn exhausted_slot_comes_home_when_the_slab_closes() {
    use crate::sync::{Arc, AtomicUsize, Relaxed};
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            // Relaxed: joined before it is read.
            self.0.fetch_add(1, Relaxed);
        }
    }
    let domain = Domain::new();
    let drops = Arc::new(AtomicUsize::new(0));
    let each = Arc::clone(&drops);
    let slab: Slab<Counted, u64, Immediate, Domain> = Slab::builder()
        .domain(&domain)
        .build(move |_| Counted(Arc::clone(&each)));
    let vacant = slab.reserve();
    // SAFETY: the vacant slot keeps its page.
    unsafe { Slot::state(vacant.slot()) }.skip_to(LAST_GENERATION - 1);
    drop(vacant);
    let capacity = slab.capacity();
    drop(slab);
    assert_eq!(domain.drain().left, 0);
    // Relaxed: this thread dropped them.
    assert_eq!(drops.load(Relaxed), capacity);
}

/// Slots to play with, and their numbers.
fn slots(
    slab: &Slab<u64, u64, AfterGrace, Domain>,
    n: usize,
) -> Vec<Vacant<u64, u64, AfterGrace, Domain>> {
    (0..n).map(|_| slab.reserve()).collect()
}

type Pointer = SlotPtr<u64, u64, AfterGrace, Domain>;

fn chain(slots: &[Pointer]) -> Chain<u64, u64, AfterGrace, Domain> {
    let mut chain = Chain::EMPTY;
    for &slot in slots.iter().rev() {
        // SAFETY: the test owns the slots.
        unsafe { chain.push(slot) };
    }
    chain
}

#[test]
fn chains_and_lists_keep_their_order() {
    let domain = Domain::new();
    let slab = slab::<AfterGrace>(&domain);
    let held = slots(&slab, 6);
    let s: Vec<Pointer> = held.iter().map(Vacant::slot).collect();

    let mut list = List::EMPTY;
    list.put(chain(&s[3..]));
    list.put(Chain::EMPTY);
    list.put(chain(&s[..3]));
    let mut front = list.cut(4);
    assert_eq!(front.len(), 4);
    assert_eq!(front.pop(), Some(s[0]));
    assert_eq!(front.into_list().collect::<Vec<_>>(), s[1..4]);
    assert_eq!(list.cut(9).into_list().collect::<Vec<_>>(), s[4..]);
    assert!(list.cut(1).is_empty());

    let stack = Stack::new();
    assert!(stack.push(chain(&s[4..])).is_ok());
    assert!(stack.push(chain(&s[..4])).is_ok());
    assert_eq!(stack.take().collect::<Vec<_>>(), s);
    assert!(stack.push(chain(&s[..1])).is_ok());
    assert_eq!(stack.close().collect::<Vec<_>>(), s[..1]);
    let refused = stack.push(chain(&s[..2])).expect_err("closed");
    assert_eq!(refused.into_list().collect::<Vec<_>>(), s[..2]);
    assert!(stack.close().first().is_none());
}

#[test]
fn dead_magazines_are_served_in_the_order_of_their_arrival() {
    let domain = Domain::new();
    let slab = slab::<AfterGrace>(&domain);
    let held = slots(&slab, 6);
    let s: Vec<Pointer> = held.iter().map(Vacant::slot).collect();
    let dead = |slots: &[Pointer], cookie| Dead {
        slots: chain(slots).into_list(),
        cookie,
    };

    let arrivals = Arrivals::new();
    let mut queue = Queue::EMPTY;
    queue.push(dead(&s[..1], 1));
    for (slots, cookie) in [(&s[1..3], 2), (&s[3..4], 3)] {
        assert!(arrivals.push(dead(slots, cookie)).is_ok());
    }
    queue.receive(&arrivals);
    queue.push(dead(&s[4..], 4));
    queue.push(Dead::NONE);
    let served: Vec<_> = std::iter::from_fn(|| queue.pop())
        .map(|dead| (dead.cookie, dead.slots.count()))
        .collect();
    assert_eq!(served, [(1, 1), (2, 2), (3, 1), (4, 2)]);
    assert!(queue.is_empty());

    queue.push_front(dead(&s[..1], 5));
    queue.receive_last(&arrivals);
    queue.push(dead(&s[1..2], 6));
    assert!(arrivals.push(dead(&s[2..3], 7)).is_err());
    assert_eq!(queue.pop().map(|dead| dead.cookie), Some(5));
    assert_eq!(queue.pop().map(|dead| dead.cookie), Some(6));
    assert!(queue.pop().is_none());
}

#[test]
fn slot_is_found_from_its_stable_part() {
    let domain = Domain::new();
    let slab = slab::<Immediate>(&domain);
    let value = slab.insert(5);
    let key = Ref::key(&value);
    let slot = value.into_slot();
    // SAFETY: the count keeps the page.
    let stable = unsafe { Slot::stable_ptr(slot) };
    // SAFETY: from `stable_ptr`, and the page is still there.
    let back = unsafe { Slot::<u64, u64, Immediate, Domain>::from_stable(stable) };
    assert_eq!(back, slot);
    // SAFETY: the count was given away by `into_slot`.
    let value = unsafe { Ref::from_slot(back) };
    assert_eq!((Ref::key(&value), *value), (key, 5));
}

#[test]
fn index_and_place_are_inverse() {
    type Small = Page<u8, u8, Immediate, Global>;
    for index in [0, 1, Small::SLOTS as u64 - 1, 1 << 20, 1 << 33] {
        let (number, slot) = Small::locate(index).expect("in range");
        assert_eq!(Small::index(number, slot), index);
    }
}

#[test]
fn pages_are_powers_of_two_and_hold_their_slots() {
    fn check<S: Send + Sync + 'static, V: Send + Sync + 'static>() {
        let (bytes, slots) = (
            Page::<S, V, AfterGrace, Global>::BYTES,
            Page::<S, V, AfterGrace, Global>::SLOTS,
        );
        assert!(bytes.is_power_of_two() && slots > 0);
        assert!(slots * size_of::<Slot<S, V, AfterGrace, Global>>() < bytes);
    }
    check::<(), ()>();
    check::<u8, [u8; 100]>();
    check::<[u64; 1 << 17], [u64; 1 << 17]>();
}

#[expect(dead_code, reason = "must compile")]
fn candidate_lives_as_long_as_the_borrow_of_the_guard<'g>(
    slab: &Slab<u8, u8>,
    guard: &'g Guard<'_, Global>,
    key: Key,
) -> Option<&'g u8> {
    Some(slab.candidate(guard, key)?.stable())
}
