/* Helpers that wait for a moment.

   A velocity takes less than a millisecond, and the next one is asked for soon. To make a thread for each and to sleep
   until it has ended would cost a third of that. So a helper that has done its part looks for more work for a
   millisecond, and only then ends; and who waits for a helper looks too. Whoever calls works as well, and takes back a
   call that no helper has heard: without helpers all is done just as well, only later. There is one crew; where it is
   at work already, the caller works alone. After a fork there is none, and the next call makes a new one. */

#define _POSIX_C_SOURCE 200809L
#include "crew.h"

#ifdef _WIN32

void together(void (*work)(void *), void *shared, int64_t threads) {
    (void)threads;
    work(shared);
}

#else

#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <time.h>

/* Threads beside the caller's. Chosen: each looks for more work for PATIENCE after its own, and keeps a processor
   busy. */
enum { MOST_HELPERS = 3 };
enum { GONE = 0, WAITING = 1, CALLED = 2, WORKING = 3 };
/* Looks at a state between looks at the clock. Chosen: the clock costs as much as some of them; with more, patience
   would end late. */
enum { GLANCES = 64 };
#define PATIENCE 1e-3  /* seconds of a helper: what Python does between two steps takes a third of that */
/* Seconds of who waits for a helper, which may need the processor to go on. Chosen, a fifth of PATIENCE: were it more,
   they would be lost where there are fewer processors than threads; were it less, the processor would be given up for a
   helper that is about to end. */
#define AT_ONCE 2e-4
#define NANOSECOND 1e-9

typedef struct {
    void (*work)(void *);
    void *shared;
    int state; /* changed by compare and exchange, or by the helper while it works */
} Helper;

static Helper helpers[MOST_HELPERS];
static int busy, registered;

static int changed(int *state, int from, int to) {
    return __atomic_compare_exchange_n(state, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static int seen(int *state) { return __atomic_load_n(state, __ATOMIC_ACQUIRE); }

static void breathe(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static double now(void) {
    struct timespec clock;
    clock_gettime(CLOCK_MONOTONIC, &clock);
    return (double)clock.tv_sec + NANOSECOND * (double)clock.tv_nsec;
}

/* Look until the state is another one, or patience ends; whether it is. */
static int looked(int *state, int is, double patience) {
    const double end = now() + patience;
    do
        for (int i = 0; i < GLANCES; i++) {
            if (seen(state) != is) return 1;
            breathe();
        }
    while (now() < end);
    return 0;
}

static void *help(void *given) {
    Helper *own = given;
    for (;;) {
        if (changed(&own->state, CALLED, WORKING)) {
            own->work(own->shared);
            __atomic_store_n(&own->state, WAITING, __ATOMIC_RELEASE);
        }
        if (!looked(&own->state, WAITING, PATIENCE) && changed(&own->state, WAITING, GONE)) return NULL;
    }
}

/* Call a helper, one that waits or a new one. */
static void call(Helper *helper, void (*work)(void *), void *shared) {
    pthread_t thread;
    /* While it waits, what it is to do is not looked at. */
    helper->work = work;
    helper->shared = shared;
    if (changed(&helper->state, WAITING, CALLED)) return;
    __atomic_store_n(&helper->state, CALLED, __ATOMIC_RELEASE);
    if (pthread_create(&thread, NULL, help, helper) == 0)
        pthread_detach(thread);
    else
        __atomic_store_n(&helper->state, GONE, __ATOMIC_RELEASE);
}

/* Take the call back, or wait until its work is done. */
static void finish(Helper *helper) {
    if (changed(&helper->state, CALLED, WAITING)) return;
    while (seen(&helper->state) == WORKING && !looked(&helper->state, WORKING, AT_ONCE)) sched_yield();
}

static void forget(void) {
    for (int i = 0; i < MOST_HELPERS; i++) helpers[i].state = GONE;
    busy = 0;
}

void together(void (*work)(void *), void *shared, int64_t threads) {
    const int64_t beside = threads - 1 < MOST_HELPERS ? threads - 1 : MOST_HELPERS;
    if (beside <= 0 || !changed(&busy, 0, 1)) {
        work(shared);
        return;
    }
    if (!registered) registered = pthread_atfork(NULL, NULL, forget) == 0;
    for (int64_t i = 0; registered && i < beside; i++) call(helpers + i, work, shared);
    work(shared);
    for (int64_t i = 0; registered && i < beside; i++) finish(helpers + i);
    __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
}

#endif
