/* tables.c - --list-passes and --list-targets. */
#include "compiler/driver/tables.h"

#include <string.h>

#include "compiler/passes/passrun.h"
#include "compiler/target.h"

void
tables_print(Diag *diag, const char *which, Buf *out)
{
    if (strcmp(which, "passes") == 0) {
        pass_list(out);
    } else if (strcmp(which, "targets") == 0) {
        for (uint32_t k = 0; k < tilec_target_count; k++)
            buf_printf(out, "%-8s PTX %-5s %4d KiB shared  %s\n", tilec_targets[k]->name,
                       tilec_targets[k]->ptx_version,
                       tilec_targets[k]->chip.shared_per_block / 1024,
                       tilec_targets[k]->description);
    } else {
        diag_error(diag, (Span){0}, "E-OPTION: there is no table '%s'", which);
    }
}
