/* near.h - how different two words are, for "did you mean". */
#ifndef TILEC_BASE_NEAR_H
#define TILEC_BASE_NEAR_H

#include <stdbool.h>
#include <stdint.h>

/* The number of letters to insert, delete, replace or swap to turn `a` into `b`, 1 if only capitals
 * differ; words of more than 63 letters are as different as can be (1000). */
uint32_t word_distance(const char *a, const char *b);
/* Whether only capitals differ, or nothing. */
bool word_is_same_but_case(const char *a, const char *b);
/* Whether `distance` is small enough for `word` to be a misspelling. */
int word_is_near(const char *word, uint32_t distance);

#endif
