//! What the operating system is asked for.

use std::mem;
use std::sync::OnceLock;
use std::time::Duration;

/// The processors that this process may use.
pub fn processors() -> &'static [usize] {
    static ALL: OnceLock<Vec<usize>> = OnceLock::new();
    ALL.get_or_init(|| {
        // SAFETY: all zeroes is an empty set.
        let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
        // SAFETY: the set is ours, and of the size told.
        let failed = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
        assert_eq!(failed, 0, "the kernel tells a process its processors");
        let most = usize::try_from(libc::CPU_SETSIZE).expect("a size");
        // SAFETY: below the set's size.
        let found: Vec<_> = (0..most)
            .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
            .collect();
        found
    })
}

/// Pins the calling thread to one processor; lanes go round.
pub fn pin(lane: usize) {
    let cpus = processors();
    // SAFETY: all zeroes is an empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the processor came out of a set of this size.
    unsafe { libc::CPU_SET(cpus[lane % cpus.len()], &mut set) };
    // SAFETY: the set is of the size told.
    let failed = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    assert_eq!(
        failed, 0,
        "a thread may be pinned to one of its own processors"
    );
}

/// The processor time that the calling thread has used.
pub fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure is ours.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0, "every thread has a clock");
    let seconds = u64::try_from(time.tv_sec).expect("a clock that began at 0");
    Duration::new(
        seconds,
        u32::try_from(time.tv_nsec).expect("below a second"),
    )
}

fn membarrier_call(command: libc::c_long) -> bool {
    // SAFETY: the call takes no pointers.
    let status = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    status == 0
}

/// Makes membarrier ready. False where the kernel refuses.
pub fn has_membarrier() -> bool {
    membarrier_call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED.into())
}

/// Makes one membarrier over the process's threads.
pub fn membarrier() {
    let done = membarrier_call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED.into());
    assert!(done, "membarrier worked when it was registered");
}
