/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shipped.h - the database installed with the library for the current device.
 */
#ifndef SPC_RUNTIME_SHIPPED_H
#define SPC_RUNTIME_SHIPPED_H

#include "base/buf.h"

/*
 * Finds the file with measurements of this class of device: "nvidia-h200.db"
 * for "NVIDIA H200". It is searched in `folder`, or if that is NULL in
 * $SPC_SHIPPED, else in the installation. Returns an empty path if there is no
 * such file, or if the folder is empty, which disables it.
 */
void spc__shipped_file(spc__buf *out, const char *folder, const char *device);

#endif
