/* SPDX-License-Identifier: Apache-2.0 */
/* forks.c - counts fork() in the children. */
#include "base/forks.h"

#include <pthread.h>

static unsigned forks;
static pthread_once_t installed = PTHREAD_ONCE_INIT;

/* Only the forking thread lives on in the child: no other one reads it now. */
static void count_fork(void)
{
    forks++;
}

/* Without memory for the handler forks are not seen, as before. */
static void install(void)
{
    (void)pthread_atfork(NULL, NULL, count_fork);
}

unsigned spc__forks(void)
{
    pthread_once(&installed, install);
    return forks;
}
