/* explain.c - `tilec explain`: sections of docs/errors.md and docs/findings.md, which are in the
 * program.
 *
 * A section is a heading `## E-NAME: summary`, of a finding of the simulator `## S-NAME: summary`,
 * and the text up to the next one.
 */
#include "compiler/command/explain.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/near.h"
#include "compiler/command/files.h"

extern const char errors_text[], findings_text[];

typedef struct Section {
    const char *name, *summary, *text, *end; /* in one of these, not terminated */
    size_t name_length, summary_length;
    const char *left; /* a text whose sections come behind */
} Section;

/* The first heading of a section at or behind `at`; what stands above the first one has none. */
static const char *
next_heading(const char *at)
{
    for (const char *line = strncmp(at, "## ", 3) == 0 ? at - 1 : strstr(at, "\n## "); line != NULL;
         line = strstr(line + 1, "\n## ")) {
        if ((line[4] == 'E' || line[4] == 'S') && line[5] == '-')
            return line;
    }
    return NULL;
}

/* In front of the first section. */
static Section
before_sections(void)
{
    return (Section){.end = errors_text, .left = findings_text};
}

/* The one behind; findings stand behind errors. */
static bool
find_section(Section *section)
{
    const char *heading = next_heading(section->end);

    if (heading == NULL && section->left != NULL) {
        heading = next_heading(section->left);
        section->left = NULL;
    }
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

/* A name as the table has it: `shape`, `E-shape` and `[E-SHAPE]` are E-SHAPE, `s-race` is S-RACE.
 * The caller frees it. */
static char *
full_name(const char *word)
{
    bool bracket = word[0] == '[';
    bool whole = word[bracket] != '\0' && strchr("EeSs", word[bracket]) != NULL &&
                 word[bracket + 1] == '-';
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

    for (Section section = before_sections(); find_section(&section);) {
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
    int status = complain("there is no error or finding '%s'%s%s%s", name,
                          near ? "; did you mean '" : "; 'tilec explain' lists them",
                          near ? best : "", near ? "'?" : "");
    free(best);
    return status;
}

int
explain(int argc, char **argv)
{
    int status = 0;

    for (Section section = before_sections(); argc == 0 && find_section(&section);)
        printf("%-16.*s %.*s\n", (int)section.name_length, section.name,
               (int)section.summary_length, section.summary);
    for (int k = 0; k < argc; k++) {
        char *name = full_name(argv[k]);
        bool found = false;
        for (Section section = before_sections(); !found && find_section(&section);) {
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
