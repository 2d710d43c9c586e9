/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refer.h - makes choices refer to the code that was built for them.
 */
#ifndef SPC_TUNER_REFER_H
#define SPC_TUNER_REFER_H

#include "tuner/record.h"

/*
 * A choice names its code by the source and by the compiler. Another compiler
 * than that of the measurement makes code of another name, which a plan would
 * not find and a pack would leave out. So every choice of this layer and target
 * whose candidate has been built gets the name of that code. Its times stay.
 */
spc_status spc__refer(const spc__record *record,
                      const spc__candidates *candidates,
                      const spc__request *request);

#endif
