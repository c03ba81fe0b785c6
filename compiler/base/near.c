/* near.c - the edit distance of two words. */
#include "compiler/base/near.h"

#include <ctype.h>
#include <string.h>

enum { WORD_MAX = 63 };

static uint32_t
least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

bool
word_is_same_but_case(const char *a, const char *b)
{
    while (*a != '\0' && tolower((unsigned char)*a) == tolower((unsigned char)*b))
        a++, b++;
    return *a == *b;
}

uint32_t
word_distance(const char *a, const char *b)
{
    uint32_t row[3][WORD_MAX + 1]; /* the last two rows and this one */
    size_t n = strlen(a), m = strlen(b);

    if (n > WORD_MAX || m > WORD_MAX)
        return 1000;
    if (n == m && strcmp(a, b) != 0 && word_is_same_but_case(a, b))
        return 1;
    for (size_t k = 0; k <= m; k++)
        row[0][k] = (uint32_t)k;
    for (size_t i = 1; i <= n; i++) {
        uint32_t *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = (uint32_t)i;
        for (size_t k = 1; k <= m; k++) {
            uint32_t change = last[k - 1] + (a[i - 1] != b[k - 1]);
            now[k] = least(change, least(last[k], now[k - 1]) + 1);
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                now[k] = least(now[k], before[k - 2] + 1);
        }
    }
    return row[n % 3][m];
}

int
word_is_near(const char *word, uint32_t distance)
{
    size_t n = strlen(word);
    return distance <= (n < 4 ? 1u : n < 10 ? 2u : 3u);
}
