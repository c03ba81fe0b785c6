/* warnings.c - what the command line says of each kind of warning. */
#include "compiler/command/warnings.h"

#include "compiler/base/near.h"
#include "compiler/command/files.h"

int
warnings_set(Warnings *warnings, const char *name, WarningWord word)
{
    const char *best = NULL;
    uint32_t least = UINT32_MAX;

    for (int k = 0; k < WARN_KINDS; k++) {
        uint32_t distance = word_distance(name, after_rules[k].name);
        WarningState *state = &warnings->of[k];
        if (distance < least) {
            least = distance;
            best = after_rules[k].name;
        }
        if (distance > 0)
            continue;
        if (word == WARNING_FAIL)
            *state = (WarningState){.fail = true};
        else if (word == WARNING_NEVER_FAIL)
            *state = (WarningState){.off = state->off, .shown = state->shown, .never_fail = true};
        else
            state->off = !(state->shown = word == WARNING_SHOW);
        return 0;
    }
    if (strcmp(name, "all") == 0 || strcmp(name, "extra") == 0)
        return complain("there is no warning '%s': all are on but 'order' and 'narrow', which "
                        "-Worder and -Wnarrow show",
                        name);
    bool near = word_is_near(name, least);
    return complain("there is no warning '%s'%s%s%s", name,
                    near ? "; did you mean '" : "; see --help", near ? best : "", near ? "'?" : "");
}

AfterActions
warnings_after(const Warnings *warnings, bool all_fail)
{
    AfterActions actions;

    for (int k = 0; k < AFTER_KINDS; k++) {
        const WarningState *state = &warnings->of[k];
        bool fail = state->fail || (all_fail && !state->never_fail);
        actions.of[k] = state->off ? AFTER_IGNORE : fail ? AFTER_FAIL : AFTER_WARN;
    }
    return actions;
}

static TilecAction
action_of(const WarningState *state, bool fails)
{
    return state->off ? TILEC_IGNORE : fails ? TILEC_FAIL : TILEC_WARN;
}

void
warnings_to_options(const Warnings *warnings, TilecOptions *options)
{
    const WarningState *of = warnings->of, *order = &of[WARN_ORDER], *narrow = &of[WARN_NARROW];

    options->unproved = action_of(&of[WARN_UNPROVED], !of[WARN_UNPROVED].never_fail);
    options->no_plan = action_of(&of[WARN_PLAN], of[WARN_PLAN].fail);
    options->unused = action_of(&of[WARN_UNUSED], of[WARN_UNUSED].fail);
    options->dimension = action_of(&of[WARN_DIMENSION], of[WARN_DIMENSION].fail);
    options->broadcast = action_of(&of[WARN_BROADCAST], of[WARN_BROADCAST].fail);
    options->repeated = action_of(&of[WARN_REPEATED], of[WARN_REPEATED].fail);
    /* only where it is asked for */
    options->order = order->fail ? TILEC_FAIL : order->shown ? TILEC_WARN : TILEC_IGNORE;
    options->narrow = narrow->fail ? TILEC_FAIL : narrow->shown ? TILEC_WARN : TILEC_IGNORE;
}

bool
warnings_need_ptxas(const Warnings *warnings)
{
    for (int k = 0; k < AFTER_KINDS; k++) {
        if (warnings->of[k].fail && !warnings->of[k].off)
            return true;
    }
    return false;
}
