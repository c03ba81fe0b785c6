/* fuzz.h - what the fuzz targets of this folder share.
 *
 * Each target is one file, fuzz_NAME.c, with the three things below; an input is `fuzz_choices`
 * bytes that choose what is done, and then a text.  The file is linked twice: with libFuzzer (cmake
 * --preset fuzz: the program fuzz_NAME), and with replay.c, which mutates the files of the tree by
 * itself, the same way every time (fuzz_NAME_replay, a test).  Both use mutate.c.
 */
#ifndef TILEC_TESTS_FUZZ_H
#define TILEC_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Bytes in front of the text. */
extern const size_t fuzz_choices;
/* Those bytes for a file of the tree; `draw` is any number. */
void fuzz_choose(const char *path, uint64_t draw, uint8_t *choice);

/* ---- mutate.c ---- */

uint64_t fuzz_draw(uint64_t *state);
/* Changes the text of `data`, `n` bytes in all, in place; `other` is another input to take pieces
 * from, `words` the dictionary.  Returns the new length, at most `room`. */
size_t fuzz_mutate(uint8_t *data, size_t n, size_t room, const uint8_t *other, size_t n_other,
                   const char *const *words, size_t n_words, uint64_t *state);

/* ---- meter.c: memory ---- */

/* An allocator that gives at most so many bytes at a time: an input that asks for more is out of
 * memory, and no hang. */
typedef struct Meter {
    size_t taken, most;
} Meter;
void *meter_allocate(void *meter, size_t bytes);
void meter_release(void *meter, void *block);

#endif
