/* test_roles.c - faults planted in the roles of real kernels, each of which check-roles must find.
 *
 * usage: test_roles FOLDER     the folder of the examples
 *
 * A kernel is taken through the passes up to check-roles; then operations are dropped, doubled,
 * moved or changed, one place after the other, and put back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/base/arena.h"
#include "compiler/base/diag.h"
#include "compiler/front/front.h"
#include "compiler/passes/passrun.h"

static jmp_buf no_memory;
static const char *folder;

typedef struct Kernel {
    Arena arena;
    Diag diag;
    PassContext px;
    Buf bugs;
    TirFn *fn;
} Kernel;

typedef struct Recipe {
    const char *file, *plan, *defines; /* "D=64 M=64" */
    const char *kernel;                /* NULL: the only one */
    uint32_t idle_waits; /* for products whose result is first computed with behind the next wait */
} Recipe;

static const Recipe recipes[] = {
    {"attention.tile", "consumers=3,stages=3,q_stages=2,dynamic=0", "D=64 M=64 N=64", NULL, 0},
    {"attention.tile", "consumers=2,stages=1,q_stages=1", "D=64 M=64 N=64", NULL, 0},
    {"attention.tile", "consumers=3,stages=2,q_stages=1,pingpong=1", "D=64 M=64 N=64", NULL, 0},
    {"attention.tile", "consumers=2,stages=2,q_stages=1,pipelined=0", "D=64 M=64 N=64", NULL, 0},
    {"attention.tile", "consumers=3,stages=3,q_stages=2", "D=64 M=64 N=64 CAUSAL=true", NULL, 0},
    {"attention.tile", "consumers=2,stages=2,pipelined=0,persistent=0",
     "D=64 M=64 N=64 CAUSAL=true", NULL, 0},
    {"attention.tile", "consumers=1,stages=2,q_stages=1", "D=64 M=64 N=64 CAUSAL=true WINDOW=256",
     NULL, 0},
    {"attention.tile", "consumers=3,stages=2,q_stages=2", "D=64 M=64 N=64 CAUSAL=true WINDOW=128",
     NULL, 0},
    {"gemm.tile", "consumers=2,stages=3", "TM=64 TN=128 TK=64", NULL, 0},
    {"gemm.tile", "consumers=2,stages=2", "TM=128 TN=64 TK=64", NULL, 0},
    {"gemm.tile", "consumers=3,stages=1", "TM=64 TN=64 TK=64", NULL, 0},
    {"attention_bwd.tile", "consumers=2,stages=2", "D=64 M=64 N=64 CAUSAL=true", "attention_bwd_dq",
     1},
    {"attention_bwd.tile", "consumers=3,stages=2", "D=64 M=64 N=64 CAUSAL=true",
     "attention_bwd_dkdv", 0},
    {"attention_bwd.tile", "consumers=2,stages=2", "D=64 M=64 N=64 CAUSAL=true", "attention_bwd", 2},
    {"attention_bwd.tile", "consumers=2,stages=1,persistent=0,cooperative=1",
     "D=128 M=128 N=64 CAUSAL=true", "attention_bwd", 0},
};
enum { RECIPES = sizeof recipes / sizeof recipes[0] };

/* ---- a kernel, up to the check ---- */

static void
open_kernel(Kernel *k, const Recipe *recipe)
{
    TilecDefine defines[8];
    char words[200], path[4096], *text;
    TilecOptions options = tilec_default_options();
    const char *fault;

    snprintf(words, sizeof words, "%s", recipe->defines);
    options.defines = defines;
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " ")) {
        char *equals = strchr(word, '=');
        *equals = '\0';
        defines[options.n_defines++] = (TilecDefine){word, equals + 1};
    }
    arena_init(&k->arena, allocator_libc(), &no_memory);
    diag_init(&k->diag, &k->arena);
    buf_init(&k->bugs, &k->arena);
    snprintf(path, sizeof path, "%s/%s", folder, recipe->file);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    text = arena_alloc(&k->arena, 1 << 16);
    size_t n = fread(text, 1, 1 << 16, file);
    fclose(file);
    const Target *target = target_find("sm_90");
    Front front = {.arena = &k->arena, .diag = &k->diag, .options = &options, .target = target};
    assert_true(front_parse(&front, diag_add_file(&k->diag, recipe->file, text, n)));
    options.kernel = recipe->kernel;
    TirModule *module = front_module(&front);
    assert_non_null(module);
    k->fn = module->fns.at[0];
    for (uint32_t i = 0; i < module->fns.n && recipe->kernel != NULL; i++) {
        if (strcmp(module->fns.at[i]->name, recipe->kernel) == 0)
            k->fn = module->fns.at[i];
    }
    k->px = (PassContext){
        .arena = &k->arena,
        .diag = &k->diag,
        .target = target,
        .level = 3,
        .bugs = &k->bugs,
        .switched.passes_off = (uint64_t)1 << pass_find("check-roles", strlen("check-roles"))};
    assert_true(plan_hints_read(recipe->plan, &k->px.plan, &fault));
    assert_true(passes_run(&k->px, k->fn, &(PassRun){.bugs = &k->bugs}));
    assert_non_null(k->fn->plan);
}

static void
close_kernel(Kernel *k)
{
    arena_free(&k->arena);
}

/* What the check says; "" when all is well. */
static const char *
check(Kernel *k)
{
    k->bugs.n = 0;
    if (k->bugs.at != NULL)
        k->bugs.at[0] = '\0';
    pass_check_roles(&k->px, k->fn);
    return k->bugs.at == NULL ? "" : k->bugs.at;
}

/* ---- places ---- */

typedef struct Site {
    TirBlock *block;
    uint32_t at;
} Site;

typedef VEC(Site) Sites;

static void
find_sites(Arena *arena, TirBlock *block, TirOpcode opcode, Sites *out)
{
    for (uint32_t i = 0; i < block->ops.n; i++) {
        TirOp *op = block->ops.at[i];
        Site site = {block, i};
        if (op->op == opcode && (opcode != TIR_MMA || op->async))
            vec_push(arena, out, site);
        for (uint32_t k = 0; k < op->n_blocks; k++)
            find_sites(arena, op->blocks[k], opcode, out);
    }
}

static Sites
sites_of(Kernel *k, TirOpcode opcode)
{
    Sites sites = {0};

    find_sites(&k->arena, tir_program(k->fn->plan, ROLE_PRODUCER), opcode, &sites);
    find_sites(&k->arena, k->fn->body, opcode, &sites);
    return sites;
}

static TirOp *
op_at(Site site)
{
    return site.block->ops.at[site.at];
}

static void
remove_op(Site site)
{
    for (uint32_t i = site.at; i + 1 < site.block->ops.n; i++)
        site.block->ops.at[i] = site.block->ops.at[i + 1];
    site.block->ops.n--;
}

static void
insert_op(Kernel *k, Site site, TirOp *op)
{
    vec_push(&k->arena, &site.block->ops, op);
    for (uint32_t i = site.block->ops.n - 1; i > site.at; i--)
        site.block->ops.at[i] = site.block->ops.at[i - 1];
    site.block->ops.at[site.at] = op;
}

/* Whether the site lies in a loop that has no iterations in any launch: nobody notices when it gets
 * none. */
static bool
never_runs(Kernel *k, Site site)
{
    TirOp *loop = site.block->owner;

    if (loop == NULL || loop->op != TIR_FOR)
        return false;
    TirVal *hi = loop->args[1];
    loop->args[1] = loop->args[0];
    bool idle = check(k)[0] == '\0';
    loop->args[1] = hi;
    return idle;
}

static uint32_t planted, missed;

/* The check must say something that contains `word`. */
static void
expect(Kernel *k, const Recipe *recipe, const char *what, const TirOp *op, const char *word)
{
    const char *said = check(k);

    planted++;
    if (strstr(said, word) != NULL && said[0] != '\0')
        return;
    missed++;
    Buf text;
    buf_init(&text, &k->arena);
    if (op != NULL)
        tir_print_op(k->fn, op, &text);
    print_error("%s --plan=%s %s: %s %s\n  it says: %s\n", recipe->file, recipe->plan,
                recipe->defines, what, op == NULL ? "" : text.at,
                said[0] == '\0' ? "nothing" : said);
}

static void
expect_none_missed(void)
{
    assert_true(planted > 0);
    assert_int_equal(missed, 0);
}

static int
begin_test(void **state)
{
    (void)state;
    planted = missed = 0;
    return 0;
}

/* ---- tests ---- */

static void
kernels_pass(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < RECIPES; r++) {
        Kernel k;
        open_kernel(&k, &recipes[r]);
        assert_string_equal(check(&k), "");
        close_kernel(&k);
    }
}

static void
dropped_operations_are_found(void **state)
{
    static const TirOpcode codes[] = {
        TIR_CONSUMER_WAIT, TIR_CONSUMER_RELEASE, TIR_MMA_WAIT,        TIR_TMA_LOAD,
        TIR_PINGPONG_WAIT, TIR_PINGPONG_ARRIVE,  TIR_CONSUMER_BARRIER};

    (void)state;
    for (uint32_t r = 0; r < RECIPES; r++) {
        Kernel k;
        uint32_t idle = 0;
        open_kernel(&k, &recipes[r]);
        for (uint32_t c = 0; c < sizeof codes / sizeof codes[0]; c++) {
            Sites sites = sites_of(&k, codes[c]);
            for (uint32_t i = 0; i < sites.n; i++) {
                TirOp *op = op_at(sites.at[i]);
                if (never_runs(&k, sites.at[i]))
                    continue;
                remove_op(sites.at[i]);
                if (op->op == TIR_MMA_WAIT && idle < recipes[r].idle_waits && check(&k)[0] == '\0')
                    idle++;
                else
                    expect(&k, &recipes[r], "without", NULL,
                           op->op == TIR_MMA_WAIT ? "product" : "");
                insert_op(&k, sites.at[i], op);
            }
        }
        assert_string_equal(check(&k), "");
        close_kernel(&k);
    }
    expect_none_missed();
}

static void
doubled_operations_are_found(void **state)
{
    static const TirOpcode codes[] = {TIR_CONSUMER_WAIT, TIR_CONSUMER_RELEASE, TIR_TMA_LOAD,
                                      TIR_PINGPONG_WAIT, TIR_PINGPONG_ARRIVE};

    (void)state;
    for (uint32_t r = 0; r < RECIPES; r++) {
        Kernel k;
        open_kernel(&k, &recipes[r]);
        for (uint32_t c = 0; c < sizeof codes / sizeof codes[0]; c++) {
            Sites sites = sites_of(&k, codes[c]);
            for (uint32_t i = 0; i < sites.n; i++) {
                if (never_runs(&k, sites.at[i]))
                    continue;
                if (op_at(sites.at[i])->own) /* it takes no stage: twice is as good as once */
                    continue;
                insert_op(&k, sites.at[i], op_at(sites.at[i]));
                expect(&k, &recipes[r], "twice", op_at(sites.at[i]), "");
                remove_op(sites.at[i]);
            }
        }
        close_kernel(&k);
    }
    expect_none_missed();
}

static void
waits_for_too_few_products_are_found(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < RECIPES; r++) {
        Kernel k;
        uint32_t idle = 0;
        open_kernel(&k, &recipes[r]);
        Sites sites = sites_of(&k, TIR_MMA_WAIT);
        for (uint32_t i = 0; i < sites.n; i++) {
            op_at(sites.at[i])->integer++;
            if (idle < recipes[r].idle_waits && check(&k)[0] == '\0')
                idle++;
            else
                expect(&k, &recipes[r], "one more may run", op_at(sites.at[i]), "product");
            op_at(sites.at[i])->integer--;
        }
        close_kernel(&k);
    }
    expect_none_missed();
}

/* A release goes up: past the wait for the products, then past the products. */
static void
early_releases_are_found(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < RECIPES; r++) {
        Kernel k;
        open_kernel(&k, &recipes[r]);
        Sites sites = sites_of(&k, TIR_CONSUMER_RELEASE);
        for (uint32_t i = 0; i < sites.n; i++) {
            TirOp *op = op_at(sites.at[i]);
            bool products = false;
            uint32_t n_args = op->n_args;
            if (op->shared->held > 0) /* it is the stage of the tile before */
                continue;
            op->n_args = 0; /* what it is kept behind is not there yet */
            for (uint32_t at = sites.at[i].at; at-- > 0;) {
                const TirOp *above = sites.at[i].block->ops.at[at];
                if (above->op == TIR_CONSUMER_WAIT && above->shared == op->shared)
                    break;
                for (uint32_t a = 0; above->op == TIR_MMA && above->async && a < 2; a++) {
                    const TirOp *read = above->args[a]->def;
                    while (read != NULL && read->op == TIR_TRANSPOSE)
                        read = read->args[0]->def;
                    products = products || (read != NULL && read->shared == op->shared);
                }
                if (above->op != TIR_MMA_WAIT && above->op != TIR_MMA)
                    continue;
                remove_op(sites.at[i]);
                insert_op(&k, (Site){sites.at[i].block, at}, op);
                /* a stage 0 product's stage may be free before the wait for late ones */
                if (products || tir_is_pipelined(k.fn))
                    expect(&k, &recipes[r], "early", op, "is re");
                remove_op((Site){sites.at[i].block, at});
                insert_op(&k, sites.at[i], op);
            }
            op->n_args = n_args;
        }
        assert_string_equal(check(&k), "");
        close_kernel(&k);
    }
    expect_none_missed();
}

/* What a product gives is looked at before the wait, or its sum is scaled while it runs. */
static void
early_uses_are_found(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < RECIPES; r++) {
        Kernel k;
        open_kernel(&k, &recipes[r]);
        Sites sites = sites_of(&k, TIR_MMA_WAIT);
        for (uint32_t i = 0; i < sites.n; i++) {
            Site site = sites.at[i];
            TirOp *op = op_at(site);
            for (uint32_t at = site.at + 1; at < site.block->ops.n; at++) {
                const TirOp *below = site.block->ops.at[at];
                if (below->op == TIR_REDUCE && below->results[0]->type.dtype != DT_BOOL) {
                    remove_op(site);
                    insert_op(&k, (Site){site.block, at}, op);
                    expect(&k, &recipes[r], "late", op, "a product");
                    remove_op((Site){site.block, at});
                    insert_op(&k, site, op);
                    break;
                }
            }
        }
        close_kernel(&k);
    }
    expect_none_missed();
}

/* Copies of parts change places; a copy brings the tile of another one. */
static void
wrong_contents_are_found(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < RECIPES; r++) {
        Kernel k;
        open_kernel(&k, &recipes[r]);
        Sites sites = sites_of(&k, TIR_TMA_LOAD);
        for (uint32_t i = 0; i < sites.n; i++) {
            TirOp *op = op_at(sites.at[i]);
            for (uint32_t j = i + 1; j < sites.n; j++) {
                TirOp *other = op_at(sites.at[j]);
                if (other->shared != op->shared || sites.at[i].block != sites.at[j].block)
                    continue;
                sites.at[i].block->ops.at[sites.at[i].at] = other;
                sites.at[j].block->ops.at[sites.at[j].at] = op;
                expect(&k, &recipes[r], "changed places", op, "in order");
                sites.at[i].block->ops.at[sites.at[i].at] = op;
                sites.at[j].block->ops.at[sites.at[j].at] = other;
            }
            for (uint32_t a = 0; a < tir_index_operands(op) + op->n_limits; a++) {
                TirBuilder b = {
                    .fn = k.fn, .block = sites.at[i].block, .at = (int32_t)sites.at[i].at};
                TirVal *was = op->args[a], *one = tir_const_int(&b, 1);
                op->args[a] = tir_binary(&b, TIR_ADD, was, one);
                expect(&k, &recipes[r], "one too far", op,
                       tir_has_coop_k(k.fn) ? "but should" : "does not hold");
                op->args[a] = was;
                remove_op(sites.at[i]);
                remove_op(sites.at[i]);
            }
        }
        close_kernel(&k);
    }
    expect_none_missed();
}

/* A copy brings the first tile: behind a window that is another one than is wanted, and in front of
 * it the same. */
static void
copies_of_the_first_tile_are_found(void **state)
{
    static const Recipe windows[] = {
        {"attention.tile", "consumers=1,stages=2", "D=64 M=64 N=64 CAUSAL=true WINDOW=40", NULL, 0},
        {"attention.tile", "consumers=3,stages=2", "D=64 M=64 N=64 CAUSAL=true WINDOW=70", NULL, 0},
        {"attention.tile", "consumers=2,stages=2", "D=64 M=64 N=64 WINDOW=300 RIGHT=40", NULL, 0}};

    (void)state;
    for (uint32_t r = 0; r < sizeof windows / sizeof windows[0]; r++) {
        Kernel k;
        open_kernel(&k, &windows[r]);
        Sites sites = sites_of(&k, TIR_TMA_LOAD);
        for (uint32_t i = 0; i < sites.n; i++) {
            TirOp *op = op_at(sites.at[i]);
            for (uint32_t a = 0; a < tir_index_operands(op); a++) {
                TirBuilder b = {
                    .fn = k.fn, .block = sites.at[i].block, .at = (int32_t)sites.at[i].at};
                TirVal *was = op->args[a];
                op->args[a] = tir_const_int(&b, 0);
                expect(&k, &windows[r], "first tile", op, "does not hold");
                op->args[a] = was;
                remove_op(sites.at[i]);
            }
        }
        assert_string_equal(check(&k), "");
        close_kernel(&k);
    }
    expect_none_missed();
}

/* Nothing is copied to a stage that products read. */
static void
read_stages_without_a_copy_are_found(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < RECIPES; r++) {
        Kernel k;
        open_kernel(&k, &recipes[r]);
        Sites sites = sites_of(&k, TIR_TMA_LOAD);
        for (uint32_t i = 0; i < sites.n; i++) {
            TirOp *op = op_at(sites.at[i]);
            const TirOp *owner = sites.at[i].block->owner;
            bool idle = owner != NULL && owner->op == TIR_IF &&
                        owner->blocks[1] == sites.at[i].block; /* where there is no iteration */
            if (idle || op->shared->kind != SHARED_PIPELINE || op->n_limits > 0 ||
                never_runs(&k, sites.at[i]))
                continue;
            TirBuilder b = {.fn = k.fn, .block = sites.at[i].block, .at = (int32_t)sites.at[i].at};
            TirVal *never = tir_const_bool(&b, false), **args = op->args;
            uint32_t n = op->n_args, first = n - (tir_copy_condition(op) != NULL);
            op->args = arena_array(&k.arena, TirVal *, n + 1);
            for (uint32_t a = 0; a < first; a++)
                op->args[a] = args[a];
            op->args[first] = never;
            op->n_args = first + 1;
            expect(&k, &recipes[r], "without a copy", op, "to which nothing is copied");
            op->args = args;
            op->n_args = n;
            remove_op(sites.at[i]);
        }
        assert_string_equal(check(&k), "");
        close_kernel(&k);
    }
    expect_none_missed();
}

/* Nobody waits for it and nobody fills it: counts agree, but something is not computed. */
static void
a_missing_last_stage_is_found(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < RECIPES; r++) {
        Kernel k;
        open_kernel(&k, &recipes[r]);
        if (!tir_is_pipelined(k.fn)) {
            close_kernel(&k);
            continue;
        }
        Sites copies = sites_of(&k, TIR_TMA_LOAD), waits = sites_of(&k, TIR_CONSUMER_WAIT);
        Sites releases = sites_of(&k, TIR_CONSUMER_RELEASE), products = sites_of(&k, TIR_MMA);
        Site product = products.at[products.n - 1], copy = {0}, wait = {0}, release = {0};
        for (uint32_t i = 0; i < waits.n; i++) {
            if (waits.at[i].block == product.block && waits.at[i].at < product.at)
                wait = waits.at[i];
        }
        for (uint32_t i = 0; i < releases.n; i++) {
            if (releases.at[i].block == product.block && releases.at[i].at > product.at)
                release = releases.at[i];
        }
        for (uint32_t i = 0; i < copies.n; i++) {
            if (op_at(copies.at[i])->shared == op_at(wait)->shared)
                copy = copies.at[i];
        }
        TirOp *mma = op_at(product);
        assert_ptr_equal(op_at(release)->shared, op_at(wait)->shared);
        remove_op(release);
        remove_op(product);
        remove_op((Site){product.block, wait.at + 2}); /* the read */
        remove_op(wait);
        remove_op(copy);
        tir_replace_uses(k.fn, mma->results[0], mma->args[2]);
        expect(&k, &recipes[r], "without the last stage", mma, "stages of");
        close_kernel(&k);
    }
    expect_none_missed();
}

/* The producer fills one pipeline for all iterations before it begins with the other: good as long
 * as there are stages enough for all, which is not said. */
static void
too_few_stages_are_found(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < RECIPES; r++) {
        Kernel k;
        open_kernel(&k, &recipes[r]);
        Sites loops = sites_of(&k, TIR_FOR), inner = {0};
        TirOp *loop = op_at(loops.at[0]);
        find_sites(&k.arena, loop->blocks[0], TIR_FOR, &inner);
        TirBuilder b = {.fn = k.fn, .block = loops.at[0].block, .at = (int32_t)loops.at[0].at + 1};
        Sites copies = {0};
        find_sites(&k.arena, loop->blocks[0], TIR_TMA_LOAD, &copies);
        if (inner.n > 0 || copies.n != 2 ||
            op_at(copies.at[0])->shared == op_at(copies.at[1])->shared) {
            close_kernel(&k);
            continue;
        }
        TirOp *second = tir_for(&b, loop->args[0], loop->args[1], 0, NULL);
        b.block = second->blocks[0];
        b.at = -1;
        TirOp *moved = op_at(copies.at[1]);
        remove_op(copies.at[1]);
        for (uint32_t a = 0; a < moved->n_args; a++) /* where it lies does not matter here */
            moved->args[a] = loop->args[0];
        vec_push(&k.arena, &second->blocks[0]->ops, moved);
        tir_yield(&b, 0, NULL);
        k.fn->plan->wants = NULL;
        expect(&k, &recipes[r], "pipeline after pipeline", moved, "for ever");
        close_kernel(&k);
    }
    expect_none_missed();
}

/* What consumers exchange has two stages or a barrier more, and is written before it is read. */
static void
exchanges_are_checked(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < RECIPES; r++) {
        Kernel k;
        open_kernel(&k, &recipes[r]);
        Sites writes = sites_of(&k, TIR_SHARED_WRITE),
              barriers = sites_of(&k, TIR_CONSUMER_BARRIER);
        for (uint32_t i = 0; i < writes.n; i++) {
            TirOp *op = op_at(writes.at[i]);
            if (op->shared->kind != SHARED_PARTS)
                continue;
            bool one = op->shared->stages == 1; /* with a barrier before what is written again */
            for (uint32_t j = 0; one && j < barriers.n; j++) {
                if (barriers.at[j].block != writes.at[i].block)
                    continue;
                TirOp *barrier = op_at(barriers.at[j]);
                remove_op(barriers.at[j]);
                expect(&k, &recipes[r], "no barrier", op, "without a barrier");
                insert_op(&k, barriers.at[j], barrier);
            }
            if (one)
                continue;
            op->shared->stages = 1;
            expect(&k, &recipes[r], "one stage", op, "without a barrier");
            op->shared->stages = 2;
            remove_op(writes.at[i]);
            expect(&k, &recipes[r], "not written", NULL, "before anything");
            insert_op(&k, writes.at[i], op);
            insert_op(&k, writes.at[i], op); /* back to the stage that is still being read */
            expect(&k, &recipes[r], "written twice", op, "");
            remove_op(writes.at[i]);
            for (uint32_t j = 0; j < barriers.n; j++) { /* written behind the barrier */
                if (barriers.at[j].block != writes.at[i].block)
                    continue;
                TirOp *barrier = op_at(barriers.at[j]);
                remove_op(barriers.at[j]);
                insert_op(&k, writes.at[i], barrier);
                expect(&k, &recipes[r], "barrier first", op, "without a barrier");
                remove_op(writes.at[i]);
                insert_op(&k, barriers.at[j], barrier);
            }
        }
        assert_string_equal(check(&k), "");
        close_kernel(&k);
    }
    expect_none_missed();
}

/* What leaves over a stage is written when no product reads that any more, once, and the stage is
 * not given back in the same tile. */
static void
results_over_stages_are_checked(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < RECIPES; r++) {
        Kernel k;
        open_kernel(&k, &recipes[r]);
        Sites stores = sites_of(&k, TIR_TMA_STORE), releases = sites_of(&k, TIR_CONSUMER_RELEASE);
        for (uint32_t i = 0; i < stores.n; i++) {
            TirOp *op = op_at(stores.at[i]);
            if (op->shared->over == NULL)
                continue;
            TirShared *pipeline = k.fn->shared.at[op->shared->over->id];
            insert_op(&k, stores.at[i], op);
            expect(&k, &recipes[r], "stored twice", op, "while results leave");
            remove_op(stores.at[i]);
            pipeline->held = 0;
            expect(&k, &recipes[r], "does not stay", op, "was not waited for");
            pipeline->held = 1;
            for (uint32_t j = 0; j < releases.n; j++) {
                Site under = releases.at[j], behind = {under.block, under.at + 1};
                if (op_at(under)->shared != pipeline || op_at(behind)->op != TIR_MMA_WAIT)
                    continue;
                insert_op(&k, under, op);
                expect(&k, &recipes[r], "under a product", op, "may still run");
                remove_op(under);
                behind.at++;
                insert_op(&k, behind, op);
                expect(&k, &recipes[r], "in front of the loop", op, "after results were written");
                remove_op(behind);
            }
        }
        assert_string_equal(check(&k), "");
        close_kernel(&k);
    }
    expect_none_missed();
}

/* The result that an iteration began with, asked for when the next one's has ended, which would
 * have had its registers: it gets others (acc_classes.c), and nothing is wrong. */
static void
late_uses_have_registers_of_their_own(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < RECIPES; r++) {
        Kernel k;
        open_kernel(&k, &recipes[r]);
        Sites loops = sites_of(&k, TIR_FOR), waits = sites_of(&k, TIR_MMA_WAIT);
        for (uint32_t i = 0; i < loops.n; i++) {
            TirBlock *body = op_at(loops.at[i])->blocks[0];
            const TirOp *yield = body->ops.at[body->ops.n - 1];
            for (uint32_t j = 0; j < yield->n_args; j++) {
                const TirOp *next = yield->args[j]->def;
                Site end = {body, body->ops.n - 1};
                if (next == NULL || next->parent != body || next->op != TIR_MMA ||
                    next->args[2]->def == NULL || next->args[2]->def->op != TIR_CONST ||
                    never_runs(&k, end))
                    continue;
                TirOp *late = arena_copy(&k.arena, op_at(waits.at[0]), sizeof *late);
                late->parent = body;
                late->integer = 0;
                late->n_args = 1;
                late->args = &body->params.at[j + 1];
                insert_op(&k, end, late);
                assert_string_equal(check(&k), "");
                planted++;
                remove_op(end);
            }
        }
        assert_string_equal(check(&k), "");
        close_kernel(&k);
    }
    expect_none_missed();
}

static void
warps_must_stay_together(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < RECIPES; r++) {
        Kernel k;
        open_kernel(&k, &recipes[r]);
        Sites branches = sites_of(&k, TIR_IF);
        for (uint32_t i = 0; i < branches.n; i++) {
            TirOp *op = op_at(branches.at[i]);
            Sites products = {0};
            find_sites(&k.arena, op->blocks[0], TIR_MMA, &products);
            if (op->by_rows || products.n == 0)
                continue;
            op->by_rows = true;
            expect(&k, &recipes[r], "by rows", op, "may part");
            op->by_rows = false;
        }
        close_kernel(&k);
    }
    expect_none_missed();
}

/* Roles that are no valid tile IR, which only a bug in the pass makes: an error, so that the kernel
 * can go another way. */
static void
invalid_roles_are_an_error(void **state)
{
    (void)state;
    for (uint32_t may_fail = 0; may_fail < 2; may_fail++) {
        Kernel k;
        open_kernel(&k, &recipes[0]);
        PassRun run = {.bugs = &k.bugs, .verify = may_fail == 0, .roles_may_fail = may_fail == 1};
        assert_true(passes_run_list(&k.px, k.fn, &run, "roles"));
        Site site = sites_of(&k, TIR_MMA).at[0];
        TirOp *op = op_at(site);
        remove_op(site);
        vec_push(&k.arena, &site.block->ops, op); /* behind all that reads it, and the yield */
        assert_false(passes_run_list(&k.px, k.fn, &run, "roles"));
        assert_int_equal(k.diag.errors, may_fail);
        assert_int_equal(k.bugs.n > 0, may_fail == 0);
        close_kernel(&k);
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_pass),
        cmocka_unit_test_setup(dropped_operations_are_found, begin_test),
        cmocka_unit_test_setup(doubled_operations_are_found, begin_test),
        cmocka_unit_test_setup(waits_for_too_few_products_are_found, begin_test),
        cmocka_unit_test_setup(early_releases_are_found, begin_test),
        cmocka_unit_test_setup(early_uses_are_found, begin_test),
        cmocka_unit_test_setup(wrong_contents_are_found, begin_test),
        cmocka_unit_test_setup(copies_of_the_first_tile_are_found, begin_test),
        cmocka_unit_test_setup(a_missing_last_stage_is_found, begin_test),
        cmocka_unit_test_setup(too_few_stages_are_found, begin_test),
        cmocka_unit_test_setup(exchanges_are_checked, begin_test),
        cmocka_unit_test_setup(results_over_stages_are_checked, begin_test),
        cmocka_unit_test_setup(late_uses_have_registers_of_their_own, begin_test),
        cmocka_unit_test_setup(warps_must_stay_together, begin_test),
        cmocka_unit_test(read_stages_without_a_copy_are_found),
        cmocka_unit_test(invalid_roles_are_an_error),
    };

    folder = argc > 1 ? argv[1] : "examples";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
