//! A kernel without `membarrier`.

/// Has the kernel answer EPERM to `membarrier`, on all threads, for good.
pub(crate) fn refuse_membarrier() {
    const SET_MODE_FILTER: libc::c_long = 1;
    const ALL_THREADS: libc::c_long = 1;
    let step = |code: u32, jf: u8, k: u32| libc::sock_filter {
        code: u16::try_from(code).expect("a BPF code"),
        jt: 0,
        jf,
        k,
    };
    let number = u32::try_from(libc::SYS_membarrier).expect("a small number");
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, number),
        step(
            libc::BPF_RET | libc::BPF_K,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs(),
        ),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: u16::try_from(steps.len()).expect("four"),
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: takes integers only.
    let done = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(done, 0);
    // SAFETY: the program and its steps live beyond the call, which copies them.
    let done = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            SET_MODE_FILTER,
            ALL_THREADS,
            &raw const program,
        )
    };
    assert_eq!(done, 0);
}
