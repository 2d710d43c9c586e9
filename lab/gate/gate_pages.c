/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_pages.c - makes pages read-only for one launch.
 *
 * A kernel that writes to the map and restores it leaves no trace, but other
 * launches that read the map meanwhile are wrong. Where device memory is the
 * host's, the pages of all read-only arrays are closed for a launch. A write to
 * them raises SIGSEGV. The handler notes the array and opens its pages, and the
 * kernel continues. All of these arrays lie between zones that are larger than
 * a page, so no page has other data.
 */
#include "lab/gate/gate_launch.h"

#include "coords/map.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = SPC__MAP_ARRAYS + 8 };

typedef struct pages {
    const char *name, *of;
    uintptr_t begin, end;    /* range of the pages */
    uintptr_t first, behind; /* range of the array */
} pages;

/*
 * A signal handler has no payload, so this state is global; one launch at a
 * time may use it.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    pages all[MOST];
    int count;
    atomic_int written; /* index of the written pages; -1: none */
    atomic_uintptr_t where;
    struct sigaction before;
} closed;

/*
 * A fault at another address is not ours: the earlier handler is restored, and
 * the instruction faults again under it.
 */
static void on_fault(int signal, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t)info->si_addr;

    (void)context;
    for (int i = 0; i < closed.count; i++) {
        const pages *p = &closed.all[i];
        if (at < p->begin || at >= p->end)
            continue;
        atomic_store(&closed.where, at);
        atomic_store(&closed.written, i);
        mprotect((void *)p->begin, p->end - p->begin, PROT_READ | PROT_WRITE);
        return;
    }
    sigaction(signal, &closed.before, NULL);
}

/* Adds the pages of an array, as far as they lie within its zones. */
static void add(const char *of, const char *name, const void *data,
                size_t bytes, size_t zone)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = (uintptr_t)data, behind = first + bytes;
    pages p = {.name = name,
               .of = of,
               .begin = first / page * page,
               .end = (behind + page - 1) / page * page,
               .first = first,
               .behind = behind};

    if (p.begin < first - zone)
        p.begin += page;
    if (p.end > behind + zone)
        p.end -= page;
    if (bytes > 0 && p.begin < p.end && closed.count < MOST)
        closed.all[closed.count++] = p;
}

static void add_guarded(const spc__gate *g, const char *name,
                        const spc__guarded *array)
{
    if (array->base != NULL)
        add("", name, array->data, array->bytes,
            g->fixture->guards.zone_bytes[array->is_far]);
}

/* Lists the arrays that the launch may only read. Their pages are closed for
 * writing during the launch. */
static void list_pages(const spc__gate *g, const spc__gate_setting *at)
{
    spc__map_array list[SPC__MAP_ARRAYS];
    const spc__fixture *fixture = g->fixture;
    const spc_map *map = fixture->maps[at->s];
    int array = at->s < fixture->sample->given ? (int)at->dataset : 0;
    int count = map != NULL ? spc__gate_list_map(list, g, map) : 0;

    closed.count = 0;
    for (int i = 0; i < count; i++)
        add("the map's ", list[i].name, list[i].data, list[i].bytes,
            map->to->zone_bytes);
    add_guarded(g, "in", &fixture->in[at->s][array]);
    add_guarded(g, "residual", &fixture->residual[at->s][array]);
    add_guarded(g, "weights", spc__gate_packed_array(g, at->dataset));
    add_guarded(g, "bias", &fixture->bias[at->dataset]);
    add_guarded(g, "scale", &fixture->scale[at->dataset]);
    add_guarded(g, "a tensor's scale", &fixture->scales[at->dataset]);
}

static void protect_all(int protection)
{
    for (int i = 0; i < closed.count; i++)
        mprotect((void *)closed.all[i].begin,
                 closed.all[i].end - closed.all[i].begin, protection);
}

void spc__gate_close_pages(const spc__gate *g, const spc__gate_setting *at)
{
    struct sigaction action = {.sa_sigaction = on_fault,
                               .sa_flags = SA_SIGINFO};

    if (!g->fixture->ops->runs_on_host_cores)
        return;
    pthread_mutex_lock(&lock);
    list_pages(g, at);
    atomic_store(&closed.written, -1);
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &closed.before);
    protect_all(PROT_READ);
}

/* Pages extend into the zones of their array, so a write may be to either. */
static void note_write(const spc__gate *g, const pages *p, uintptr_t where)
{
    if (where >= p->first && where < p->behind)
        spc__gate_wrong(g, "read-only: %s%s is written to", p->of, p->name);
    else
        spc__gate_wrong(g, "canary: something is written %s %s%s",
                        where < p->first ? "before" : "behind", p->of, p->name);
    if (p->of[0] != '\0')
        g->out->spoilt = true; /* maps must be built again */
    else if (spc__fixture_refill(g->fixture) != SPC_OK)
        spc__gate_failed(g);
}

void spc__gate_open_pages(const spc__gate *g)
{
    if (!g->fixture->ops->runs_on_host_cores)
        return;
    protect_all(PROT_READ | PROT_WRITE);
    sigaction(SIGSEGV, &closed.before, NULL);
    int i = atomic_load(&closed.written);
    if (i >= 0)
        note_write(g, &closed.all[i], atomic_load(&closed.where));
    pthread_mutex_unlock(&lock);
}
