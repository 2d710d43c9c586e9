/* SPDX-License-Identifier: Apache-2.0 */
/*
 * background.h - background mode, from the side of a context. Plans start the
 * thread and send it requests (plan/background.h); the context ends the thread.
 */
#ifndef SPC_CONTEXT_BACKGROUND_H
#define SPC_CONTEXT_BACKGROUND_H

typedef struct spc__background spc__background;

struct spc__background {
    void (*end)(spc__background *self); /* ends its thread */
    void (*release)(
        spc__background *self); /* then frees its memory, including the flags */
};

#endif
