/* lsp_places.c - places of files as the protocol of editors has them. */
#include "compiler/command/lsp_places.h"

static size_t
units_of(unsigned char first)
{
    return first >= 0xf0 ? 2 : (first & 0xc0) != 0x80;
}

json_t *
lsp_position(const SourceFile *file, uint32_t offset)
{
    uint32_t end = offset - file->base, line = 0;
    size_t column = 0;

    for (uint32_t k = 0; k < end && k < file->n; k++) {
        column = file->text[k] == '\n' ? 0 : column + units_of((unsigned char)file->text[k]);
        line += file->text[k] == '\n';
    }
    return json_pack("{s:i, s:i}", "line", (int)line, "character", (int)column);
}

json_t *
lsp_range(const SourceFile *file, Span span)
{
    return json_pack("{s:o, s:o}", "start", lsp_position(file, span.lo), "end",
                     lsp_position(file, span.hi));
}

bool
lsp_offset(const SourceFile *file, const json_t *place, uint32_t *offset)
{
    json_int_t line, column;
    uint32_t k = 0;

    if (json_unpack((json_t *)place, "{s:I, s:I}", "line", &line, "character", &column) != 0 ||
        line < 0 || column < 0)
        return false;
    for (; line > 0 && k < file->n; k++)
        line -= file->text[k] == '\n';
    while (column > 0 && k < file->n && file->text[k] != '\n')
        column -= (json_int_t)units_of((unsigned char)file->text[k++]);
    while (k < file->n && ((unsigned char)file->text[k] & 0xc0) == 0x80)
        k++;
    *offset = file->base + k;
    return true;
}
