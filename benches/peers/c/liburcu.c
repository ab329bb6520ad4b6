/*
 * liburcu behind plain functions, compiled once per flavour. Loops that would otherwise measure the calls are here;
 * the library's own inline functions are used, as its users use them.
 */
#define _LGPL_SOURCE
#define URCU_INLINE_SMALL_FUNCTIONS

#include <stddef.h>
#include <stdint.h>

#if defined(FLAVOUR_MEMB)
#define RCU_MEMBARRIER
#include <urcu.h>
#elif defined(FLAVOUR_BP)
#include <urcu-bp.h>
#elif defined(FLAVOUR_QSBR)
#include <urcu-qsbr.h>
#endif
#include <urcu-defer.h>

#define PASTE(flavour) scoreboard_##flavour
#define EXPAND(flavour) PASTE(flavour)

/* Mirrored by `Shim` in liburcu.rs. */
struct shim {
	void (*prepare)(int defers);
	void (*finish)(int defers);
	void (*join)(int defers);
	void (*part)(int defers);
	void (*idle)(void);
	void (*enter)(void);
	void (*leave)(void);
	void (*enter_leave)(uint32_t times);
	uint64_t (*enter_load_leave)(void *const *slot, size_t offset, uint32_t times);
	void (*synchronize)(void);
	void (*call)(struct rcu_head *head, void (*run)(struct rcu_head *));
	void (*defer)(void (*run)(void *), void *object);
	void (*barrier)(void);
};

static inline void leave_section(void)
{
	rcu_read_unlock();
#ifdef FLAVOUR_QSBR
	/* Its sections cost nothing; what it pays is the announcement that none is open. */
	rcu_quiescent_state();
#endif
}

static inline uint64_t load(void *const *slot, size_t offset)
{
	const char *node = rcu_dereference(*slot);

	return *(const volatile uint64_t *)(node + offset);
}

/* Contenders that use defer_rcu. */
static int deferring;

/* Starts the helper thread, which inherits the processors of the caller: always the same thread. */
static void shim_prepare(int defers)
{
	if (!defers)
		get_default_call_rcu_data();
	else if (!deferring++)
		rcu_defer_register_thread();
}

/* The library insists that no thread is registered when the process ends. */
static void shim_finish(int defers)
{
	if (defers && !--deferring)
		rcu_defer_unregister_thread();
}

static void shim_join(int defers)
{
	rcu_register_thread();
	if (defers)
		rcu_defer_register_thread();
}

static void shim_part(int defers)
{
	if (defers)
		rcu_defer_unregister_thread();
	rcu_unregister_thread();
}

/* What a thread does before it idles for long. */
static void shim_idle(void)
{
#ifdef FLAVOUR_QSBR
	rcu_thread_offline();
#endif
}

static void shim_enter(void)
{
	rcu_read_lock();
}

static void shim_leave(void)
{
	leave_section();
}

static void shim_enter_leave(uint32_t times)
{
	while (times--) {
		rcu_read_lock();
		cmm_barrier();
		leave_section();
	}
}

static uint64_t shim_enter_load_leave(void *const *slot, size_t offset, uint32_t times)
{
	uint64_t sum = 0;

	while (times--) {
		rcu_read_lock();
		sum += load(slot, offset);
		leave_section();
	}
	return sum;
}

const struct shim EXPAND(FLAVOUR) = {
	.prepare = shim_prepare,
	.finish = shim_finish,
	.join = shim_join,
	.part = shim_part,
	.idle = shim_idle,
	.enter = shim_enter,
	.leave = shim_leave,
	.enter_leave = shim_enter_leave,
	.enter_load_leave = shim_enter_load_leave,
	.synchronize = synchronize_rcu,
	.call = call_rcu,
	.defer = defer_rcu,
	/* Waits for the callbacks of call_rcu; those of defer_rcu run when their thread parts. */
	.barrier = rcu_barrier,
};
