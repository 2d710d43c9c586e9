/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan.h - the tokenizer of the texts that people write: lists of words,
 * name=value, and numbers.
 *
 * A span is a part of the text, which is neither copied nor changed. So the
 * position of an error is its distance from the start of the text.
 */
#ifndef SPC_BASE_TEXT_SCAN_H
#define SPC_BASE_TEXT_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct spc__span {
    const char *at; /* NULL: the part is missing, not only empty */
    size_t length;
} spc__span;

/* Arguments of "%.*s"; a message shows at most 40 bytes of a span. */
#define SPC__SPAN(span)                                                        \
    (int)((span).length < 40 ? (span).length : 40), (span).at

spc__span spc__span_of(const char *text);
bool spc__span_is(spc__span span, const char *text);

/* Takes the part of *rest before the next `stop`. *rest is then what follows
 * the stop, or missing after the last part: "a,,b" has three parts, "" has
 * one. */
spc__span spc__scan_part(spc__span *rest, char stop);

/* Takes the next word of *rest between blanks or tabs. The word is empty, and
 * *rest missing, after the last one. */
spc__span spc__scan_word(spc__span *rest);

/* Splits "name=value" at the first '='. Without one, the value is missing. */
void spc__scan_pair(spc__span *name, spc__span *value, spc__span word);

/* Each of these returns false unless the whole span is such a value. A minus
 * sign is allowed if `least` is negative; a plus sign and blanks are not. */
bool spc__scan_integer(int64_t *out, spc__span span, int64_t least,
                       int64_t most);
bool spc__scan_unsigned(uint64_t *out, spc__span span, uint64_t most);
/* "2/5" is the second of five parts: 1 is then stored as *index. */
bool spc__scan_share(int *index, int *count, spc__span span, int most);
/* Reads up to `count` numbers with `stop` between them. Returns how many, or 0
 * for any other text. */
int spc__scan_integers(int64_t *out, int count, spc__span span, char stop,
                       int64_t least, int64_t most);
/* "3" sets all three; "3x3x1" sets each. */
bool spc__scan_axes(int out[3], spc__span span, int64_t least, int64_t most);
/* A decimal number in any locale; also "inf" and "nan". */
bool spc__scan_real(double *out, spc__span span);

#endif
