/* diag.c - collects messages and prints them with the source line and a caret. */
#include "compiler/base/diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void
diag_init(Diag *diag, Arena *arena)
{
    *diag = (Diag){.arena = arena};
}

SourceFile *
diag_add_file(Diag *diag, const char *path, const char *text, size_t n)
{
    SourceFile *file = arena_new(diag->arena, SourceFile);
    uint32_t base = 1;

    if (diag->files.n > 0) {
        const SourceFile *last = diag->files.at[diag->files.n - 1];
        base = last->base + last->n + 1; /* one spare offset: the end of a file is its own */
    }
    *file = (SourceFile){
        .path = arena_strndup(diag->arena, path, strlen(path)),
        .text = arena_strndup(diag->arena, text, n),
        .n = (uint32_t)n,
        .base = base,
        .index = diag->files.n + 1,
    };
    vec_push(diag->arena, &diag->files, file);
    return file;
}

size_t
diag_name_length(const char *text)
{
    size_t n = strncmp(text, "E-", 2) == 0 ? strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") : 0;
    return n > 2 && strncmp(text + n, ": ", 2) == 0 ? n : 0;
}

static void
add_message(Diag *diag, DiagKind kind, Span span, const char *format, va_list args)
{
    va_list again;

    if (diag->muted) {
        diag->errors += kind == DIAG_ERROR;
        return;
    }
    if (kind == DIAG_ERROR && ++diag->errors > DIAG_ERROR_LIMIT)
        return;
    if (kind == DIAG_NOTE && diag->errors > DIAG_ERROR_LIMIT)
        return;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = arena_alloc(diag->arena, (size_t)n + 1);
    vsnprintf(text, (size_t)n + 1, format, args);
    size_t named = diag_name_length(text);
    DiagMessage message = {.kind = kind, .span = span, .text = text};
    if (named > 0) {
        message.name = arena_strndup(diag->arena, text, named);
        message.text = text + named + strlen(": ");
    }
    vec_push(diag->arena, &diag->messages, message);
}

#define DEFINE_REPORT(name, kind)                                                                  \
    void name(Diag *diag, Span span, const char *format, ...)                                      \
    {                                                                                              \
        va_list args;                                                                              \
        va_start(args, format);                                                                    \
        add_message(diag, kind, span, format, args);                                               \
        va_end(args);                                                                              \
    }

DEFINE_REPORT(diag_error, DIAG_ERROR)
DEFINE_REPORT(diag_warning, DIAG_WARNING)
DEFINE_REPORT(diag_note, DIAG_NOTE)

void
diag_remark(Diag *diag, Span span, const char *format, ...)
{
    va_list args;

    if (!diag->show_remarks)
        return;
    va_start(args, format);
    add_message(diag, DIAG_REMARK, span, format, args);
    va_end(args);
}

DiagMark
diag_mark(const Diag *diag)
{
    return (DiagMark){diag->messages.n, diag->errors};
}

void
diag_rewind(Diag *diag, DiagMark mark)
{
    diag->messages.n = mark.messages;
    diag->errors = mark.errors;
}

uint32_t
diag_warnings(const Diag *diag)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < diag->messages.n; k++)
        n += diag->messages.at[k].kind == DIAG_WARNING;
    return n;
}

void
diag_drop_remarks(Diag *diag)
{
    uint32_t kept = 0;
    bool drop = false;

    for (uint32_t k = 0; k < diag->messages.n; k++) {
        DiagMessage message = diag->messages.at[k];
        if (message.kind != DIAG_NOTE)
            drop = message.kind == DIAG_REMARK;
        if (!drop)
            diag->messages.at[kept++] = message;
    }
    diag->messages.n = kept;
}

/* Whether a byte of UTF-8 goes on with a character. */
static bool
is_inside(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

SourcePlace
diag_place(const Diag *diag, uint32_t offset)
{
    SourcePlace place = {0};

    for (uint32_t i = 0; i < diag->files.n; i++) {
        const SourceFile *file = diag->files.at[i];
        if (offset < file->base || offset > file->base + file->n)
            continue;
        place.file = file;
        place.line = 1;
        uint32_t at = offset - file->base,
                 mark = strncmp(file->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        place.begin = at < mark ? at : mark;
        for (const char *end = file->text;
             (end = memchr(end, '\n', at - (size_t)(end - file->text))) != NULL; end++) {
            place.line++;
            place.begin = (uint32_t)(end - file->text) + 1;
        }
        place.column = 1;
        for (uint32_t k = place.begin; k < at; k++)
            place.column += !is_inside(file->text[k]);
    }
    return place;
}

/* The file that an offset lies in; NULL: none. */
static SourceFile *
file_at(const Diag *diag, uint32_t offset)
{
    for (uint32_t i = 0; i < diag->files.n; i++) {
        SourceFile *file = diag->files.at[i];
        if (offset >= file->base && offset <= file->base + file->n)
            return file;
    }
    return NULL;
}

SourcePlace
diag_origin(const Diag *diag, uint32_t offset)
{
    const SourceFile *file = file_at(diag, offset);
    uint32_t low = 0, high = file == NULL ? 0 : file->origins.n;

    if (high == 0)
        return diag_place(diag, offset);
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (file->origins.at[middle].at <= offset)
            low = middle;
        else
            high = middle;
    }
    return file->origins.at[low].at == offset ? file->origins.at[low].place : (SourcePlace){0};
}

void
diag_add_origin(Diag *diag, uint32_t offset, SourcePlace place)
{
    SourceOrigin origin = {offset, place};

    vec_push(diag->arena, &file_at(diag, offset)->origins, origin);
}

const SourceFile *
diag_named_file(Diag *diag, const char *path)
{
    for (uint32_t i = 0; i < diag->files.n; i++)
        if (!diag->files.at[i]->is_ir && strcmp(diag->files.at[i]->path, path) == 0)
            return diag->files.at[i];
    return diag_add_file(diag, path, "", 0);
}

uint32_t
diag_file_number(const Diag *diag, const SourceFile *file)
{
    uint32_t number = 0;

    for (uint32_t i = 0; i < file->index; i++)
        number += diag->files.at[i]->origins.n == 0;
    return file->origins.n == 0 ? number : 0;
}

const char *
file_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

/* Columns of a terminal that a character takes: scripts of East Asia and pictures take two, marks
 * on a letter none. */
static uint32_t
width_of(const char *text, uint32_t *bytes)
{
    static const struct {
        uint32_t first, last, width;
    } ranges[] = {{0x300, 0x36f, 0},     {0x1100, 0x115f, 2},  {0x200b, 0x200f, 0},
                  {0x2e80, 0xa4cf, 2},   {0xac00, 0xd7a3, 2},  {0xf900, 0xfaff, 2},
                  {0xfe00, 0xfe0f, 0},   {0xfe30, 0xfe6f, 2},  {0xff00, 0xff60, 2},
                  {0x1f300, 0x1faff, 2}, {0x20000, 0x3fffd, 2}};
    unsigned char first = (unsigned char)text[0];
    uint32_t code = first < 0xe0 ? first & 0x1fu : first < 0xf0 ? first & 0xfu : first & 7u;

    for (*bytes = 1; is_inside(text[*bytes]) && *bytes < 4; ++*bytes)
        code = code << 6 | ((unsigned char)text[*bytes] & 0x3fu);
    for (size_t k = 0; first >= 0xc0 && k < sizeof ranges / sizeof ranges[0]; k++)
        if (ranges[k].first <= code && code <= ranges[k].last)
            return ranges[k].width;
    return 1;
}

/* A sign below each column of a part of a line; tabs are kept. */
static void
print_below(const char *text, uint32_t begin, uint32_t end, char sign, Buf *out)
{
    for (uint32_t k = begin, bytes; k < end; k += bytes) {
        uint32_t width = width_of(text + k, &bytes);
        for (uint32_t i = 0; i < width; i++)
            buf_char(out, text[k] == '\t' && sign == ' ' ? '\t' : sign);
    }
}

/* The line a range begins on, and a caret line under it, so that both line up. */
static void
print_excerpt(Span span, SourcePlace place, Buf *out)
{
    const SourceFile *file = place.file;
    uint32_t at = span.lo - file->base, end = place.begin;

    while (end < file->n && file->text[end] != '\n' && file->text[end] != '\r')
        end++;
    buf_printf(out, "%5u | ", place.line);
    buf_addn(out, file->text + place.begin, end - place.begin);
    buf_add(out, "\n      | ");
    print_below(file->text, place.begin, at, ' ', out);
    uint32_t stop = span.hi > span.lo ? span.hi - file->base : at + 1, caret = out->n;
    if (stop > end)
        stop = end;
    print_below(file->text, at, stop, '~', out);
    if (out->n == caret)
        buf_char(out, '^');
    out->at[caret] = '^';
    buf_char(out, '\n');
}

void
diag_print(const Diag *diag, Buf *out)
{
    static const char *const names[] = {"error", "warning", "remark", "note"};

    for (uint32_t i = 0; i < diag->messages.n; i++) {
        const DiagMessage *message = &diag->messages.at[i];
        SourcePlace place = {0};
        if (message->span.lo != 0)
            place = diag_place(diag, message->span.lo);
        if (place.file != NULL)
            buf_printf(out, "%s:%u:%u: ", place.file->path, place.line, place.column);
        else
            buf_add(out, "tilec: ");
        size_t line = strcspn(message->text, "\n");
        buf_printf(out, "%s: %.*s", names[message->kind], (int)line, message->text);
        if (message->name != NULL)
            buf_printf(out, " [%s]", message->name);
        buf_printf(out, "%s\n", message->text + line);
        bool again = message->kind == DIAG_NOTE && i > 0 &&
                     diag->messages.at[i - 1].span.lo == message->span.lo &&
                     diag->messages.at[i - 1].span.hi == message->span.hi;
        if (place.file != NULL && !again)
            print_excerpt(message->span, place, out);
    }
    if (diag->errors > DIAG_ERROR_LIMIT)
        buf_printf(out, "tilec: error: %u more errors not shown\n", diag->errors - DIAG_ERROR_LIMIT);
}
