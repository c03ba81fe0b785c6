/* after_ptxas.c - the lines of `ptxas -v` to figures and warnings.
 *
 * Messages are recognised by their words, not by their numbers: the words have been the same since
 * CUDA 12.0 and say more.  Unknown messages are passed on as they are.
 */
#include "compiler/report/after_ptxas.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const AfterRule after_rules[WARN_KINDS] = {
    {"spill", "a kernel spills registers to local memory"},
    {"serialised", "ptxas runs wgmma products one after another"},
    {"setmaxnreg", "ptxas ignores setmaxnreg"},
    {"injected", "ptxas inserted a wait or a fence of its own"},
    {"ptxas", "anything else that ptxas warns about"},
    {"unproved",
     "check-roles proves nothing about a kernel's warp groups: an error without -Wno-error=unproved"},
    {"plan",
     "a kernel whose loops have products has no plan for warp groups, on a target that has them; not an error by -Werror alone"},
    {"unused",
     "a tensor, a parameter, a name or a module that nothing uses; an output that nothing writes"},
    {"dimension", "a subscript counts a different size than its dimension"},
    {"broadcast", "a vector with an element for each row of a square tile meets its columns"},
    {"repeated",
     "a block has more threads than any tile has elements: the others repeat their work"},
    {"order",
     "an atomic statement whose result depends on the order of the programs; only with -Worder or -Werror=order"},
    {"narrow",
     "an access narrower than 4 bytes because nothing promises the alignment of rows; only with -Wnarrow or -Werror=narrow"},
};

/* ---- the messages ---- */

typedef struct MessageRule {
    const char *words; /* of ptxas */
    AfterKind kind;
    const char *text, *cure;
} MessageRule;

/* The first row whose words occur counts. */
static const MessageRule message_rules[] = {
    {"unable to determine register count at entry", AFTER_SETMAXNREG,
     "setmaxnreg does nothing: the number of registers at entry is not fixed",
     "give the entry both .maxntid (or .reqntid) and .minnctapersm"},
    {"minimum register requirements", AFTER_SETMAXNREG,
     "setmaxnreg does nothing: it would leave fewer registers than the code needs",
     "ask for more registers in setmaxnreg.dec, or give that role less to do"},
    {"to allow debugging", AFTER_SETMAXNREG, "setmaxnreg does nothing in code for a debugger",
     "compile without -g"},
    {"across compilation units", AFTER_SETMAXNREG,
     "setmaxnreg does nothing in code that is linked later", "compile it as a whole program"},
    {"into 'extern' call", AFTER_SETMAXNREG,
     "setmaxnreg does nothing: the kernel calls an extern function", "inline the function"},
    {"insufficient register resources for the wgmma pipeline", AFTER_SERIALISED,
     "wgmma products run one after another: the accumulators in flight together do not fit",
     "take smaller tiles, or divide them among more warpgroups"},
    {"insufficient register resources for the function", AFTER_SERIALISED,
     "wgmma products run one after another: the registers do not suffice",
     "keep each accumulator in the same registers (no copies), move registers to the warpgroups "
     "that compute (setmaxnreg), or take smaller tiles"},
    {"reading accumulator registers", AFTER_SERIALISED,
     "wgmma products run one after another: a result is read while a product that writes it is "
     "under way",
     "wait (wgmma.wait_group) before the read, on every path to it"},
    {"defining accumulator registers", AFTER_SERIALISED,
     "wgmma products run one after another: an accumulator is written while its product is under "
     "way",
     "wait (wgmma.wait_group) before the write, on every path to it"},
    {"defining input registers", AFTER_SERIALISED,
     "wgmma products run one after another: a register operand is written while its product is "
     "under way",
     "wait (wgmma.wait_group) before the write, or use other registers"},
    {"presence of Extern calls", AFTER_SERIALISED,
     "wgmma products run one after another: the kernel calls an extern function",
     "inline the function"},
    {"crossing function boundary", AFTER_SERIALISED,
     "wgmma products run one after another: a function is called while products are under way",
     "inline the function, or wait before the call"},
    {"ill formed pipeline stage", AFTER_SERIALISED,
     "wgmma products run one after another: fence, products, commit and wait do not follow one "
     "another on every path",
     "give every path the same order: wgmma.fence, products, commit_group, wait_group"},
    {"WG.DP in divergent path", AFTER_SERIALISED,
     "wgmma products run one after another: where threads may part, a wait for products is missing",
     "wait (wgmma.wait_group 0) before the branch, or make it provably the same for all threads"},
    {"WG.AR in divergent path", AFTER_SERIALISED,
     "wgmma products run one after another: where threads may part, a fence is missing",
     "put wgmma.fence before the first product of each group, and the group outside the branch"},
    {"instructions are serialized", AFTER_SERIALISED, "wgmma products run one after another", NULL},
    {"warpgroup.wait is injected", AFTER_INJECTED, "ptxas waits for products here of its own accord",
     "wait (wgmma.wait_group) on every path before what a product wrote is used; a way out of a "
     "loop is such a path, too"},
    {"warpgroup.arrive is injected", AFTER_INJECTED,
     "ptxas puts a fence before products here of its own accord",
     "put wgmma.fence at the head of each group of products"},
    {"Registers are spilled to local memory", AFTER_SPILL, NULL, NULL}, /* told by the figures */
    {"Potential Performance Loss", AFTER_OTHER, NULL, NULL},
};
enum { MESSAGE_RULES = sizeof message_rules / sizeof message_rules[0] };

static const char *
find_in(const char *text, size_t n, const char *words)
{
    const char *at = strstr(text, words);
    return at != NULL && at + strlen(words) <= text + n ? at : NULL;
}

/* The number behind `words`; 0 when they are not there. */
static uint32_t
number_behind(const char *line, size_t n, const char *words)
{
    const char *at = find_in(line, n, words);
    return at == NULL ? 0 : (uint32_t)strtoul(at + strlen(words), NULL, 10);
}

/* The number before `words`. */
static uint32_t
number_before(const char *line, size_t n, const char *words)
{
    const char *at = find_in(line, n, words);

    if (at == NULL)
        return 0;
    while (at > line && (at[-1] == ' ' || (at[-1] >= '0' && at[-1] <= '9')))
        at--;
    return (uint32_t)strtoul(at, NULL, 10);
}

/* What stands in quotes behind `words`. */
static const char *
quoted_behind(Arena *arena, const char *line, size_t n, const char *words)
{
    const char *at = find_in(line, n, words);

    if (at == NULL)
        return NULL;
    at += strlen(words);
    const char *stop = memchr(at, '\'', n - (size_t)(at - line));
    return stop == NULL ? NULL : arena_strndup(arena, at, (size_t)(stop - at));
}

/* ---- the PTX ---- */

static bool
is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$';
}

/* Calls for each `.entry NAME` in turn: the name, and where the next entry begins; false at the
 * end.  `*at` is where to go on. */
static bool
next_entry(Arena *arena, const char **at, const char **name, const char **begin)
{
    static const char word[] = ".entry";
    const char *entry = strstr(*at, word);

    while (entry != NULL && is_name(entry[sizeof word - 1]))
        entry = strstr(entry + 1, word);
    if (entry == NULL)
        return false;
    *begin = entry;
    entry += sizeof word - 1;
    while (*entry == ' ' || *entry == '\t' || *entry == '\n')
        entry++;
    const char *stop = entry;
    while (is_name(*stop))
        stop++;
    *name = arena_strndup(arena, entry, (size_t)(stop - entry));
    *at = stop;
    return true;
}

/* The one kernel that uses setmaxnreg: ptxas does not say which one it means.  NULL when there
 * are several. */
static const char *
kernel_with(Arena *arena, const char *ptx, const char *word)
{
    const char *at = ptx, *name, *begin, *found = NULL;

    if (!next_entry(arena, &at, &name, &begin))
        return NULL;
    for (bool more = true; more;) {
        const char *this = name, *from = at, *use = strstr(from, word);
        more = next_entry(arena, &at, &name, &begin);
        if (use == NULL || (more && use > begin))
            continue;
        if (found != NULL)
            return NULL;
        found = this;
    }
    return found;
}

/* ---- the lines ---- */

static PtxasKernel *
kernel_named(Arena *arena, PtxasSaid *out, const char *name)
{
    for (uint32_t k = 0; k < out->kernels.n; k++) {
        if (strcmp(out->kernels.at[k].name, name) == 0)
            return &out->kernels.at[k];
    }
    vec_push(arena, &out->kernels, ((PtxasKernel){.name = name}));
    return &out->kernels.at[out->kernels.n - 1];
}

/* "ptxas info    : (C7512) Potential ..": the code goes to `code`, what follows is returned. */
static const char *
behind_head(Arena *arena, const char *line, size_t n, const char **code)
{
    const char *colon = find_in(line, n, ": "), *text = colon == NULL ? line : colon + 2;
    const char *close;

    *code = "";
    if (text[0] == '(' && text[1] == 'C' && (close = memchr(text, ')', n - (size_t)(text - line)))) {
        *code = arena_strndup(arena, text + 1, (size_t)(close - text - 1));
        text = close + 1;
        while (*text == ' ')
            text++;
    }
    return text;
}

static void
read_message(Arena *arena, const char *line, size_t n, const char *ptx, PtxasSaid *out)
{
    bool warns = strncmp(line, "ptxas warning", 13) == 0;
    PtxasMessage message = {.kind = AFTER_OTHER};
    const MessageRule *rule = NULL;

    for (uint32_t k = 0; k < MESSAGE_RULES && rule == NULL; k++) {
        if (find_in(line, n, message_rules[k].words) != NULL)
            rule = &message_rules[k];
    }
    const char *text = behind_head(arena, line, n, &message.code);
    if ((rule == NULL && !warns && message.code[0] == '\0') ||
        (rule != NULL && rule->kind == AFTER_SPILL))
        return;
    if (rule != NULL) {
        message.kind = rule->kind;
        message.text = rule->text;
        message.cure = rule->cure;
    }
    if (message.text == NULL)
        message.text = arena_strndup(arena, text, n - (size_t)(text - line));
    message.kernel = quoted_behind(arena, line, n, "function '");
    if (message.kernel == NULL && message.kind == AFTER_SETMAXNREG)
        message.kernel = kernel_with(arena, ptx, "setmaxnreg");
    message.line = number_behind(line, n, "around line ");
    vec_push(arena, &out->messages, message);
}

void
ptxas_read(Arena *arena, const char *said, const char *ptx, PtxasSaid *out)
{
    PtxasKernel *kernel = NULL;
    const char *at = ptx, *name, *begin, *found;

    while (next_entry(arena, &at, &name, &begin))
        kernel_named(arena, out, name);
    for (const char *line = said; line != NULL && *line != '\0';) {
        size_t n = strcspn(line, "\n"), length = n;
        while (length > 0 && line[length - 1] == '\r')
            length--;
        if ((found = quoted_behind(arena, line, length, "Compiling entry function '")) != NULL) {
            kernel = kernel_named(arena, out, found);
            kernel->entry = true;
        } else if ((begin = find_in(line, length, "Function properties for ")) != NULL) {
            begin += strlen("Function properties for ");
            kernel = kernel_named(arena, out,
                                  arena_strndup(arena, begin, (size_t)(line + length - begin)));
        } else if (find_in(line, length, "bytes stack frame") != NULL && kernel != NULL) {
            kernel->stack = number_before(line, length, "bytes stack frame");
            kernel->spill_stores = number_before(line, length, "bytes spill stores");
            kernel->spill_loads = number_before(line, length, "bytes spill loads");
        } else if (find_in(line, length, ": Used ") != NULL && kernel != NULL) {
            kernel->registers = number_behind(line, length, ": Used ");
            kernel->barriers = number_before(line, length, "barriers");
        } else {
            read_message(arena, line, length, ptx, out);
        }
        line += n;
        line += *line == '\n';
    }
}

/* ---- the report ---- */

static void
report_counts(const uint32_t *counts, const char *tensor, uint32_t instructions, Buf *out)
{
    buf_printf(out, "%" PRIu32 " %s", counts[SASS_TENSOR], tensor);
    if (sass_takes_uniform(tensor)) /* 0 is the figure one hopes for */
        buf_printf(out, ", %" PRIu32 " R2UR", counts[SASS_TO_UNIFORM]);
    for (uint32_t k = SASS_SPECIAL; k < SASS_OTHER; k++) {
        if (counts[k] > 0)
            buf_printf(out, ", %" PRIu32 " %s", counts[k], sass_kind_name((SassKind)k));
    }
    buf_printf(out, " of %" PRIu32 " instructions\n", instructions);
}

static void
report_code(const SassKernel *kernel, Buf *out)
{
    const SassLoop *hot = sass_hot_loop(kernel);

    if (kernel->tensor == NULL) {
        buf_printf(out, "    %" PRIu32 " instructions, none of them of a tensor core\n",
                   kernel->instructions);
        return;
    }
    buf_add(out, "    machine code: ");
    report_counts(kernel->count, kernel->tensor, kernel->instructions, out);
    for (uint32_t k = 0; k < kernel->loops.n; k++) {
        const SassLoop *loop = &kernel->loops.at[k];
        buf_printf(out, "    %s loop, %#" PRIx32 " to %#" PRIx32 ": ",
                   loop == hot ? "hot" : "inner", loop->first, loop->last);
        report_counts(loop->count, loop->tensor, loop->instructions, out);
    }
    if (hot == NULL)
        buf_printf(out, "    no loop around the %s\n", kernel->tensor);
    else if (sass_takes_uniform(hot->tensor) && hot->count[SASS_TO_UNIFORM] > 0)
        buf_add(out, "    R2UR in the hot loop: descriptors pass through vector registers, because "
                     "a role, a bound or a\n    stage is not provably the same in all threads of "
                     "a warp, or there are more than uniform registers\n");
}

void
after_report(const PtxasSaid *said, const SassKernels *code, const char *no_code, Buf *out)
{
    buf_add(out, "after ptxas:\n");
    for (uint32_t k = 0; k < said->kernels.n; k++) {
        const PtxasKernel *kernel = &said->kernels.at[k];
        buf_printf(out, "  %s%s: ", kernel->entry ? "" : "function ", kernel->name);
        if (kernel->entry)
            buf_printf(out, "%" PRIu32 " registers, ", kernel->registers);
        if (kernel->spill_stores + kernel->spill_loads > 0)
            buf_printf(out, "SPILLS: %" PRIu32 " bytes stored, %" PRIu32 " loaded, of each thread",
                       kernel->spill_stores, kernel->spill_loads);
        else
            buf_add(out, "no spills");
        if (kernel->stack > 0)
            buf_printf(out, ", %" PRIu32 " bytes of stack", kernel->stack);
        if (kernel->barriers > 0)
            buf_printf(out, ", %" PRIu32 " barrier%s", kernel->barriers,
                       kernel->barriers == 1 ? "" : "s");
        buf_char(out, '\n');
        for (uint32_t j = 0; no_code == NULL && j < code->n; j++) {
            if (strcmp(code->at[j].name, kernel->name) == 0)
                report_code(&code->at[j], out);
        }
    }
    if (no_code != NULL)
        buf_printf(out, "  machine code not looked at: %s\n", no_code);
}

/* ---- the warnings ---- */

/* `line` of the PTX to a line of the source, by the last .loc before it; false without -lineinfo.
 */
static bool
source_line(const char *ptx, uint32_t line, uint32_t *file, uint32_t *source)
{
    bool found = false;

    for (const char *at = ptx; *at != '\0' && line > 0; line--) {
        const char *word = at + strspn(at, " \t");
        if (strncmp(word, ".loc ", 5) == 0) {
            char *behind;
            *file = (uint32_t)strtoul(word + 5, &behind, 10);
            *source = (uint32_t)strtoul(behind, NULL, 10);
            found = true;
        }
        at += strcspn(at, "\n");
        at += *at == '\n';
    }
    return found;
}

/* The path of `.file N "path"`. */
static const char *
source_file(Arena *arena, const char *ptx, uint32_t file)
{
    const char *head = arena_printf(arena, ".file %" PRIu32 " \"", file);
    const char *at = strstr(ptx, head);

    if (at == NULL)
        return NULL;
    at += strlen(head);
    return arena_strndup(arena, at, strcspn(at, "\"\n"));
}

static uint32_t
begin_message(Buf *out, const char *place, AfterAction action)
{
    buf_printf(out, "%s: %s: ", place, action == AFTER_FAIL ? "error" : "warning");
    return action == AFTER_FAIL ? 1 : 0;
}

static void
end_message(Buf *out, AfterKind kind, AfterAction action)
{
    buf_printf(out, action == AFTER_FAIL ? " [-Werror=%s] [E-PTXAS]\n" : " [-W%s]\n",
               after_rules[kind].name);
}

static uint32_t
print_spill(const PtxasKernel *kernel, const char *path, AfterAction action, Buf *out)
{
    uint32_t errors = begin_message(out, path, action);

    buf_printf(out,
               "%s '%s' spills registers to local memory: each thread stores %" PRIu32
               " bytes and loads %" PRIu32,
               kernel->entry ? "kernel" : "function", kernel->name, kernel->spill_stores,
               kernel->spill_loads);
    if (kernel->registers > 0)
        buf_printf(out, ", with %" PRIu32 " registers", kernel->registers);
    end_message(out, AFTER_SPILL, action);
    buf_printf(out, "%s: note: take smaller tiles, or divide them among more warps\n", path);
    return errors;
}

static uint32_t
print_message(const PtxasMessage *message, const char *ptx, const char *path, AfterAction action,
              Buf *out)
{
    uint32_t file, line;
    const char *place = path, *in_file;

    if (message->line > 0 && source_line(ptx, message->line, &file, &line) &&
        (in_file = source_file(out->arena, ptx, file)) != NULL)
        place = arena_printf(out->arena, "%s:%" PRIu32, in_file, line);
    uint32_t errors = begin_message(out, place, action);
    if (message->kernel != NULL)
        buf_printf(out, "kernel '%s': ", message->kernel);
    buf_add(out, message->text);
    if (message->line > 0)
        buf_printf(out, ", near line %" PRIu32 " of the PTX", message->line);
    if (message->code[0] != '\0')
        buf_printf(out, " (%s)", message->code);
    end_message(out, message->kind, action);
    if (message->cure != NULL)
        buf_printf(out, "%s: note: %s\n", place, message->cure);
    return errors;
}

uint32_t
after_warnings(const PtxasSaid *said, const char *ptx, const char *path,
               const AfterActions *actions, Buf *out)
{
    uint32_t errors = 0;

    for (uint32_t k = 0; k < said->kernels.n; k++) {
        const PtxasKernel *kernel = &said->kernels.at[k];
        if (actions->of[AFTER_SPILL] != AFTER_IGNORE &&
            kernel->spill_stores + kernel->spill_loads > 0)
            errors += print_spill(kernel, path, actions->of[AFTER_SPILL], out);
    }
    for (uint32_t k = 0; k < said->messages.n; k++) {
        const PtxasMessage *message = &said->messages.at[k];
        AfterAction action = actions->of[message->kind];
        if (action != AFTER_IGNORE)
            errors += print_message(message, ptx, path, action, out);
    }
    return errors;
}
