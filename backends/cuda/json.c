/* json.c - see json.h: recursive descent over RFC 8259. */
#include "backends/cuda/json.h"

#include <stdlib.h>
#include <string.h>

typedef struct Reader {
    Arena *arena;
    const char *at;
    int depth;
} Reader;

enum { DEPTH_LIMIT = 64 };

static bool read_value(Reader *r, Json *out);

static void
skip_space(Reader *r)
{
    r->at += strspn(r->at, " \t\r\n");
}

static bool
accept(Reader *r, char c)
{
    skip_space(r);
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

static bool
read_hex(Reader *r, unsigned *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef0123456789ABCDEF";
        const char *found = *r->at ? strchr(digits, *r->at) : NULL;
        if (!found)
            return false;
        *out = *out * 16 + (unsigned)(found - digits) % 16;
        r->at++;
    }
    return true;
}

static void
add_utf8(Buf *out, unsigned code)
{
    if (code < 0x80) {
        buf_char(out, (char)code);
    } else if (code < 0x800) {
        buf_char(out, (char)(0xC0 | code >> 6));
        buf_char(out, (char)(0x80 | (code & 63)));
    } else {
        buf_char(out, (char)(0xE0 | code >> 12));
        buf_char(out, (char)(0x80 | (code >> 6 & 63)));
        buf_char(out, (char)(0x80 | (code & 63)));
    }
}

/* After the opening quote. */
static bool
read_text(Reader *r, const char **out)
{
    Buf text;

    buf_init(&text, r->arena);
    buf_add(&text, "");
    for (; *r->at != '"'; r->at++) {
        unsigned char c = (unsigned char)*r->at;
        if (c < 0x20)
            return false;
        if (c != '\\') {
            buf_char(&text, (char)c);
            continue;
        }
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        r->at++;
        const char *found = *r->at ? strchr(from, *r->at) : NULL;
        unsigned code;
        if (found) {
            buf_char(&text, to[found - from]);
        } else if (*r->at == 'u') {
            r->at++;
            if (!read_hex(r, &code) || code == 0 || (code >= 0xD800 && code < 0xE000))
                return false; /* pairs of surrogates do not occur in what tilec writes */
            add_utf8(&text, code);
            r->at--;
        } else {
            return false;
        }
    }
    r->at++;
    *out = text.at;
    return true;
}

static bool
read_members(Reader *r, Json *out, bool object)
{
    Json **link = &out->first;
    char close = object ? '}' : ']';

    if (accept(r, close))
        return true;
    do {
        Json *item = arena_new(r->arena, Json);
        if (object && (!accept(r, '"') || !read_text(r, &item->key) || !accept(r, ':')))
            return false;
        if (!read_value(r, item))
            return false;
        *link = item;
        link = &item->next;
    } while (accept(r, ','));
    return accept(r, close);
}

static bool
read_number(Reader *r, Json *out)
{
    size_t n = strspn(r->at, "+-.0123456789eE");
    char *end;

    if (n == 0 || *r->at == '+' || *r->at == '.')
        return false;
    out->kind = JSON_NUMBER;
    out->number = strtod(r->at, &end);
    bool whole = end == r->at + n;
    r->at = end;
    return whole;
}

static bool
read_word(Reader *r, Json *out)
{
    static const struct {
        const char *word;
        JsonKind kind;
        double number;
    } words[] = {{"true", JSON_BOOL, 1}, {"false", JSON_BOOL, 0}, {"null", JSON_NULL, 0}};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(r->at, words[i].word, strlen(words[i].word)) == 0) {
            r->at += strlen(words[i].word);
            out->kind = words[i].kind;
            out->number = words[i].number;
            return true;
        }
    return read_number(r, out);
}

static bool
read_value(Reader *r, Json *out)
{
    bool ok;

    if (++r->depth > DEPTH_LIMIT)
        return false;
    if (accept(r, '"')) {
        out->kind = JSON_TEXT;
        ok = read_text(r, &out->text);
    } else if (accept(r, '[')) {
        out->kind = JSON_LIST;
        ok = read_members(r, out, false);
    } else if (accept(r, '{')) {
        out->kind = JSON_OBJECT;
        ok = read_members(r, out, true);
    } else {
        ok = read_word(r, out);
    }
    r->depth--;
    return ok;
}

const Json *
json_read(Arena *arena, const char *text)
{
    Reader reader = {arena, text, 0};
    Json *root = arena_new(arena, Json);

    if (!read_value(&reader, root))
        return NULL;
    skip_space(&reader);
    return *reader.at == '\0' ? root : NULL;
}

const Json *
json_get(const Json *object, const char *key)
{
    if (object && object->kind == JSON_OBJECT)
        json_each (item, object)
            if (strcmp(item->key, key) == 0)
                return item;
    return NULL;
}
