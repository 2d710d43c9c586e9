/* SPDX-License-Identifier: Apache-2.0 */
/* forks.c - counts fork() in the children. */
#include "base/forks.h"

#include <pthread.h>

static unsigned forks;
static pthread_once_t installed = PTHREAD_ONCE_INIT;

/* Only the forking thread continues in the child, so no other thread reads the
 * counter. */
static void count_fork(void)
{
    forks++;
}

/* Without memory for the handler, forks are not detected. */
static void install(void)
{
    (void)pthread_atfork(NULL, NULL, count_fork);
}

unsigned spc__forks(void)
{
    pthread_once(&installed, install);
    return forks;
}
