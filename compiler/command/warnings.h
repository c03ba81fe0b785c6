/* warnings.h - what the command line says of each kind of warning. */
#ifndef TILEC_COMMAND_WARNINGS_H
#define TILEC_COMMAND_WARNINGS_H

#include "compiler/report/after_ptxas.h"
#include "compiler/tilec.h"

/* Of one kind; the last word counts. */
typedef struct WarningState {
    bool off, fail, never_fail, shown;
} WarningState;

typedef struct Warnings {
    WarningState of[WARN_KINDS];
} Warnings;

typedef enum WarningWord {
    WARNING_SHOW,      /* -WNAME */
    WARNING_HIDE,      /* -Wno-NAME */
    WARNING_FAIL,      /* -Werror=NAME */
    WARNING_NEVER_FAIL /* -Wno-error=NAME */
} WarningWord;

/* Complains of a name that is none; returns the exit status. */
int warnings_set(Warnings *warnings, const char *name, WarningWord word);
/* What is done about those of ptxas; `all_fail`: -Werror. */
AfterActions warnings_after(const Warnings *warnings, bool all_fail);
/* What is done about those of the compiler itself. */
void warnings_to_options(const Warnings *warnings, TilecOptions *options);
/* Whether ptxas must be asked even where no cubin is wanted. */
bool warnings_need_ptxas(const Warnings *warnings);

#endif
