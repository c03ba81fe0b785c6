/* tuning.c - reads lines of JSON, keeps the measurements that are about a kernel, takes the best.
 *
 * An object is flattened: {"tiles":{"M":64}} has the member "tiles.M".
 */
#include "compiler/choose/tuning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 8 };

static const char FORMAT[] = "1"; /* the member `tuning` of a line: what the others mean */

typedef struct Member {
    const char *path, *text; /* of a string, without quotes and escapes */
} Member;

typedef struct Line {
    Arena *arena;
    const char *at;
    VEC(Member) members;
} Line;

typedef struct Measurement {
    int32_t values[MAX_AUTO];
    uint32_t warps, stages;
    PlanHints plan;
    bool simulated;
    double microseconds;
    const char *sizes;      /* all of them as one text */
    const int64_t *numbers; /* the same by the kernel's index; 0: not said */
    double ratio;           /* to the best with these sizes */
} Measurement;

typedef VEC(Measurement) Measurements;

/* ---- one line ---- */

static void
skip_blanks(Line *line)
{
    line->at += strspn(line->at, " \t\r");
}

static bool
take(Line *line, char c)
{
    skip_blanks(line);
    if (*line->at != c)
        return false;
    line->at++;
    return true;
}

/* A string behind its opening quote.  Escapes other than of quotes and backslashes become '?': no
 * name that is compared has one. */
static const char *
read_string(Line *line)
{
    Buf text;

    buf_init(&text, line->arena);
    buf_add(&text, "");
    for (; *line->at != '"'; line->at++) {
        if (*line->at == '\0' || *line->at == '\n')
            return NULL;
        if (*line->at != '\\') {
            buf_char(&text, *line->at);
            continue;
        }
        line->at++;
        if (*line->at == '\0' || *line->at == '\n')
            return NULL;
        buf_char(&text, *line->at == '"' || *line->at == '\\' || *line->at == '/' ? *line->at : '?');
    }
    line->at++;
    return text.at == NULL ? "" : text.at;
}

static bool read_value(Line *line, const char *path, uint32_t depth);

static const char *
below(Line *line, const char *path, const char *name)
{
    return path[0] == '\0' ? name : arena_printf(line->arena, "%s.%s", path, name);
}

static bool
read_members(Line *line, const char *path, char end, uint32_t depth)
{
    uint32_t n = 0;

    if (take(line, end))
        return true;
    do {
        const char *name = arena_printf(line->arena, "%u", n++);
        if (end == '}' &&
            (!take(line, '"') || (name = read_string(line)) == NULL || !take(line, ':')))
            return false;
        if (!read_value(line, below(line, path, name), depth + 1))
            return false;
    } while (take(line, ','));
    return take(line, end);
}

static bool
read_value(Line *line, const char *path, uint32_t depth)
{
    Member member = {.path = path};

    if (depth > MOST_DEPTH)
        return false;
    if (take(line, '{'))
        return read_members(line, path, '}', depth);
    if (take(line, '['))
        return read_members(line, path, ']', depth);
    if (take(line, '"')) {
        member.text = read_string(line);
    } else {
        size_t n = strspn(line->at, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");
        member.text = n == 0 ? NULL : arena_strndup(line->arena, line->at, n);
        line->at += n;
    }
    if (member.text == NULL)
        return false;
    vec_push(line->arena, &line->members, member);
    return true;
}

static bool
read_line(Line *line)
{
    if (!take(line, '{') || !read_members(line, "", '}', 0))
        return false;
    skip_blanks(line);
    return *line->at == '\n' || *line->at == '\0';
}

static const char *
member(const Line *line, const char *path)
{
    for (uint32_t k = 0; k < line->members.n; k++) {
        if (strcmp(line->members.at[k].path, path) == 0)
            return line->members.at[k].text;
    }
    return NULL;
}

static bool
member_is(const Line *line, const char *path, const char *text)
{
    const char *found = member(line, path);
    return found != NULL && strcmp(found, text) == 0;
}

static uint32_t
member_count(const Line *line, const char *path)
{
    const char *found = member(line, path);
    return found == NULL ? 0 : (uint32_t)strtoul(found, NULL, 10);
}

/* ---- which lines are about a kernel ---- */

static bool
is_about(const Line *line, const Target *target, const TirFn *sample, const AutoTiles *open,
         bool plans)
{
    if (!member_is(line, "target", target->name) || !member_is(line, "kernel", sample->name) ||
        member(line, "microseconds") == NULL || (!plans && member(line, "plan") != NULL))
        return false;
    for (uint32_t k = 0; k < sample->constants.n; k++) {
        const TirConstant *constant = &sample->constants.at[k];
        const char *path = arena_printf(line->arena, "constants.%s", constant->name);
        if (!auto_is_open(open, constant->name) && !member_is(line, path, constant->value))
            return false;
    }
    return true;
}

static const int64_t *
read_sizes(const Line *line, const TirFn *sample)
{
    int64_t *sizes = arena_array(line->arena, int64_t, sample->sizes.n + 1);

    for (uint32_t k = 0; k < sample->sizes.n; k++)
        sizes[k] = member_count(line,
                                arena_printf(line->arena, "sizes.%s", sample->sizes.at[k].name));
    return sizes;
}

static bool
read_measurement(const Line *line, const TirFn *sample, const AutoTiles *open, Measurement *m)
{
    Buf sizes;

    *m = (Measurement){.simulated = member_is(line, "origin", "simulated"),
                       .warps = member_count(line, "warps"),
                       .stages = member_count(line, "stages"),
                       .microseconds = strtod(member(line, "microseconds"), NULL)};
    const char *plan = member(line, "plan"), *fault;
    if (plan != NULL) {
        if (!plan_hints_read(plan, &m->plan, &fault))
            return false;
        m->stages = m->plan.stages;
    }
    for (uint32_t k = 0; k < open->asked && k < MAX_AUTO; k++) {
        const char *path = arena_printf(line->arena, "tiles.%s", open->names[k]);
        m->values[k] = (int32_t)member_count(line, path);
        if (m->values[k] <= 0)
            return false;
    }
    buf_init(&sizes, line->arena);
    buf_add(&sizes, "");
    for (uint32_t k = 0; k < line->members.n; k++) {
        const Member *size = &line->members.at[k];
        if (strncmp(size->path, "sizes.", 6) == 0)
            buf_printf(&sizes, "%s=%s ", size->path, size->text);
    }
    m->sizes = sizes.at;
    m->numbers = read_sizes(line, sample);
    return m->microseconds > 0;
}

/* ---- the best ---- */

static bool
same_choice(const Measurement *a, const Measurement *b)
{
    const PlanHints *p = &a->plan, *q = &b->plan;

    return memcmp(a->values, b->values, sizeof a->values) == 0 && a->warps == b->warps &&
           a->stages == b->stages && p->consumers == q->consumers && p->q_stages == q->q_stages &&
           p->persistent == q->persistent && p->dynamic == q->dynamic && p->clc == q->clc &&
           p->pingpong == q->pingpong && p->pipelined == q->pipelined &&
           p->cooperative == q->cooperative && p->paired == q->paired &&
           p->two_blocks == q->two_blocks && p->correction == q->correction;
}

/* A second measurement of the same choice with the same sizes takes the place of the first. */
static void
add_measurement(Arena *arena, Measurements *all, Measurement m)
{
    for (uint32_t k = 0; k < all->n; k++) {
        if (same_choice(&all->at[k], &m) && strcmp(all->at[k].sizes, m.sizes) == 0 &&
            all->at[k].simulated == m.simulated) {
            all->at[k] = m;
            return;
        }
    }
    vec_push(arena, all, m);
}

/* What was simulated counts only where nothing was measured. */
static void
leave_simulated_out(Measurements *all)
{
    uint32_t measured = 0;

    for (uint32_t k = 0; k < all->n; k++)
        measured += !all->at[k].simulated;
    if (measured == 0)
        return;
    measured = 0;
    for (uint32_t k = 0; k < all->n; k++) {
        if (!all->at[k].simulated)
            all->at[measured++] = all->at[k];
    }
    all->n = measured;
}

static void
find_ratios(Measurements *all)
{
    for (uint32_t k = 0; k < all->n; k++) {
        double best = all->at[k].microseconds;
        for (uint32_t j = 0; j < all->n; j++) {
            if (strcmp(all->at[j].sizes, all->at[k].sizes) == 0 && all->at[j].microseconds < best)
                best = all->at[j].microseconds;
        }
        all->at[k].ratio = all->at[k].microseconds / best;
    }
}

static bool
take_best(const Measurements *all, TuningChoice *choice)
{
    double best = 0;
    uint32_t choices = 0;

    *choice = (TuningChoice){0};
    for (uint32_t k = 0; k < all->n; k++) {
        const Measurement *m = &all->at[k];
        double logs = 0;
        uint32_t n = 0;
        bool first = true;
        for (uint32_t j = 0; j < all->n; j++) {
            if (!same_choice(m, &all->at[j]))
                continue;
            first &= j >= k;
            logs += log(all->at[j].ratio);
            n++;
        }
        if (!first)
            continue;
        choices++;
        if (n < choice->measurements || (n == choice->measurements && logs / n >= best))
            continue;
        best = logs / n;
        memcpy(choice->values, m->values, sizeof choice->values);
        choice->warps = m->warps;
        choice->stages = m->stages;
        choice->plan = m->plan;
        choice->simulated = m->simulated;
        choice->microseconds = m->microseconds;
        choice->measurements = n;
    }
    choice->others = choices > 0 ? choices - 1 : 0;
    return choices > 0;
}

/* What the text says of the kernel; `warps` and `stages` are pinned unless 0. */
static Measurements
read_all(Arena *arena, Diag *diag, const char *path, const char *text, const Target *target,
         const TirFn *sample, const AutoTiles *open, bool plans, uint32_t warps, uint32_t stages)
{
    Measurements all = {0};
    uint32_t number = 0;

    while (*text != '\0') {
        Line line = {.arena = arena, .at = text};
        Measurement m;
        number++;
        if (text[strspn(text, " \t\r")] == '\n' || text[strspn(text, " \t\r")] == '\0') {
            /* an empty line */
        } else if (!read_line(&line) || !member_is(&line, "tuning", FORMAT)) {
            diag_warning(diag, (Span){0}, "%s:%u: this line of the tuning database can not be read",
                         path, number);
        } else if (is_about(&line, target, sample, open, plans) &&
                   read_measurement(&line, sample, open, &m) && (warps == 0 || m.warps == warps) &&
                   (stages == 0 || m.stages == stages)) {
            add_measurement(arena, &all, m);
        }
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    leave_simulated_out(&all);
    return all;
}

const char *
tuning_origin(const TuningChoice *choice)
{
    return choice->simulated ? "simulated" : "measured";
}

bool
tuning_find(Arena *arena, Diag *diag, const char *path, const char *text, const Target *target,
            const TirFn *sample, const AutoTiles *open, bool plans, uint32_t warps, uint32_t stages,
            TuningChoice *choice)
{
    Measurements all = read_all(arena, diag, path, text, target, sample, open, plans, warps, stages);

    find_ratios(&all);
    return take_best(&all, choice);
}

TuningTimes
tuning_times(Arena *arena, Diag *diag, const char *path, const char *text, const Target *target,
             const TirFn *sample, const AutoTiles *open)
{
    Measurements all = read_all(arena, diag, path, text, target, sample, open, true, 0, 0);
    TuningTimes times = {.at = arena_array(arena, TuningTime, all.n + 1)};

    for (uint32_t k = 0; k < all.n; k++) {
        const Measurement *m = &all.at[k];
        TuningTime *time = &times.at[times.n];
        bool known = m->plan.consumers > 0;
        for (uint32_t j = 0; j < sample->sizes.n; j++)
            known = known && m->numbers[j] > 0;
        *time = (TuningTime){.plan = m->plan, .sizes = m->numbers, .microseconds = m->microseconds};
        memcpy(time->values, m->values, sizeof time->values);
        times.n += known;
    }
    return times;
}
