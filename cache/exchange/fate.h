/* SPDX-License-Identifier: Apache-2.0 */
/* fate.h - how a file receives a record that is offered to it. */
#ifndef SPC_CACHE_FATE_H
#define SPC_CACHE_FATE_H

/* The result of offering a record to a file. */
typedef enum spc__fate {
    SPC__FATE_ACCEPTED,
    SPC__FATE_KNOWN,   /* the file already has the record */
    SPC__FATE_OLDER,   /* the file has a higher record */
    SPC__FATE_STALE,   /* accepted, but its template has changed since */
    SPC__FATE_REJECTED /* rejected, with a reason */
} spc__fate;

#endif
