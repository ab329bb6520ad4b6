//! A bound that several slabs share.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use graceperiod::{AfterGrace, Budget, Domain, Immediate, OnLimit, Policy, ReserveError, Slab};

type Owned<V, P = Immediate> = Slab<(), V, P, Domain>;

fn member<V: Send + Sync + 'static, P: Policy<Domain>>(
    domain: &Domain,
    budget: &Budget,
) -> Owned<V, P> {
    Slab::builder().domain(domain).budget(budget).build(|_| ())
}

fn is_over<T>(result: Result<T, ReserveError>) -> bool {
    matches!(result, Err(ReserveError::OverBudget))
}

#[test]
fn slots_of_all_members_together_are_bounded() {
    let domain = Domain::new();
    let budget = Budget::objects(50);
    let (first, second): (Owned<u64>, Owned<[u64; 9]>) =
        (member(&domain, &budget), member(&domain, &budget));
    let held: Vec<_> = (0..50).map(|n| first.insert(n)).collect();
    assert_eq!(budget.used_objects(), 50);
    assert!(is_over(first.try_reserve()) && is_over(second.try_reserve()));
    let refused = second.try_insert([0; 9]).expect_err("used up");
    assert!(refused.to_string().contains("budget"), "{refused}");
    drop(held);
    // The first slab's page goes, since the second one needs room.
    let held: Vec<_> = (0..50).map(|_| second.insert([0; 9])).collect();
    assert_eq!((first.capacity(), second.capacity()), (0, 50));
    assert_eq!(budget.used_objects(), 50);
    assert!(is_over(first.try_reserve()));
    drop((held, second));
    assert_eq!(domain.drain().left, 0);
    assert_eq!((budget.used_objects(), budget.used_bytes()), (0, 0));
    assert_eq!(*first.insert(1), 1);
}

#[test]
fn bytes_of_pages_are_bounded() {
    let domain = Domain::new();
    let probe: Owned<u64> = Slab::builder().domain(&domain).build(|_| ());
    let page = probe.stats().page_bytes;
    let budget = Budget::bytes(3 * page + page / 2);
    let slab: Owned<u64> = member(&domain, &budget);
    let mut held = Vec::new();
    while let Ok(value) = slab.try_insert(1) {
        held.push(value);
    }
    assert_eq!((slab.stats().pages, budget.used_bytes()), (3, 3 * page));
    assert_eq!(held.len(), slab.capacity());
    assert_eq!(held.len(), budget.used_objects());
    held.clear();
    assert_eq!((slab.shrink(), budget.used_bytes()), (3, 0));
}

#[test]
fn budget_and_limit_of_the_slab_hold_both() {
    let domain = Domain::new();
    let budget = Budget::both(10, usize::MAX);
    let slab: Owned<u64> = Slab::builder()
        .domain(&domain)
        .budget(&budget)
        .max_objects(4)
        .build(|_| ());
    let held: Vec<_> = (0..4).map(|n| slab.insert(n)).collect();
    let refused = slab.try_reserve().expect_err("four are taken");
    assert!(
        matches!(refused, ReserveError::Full { max_objects: 4 }),
        "{refused}"
    );
    assert_eq!(budget.used_objects(), 4);
    let other: Owned<u64> = member(&domain, &budget);
    let theirs: Vec<_> = std::iter::from_fn(|| other.try_insert(1).ok()).collect();
    assert_eq!((theirs.len(), budget.used_objects()), (6, 10));
    drop(held);
}

#[test]
fn failed_constructor_costs_nothing() {
    let domain = Domain::new();
    let budget = Budget::objects(10);
    let slab: Owned<u64> = Slab::builder()
        .domain(&domain)
        .budget(&budget)
        .build_fallible(|_| Err("no".into()));
    assert!(matches!(
        slab.try_reserve(),
        Err(ReserveError::Constructor(_))
    ));
    assert_eq!((budget.used_objects(), budget.used_bytes()), (0, 0));
}

#[test]
fn pages_that_wait_for_a_stalled_reader_are_bounded_by_the_domain() {
    let domain = Domain::builder()
        .limit_bytes(4 << 16)
        .on_limit(OnLimit::Fail)
        .build();
    let budget = Budget::objects(8);
    let members: [Owned<u64>; 2] = [(); 2].map(|()| member(&domain, &budget));
    let guard = domain.enter();
    // Each insertion takes the other's only page away, until too many wait.
    let moved = (0..1_000)
        .take_while(|n| members[n % 2].try_insert(1).is_ok())
        .count();
    assert!((1..50).contains(&moved), "{moved}");
    drop(guard);
    domain.barrier();
    assert!(members.iter().all(|slab| slab.try_insert(1).is_ok()));
}

#[test]
fn dead_values_are_recycled_before_a_member_gives_up() {
    let domain = Domain::new();
    let budget = Budget::objects(5);
    let slab: Owned<String, AfterGrace> = member(&domain, &budget);
    for n in 0..100 {
        let values: Vec<_> = (0..5)
            .map(|_| {
                slab.try_insert(n.to_string())
                    .expect("nobody else uses the budget")
            })
            .collect();
        drop(values);
    }
}

fn bound_is_exact_under_eight_threads<P: Policy<Domain>>(limit: usize) {
    const THREADS: usize = 8;
    let domain = Domain::new();
    let budget = Budget::objects(limit);
    let slabs: [Owned<usize, P>; 3] = [(); 3].map(|()| member(&domain, &budget));
    let (live, most, refused) = (
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    let begin = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (slabs, budget, begin) = (&slabs, &budget, &begin);
            let (live, most, refused) = (&live, &most, &refused);
            scope.spawn(move || {
                begin.wait();
                let mut held = Vec::new();
                for n in 0..600 {
                    match slabs[(thread + n) % 3].try_insert(n) {
                        Ok(value) => {
                            most.fetch_max(live.fetch_add(1, Relaxed) + 1, Relaxed);
                            held.push(value);
                        }
                        Err(error) => {
                            assert!(matches!(error.reason(), ReserveError::OverBudget));
                            refused.fetch_add(1, Relaxed);
                        }
                    }
                    assert!(budget.used_objects() <= limit);
                    if n % 50 == 49 {
                        live.fetch_sub(held.len(), Relaxed);
                        held.clear();
                    }
                }
            });
        }
    });
    assert!(most.load(Relaxed) <= limit);
    let capacity: usize = slabs.iter().map(Slab::capacity).sum();
    assert_eq!(budget.used_objects(), capacity);
    domain.barrier();
    // Whatever the threads left where: one slab can have all of it.
    let all: Vec<_> = std::iter::from_fn(|| slabs[0].try_insert(1).ok()).collect();
    assert_eq!(all.len(), limit);
    drop(all);
    domain.barrier();
    for slab in &slabs {
        slab.shrink();
    }
    assert_eq!((budget.used_objects(), budget.used_bytes()), (0, 0));
}

#[test]
fn bound_is_exact_under_eight_threads_immediate() {
    bound_is_exact_under_eight_threads::<Immediate>(64);
    bound_is_exact_under_eight_threads::<Immediate>(5_000);
}

#[test]
fn bound_is_exact_under_eight_threads_after_grace() {
    bound_is_exact_under_eight_threads::<AfterGrace>(64);
    bound_is_exact_under_eight_threads::<AfterGrace>(5_000);
}
