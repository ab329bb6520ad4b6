//! loom models of the chain, its lock and the terms, and of whole tables in small.
//!
//! The models of the chain need no slab and no guard: their nodes live as long as the model. What a table would tell from
//! an object's identity is a number beside the node.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

use std::ptr::NonNull;

use crate::sync::{Relaxed, Release, edge};

use super::bucket::{Head, Locked};
use super::node::TableNode;
use super::walk::{Step, Walk};

const TABLE: u64 = 1;
const HASH: u64 = 7;
const OTHER_HASH: u64 = 8;

/// Objects and two buckets.
struct World<const N: usize> {
    heads: Box<[Head; 2]>,
    nodes: Box<[TableNode; N]>,
    identities: [AtomicU64; N],
    /// What only a node's owner touches.
    own: [UnsafeCell<()>; N],
}

// SAFETY: `own` is touched by who has claimed the node; loom checks that.
unsafe impl<const N: usize> Sync for World<N> {}
// SAFETY: as above.
unsafe impl<const N: usize> Send for World<N> {}

impl<const N: usize> World<N> {
    fn new() -> Self {
        let heads = Box::new(std::array::from_fn(|_| Head::new()));
        heads.iter().for_each(Head::settle);
        Self {
            heads,
            nodes: Box::new(std::array::from_fn(|_| TableNode::new())),
            identities: std::array::from_fn(|n| AtomicU64::new(n as u64)),
            own: std::array::from_fn(|_| UnsafeCell::new(())),
        }
    }

    fn ptr(&self, node: usize) -> NonNull<TableNode> {
        NonNull::from(&self.nodes[node])
    }

    fn lock(&self, head: usize) -> Locked<'_> {
        self.heads[head].lock(self.heads[head].end())
    }

    fn touch(&self, node: usize) {
        // SAFETY: the caller owns the node; loom checks that.
        self.own[node].with_mut(|own| unsafe { *own = () });
    }

    fn link_locked(&self, bucket: &mut Locked<'_>, node: usize, hash: u64) -> bool {
        let claimed = self.nodes[node].claim(TABLE);
        if claimed {
            self.touch(node);
            self.nodes[node].set_hash(hash);
            // SAFETY: claimed and hashed; it lives as long as the world.
            unsafe { bucket.link(self.ptr(node)) };
        }
        claimed
    }

    fn link(&self, head: usize, node: usize, hash: u64) -> bool {
        self.link_locked(&mut self.lock(head), node, hash)
    }

    fn unlink(&self, head: usize, node: usize) -> bool {
        let removed = self.lock(head).unlink(self.ptr(node));
        if removed {
            self.touch(node);
            self.nodes[node].release();
        }
        removed
    }

    /// Walks once, and returns the first member with the hash.
    fn walk(&self, head: usize) -> Result<usize, Step> {
        let head = &self.heads[head];
        // SAFETY: the nodes live as long as the world.
        let mut walk = unsafe { Walk::new(head, head.word().load(edge!(O60, Acquire))) };
        loop {
            match walk.next_with(HASH) {
                Step::Node(node) => {
                    let node = (0..N)
                        .find(|n| self.ptr(*n) == node)
                        .expect("a node of this world");
                    if self.nodes[node].term_in(TABLE).is_some() {
                        return Ok(node);
                    }
                }
                end => return Err(end),
            }
        }
    }
}

#[test]
fn o60_reader_of_the_head_sees_the_node_and_its_way_on() {
    loom::model(|| {
        let world = Arc::new(World::<1>::new());
        let writer = {
            let world = Arc::clone(&world);
            thread::spawn(move || assert!(world.link(0, 0, HASH)))
        };
        // A node that isn't fully seen would lead to no bucket's end, or have another hash.
        let head = &world.heads[0];
        // Acquire: what a domain's protected load is.
        let first = head.word().load(edge!(O60, Acquire));
        // SAFETY: as in `walk`.
        let mut walk = unsafe { Walk::new(head, first) };
        let step = walk.next_with(HASH);
        assert_ne!(step, Step::Astray);
        assert!(walk_began_at_end(first) || step != Step::End);
        writer.join().expect("no panic");
    });
}

fn walk_began_at_end(first: *mut TableNode) -> bool {
    super::bucket::Edge::from_raw(first)
        .unlocked()
        .node()
        .is_none()
}

#[test]
fn o61_the_lock_hands_the_chain_over() {
    loom::model(|| {
        let world = Arc::new(World::<2>::new());
        assert!(world.link(0, 0, HASH));
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let mut bucket = world.lock(0);
                // Stands for everything that happens under the lock.
                world.touch(1);
                world.link_locked(&mut bucket, 1, HASH);
            })
        };
        {
            let mut bucket = world.lock(0);
            world.touch(1);
            assert!(bucket.unlink(world.ptr(0)));
        }
        other.join().expect("no panic");
        let nodes: Vec<_> = world.lock(0).nodes().collect();
        assert_eq!(nodes, [world.ptr(1)]);
    });
}

/// 0 leads to 1, which stays; 0 is recycled into the other bucket. Its new successor 2 once was the last in the first
/// bucket, so who sees 2's old way on comes to the first bucket's end without having met 1.
#[test]
fn o62_reader_of_a_recycled_node_begins_anew_and_misses_nobody() {
    loom::model(|| {
        let world = Arc::new(World::<3>::new());
        assert!(world.link(0, 2, OTHER_HASH));
        assert!(world.unlink(0, 2));
        assert!(world.link(0, 1, HASH));
        assert!(world.link(0, 0, OTHER_HASH));
        let writer = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                assert!(world.link(1, 2, OTHER_HASH));
                assert!(world.unlink(0, 0));
                assert!(world.link(1, 0, OTHER_HASH));
            })
        };
        match world.walk(0) {
            Ok(node) => assert_eq!(node, 1),
            Err(step) => assert_eq!(step, Step::Astray, "a member was missed"),
        }
        writer.join().expect("no panic");
    });
}

/// The reader stands on 0 when its successor leaves, and goes on to the successor's successor.
#[test]
fn o62_reader_passes_a_gap_and_sees_what_is_behind() {
    loom::model(|| {
        let world = Arc::new(World::<3>::new());
        assert!(world.link(0, 0, OTHER_HASH));
        let writer = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                assert!(world.link(0, 1, OTHER_HASH));
                assert!(world.unlink(0, 0));
                assert!(world.link(0, 0, OTHER_HASH));
            })
        };
        // Whatever the reader meets, it never leaves the bucket, and never stands on half a node.
        assert_eq!(world.walk(0), Err(Step::End));
        writer.join().expect("no panic");
    });
}

#[test]
fn o63_a_node_changes_hands_completely() {
    loom::model(|| {
        let world = Arc::new(World::<1>::new());
        assert!(world.link(0, 0, HASH));
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.link(1, 0, HASH))
        };
        assert!(world.unlink(0, 0));
        let moved = other.join().expect("no panic");
        assert_eq!(world.nodes[0].is_in_table(), moved);
    });
}

/// An object is taken out, gets another identity, and goes in again. Who validates has read the identity of that term.
///
/// The reader is the thread that starts later: loom doesn't look for an earlier place of a store before which its own
/// thread has loaded the same word.
#[test]
fn o64_o65_identity_belongs_to_the_term() {
    loom::model(|| {
        let world = Arc::new(World::<1>::new());
        assert!(world.link(0, 0, HASH));
        let first = world.nodes[0].term_in(TABLE).expect("a member");
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let Some(term) = world.nodes[0].term_in(TABLE) else {
                    return;
                };
                // Relaxed: what a comparison may do; the term judges it.
                let identity = world.identities[0].load(Relaxed);
                if world.nodes[0].is_still_in(term) {
                    assert_eq!(identity == 0, term == first);
                }
            })
        };
        assert!(world.unlink(0, 0));
        // Release: what the index asks of who changes an object that was published (O65).
        world.identities[0].store(1, Release);
        assert!(world.link(0, 0, HASH));
        reader.join().expect("no panic");
    });
}

/// Whoever finds an object can be sure that others, from then on, find it too.
#[test]
fn o64_who_sees_the_term_sees_the_head() {
    loom::model(|| {
        let world = Arc::new(World::<1>::new());
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                if world.nodes[0].term_in(TABLE).is_some() {
                    assert_eq!(world.walk(0), Ok(0));
                }
            })
        };
        assert!(world.link(0, 0, HASH));
        reader.join().expect("no panic");
    });
}

/// Whole tables over a slab, in a domain of their own: loom keeps no global one.
mod whole {
    use std::hash::{BuildHasher, Hasher};
    use std::sync::atomic::AtomicUsize;

    use crate::table::{CandidateOf, Index, Table, TableNode, VacantOf};
    use crate::{Domain, Immediate, Ref, Slab};

    use super::*;

    struct Object {
        key: AtomicU64,
        node: TableNode,
    }

    crate::node!(Node: Object.node);

    struct ByKey;

    impl Index for ByKey {
        type Node = Node;
        type Value = Value;
        type Policy = Immediate;
        type Domain = Domain;
        type Key = u64;

        fn matches(candidate: &CandidateOf<'_, Self>, key: &u64) -> bool {
            // Relaxed: the term judges it.
            candidate.stable().key.load(Relaxed) == *key
        }
    }

    /// Counts its drops, outside of what loom explores.
    struct Value(u64, std::sync::Arc<AtomicUsize>);

    impl Drop for Value {
        fn drop(&mut self) {
            // Relaxed: read after the threads have been joined.
            self.1.fetch_add(1, Relaxed);
        }
    }

    /// Gives every key the same hash, so that all compare with all.
    #[derive(Clone, Copy, Default)]
    struct Same;

    impl Hasher for Same {
        fn finish(&self) -> u64 {
            HASH
        }
        fn write(&mut self, _: &[u8]) {}
    }

    impl BuildHasher for Same {
        type Hasher = Self;
        fn build_hasher(&self) -> Self {
            Self
        }
    }

    type Objects = Slab<Object, Value, Immediate, Domain>;
    type Pair = (Objects, Table<ByKey, Same>);

    fn pair() -> Pair {
        let slab = Slab::builder().domain(&Domain::new()).build(|_| Object {
            key: AtomicU64::new(0),
            node: TableNode::new(),
        });
        let table = Table::with_hasher(&slab, 1, Same);
        (slab, table)
    }

    fn reserve(slab: &Objects, key: u64) -> VacantOf<ByKey> {
        let vacant = slab.reserve();
        // Relaxed: published with the object.
        vacant.stable().key.store(key, Relaxed);
        vacant
    }

    fn explore(model: impl Fn(&std::sync::Arc<AtomicUsize>) + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(move || model(&std::sync::Arc::default()));
    }

    #[test]
    fn o61_of_two_that_insert_a_key_one_wins() {
        explore(|drops| {
            let pair = Arc::new(pair());
            let mine = reserve(&pair.0, 1);
            let other = {
                let (pair, drops) = (Arc::clone(&pair), drops.clone());
                let vacant = reserve(&pair.0, 1);
                thread::spawn(move || {
                    let result = pair.1.insert_vacant(&1, vacant, Value(1, drops));
                    result.is_ok()
                })
            };
            let won = match pair.1.insert_vacant(&1, mine, Value(0, drops.clone())) {
                Ok(object) => {
                    assert_eq!(object.0, 0);
                    true
                }
                Err(refused) => {
                    assert_eq!((refused.existing.0, refused.value.0), (1, 0));
                    false
                }
            };
            assert_ne!(other.join().expect("no panic"), won);
            assert_eq!(pair.1.len(), 1);
            assert_eq!(drops.load(Relaxed), 1);
        });
    }

    #[test]
    fn o42_get_beside_the_last_drop_counts_the_right_object_or_none() {
        explore(|drops| {
            let pair = Arc::new(pair());
            let first = reserve(&pair.0, 1);
            drop(pair.1.insert_vacant(&1, first, Value(1, drops.clone())));
            let other = {
                let (pair, drops) = (Arc::clone(&pair), drops.clone());
                thread::spawn(move || {
                    drop(pair.1.remove(&1).expect("it is there"));
                    // The same slot, if the reader has let go of it.
                    let vacant = reserve(&pair.0, 2);
                    drop(pair.1.insert_vacant(&2, vacant, Value(2, drops)));
                })
            };
            if let Some(found) = pair.1.get(&1) {
                assert_eq!(found.0, 1);
                // Relaxed: the reference keeps the key as it is.
                assert_eq!(Ref::stable(&found).key.load(Relaxed), 1);
            }
            other.join().expect("no panic");
            assert_eq!((pair.1.len(), drops.load(Relaxed)), (1, 1));
            assert!(pair.1.get(&2).is_some());
        });
    }

    /// Both keys have one hash, so only the term keeps a removal from the object that was renamed meanwhile.
    #[test]
    fn o64_removal_beside_a_rename_takes_what_has_the_key() {
        explore(|drops| {
            let pair = Arc::new(pair());
            let first = reserve(&pair.0, 1);
            drop(pair.1.insert_vacant(&1, first, Value(1, drops.clone())));
            let other = {
                let pair = Arc::clone(&pair);
                thread::spawn(move || {
                    let Some(object) = pair.1.remove(&1) else {
                        return false;
                    };
                    // Release: what the index asks of who changes an object that was published.
                    Ref::stable(&object).key.store(2, Release);
                    assert!(pair.1.insert(&2, object).is_ok());
                    true
                })
            };
            let removed = pair.1.remove(&1);
            let renamed = other.join().expect("no panic");
            assert_ne!(removed.is_some(), renamed);
            assert_eq!(pair.1.contains(&2), renamed);
        });
    }
}
