/* explain.c - `tilec explain`: sections of docs/errors.md, which is in the program.
 *
 * A section is a heading `## E-NAME: summary` and the text up to the next one.
 */
#include "compiler/command/explain.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/near.h"
#include "compiler/command/files.h"

extern const char errors_text[];

typedef struct Section {
    const char *name, *summary, *text, *end; /* in errors_text, not terminated */
    size_t name_length, summary_length;
} Section;

/* The first section at or behind `at`. */
static bool
find_section(const char *at, Section *section)
{
    const char *heading = strncmp(at, "## E-", 5) == 0 ? at - 1 : strstr(at, "\n## E-");

    if (heading == NULL)
        return false;
    section->name = heading + strlen("\n## ");
    section->name_length = strcspn(section->name, ":\n");
    section->summary = section->name + section->name_length + strlen(": ");
    section->summary_length = strcspn(section->summary, "\n");
    section->text = section->summary + section->summary_length + 1;
    const char *next = strstr(section->text, "\n## ");
    section->end = next != NULL ? next + 1 : section->text + strlen(section->text);
    return true;
}

/* The text as a terminal shows it: fenced lines are indented, the fences gone. */
static void
print_section(const Section *section)
{
    bool code = false;

    printf("%.*s: %.*s\n", (int)section->name_length, section->name, (int)section->summary_length,
           section->summary);
    for (const char *line = section->text; line < section->end;) {
        size_t n = strcspn(line, "\n");
        if (strncmp(line, "```", 3) == 0)
            code = !code;
        else if (line + n + 1 < section->end || n > 0) /* not the blank line at the end */
            printf("%s%.*s\n", code && n > 0 ? "    " : "", (int)n, line);
        line += n + 1;
    }
}

/* A name as the table has it: `shape`, `E-shape` and `[E-SHAPE]` are E-SHAPE.  The caller frees it. */
static char *
full_name(const char *word)
{
    bool bracket = word[0] == '[';
    bool whole = strncmp(word + bracket, "E-", 2) == 0 || strncmp(word + bracket, "e-", 2) == 0;
    char *name = text_printf("%s%s", whole ? "" : "E-", word + bracket);

    for (char *c = name; *c != '\0'; c++)
        *c = (char)toupper((unsigned char)*c);
    if (bracket && ends_with(name, "]"))
        name[strlen(name) - 1] = '\0';
    return name;
}

static int
no_such_name(const char *name)
{
    char *best = NULL;
    uint32_t least = UINT32_MAX;

    for (Section section = {.end = errors_text}; find_section(section.end, &section);) {
        char *other = text_printf("%s%s", section.name, "");
        other[section.name_length] = '\0';
        uint32_t distance = word_distance(name, other);
        if (distance < least) {
            least = distance;
            free(best);
            best = other;
        } else {
            free(other);
        }
    }
    bool near = best != NULL && word_is_near(name, least);
    int status = complain("there is no error '%s'%s%s%s", name,
                          near ? "; did you mean '" : "; 'tilec explain' lists them",
                          near ? best : "", near ? "'?" : "");
    free(best);
    return status;
}

int
explain(int argc, char **argv)
{
    int status = 0;

    for (Section section = {.end = errors_text}; argc == 0 && find_section(section.end, &section);)
        printf("%-16.*s %.*s\n", (int)section.name_length, section.name,
               (int)section.summary_length, section.summary);
    for (int k = 0; k < argc; k++) {
        char *name = full_name(argv[k]);
        bool found = false;
        for (Section section = {.end = errors_text};
             !found && find_section(section.end, &section);) {
            found = strlen(name) == section.name_length &&
                    strncmp(name, section.name, section.name_length) == 0;
            if (found && k > 0)
                putchar('\n');
            if (found)
                print_section(&section);
        }
        if (!found)
            status = no_such_name(name);
        free(name);
    }
    return status;
}
