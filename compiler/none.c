/* SPDX-License-Identifier: Apache-2.0 */
/*
 * none.c - the compiler's interface in a libspc without one (SPC_RUNTIME_ONLY).
 *
 * Neither a library nor a compiler can be opened, so a valid template or
 * compiler cannot exist.
 */
#include "base/error.h"
#include "compiler/artefact.h"
#include "compiler/space.h"
#include <stdlib.h>

static spc_status refuse(spc_error *error)
{
    return spc__fail(error, SPC_EUNSUPPORTED,
                     "this libspc has neither templates nor a compiler: it "
                     "only loads compiled code");
}

spc_status spc__library_open(spc__library **out, const char *directory,
                             const volatile int *const *cancel,
                             spc_error *error)
{
    (void)directory;
    (void)cancel;
    *out = NULL;
    return refuse(error);
}

spc_status spc__nvrtc_open(spc__compiler **out, spc_error *error)
{
    *out = NULL;
    return refuse(error);
}

spc_status spc__hostcc_open(spc__compiler **out, spc_error *error)
{
    *out = NULL;
    return refuse(error);
}

/* Accepts NULL, the only possible library. */
void spc__library_close(spc__library *library)
{
    (void)library;
}

void spc__compiler_close(spc__compiler *compiler)
{
    (void)compiler;
}

void spc__artefact_release(spc__artefact *artefact)
{
    free(artefact->code);
}

/* Functions of objects that cannot exist in this build. */
#define NOBODY_ASKS(type, name, ...)                                           \
    type name(__VA_ARGS__)                                                     \
    {                                                                          \
        abort();                                                               \
    }

NOBODY_ASKS(int, spc__library_count, const spc__library *library)
NOBODY_ASKS(spc__template *, spc__library_at, spc__library *library, int i)
NOBODY_ASKS(spc__template *, spc__library_find, spc__library *library,
            const char *name)
NOBODY_ASKS(const char *, spc__template_name, const spc__template *tpl)
NOBODY_ASKS(const char *, spc__template_role, const spc__template *tpl)
NOBODY_ASKS(const char *, spc__template_device, const spc__template *tpl)
NOBODY_ASKS(const char *, spc__template_hash, const spc__template *tpl)
NOBODY_ASKS(spc_status, spc__template_accepts, spc__template *tpl,
            const spc__attrs *problem, const spc__attrs *target,
            spc_error *error)
NOBODY_ASKS(spc_status, spc__template_default, spc__attrs *config,
            spc__template *tpl, const spc__attrs *problem,
            const spc__attrs *target, spc_error *error)
NOBODY_ASKS(spc_status, spc__template_check, spc__template *tpl,
            const spc__attrs *problem, const spc__attrs *target,
            const spc__attrs *config, spc_error *error)
NOBODY_ASKS(spc_status, spc__template_launch, spc__attrs *launch,
            spc__template *tpl, const spc__attrs *problem,
            const spc__attrs *target, const spc__attrs *config,
            spc_error *error)
NOBODY_ASKS(spc_status, spc__template_render, spc__buf *out, spc__template *tpl,
            const spc__attrs *problem, const spc__attrs *target,
            const spc__attrs *config, spc_error *error)
NOBODY_ASKS(const char *, spc__compiler_identity, const spc__compiler *compiler)
NOBODY_ASKS(spc_status, spc__compile, spc__artefact *out,
            spc__compiler *compiler, const spc__compile_job *job, spc__buf *log,
            spc_error *error)
NOBODY_ASKS(void, spc__artefact_key, char hex[SPC__SHA256_HEX],
            const spc__compiler *compiler, const spc__compile_job *job)
