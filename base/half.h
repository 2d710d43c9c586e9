/* half.h - IEEE binary16 on the host, round to nearest even. */
#ifndef SPC_BASE_HALF_H
#define SPC_BASE_HALF_H

#include <stdint.h>

uint16_t spc__half_from_float(float value);
float spc__half_to_float(uint16_t bits);

#endif
