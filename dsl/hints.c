/* hints.c - what to write in place of what other languages have. */
#include "dsl/hints.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "compiler/base/dtype.h"
#include "compiler/base/near.h"

#define LOOP                                                                                       \
    "a loop is `for i in lo..hi { .. }`, with bounds that may be known at run time only; `for i in lo..hi while c { .. }` may end before"
#define LEFT "a loop runs to its end: put the rest of its body into an `if`"
#define FUNCTION "a function is `fn name(a, b) { .. }`"
#define MODULE "the functions of a module come with `use name;`"
#define VALUE "`let x = ..` names a value, `var x = ..` one that changes"
#define SHAPE                                                                                           \
    "the elements of a tile keep their places: x[:, None] adds a dimension, a sum takes one away, and " \
    "pack(a, b) makes one of two ranges"
#define PRODUCT "a product of matrices is mma(a, b) or mma(a, b, acc)"
#define WIDER "tiles grow to the shape of what they meet; x[:, None] adds a dimension"
#define INDICES "the indices 0..N are iota(N)"
#define POWER "x to the power y is exp2(y * log2(x)), a square x * x"
#define THREADS                                                                                    \
    "a program works on whole tiles, as x of `let x = load X[i];`, and the threads of its block share them"
#define CHOICE "a choice is where(c, a, b)"
#define PARAMETER "a tensor is `X: in f32[N]` or `Y: out f32[N]`, a scalar `a: f32`"
#define KERNEL "a kernel is `kernel name(X: in f32[N], Y: out f32[N]) { .. }`"
#define CONSTANT "a compile-time parameter is `B: int = 64`, as in `kernel name<B: int = 64>(..)`"
#define SIZES "sizes have the names that the types of tensors give them: N of `X: in f32[N]`"
#define ATOMIC "additions to memory are `atomic_add Y[i] += x;`"
#define BARRIER                                                                                    \
    "programs have no barriers: tiles are whole values, and the compiler places what they need"
#define BRACES "a block stands in braces: `{ .. }`"
#define TUPLE "values that belong together are a tuple: `let t = (max = m, sum = s);`, `t.max`"
#define ZEROS "a tile of zeros is `zeros<f32>[64, 64]`"
#define FULL "a tile of one value is `full<f32>[64, 64](v)`"
#define SHOWN "`print(\"x is\", x);` shows values in `tilec run`"
#define CLAMP "to keep x between lo and hi: min(max(x, lo), hi)"
#define LOAD "`load` is no function: it stands before a tensor, as in `load X[i]`"
#define NOT_A_NUMBER "what is no number is the only value that differs from itself: `x != x`"
#define ONES "a loop counts by ones: `for k in 0..n { .. k * 2 .. }`"
#define PROGRAMS "`grid m in tiles(S, 64), h in H;` names the programs"

static const struct {
    const char *word, *hint;
} hints[] = {
    {"while", LOOP},
    {"do", LOOP},
    {"break", LEFT},
    {"continue", LEFT},
    {"elif", "write `else if`"},
    {"def", FUNCTION},
    {"function", FUNCTION},
    {"lambda", FUNCTION},
    {"struct", TUPLE},
    {"class", TUPLE},
    {"typedef", TUPLE},
    {"zeros_like", ZEROS},
    {"ones", FULL},
    {"ones_like", FULL},
    {"full_like", FULL},
    {"printf", SHOWN},
    {"println", SHOWN},
    {"import", MODULE},
    {"include", MODULE},
    {"const", VALUE},
    {"int", VALUE},
    {"float", VALUE},
    {"half", VALUE},
    {"double", VALUE},
    {"pow", POWER},
    {"powf", POWER},
    {"power", POWER},
    {"__expf", "write exp(x)"},
    {"__logf", "write log(x)"},
    {"ln", "write log(x)"},
    {"ceil", "write -floor(-x)"},
    {"isnan", NOT_A_NUMBER},
    {"nan", NOT_A_NUMBER},
    {"NaN", NOT_A_NUMBER},
    {"NAN", NOT_A_NUMBER},
    {"step", ONES},
    {"by", ONES},
    {"reduce_sum", "a sum is sum(x, axis=1), or sum(x) of all"},
    {"reduce_max", "a maximum is max(x, axis=1), or max(x) of all"},
    {"softmax",
     "of whole rows: `let e = exp(x - max(x, axis=1)[:, None]);`, `e / sum(e, axis=1)[:, None]`; of tiles that come one by one: `use softmax;`"},
    {"and", "write `&&`"},
    {"or", "write `||`"},
    {"not", "write `!`"},
    {"reshape", SHAPE},
    {"view", SHAPE},
    {"flatten", SHAPE},
    {"transpose", "the transpose of x is x.T"},
    {"trans", "the transpose of x is x.T"},
    {"permute", "the transpose of x is x.T"},
    {"dot", PRODUCT},
    {"matmul", PRODUCT},
    {"gemm", PRODUCT},
    {"broadcast_to", WIDER},
    {"expand_dims", WIDER},
    {"arange", INDICES},
    {"program_id", PROGRAMS},
    {"blockIdx", PROGRAMS},
    {"threadIdx", THREADS},
    {"blockDim", THREADS},
    {"gridDim", PROGRAMS},
    {"maximum", "the larger one is max(a, b)"},
    {"minimum", "the smaller one is min(a, b)"},
    {"select", "a choice is where(c, a, b)"},
    {"to", "a range is `lo..hi`, a conversion `x as f16`"},
    {"mut", "a name that changes begins with `var`"},
    {"True", "write `true`"},
    {"False", "write `false`"},
    {"None", "`None` adds a dimension in x[:, None], and is no value"},
    {"null", "there is no such value: a choice is where(c, a, b)"},
    {"nullptr", "there is no such value: a choice is where(c, a, b)"},
    {"Infinity", "write `inf`"},
    {"INFINITY", "write `inf`"},
    {"infinity", "write `inf`"},
    {"Inf", "write `inf`"},
    {"len", SIZES},
    {"shape", SIZES},
    {"size", SIZES},
    {"atomicAdd", ATOMIC},
    {"atomicMax", "maxima in memory are `atomic_max Y[i] = x;`"},
    {"atomicMin", "minima in memory are `atomic_min Y[i] = x;`"},
    {"__syncthreads", BARRIER},
    {"syncthreads", BARRIER},
    {"barrier", BARRIER},
    {"__global__", KERNEL},
    {"void", KERNEL},
    {"log1p", "write log(1.0 + x)"},
    {"expm1", "write exp(x) - 1.0"},
    {"clamp", CLAMP},
    {"clip", CLAMP},
    {"mean", "a mean is sum(x, axis=1) / n"},
    {"require", "`require` is no function: `require N % 4 == 0, \"N is a multiple of 4\";`"},
};

/* Types of other languages; `limit`: what there is none of. */
static const struct {
    const char *word, *type, *limit;
} types[] = {
    {"float", "f32", NULL},
    {"float32", "f32", NULL},
    {"fp32", "f32", NULL},
    {"double", "f32", "the widest float"},
    {"float64", "f32", "the widest float"},
    {"fp64", "f32", "the widest float"},
    {"f64", "f32", "the widest float"},
    {"half", "f16", NULL},
    {"float16", "f16", NULL},
    {"fp16", "f16", NULL},
    {"bfloat16", "bf16", NULL},
    {"bfloat", "bf16", NULL},
    {"fp8", "e4m3", NULL},
    {"f8", "e4m3", NULL},
    {"float8_e4m3fn", "e4m3", NULL},
    {"float8_e5m2", "e5m2", NULL},
    {"int", "i32", NULL},
    {"int32", "i32", NULL},
    {"int32_t", "i32", NULL},
    {"long", "i32", "the widest integer"},
    {"int64", "i32", "the widest integer"},
    {"int64_t", "i32", "the widest integer"},
    {"i64", "i32", "the widest integer"},
    {"u64", "u32", "the widest integer without a sign"},
    {"uint64", "u32", "the widest integer without a sign"},
    {"unsigned", "u32", NULL},
    {"uint", "u32", NULL},
    {"uint32", "u32", NULL},
    {"uint32_t", "u32", NULL},
    {"char", "i8", NULL},
    {"int8", "i8", NULL},
    {"int8_t", "i8", NULL},
    {"uint8", "u8", NULL},
    {"uint8_t", "u8", NULL},
    {"byte", "u8", NULL},
};

enum { FOREIGN = sizeof types / sizeof types[0] };

/* Its number in the table; FOREIGN: it is none. */
static size_t
foreign_type(const char *word)
{
    size_t k = 0;

    while (k < FOREIGN && strcmp(types[k].word, word) != 0)
        k++;
    return k;
}

const char *
type_hint(Arena *arena, const char *word)
{
    size_t k = foreign_type(word);

    if (k == FOREIGN)
        return NULL;
    if (types[k].limit != NULL)
        return arena_printf(arena, "%s is `%s`", types[k].limit, types[k].type);
    return arena_printf(arena, "write `%s`", types[k].type);
}

const char *
conversion_hint(Arena *arena, const char *word)
{
    size_t k = foreign_type(word);
    DType dtype;

    if (dtype_parse(word, &dtype))
        return arena_printf(arena, "a conversion is `x as %s`", word);
    if (k == FOREIGN)
        return word_hint(word);
    if (types[k].limit != NULL)
        return arena_printf(arena, "%s is %s, and a conversion `x as %s`", types[k].limit,
                            types[k].type, types[k].type);
    return arena_printf(arena, "a conversion is `x as %s`", types[k].type);
}

const char *
word_hint(const char *word)
{
    for (size_t k = 0; k < sizeof hints / sizeof hints[0]; k++)
        if (strcmp(hints[k].word, word) == 0)
            return hints[k].hint;
    return NULL;
}

/* ---- syntax errors ---- */

/* Whether only blanks lie between the two. */
static bool
is_behind(const Parser *parser, Span place, const Name *name)
{
    if (name->text == NULL || name->span.hi > place.lo)
        return false;
    for (uint32_t at = name->span.hi; at < place.lo; at++)
        if (strchr(" \t\r\n", parser->file->text[at - parser->file->base]) == NULL)
            return false;
    return true;
}

/* The last character before a place that is no blank. */
static char
character_before(const Parser *parser, Span place)
{
    uint32_t at = place.lo - parser->file->base;

    while (at > 0 && strchr(" \t\r\n", parser->file->text[at - 1]) != NULL)
        at--;
    return at > 0 ? parser->file->text[at - 1] : '\0';
}

/* Whether a word, and blanks, lie before a place. */
static bool
is_word_before(const Parser *parser, Span place, const char *word)
{
    const char *text = parser->file->text;
    uint32_t at = place.lo - parser->file->base, n = (uint32_t)strlen(word);

    while (at > 0 && strchr(" \t\r\n", text[at - 1]) != NULL)
        at--;
    return at >= n && strncmp(text + at - n, word, n) == 0 &&
           (at == n || (!isalnum((unsigned char)text[at - n - 1]) && text[at - n - 1] != '_'));
}

/* What is said of the function whose arguments a place is among, as with `reshape(x, [`; NULL:
 * nothing. */
static const char *
call_hint(const Parser *parser, Span place)
{
    const char *text = parser->file->text;
    uint32_t at = place.lo - parser->file->base, depth = 0;

    while (at > 0 && strchr(";{}", text[at - 1]) == NULL && (text[at - 1] != '(' || depth > 0)) {
        depth += text[at - 1] == ')';
        depth -= text[at - 1] == '(';
        at--;
    }
    if (at == 0 || text[at - 1] != '(')
        return NULL;
    uint32_t end = --at;
    while (at > 0 && (isalnum((unsigned char)text[at - 1]) || text[at - 1] == '_'))
        at--;
    return word_hint(arena_strndup(parser->arena, text + at, end - at));
}

/* What is said of a name that is nearly the word of a statement or an operator, as in `laod X[i]`;
 * NULL: nothing. */
static const char *
near_word(const Parser *parser, const Name *name)
{
    static const char *const words[] = {"load", "store", "return", "require", "grid", "kernel"};

    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++)
        if (word_is_near(name->text, word_distance(name->text, words[k])))
            return arena_printf(parser->arena, "did you mean `%s`?", words[k]);
    return NULL;
}

/* Where what ends the line before is missing: behind that, if the token found stands on a later
 * line. */
static Span
place_missing(const Parser *parser, Span found)
{
    uint32_t base = parser->file->base, end = parser->before.hi;

    if (end <= base || end > found.lo)
        return found;
    const char *rest = parser->file->text + (end - base);
    if (memchr(rest, '\n', found.lo - end) == NULL)
        return found;
    rest += strspn(rest, " \t\r");
    if (*rest != '\n' && *rest != '/') /* something else was wrong there */
        return found;
    return (Span){end, end};
}

/* Whether the line that an offset lies on begins with a word, behind its indentation. */
static bool
line_begins(const Parser *parser, uint32_t at, const char *word)
{
    const char *text = parser->file->text;
    size_t n = strlen(word);

    while (at > 0 && text[at - 1] != '\n')
        at--;
    at += (uint32_t)strspn(text + at, " \t");
    return strncmp(text + at, word, n) == 0 && !isalnum((unsigned char)text[at + n]) &&
           text[at + n] != '_';
}

/* What is said of the head of a kernel or a function, `kernel k(X, Y)`; NULL: nothing, or it is not
 * there. */
static const char *
head_hint(const Parser *parser, Span place)
{
    const char *text = parser->file->text + (place.lo - parser->file->base);
    uint32_t base = parser->file->base, n = parser->open.n;

    while (n > 0 && parser->open.at[n - 1].lo >= parser->token.lo) /* what was found is open, too */
        n--;
    if (n == 0 && line_begins(parser, place.lo - base, "kernel") && strchr("[=,>", *text) != NULL)
        return CONSTANT;
    uint32_t open = n == 1 ? parser->open.at[0].lo - base : 0;
    if (n != 1 || parser->file->text[open] != '(')
        return NULL;
    if (line_begins(parser, open, "kernel"))
        return PARAMETER;
    bool tensor = strncmp(text, "in ", 3) == 0 || strncmp(text, "out ", 4) == 0 ||
                  strncmp(text, "inout ", 6) == 0;
    return tensor && line_begins(parser, open, "fn")
               ? "a function takes values: what loads and stores tensors is a `kernel`"
               : NULL;
}

/* What is said of signs that another language has at a place; NULL: nothing. */
static const char *
foreign_sign(const Parser *parser, Span place)
{
    const char *text = parser->file->text + (place.lo - parser->file->base);
    char before = character_before(parser, place);

    if (*text == ':' && text[1] == '=')
        return VALUE;
    if (*text == ':' && text[1 + strspn(text + 1, " \t\r")] == '\n')
        return BRACES;
    if (*text == ';' && before == '}')
        return "no `;` stands after a block";
    if (*text == '.' && isdigit((unsigned char)text[1]))
        return "a number begins with a digit: `0.5`";
    if (before == '.' && strncmp(text, "load", 4) == 0)
        return LOAD;
    if (isalpha((unsigned char)*text) && parser->before.hi == place.lo &&
        (isdigit((unsigned char)before) || before == '.'))
        return "a number has no letters after it: its type follows from what it meets";
    if (*text == '}' && line_begins(parser, place.lo - parser->file->base, "fn"))
        return "what a function gives is `return x;`";
    if (strncmp(text, "None", 4) == 0)
        return word_hint("None");
    return NULL;
}

/* Whether `(float)` stands before a place: the type behind which it stands in C, to `type`. */
static bool
is_cast_before(const Parser *parser, Span place, const char **type)
{
    const char *text = parser->file->text;
    uint32_t end = place.lo - parser->file->base, at;
    DType dtype;

    while (end > 0 && strchr(" \t", text[end - 1]) != NULL)
        end--;
    if (end == 0 || text[end - 1] != ')')
        return false;
    for (at = --end; at > 0 && (isalnum((unsigned char)text[at - 1]) || text[at - 1] == '_');)
        at--;
    *type = arena_strndup(parser->arena, text + at, end - at);
    return at > 0 && text[at - 1] == '(' &&
           (dtype_parse(*type, &dtype) || foreign_type(*type) < FOREIGN);
}

/* What is said of `load(X[i])`, and of the type of a value; NULL: nothing. */
static const char *
form_hint(const Parser *parser, Span place)
{
    const char *text = parser->file->text + (place.lo - parser->file->base), *type;

    if (parser->before.lo < parser->file->base) /* it is the first token */
        return NULL;
    if (is_cast_before(parser, place, &type))
        return conversion_hint(parser->arena, type);
    if (*text == '=' && text[1] != '=' && line_begins(parser, place.lo - parser->file->base, "if"))
        return "`==` compares";
    if (strncmp(text, "+=", 2) == 0 && line_begins(parser, place.lo - parser->file->base, "store"))
        return ATOMIC;
    if (*text == '=' && place.lo > parser->file->base + 1 && text[-1] == '.' && text[-2] == '.')
        return "a range `lo..hi` ends before hi";
    if (*text == '(' && is_word_before(parser, place, "for"))
        return LOOP;
    if (strncmp(text, "if ", 3) == 0 && place_missing(parser, place).lo == place.lo)
        return CHOICE;
    if (*text == '(' && is_word_before(parser, place, "load"))
        return LOAD;
    if (*text == '(' && is_word_before(parser, place, "store"))
        return "`store` is no function: `store Y[i] = x;`";
    if (*text != '(' && is_word_before(parser, place, "assert"))
        return "`assert` is a function: `assert(c, \"what is wrong\");`";
    if (*text != '[' && is_word_before(parser, place, "zeros"))
        return ZEROS;
    if (*text != '<' && is_word_before(parser, place, "full"))
        return FULL;
    if (*text == '[' && is_word_before(parser, place, "zeros"))
        return "a tile of zeros has a type, `zeros<f32>[64, 64]`";
    if (*text != '[' && (is_word_before(parser, parser->before, "load") ||
                         is_word_before(parser, parser->before, "store")))
        return "which elements of a tensor is said in brackets: `load X[i]`, `store Y[i, :] = x;`";
    if (*text == ':' && parser->last_name.span.lo == parser->before.lo &&
        (is_word_before(parser, parser->before, "let") ||
         is_word_before(parser, parser->before, "var")))
        return "a value has the type of its expression: `let x = y as f32;`";
    return NULL;
}

/* What is said of `a @ b`, `i++` and `x ** 2`. */
static const char *
sign_hint(const Parser *parser, Span place)
{
    const char *text = parser->file->text;
    uint32_t at = place.lo - parser->file->base;
    char found = text[at], before = character_before(parser, place);

    if (found == '@' && (isalnum((unsigned char)before) || strchr("_)]", before) != NULL))
        return PRODUCT;
    if (at > 0 && (found == '+' || found == '-') && text[at - 1] == found)
        return found == '+' ? "write `i += 1`" : "write `i -= 1`";
    if (at > 0 && found == '*' && text[at - 1] == '*')
        return POWER;
    if ((found == '*' || found == '&') && strchr("=(,", before) != NULL)
        return "there are no pointers: `load X[i]` reads elements of a tensor";
    if (found == '.' && text[at + 1] == '.' && strchr("[,", before) != NULL)
        return "a `:` stands for each dimension of which all is meant";
    return NULL;
}

/* A sentence on what may be meant, at `*where`; NULL: there is none. */
static const char *
syntax_hint(const Parser *parser, Span place, bool is_name, bool subscript, Span *where)
{
    bool is_last = is_name && parser->last_name.span.lo == place.lo;
    const Name *before = is_last ? &parser->name_before : &parser->last_name;
    const char *hint = is_last ? word_hint(parser->last_name.text) : NULL;
    char found = parser->file->text[place.lo - parser->file->base];

    if (found == ':' && is_behind(parser, place, before) && parser->open.n > 0 &&
        (strchr("])", character_before(parser, before->span)) != NULL ||
         isalnum((unsigned char)character_before(parser, before->span))) &&
        parser->file->text[parser->open.at[parser->open.n - 1].lo - parser->file->base] == '(') {
        *where = before->span;
        return arena_printf(parser->arena, "a `,` is missing in front of `%s`", before->text);
    }
    if (hint == NULL && is_behind(parser, place, before) && foreign_type(before->text) < FOREIGN &&
        parser->open.n > 0 &&
        parser->file->text[parser->open.at[parser->open.n - 1].lo - parser->file->base] == '(')
        return PARAMETER;
    if (hint == NULL && is_behind(parser, place, before))
        hint = word_hint(before->text);
    if (hint == NULL && is_name && is_behind(parser, place, before)) {
        hint = near_word(parser, before);
        *where = hint != NULL ? before->span : place;
    }
    if (hint == NULL && parser->is_stray)
        return "each `{` above has its `}` already";
    if (hint == NULL)
        hint = head_hint(parser, place);
    if (hint == NULL)
        hint = form_hint(parser, place);
    if (hint == NULL && (found == '[' || found == '"'))
        hint = call_hint(parser, place);
    if (hint == NULL)
        hint = foreign_sign(parser, place);
    if (hint == NULL)
        hint = sign_hint(parser, place);
    if (hint != NULL)
        return hint;
    if (found == '(' && is_behind(parser, place, before) &&
        character_before(parser, before->span) == '.')
        return arena_printf(parser->arena, "tiles have no methods: functions are called as %s(x)",
                            before->text);
    if (subscript && (found == ':' || character_before(parser, place) == ':'))
        return "`:` is a whole dimension; a part of a tensor is loaded by a range, as in "
               "`load X[iota(16) + start]`, and a tile is not cut";
    return NULL;
}

/* Whether the token at a place is one of `words`, which have a blank behind each. */
static bool
is_one_of(const Parser *parser, Span place, const char *words)
{
    const char *text = parser->file->text + (place.lo - parser->file->base);

    for (size_t n; (n = strcspn(words, " ")) > 0; words += n + 1)
        if (n == place.hi - place.lo && strncmp(text, words, n) == 0)
            return true;
    return false;
}

/* What stands outside of kernels begins so; an expression has none of these. */
#define ITEMS "kernel fn use "
#define NOT_IN_EXPRESSIONS                                                                         \
    ITEMS                                                                                          \
    "; { } = += -= *= /= let var for if else return require grid store print assert atomic_add atomic_max atomic_min "

/* Whether a `use` stands in a block, and not where the next kernel may begin. */
static bool
is_module_inside(const Parser *parser, Span place)
{
    return is_one_of(parser, place, "use ") && place.lo > parser->file->base &&
           parser->file->text[place.lo - parser->file->base - 1] != '\n';
}

/* The `{`, `(` or `[` that most likely lacks its other half where the parser is stuck; nowhere:
 * none does. */
static Span
left_open(const Parser *parser, Span place, const SyntaxContext *context)
{
    uint32_t n = parser->open.n;

    /* what was found has been taken already */
    while (n > 0 && parser->open.at[n - 1].lo >= parser->token.lo)
        n--;
    if (n == 0 || is_module_inside(parser, place))
        return (Span){0, 0};
    Span last = parser->open.at[n - 1];
    bool block = parser->file->text[last.lo - parser->file->base] == '{';
    if (context->is_end || is_one_of(parser, place, ITEMS))
        return block && parser->late.lo != 0 ? parser->closed_late : last;
    return !block && context->closes && is_one_of(parser, place, NOT_IN_EXPRESSIONS) ? last
                                                                                     : (Span){0, 0};
}

bool
is_same_line(const Parser *parser, Span place)
{
    uint32_t base = parser->file->base, last = parser->last_error;

    return last >= base && last <= place.lo &&
           memchr(parser->file->text + (last - base), '\n', place.lo - last) == NULL;
}

void
report_syntax(Parser *parser, Span place, Buf *text, const SyntaxContext *context)
{
    bool module = is_module_inside(parser, place);
    bool missing = !module &&
                   (context->is_end || context->statement || is_one_of(parser, place, ITEMS));
    int length = (int)(place.hi - place.lo);
    Span where = place, open = left_open(parser, place, context);
    const char *hint = syntax_hint(parser, place, context->is_name, context->subscript, &where);
    char sign = open.lo == 0 ? '\0' : parser->file->text[open.lo - parser->file->base];
    const char *closing = sign == '(' ? ")" : sign == '[' ? "]" : "}";

    /* what is not closed is an error of its own; else an earlier one is the cause */
    if (context->is_end && (parser->lost || (open.lo == 0 && parser->diag->errors > 0)))
        return;
    if (context->is_end)
        buf_add(text, "the end of the file");
    else
        buf_printf(text, "'%.*s%s'", length > 40 ? 40 : length,
                   parser->file->text + (place.lo - parser->file->base), length > 40 ? ".." : "");
    if (sign == '{' && parser->late.lo != 0)
        diag_error(parser->diag, parser->late,
                   "E-SYNTAX: as the lines are indented, a '}' is missing before this one");
    else
        diag_error(parser->diag, missing ? place_missing(parser, place) : place, "E-SYNTAX: %s",
                   text->at);
    if (module)
        diag_note(parser->diag, where, "`use name;` stands at the head of the file");
    else if (open.lo != 0)
        diag_note(parser->diag, open, "this `%c` has no `%s`", sign, closing);
    else if (hint != NULL)
        diag_note(parser->diag, where, "%s", hint);
    parser->lost |= sign == '{';
}
