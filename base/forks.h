/* SPDX-License-Identifier: Apache-2.0 */
/* forks.h - counts the forks between this process and its first ancestor that
 * used the library. */
#ifndef SPC_BASE_FORKS_H
#define SPC_BASE_FORKS_H

/* Returns a number that differs between a process and a child forked after the
 * first call. A call costs one load. */
unsigned spc__forks(void);

#endif
