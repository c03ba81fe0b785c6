/* sass.c - the text of a disassembler to basic blocks, dominators, natural loops and counts.
 *
 * Both tools print one instruction a line behind its address, which stands in a C comment (here
 * in brackets):
 *
 *     .L_x_29:                                     nvdisasm names what is jumped to
 *         [3dd0]   @!P0 BRA `(.L_x_27) ;
 *         [00c0]   @P1 BRA 0x320 ;                 cuobjdump gives the address
 *
 * A loop that waits stands out of line: it jumps to itself and then back into the middle of the
 * code.  So a jump to a lower address does not make a loop; one to a block that every path to the
 * jump has passed does.
 */
#include "compiler/report/sass.h"

#include <stdlib.h>
#include <string.h>

typedef struct Insn {
    uint32_t address;
    const char *name; /* the mnemonic, up to the first dot or blank */
    uint32_t name_n;
    const char *operands; /* behind the mnemonic and its suffixes; not terminated */
    uint32_t operands_n;
    bool guarded;
} Insn;

typedef struct Label {
    const char *name;
    uint32_t n;
    uint32_t at; /* index of the instruction behind it */
} Label;

typedef struct Block {
    uint32_t first, end;      /* instructions */
    uint32_t next[2], n_next; /* blocks */
    uint32_t order;           /* in reverse postorder; 0: not reached */
    uint32_t idom;            /* by order */
} Block;

typedef struct Code {
    Arena *arena;
    VEC(Insn) insns;
    VEC(Label) labels;
    Block *blocks;
    uint32_t n_blocks;
    uint32_t *block_of; /* by instruction */
    uint32_t *by_order; /* blocks in reverse postorder, from 1 on */
    uint32_t n_reached;
} Code;

static const uint32_t NOWHERE = UINT32_MAX;

/* ---- kinds ---- */

typedef struct NameRow {
    const char *name;
    SassKind kind;
    bool uniform; /* SASS_TENSOR: operands by descriptors in uniform registers */
} NameRow;

static const NameRow name_rows[] = {
    {"HGMMA", SASS_TENSOR, true},    {"QGMMA", SASS_TENSOR, true},
    {"IGMMA", SASS_TENSOR, true},    {"BGMMA", SASS_TENSOR, true},
    {"UTCHMMA", SASS_TENSOR, true},  {"UTCQMMA", SASS_TENSOR, true},
    {"UTCIMMA", SASS_TENSOR, true},  {"UTCOMMA", SASS_TENSOR, true},
    {"HMMA", SASS_TENSOR, false},    {"QMMA", SASS_TENSOR, false},
    {"IMMA", SASS_TENSOR, false},    {"DMMA", SASS_TENSOR, false},
    {"OMMA", SASS_TENSOR, false},    {"R2UR", SASS_TO_UNIFORM, false},
    {"MUFU", SASS_SPECIAL, false},   {"LDL", SASS_LOCAL, false},
    {"STL", SASS_LOCAL, false},      {"LDS", SASS_SHARED, false},
    {"STS", SASS_SHARED, false},     {"LDSM", SASS_SHARED, false},
    {"STSM", SASS_SHARED, false},    {"LDG", SASS_GLOBAL, false},
    {"STG", SASS_GLOBAL, false},     {"RED", SASS_GLOBAL, false},
    {"REDG", SASS_GLOBAL, false},    {"ATOMG", SASS_GLOBAL, false},
    {"LDGSTS", SASS_GLOBAL, false},  {"SHFL", SASS_SHUFFLE, false},
    {"VOTE", SASS_SHUFFLE, false},   {"BAR", SASS_BARRIER, false},
    {"SYNCS", SASS_BARRIER, false},  {"WARPGROUP", SASS_BARRIER, false},
    {"DEPBAR", SASS_BARRIER, false}, {"LDGDEPBAR", SASS_BARRIER, false},
};
enum { NAME_ROWS = sizeof name_rows / sizeof name_rows[0] };

static bool
is_word(const char *text, uint32_t n, const char *word)
{
    return strlen(word) == n && strncmp(text, word, n) == 0;
}

static const NameRow *
name_row(const Insn *insn)
{
    for (uint32_t k = 0; k < NAME_ROWS; k++) {
        if (is_word(insn->name, insn->name_n, name_rows[k].name))
            return &name_rows[k];
    }
    return NULL;
}

const char *
sass_kind_name(SassKind kind)
{
    static const char *const names[SASS_KINDS] = {
        "tensor",
        "R2UR",
        "MUFU",
        "local memory (spills)",
        "shared memory",
        "global memory",
        "shuffles and votes",
        "barriers and waits",
        "other",
    };
    return names[kind];
}

bool
sass_takes_uniform(const char *tensor)
{
    for (uint32_t k = 0; tensor != NULL && k < NAME_ROWS; k++) {
        if (strcmp(name_rows[k].name, tensor) == 0)
            return name_rows[k].uniform;
    }
    return false;
}

static void
count(const Insn *insn, uint32_t *counts, const char **tensor)
{
    const NameRow *row = name_row(insn);

    counts[row == NULL ? SASS_OTHER : row->kind]++;
    if (row != NULL && row->kind == SASS_TENSOR)
        *tensor = row->name;
}

/* ---- lines ---- */

static bool
is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static const char *
skip_blanks(const char *at, const char *end)
{
    while (at < end && is_blank(*at))
        at++;
    return at;
}

static const char *
skip_word(const char *at, const char *end)
{
    while (at < end && !is_blank(*at) && *at != ';')
        at++;
    return at;
}

/* One line with an instruction; the second half of its encoding, and all else, gives false. */
static bool
read_insn(const char *at, const char *end, Insn *insn)
{
    char *behind;

    at = skip_blanks(at, end);
    if (end - at < 8 || at[0] != '/' || at[1] != '*')
        return false;
    at += 2;
    unsigned long address = strtoul(at, &behind, 16);
    if (behind == at || behind >= end || strncmp(behind, "*/", 2) != 0)
        return false;
    at = skip_blanks(behind + 2, end);
    while (at < end && (*at == '{' || *at == '}')) /* two in one: older chips */
        at = skip_blanks(at + 1, end);
    *insn = (Insn){.address = (uint32_t)address};
    if (at < end && *at == '@') {
        insn->guarded = true;
        at = skip_blanks(skip_word(at, end), end);
    }
    const char *word = at;
    at = skip_word(at, end);
    if (at == word || *word == '/' || *word == '.')
        return false;
    const char *dot = memchr(word, '.', (size_t)(at - word));
    insn->name = word;
    insn->name_n = (uint32_t)((dot == NULL ? at : dot) - word);
    at = skip_blanks(at, end);
    const char *stop = memchr(at, ';', (size_t)(end - at));
    insn->operands = at;
    insn->operands_n = (uint32_t)((stop == NULL ? end : stop) - at);
    return true;
}

/* ".L_x_3:" alone on its line. */
static bool
read_label(const char *at, const char *end, Label *label)
{
    at = skip_blanks(at, end);
    const char *stop = at;
    while (stop < end && !is_blank(*stop) && *stop != ':')
        stop++;
    if (stop == at || stop >= end || *stop != ':' || skip_blanks(stop + 1, end) != end)
        return false;
    *label = (Label){at, (uint32_t)(stop - at), 0};
    return true;
}

/* The name behind "Function : " (cuobjdump) or ".text." of a section's line (nvdisasm). */
static char *
read_kernel_name(Arena *arena, const char *at, const char *end)
{
    static const char function[] = "Function : ", section[] = ".section\t.text.";
    bool is_section;

    at = skip_blanks(at, end);
    size_t n = (size_t)(end - at);
    if (n > sizeof function - 1 && strncmp(at, function, sizeof function - 1) == 0) {
        at += sizeof function - 1;
        is_section = false;
    } else if (n > sizeof section - 1 && strncmp(at, section, sizeof section - 1) == 0) {
        at += sizeof section - 1;
        is_section = true;
    } else {
        return NULL;
    }
    const char *stop = at;
    while (stop < end && !is_blank(*stop) && !(is_section && *stop == ','))
        stop++;
    return arena_strndup(arena, at, (size_t)(stop - at));
}

/* ---- where an instruction leads ---- */

static uint32_t
find_address(const Code *code, uint64_t address)
{
    for (uint32_t k = 0; k < code->insns.n; k++) {
        if (code->insns.at[k].address == address)
            return k;
    }
    return NOWHERE;
}

static uint32_t
find_label(const Code *code, const char *name, uint32_t n)
{
    for (uint32_t k = 0; k < code->labels.n; k++) {
        if (code->labels.at[k].n == n && strncmp(code->labels.at[k].name, name, n) == 0)
            return code->labels.at[k].at < code->insns.n ? code->labels.at[k].at : NOWHERE;
    }
    return NOWHERE;
}

/* The place that the last operand names: `(.L_x_3) or 0x320. */
static uint32_t
target_of(const Code *code, const Insn *insn)
{
    const char *end = insn->operands + insn->operands_n;
    const char *label = memchr(insn->operands, '(', insn->operands_n);

    if (label != NULL) {
        const char *stop = memchr(label, ')', (size_t)(end - label));
        return stop == NULL ? NOWHERE : find_label(code, label + 1, (uint32_t)(stop - label - 1));
    }
    const char *at = end;
    while (at > insn->operands && is_blank(at[-1]))
        at--;
    while (at > insn->operands && !is_blank(at[-1]) && at[-1] != ',')
        at--;
    return end - at > 2 && strncmp(at, "0x", 2) == 0 ? find_address(code, strtoull(at, NULL, 16))
                                                     : NOWHERE;
}

/* Where threads go on that met at a BSYNC: what the BSSY of this barrier says, the last one
 * before it. */
static uint32_t
meeting_place(const Code *code, uint32_t at)
{
    const Insn *sync = &code->insns.at[at];
    uint32_t n = 0;

    while (n < sync->operands_n && !is_blank(sync->operands[n]))
        n++;
    for (uint32_t k = at; k-- > 0;) {
        const Insn *insn = &code->insns.at[k];
        if (is_word(insn->name, insn->name_n, "BSSY") && insn->operands_n > n &&
            strncmp(insn->operands, sync->operands, n) == 0 && insn->operands[n] == ',')
            return target_of(code, insn);
    }
    return NOWHERE;
}

/* The instructions that may run after `at`: none to two. */
static uint32_t
successors(const Code *code, uint32_t at, uint32_t *next)
{
    const Insn *insn = &code->insns.at[at];
    uint32_t n = 0, target = NOWHERE;
    bool falls = true;

    if (is_word(insn->name, insn->name_n, "BRA") || is_word(insn->name, insn->name_n, "JMP")) {
        target = target_of(code, insn);
        /* a predicate or a register before the place: BRA.U UP0, BRA.DIV UR4 */
        falls = insn->guarded || memchr(insn->operands, ',', insn->operands_n) != NULL;
    } else if (is_word(insn->name, insn->name_n, "BSYNC")) {
        target = meeting_place(code, at);
        falls = insn->guarded || target == NOWHERE;
    } else if (is_word(insn->name, insn->name_n, "EXIT") ||
               is_word(insn->name, insn->name_n, "RET") ||
               is_word(insn->name, insn->name_n, "BRX") ||
               is_word(insn->name, insn->name_n, "BRXU")) {
        falls = insn->guarded;
    }
    if (falls && at + 1 < code->insns.n)
        next[n++] = at + 1;
    if (target != NOWHERE && (n == 0 || next[0] != target))
        next[n++] = target;
    return n;
}

static bool
is_jump(const Insn *insn)
{
    static const char *const names[] = {"BRA", "JMP", "BSYNC", "EXIT", "RET", "BRX", "BRXU"};

    for (uint32_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        if (is_word(insn->name, insn->name_n, names[k]))
            return true;
    }
    return false;
}

/* ---- blocks and dominators ---- */

static void
make_blocks(Code *code)
{
    uint32_t n = code->insns.n, next[2];
    bool *begins = arena_array(code->arena, bool, n + 1);

    begins[0] = true;
    for (uint32_t k = 0; k < n; k++) {
        if (!is_jump(&code->insns.at[k]))
            continue;
        begins[k + 1] = true;
        for (uint32_t j = successors(code, k, next); j-- > 0;)
            begins[next[j]] = true;
    }
    code->blocks = arena_array(code->arena, Block, n + 1);
    code->block_of = arena_array(code->arena, uint32_t, n + 1);
    for (uint32_t k = 0; k < n; k++) {
        if (begins[k])
            code->blocks[code->n_blocks++].first = k;
        code->block_of[k] = code->n_blocks - 1;
        code->blocks[code->n_blocks - 1].end = k + 1;
    }
    for (uint32_t b = 0; b < code->n_blocks; b++) {
        Block *block = &code->blocks[b];
        block->n_next = successors(code, block->end - 1, next);
        for (uint32_t j = 0; j < block->n_next; j++)
            block->next[j] = code->block_of[next[j]];
    }
}

/* Numbers the blocks that can be reached, each before those it leads to except along loops. */
static void
number_blocks(Code *code)
{
    uint32_t *stack = arena_array(code->arena, uint32_t, code->n_blocks + 1), depth = 1, done = 0;
    uint32_t *child = arena_array(code->arena, uint32_t, code->n_blocks + 1);
    uint32_t *post = arena_array(code->arena, uint32_t, code->n_blocks + 1);
    bool *seen = arena_array(code->arena, bool, code->n_blocks + 1);

    seen[0] = true;
    stack[0] = 0;
    while (depth > 0) {
        uint32_t b = stack[depth - 1];
        if (child[b] < code->blocks[b].n_next) {
            uint32_t next = code->blocks[b].next[child[b]++];
            if (!seen[next]) {
                seen[next] = true;
                stack[depth++] = next;
            }
        } else {
            post[done++] = b;
            depth--;
        }
    }
    code->n_reached = done;
    code->by_order = arena_array(code->arena, uint32_t, done + 1);
    for (uint32_t k = 0; k < done; k++) {
        code->by_order[done - k] = post[k];
        code->blocks[post[k]].order = done - k;
    }
}

static uint32_t
common_dominator(const Code *code, uint32_t a, uint32_t b)
{
    while (a != b) {
        while (a > b)
            a = code->blocks[code->by_order[a]].idom;
        while (b > a)
            b = code->blocks[code->by_order[b]].idom;
    }
    return a;
}

static void
find_dominators(Code *code)
{
    code->blocks[code->by_order[1]].idom = 1;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t o = 1; o <= code->n_reached; o++) {
            const Block *from = &code->blocks[code->by_order[o]];
            if (from->idom == 0)
                continue;
            for (uint32_t j = 0; j < from->n_next; j++) {
                Block *to = &code->blocks[from->next[j]];
                uint32_t idom = to->idom == 0 ? o : common_dominator(code, to->idom, o);
                changed |= to->order != 1 && idom != to->idom;
                if (to->order != 1)
                    to->idom = idom;
            }
        }
    }
}

static bool
dominates(const Code *code, uint32_t a, uint32_t b)
{
    uint32_t at = code->blocks[b].order, want = code->blocks[a].order;

    while (at > want)
        at = code->blocks[code->by_order[at]].idom;
    return at == want;
}

/* ---- loops ---- */

typedef struct LoopSet {
    bool *has; /* by block */
    uint32_t head, last;
} LoopSet;

typedef VEC(LoopSet) LoopSets;

/* Adds to `loop` all that leads to `from` without passing the head. */
static void
fill_loop(const Code *code, uint32_t from, LoopSet *loop)
{
    for (bool changed = !loop->has[from]; changed;) {
        changed = false;
        loop->has[from] = true;
        for (uint32_t b = 0; b < code->n_blocks; b++) {
            const Block *block = &code->blocks[b];
            if (block->order == 0 || loop->has[b])
                continue;
            for (uint32_t j = 0; j < block->n_next; j++) {
                if (loop->has[block->next[j]] && block->next[j] != loop->head) {
                    loop->has[b] = true;
                    changed = true;
                }
            }
        }
    }
}

static void
find_loops(Code *code, LoopSets *loops)
{
    for (uint32_t b = 0; b < code->n_blocks; b++) {
        for (uint32_t j = 0; j < code->blocks[b].n_next && code->blocks[b].order > 0; j++) {
            uint32_t head = code->blocks[b].next[j], k = 0;
            if (!dominates(code, head, b))
                continue;
            while (k < loops->n && loops->at[k].head != head)
                k++;
            if (k == loops->n) {
                LoopSet loop = {
                    .has = arena_array(code->arena, bool, code->n_blocks), .head = head, .last = b};
                loop.has[head] = true;
                vec_push(code->arena, loops, loop);
            }
            fill_loop(code, b, &loops->at[k]);
            if (b > loops->at[k].last)
                loops->at[k].last = b;
        }
    }
}

static void
count_loop(const Code *code, const LoopSet *set, SassLoop *loop)
{
    *loop = (SassLoop){0};
    loop->first = code->insns.at[code->blocks[set->head].first].address;
    loop->last = code->insns.at[code->blocks[set->last].end - 1].address;
    for (uint32_t b = 0; b < code->n_blocks; b++) {
        for (uint32_t k = code->blocks[b].first; set->has[b] && k < code->blocks[b].end; k++) {
            loop->instructions++;
            count(&code->insns.at[k], loop->count, &loop->tensor);
        }
    }
}

static bool
lies_in(const Code *code, const LoopSet *inner, const LoopSet *outer)
{
    for (uint32_t b = 0; b < code->n_blocks; b++) {
        if (inner->has[b] && !outer->has[b])
            return false;
    }
    return inner->head != outer->head;
}

static void
finish_kernel(Code *code, SassKernel *kernel)
{
    LoopSets sets = {0};

    for (uint32_t k = 0; k < code->insns.n; k++)
        count(&code->insns.at[k], kernel->count, &kernel->tensor);
    kernel->instructions = code->insns.n;
    if (kernel->tensor == NULL)
        return;
    make_blocks(code);
    number_blocks(code);
    find_dominators(code);
    find_loops(code, &sets);
    SassLoop *loops = arena_array(code->arena, SassLoop, sets.n + 1);
    for (uint32_t k = 0; k < sets.n; k++)
        count_loop(code, &sets.at[k], &loops[k]);
    for (uint32_t k = 0; k < sets.n; k++) {
        bool innermost = loops[k].tensor != NULL;
        for (uint32_t j = 0; j < sets.n; j++)
            innermost &= loops[j].tensor == NULL || !lies_in(code, &sets.at[j], &sets.at[k]);
        uint32_t at = kernel->loops.n;
        if (!innermost)
            continue;
        vec_push(code->arena, &kernel->loops, loops[k]);
        for (; at > 0 && kernel->loops.at[at - 1].first > loops[k].first; at--)
            kernel->loops.at[at] = kernel->loops.at[at - 1];
        kernel->loops.at[at] = loops[k];
    }
}

const SassLoop *
sass_hot_loop(const SassKernel *kernel)
{
    const SassLoop *hot = NULL;

    for (uint32_t k = 0; k < kernel->loops.n; k++) {
        const SassLoop *loop = &kernel->loops.at[k];
        uint32_t n = loop->count[SASS_TENSOR], most = hot == NULL ? 0 : hot->count[SASS_TENSOR];
        if (n > most || (n == most && loop->instructions < hot->instructions))
            hot = loop;
    }
    return hot;
}

bool
sass_read(Arena *arena, const char *text, SassKernels *out)
{
    Code code = {.arena = arena};
    SassKernel *kernel = NULL;
    Insn insn;
    Label label;

    for (const char *line = text; *line != '\0';) {
        const char *end = line + strcspn(line, "\n");
        char *name = read_kernel_name(arena, line, end);
        if (name != NULL) {
            if (kernel != NULL)
                finish_kernel(&code, kernel);
            code = (Code){.arena = arena};
            vec_push(arena, out, ((SassKernel){.name = name}));
            kernel = &out->at[out->n - 1];
        } else if (kernel != NULL && read_insn(line, end, &insn)) {
            if (!is_word(insn.name, insn.name_n, "NOP")) /* what fills up the last line of code */
                vec_push(arena, &code.insns, insn);
        } else if (kernel != NULL && read_label(line, end, &label)) {
            label.at = code.insns.n;
            vec_push(arena, &code.labels, label);
        }
        line = *end == '\n' ? end + 1 : end;
    }
    if (kernel != NULL)
        finish_kernel(&code, kernel);
    return out->n > 0;
}
