/* SPDX-License-Identifier: Apache-2.0 */
/* forks.h - how often fork() lies between this process and its first ancestor
 * that used the library. */
#ifndef SPC_BASE_FORKS_H
#define SPC_BASE_FORKS_H

/* Differs between a process and a child of fork() that was made after the first
 * call. Reading it costs one load. */
unsigned spc__forks(void);

#endif
