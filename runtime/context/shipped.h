/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shipped.h - the database that came with the library, for the device at hand.
 */
#ifndef SPC_RUNTIME_SHIPPED_H
#define SPC_RUNTIME_SHIPPED_H

#include "base/buf.h"

/*
 * The file with what was measured on this class of device before the library
 * went out: "nvidia-h200.db" for "NVIDIA H200", in `folder`, or if that is NULL
 * in $SPC_SHIPPED, else where it was installed. Empty: there is none, or an
 * empty folder says that none is wanted.
 */
void spc__shipped_file(spc__buf *out, const char *folder, const char *device);

#endif
