/* mutate.c - changes a text by words and lines, so that much of what comes out can still be read.
 *
 * With libFuzzer it is the custom mutator; half of the time libFuzzer's own changes are made.
 */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

typedef struct Piece {
    size_t at, n;
} Piece;

typedef struct Text {
    uint8_t *data;
    size_t n, room;
    uint64_t *state;
} Text;

uint64_t
fuzz_draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static size_t
below(uint64_t *state, size_t n)
{
    return n == 0 ? 0 : (size_t)(fuzz_draw(state) % n);
}

static bool
in_word(uint8_t c)
{
    return isalnum(c) || c == '_' || c == '%' || c == '.' || c == '$';
}

/* A word or a single other character at or behind a drawn place. */
static Piece
draw_token(const uint8_t *data, size_t n, uint64_t *state)
{
    size_t at = below(state, n);

    while (at < n && isspace(data[at]))
        at++;
    while (at > 0 && at < n && in_word(data[at]) && in_word(data[at - 1]))
        at--;
    Piece piece = {at, at < n};
    while (at + piece.n < n && in_word(data[at]) && in_word(data[at + piece.n]))
        piece.n++;
    return piece;
}

/* `most` lines or fewer. */
static Piece
draw_lines(const uint8_t *data, size_t n, size_t most, uint64_t *state)
{
    size_t at = below(state, n), lines = 1 + below(state, most);

    while (at > 0 && data[at - 1] != '\n')
        at--;
    Piece piece = {at, 0};
    while (at + piece.n < n && lines > 0)
        lines -= data[at + piece.n++] == '\n';
    return piece;
}

/* Puts `n` bytes in the place of a piece; does nothing where there is no room. */
static void
replace(Text *text, Piece old, const uint8_t *by, size_t n)
{
    uint8_t copy[4096];

    if (n > sizeof copy || (n > old.n && text->n - old.n + n > text->room))
        return;
    if (n > 0)
        memcpy(copy, by, n);
    memmove(text->data + old.at + n, text->data + old.at + old.n, text->n - old.at - old.n);
    memcpy(text->data + old.at, copy, n);
    text->n = text->n - old.n + n;
}

static void
change_number(Text *text)
{
    static const char *const numbers[] = {"0",
                                          "1",
                                          "2",
                                          "3",
                                          "7",
                                          "8",
                                          "16",
                                          "31",
                                          "32",
                                          "33",
                                          "64",
                                          "100",
                                          "127",
                                          "128",
                                          "255",
                                          "256",
                                          "257",
                                          "1000",
                                          "1024",
                                          "4095",
                                          "65535",
                                          "65536",
                                          "1000000",
                                          "2147483647",
                                          "2147483648",
                                          "4294967295",
                                          "4294967296",
                                          "9223372036854775807",
                                          "9223372036854775808",
                                          "18446744073709551615",
                                          "99999999999999999999999",
                                          "1e9",
                                          "1e308",
                                          "1e999",
                                          "0.5",
                                          "0x10",
                                          "0f7FFFFFFF",
                                          "-1"};
    size_t start = below(text->state, text->n);

    for (size_t k = 0; k < text->n; k++) {
        size_t at = (start + k) % text->n;
        if (!isdigit(text->data[at]))
            continue;
        Piece digits = {at, 1};
        while (at + digits.n < text->n && isdigit(text->data[at + digits.n]))
            digits.n++;
        const char *by = numbers[below(text->state, sizeof numbers / sizeof numbers[0])];
        replace(text, digits, (const uint8_t *)by, strlen(by));
        return;
    }
}

static void
change_once(Text *text, const uint8_t *other, size_t n_other, const char *const *words,
            size_t n_words)
{
    uint64_t *state = text->state;
    const char *word = n_words == 0 ? "" : words[below(state, n_words)];
    Piece token = draw_token(text->data, text->n, state), from;
    uint8_t byte = (uint8_t)fuzz_draw(state);

    switch (below(state, 12)) {
    case 0: /* a word of the language for a word */
    case 1: replace(text, token, (const uint8_t *)word, strlen(word)); break;
    case 2: /* another word of the text */
    case 3:
        from = draw_token(text->data, text->n, state);
        replace(text, token, text->data + from.at, from.n);
        break;
    case 4: change_number(text); break;
    case 5: replace(text, token, NULL, 0); break;
    case 6:
        token.n = 0;
        replace(text, token, (const uint8_t *)word, strlen(word));
        break;
    case 7: replace(text, draw_lines(text->data, text->n, 4, state), NULL, 0); break;
    case 8: /* lines once more, elsewhere */
        token = draw_lines(text->data, text->n, 1, state);
        token.n = 0;
        from = draw_lines(text->data, text->n, 3, state);
        replace(text, token, text->data + from.at, from.n);
        break;
    case 9: /* lines of another text */
        token = draw_lines(text->data, text->n, 1, state);
        token.n = below(state, 2) == 0 ? 0 : token.n;
        from = draw_lines(other, n_other, 4, state);
        replace(text, token, other + from.at, from.n);
        break;
    case 10: /* one byte */
        token.n = token.n > 0;
        replace(text, token, &byte, 1);
        break;
    default: /* the rest is cut off, now and then */
        if (below(state, 4) == 0)
            text->n = token.at;
        break;
    }
}

size_t
fuzz_mutate(uint8_t *data, size_t n, size_t room, const uint8_t *other, size_t n_other,
            const char *const *words, size_t n_words, uint64_t *state)
{
    if (n <= fuzz_choices)
        return n;
    Text text = {data + fuzz_choices, n - fuzz_choices, room - fuzz_choices, state};
    bool has_other = n_other > fuzz_choices;

    for (size_t k = 1 + below(state, 4); k > 0; k--)
        change_once(&text, has_other ? other + fuzz_choices : text.data,
                    has_other ? n_other - fuzz_choices : text.n, words, n_words);
    return text.n + fuzz_choices;
}

#ifndef REPLAY

size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t room, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t n_a, const uint8_t *b, size_t n_b,
                                 uint8_t *out, size_t room, unsigned seed);

size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t room, unsigned seed)
{
    uint64_t state = ((uint64_t)seed << 1 | 1) * UINT64_C(0x9e3779b97f4a7c15);

    if (below(&state, 2) == 0 || n <= fuzz_choices)
        return LLVMFuzzerMutate(data, n, room);
    if (fuzz_choices > 0 && below(&state, 8) == 0)
        data[below(&state, fuzz_choices)] = (uint8_t)fuzz_draw(&state);
    return fuzz_mutate(data, n, room, data, n, NULL, 0, &state);
}

size_t
LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t n_a, const uint8_t *b, size_t n_b, uint8_t *out,
                          size_t room, unsigned seed)
{
    uint64_t state = ((uint64_t)seed << 1 | 1) * UINT64_C(0x9e3779b97f4a7c15);
    size_t n = n_a < room ? n_a : room;

    if (n > 0)
        memcpy(out, a, n);
    return fuzz_mutate(out, n, room, b, n_b, NULL, 0, &state);
}

#endif
