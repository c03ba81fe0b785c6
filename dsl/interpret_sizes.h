/* interpret_sizes.h - the sizes of a run: what arrays and settings say of them, and what
 * follows. */
#ifndef TILEC_DSL_INTERPRET_SIZES_H
#define TILEC_DSL_INTERPRET_SIZES_H

#include "dsl/interpret_internal.h"

/* What the sizes of all kernels are, by name. */
typedef struct Size {
    const char *name;
    int64_t value;
    const char *from; /* the tensor or the setting that says so */
} Size;

typedef struct Session {
    Run *run;
    VEC(Size) sizes;
    VEC(const Kernel *) kernels;
} Session;

/* The value of --set; NULL: there is none. */
const char *run_setting(const Run *run, const char *name);
bool sizes_read(Run *run, const char *name, const char *text, int64_t *out);
bool sizes_set(Session *s, Span span, const char *name, int64_t value, const char *from);
/* A dimension of a tensor.  False: it is not known. */
bool sizes_extent(Session *s, const Expr *dim, int64_t *out);
enum { SIZES_ROUNDS = 3 };
/* Takes the sizes that the shape of a tensor says: behind the first round those of rows of a packed
 * type, too, which may be one shorter than their bytes have room for; in the last one all of them
 * have to be known.  False: they disagree. */
bool sizes_of_shape(Session *s, RunTensor *tensor, const Param *param, int round);
/* Declares the names of a dimension as scalars. */
void sizes_declare(Session *s, const Expr *dim);

#endif
