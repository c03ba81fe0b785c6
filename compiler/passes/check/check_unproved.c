/* check_unproved.c - what is said of a kernel of which check-roles proves nothing. */
#include "compiler/passes/check/check_unproved.h"

void
say_unproved(const PassContext *px, const TirFn *fn, const char *why)
{
    if (px->unproved == UNPROVED_ERROR)
        diag_error(
            px->diag, fn->span,
            "E-UNPROVED: kernel '%s': check-roles can prove nothing of its warp groups: %s; take another plan, or "
            "-Wno-error=unproved [-Werror=unproved]",
            fn->name, why);
    else if (px->unproved == UNPROVED_WARNING)
        diag_warning(
            px->diag, fn->span,
            "kernel '%s': check-roles can prove nothing of its warp groups: %s [-Wunproved]",
            fn->name, why);
}
