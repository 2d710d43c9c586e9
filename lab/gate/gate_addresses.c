/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_addresses.c - a deterministic problem must return the same bits at any
 * address of its operands.
 *
 * A sum whose order depends on an address is the same in all launches on one
 * fixture, but differs between programs. So this test copies the operands to
 * separate arrays: to a random multiple of the alignment that spc.h promises,
 * less than REACH after a multiple of REACH, and for the next launch to the
 * complement of these bits. Each address bit has both values in the two
 * launches.
 */
#include "lab/gate/gate_launch.h"

#include "base/dtype.h"
#include "base/error.h"
#include "operators/operands.h"
#include <stdlib.h>

enum { LAUNCHES = 4, REACH = 128 * 1024, PACKED_PLACE = 256, ARRAYS = 6 };

/* An operand, and the array that replaces it. */
typedef struct moved {
    const void **at; /* member of the buffers; NULL: the operand is not read */
    const void *host;
    char *device;
    size_t bytes, place, behind; /* its current position */
} moved;

typedef struct relocation {
    const spc__gate *g;
    const spc__gate_setting *at;
    spc__random random;
    spc_buffers buffers;
    moved all[ARRAYS];
    int count;
    void *packed; /* weights in the device's layout */
} relocation;

static void add(relocation *p, const void **at, const void *host, size_t bytes,
                size_t place)
{
    if (*at != NULL && bytes > 0)
        p->all[p->count++] = (moved){at, host, NULL, bytes, place, 0};
}

/* Fetches the packed weights, since the host has no copy. */
static spc_status fetch_weights(relocation *p)
{
    const spc__gate *g = p->g;
    const spc__guarded *packed = spc__gate_packed_array(g, p->at->dataset);

    if (packed->bytes == 0)
        return SPC_OK;
    if ((p->packed = malloc(packed->bytes)) == NULL)
        return spc__fail_memory(spc__error_of(g->fixture->ctx), packed->bytes);
    add(p, &p->buffers.weights, p->packed, packed->bytes, PACKED_PLACE);
    return spc_memory_download(p->packed, g->fixture->ctx, packed->data,
                               packed->bytes);
}

/* Lists the operands, each with the alignment that spc.h promises to a
 * kernel. */
static spc_status list_operands(relocation *p)
{
    const spc__fixture *fixture = p->g->fixture;
    const spc__sample *sample = fixture->sample;
    const spc__sample_scene *scene = &sample->scenes[p->at->s];
    int d = p->at->dataset;
    spc_buffers *b = &p->buffers;
    spc__operand all[SPC_OPERANDS];

    spc__operands(all, &sample->conv, scene->rows_in, scene->rows_out);
    spc__fixture_buffers(b, fixture, p->at->s, p->at->dataset);
    b->weights = spc__gate_packed(p->g, p->at->dataset);
    add(p, &b->in, scene->in[d], all[SPC_OPERAND_IN].bytes, SPC__ALIGN_TENSOR);
    if (scene->residual[d] != NULL)
        add(p, &b->residual, scene->residual[d],
            all[SPC_OPERAND_RESIDUAL].bytes, SPC__ALIGN_TENSOR);
    if (sample->bias[d] != NULL)
        add(p, (const void **)&b->bias, sample->bias[d],
            all[SPC_OPERAND_BIAS].bytes, SPC__ALIGN_VECTOR);
    if (sample->scale[d] != NULL)
        add(p, (const void **)&b->scale, sample->scale[d],
            all[SPC_OPERAND_SCALE].bytes, SPC__ALIGN_VECTOR);
    add(p, (const void **)&b->workspace, NULL, fixture->workspace.bytes,
        PACKED_PLACE);
    return fetch_weights(p);
}

static spc_status allocate(relocation *p)
{
    spc_status status = list_operands(p);

    for (int i = 0; i < p->count && status == SPC_OK; i++)
        status =
            spc_memory_alloc((void **)&p->all[i].device, p->g->fixture->ctx,
                             p->all[i].bytes + 2 * REACH);
    return status;
}

/* Moves an operand within its array; a workspace is filled. */
static spc_status move(relocation *p, moved *m, bool complement)
{
    const spc__fixture *fixture = p->g->fixture;
    uintptr_t base = (uintptr_t)m->device;
    size_t places = REACH / m->place;

    m->behind =
        complement ? REACH - m->place - m->behind
                   : m->place * spc__random_below(&p->random, (uint32_t)places);
    char *to = m->device + (REACH - base % REACH) + m->behind;
    *m->at = to;
    if (m->host == NULL)
        return fixture->ops->fill(fixture->ctx->device, to, SPC__ZONE_BYTE,
                                  m->bytes, NULL, spc__error_of(fixture->ctx));
    return spc_memory_upload(to, fixture->ctx, m->host, m->bytes);
}

/* Moves the operands and runs once. `complement` selects the complementary
 * positions. */
static spc_status launch(relocation *p, bool complement, uint64_t *digest)
{
    spc__fixture *fixture = p->g->fixture;
    spc_plan *plan = p->g->tested->plan;
    uint64_t digests[SPC__RUN_DIGESTS];
    spc_status status = spc__fixture_set(fixture, plan, p->at->s);

    p->buffers.out = fixture->out.data;
    for (int i = 0; i < p->count && status == SPC_OK; i++)
        status = move(p, &p->all[i], complement);
    if (status == SPC_OK)
        status = spc__fixture_fill_out(fixture, SPC__ZONE_BYTE);
    if (status == SPC_OK)
        status =
            spc__fixture_execute_on(fixture, plan, p->at->s, &p->buffers, NULL);
    if (status == SPC_OK)
        status = spc__gate_digest(p->g, digests);
    *digest = digests[SPC__RESULT];
    return status;
}

/* Launches alternately at both positions. The first digest that differs ends
 * the test. */
static void compare_launches(relocation *p)
{
    const spc__gate *g = p->g;
    uint64_t first = g->tested->first[p->at->s][p->at->dataset], digest = first;

    for (int i = 0; i < LAUNCHES && digest == first; i++)
        if (launch(p, i % 2 == 1, &digest) != SPC_OK) {
            spc__gate_failed(g);
            return;
        }
    if (digest != first)
        spc__gate_wrong(g,
                        "differs from run to run: scene '%.40s' gives other "
                        "bits when its operands are at other addresses",
                        spc__gate_scene(g, p->at->s));
}

void spc__gate_test_addresses(const spc__gate *g, const spc__gate_setting *at)
{
    relocation p = {.g = g, .at = at};

    spc__random_init(&p.random, g->fixture->sample->seed ^ 0x706c61636573);
    if (allocate(&p) != SPC_OK)
        spc__gate_failed(g);
    else
        compare_launches(&p);
    for (int i = 0; i < p.count; i++)
        spc_memory_free(g->fixture->ctx, p.all[i].device);
    free(p.packed);
}
