/* sim_sm100.h - what the families of sm_100 share: tensor memory, its ops, and their order.
 *
 * A block has a tensor memory of 128 lanes by 512 columns of 32 bits (PTX ISA 9.7.16.1).  Every
 * access is an asynchronous op (9.7.16.6.1): a SimOp whose `tracked` points to a TensorOp.  Cells
 * of 16 lanes by one column remember the op that wrote them last and the ops that read them since;
 * a new op that conflicts with an earlier one must be ordered after it by the rules of 9.7.16.6.
 */
#ifndef TILEC_SIM_SM100_H
#define TILEC_SIM_SM100_H

#include "sim_async.h"
#include "sim_decode.h"
#include "sim_shadow.h"

enum {
    TENSOR_LANES = 128,
    TENSOR_COLUMNS = 512,
    TENSOR_STRIP = 16, /* lanes of a cell */
    TENSOR_STRIPS = TENSOR_LANES / TENSOR_STRIP,
    TENSOR_UNIT = 32 /* columns: the unit of allocation (9.7.16.7.1) */
};

typedef enum TensorKind { TENSOR_MMA, TENSOR_CP, TENSOR_LD, TENSOR_ST } TensorKind;

/* What the order rules need of an op.  It outlives the op's payload. */
typedef struct TensorOp {
    TensorKind kind;
    uint8_t group;       /* cta_group, 0 for ld and st */
    uint8_t lane;        /* of the thread that issued it */
    uint32_t d, m, n, k; /* mma: accumulator and shape, n in columns of tensor memory */
    uint32_t issued;     /* the issuer's clock */
    uint32_t fenced;     /* its clock at a tcgen05.fence::before_thread_sync after it, 0 if none */
    /* ld: its clock when an instruction first touched its registers, 0 if none */
    uint32_t used;
    /* mma: columns of tensor memory that it reads, but for D: A, scales, metadata */
    uint32_t reads[4], read_columns[4];
} TensorOp;

typedef struct TensorCell {
    uint32_t writer;  /* id + 1 of the op that wrote it last */
    uint16_t written; /* lanes of that write */
    uint16_t initialised;
} TensorCell;

typedef struct TensorAllocation {
    uint32_t base, columns; /* columns 0: none */
    const SimInsn *insn;
    int32_t warp;
    bool collective; /* cta_group::2 */
} TensorAllocation;

/* Of a block (SimCta.ext). */
typedef struct TensorMemory {
    SimCta *cta;
    uint32_t data[TENSOR_LANES][TENSOR_COLUMNS];
    TensorCell cell[TENSOR_STRIPS][TENSOR_COLUMNS];
    uint32_t **read; /* by agent, then cell: id + 1 of its last op that read the cell */
    TensorAllocation allocation[TENSOR_COLUMNS / TENSOR_UNIT]; /* by first column */
    uint32_t allocated;                                        /* units, a bit each */
    uint32_t smallest;              /* columns of the last allocation: none may be larger */
    uint32_t asking;                /* columns that a warp waits for with its peer, 0 none */
    uint32_t granted, granted_base; /* how often such a pair was served, and where last */
    const SimInsn *relinquished;
    bool cancel_failed; /* a clusterlaunchcontrol request was seen to fail */
} TensorMemory;

TensorMemory *tensor_memory(SimCta *cta); /* NULL when out of memory */

/* Of a warp (SimWarp.ext): what it has issued. */
typedef struct TensorList {
    SimOp **op;
    size_t count, capacity;
} TensorList;

typedef struct TensorWarp {
    TensorList issued[SIM_LANES];     /* mma, cp: by thread */
    struct Commit *commit[SIM_LANES]; /* the last one, by thread */
    TensorList loads, stores;         /* not waited for yet */
    const SimFrame *frame;            /* whose registers loads are watched */
    uint32_t *load_of;                /* by row of them: id + 1 of the ld not touched yet, 0 none */
    bool fenced;                      /* a fence::before_thread_sync came after the last op */
    uint32_t *after;                  /* the clocks at the last tcgen05.fence::after_thread_sync */
} TensorWarp;

TensorWarp *tensor_warp(SimWarp *warp);
bool tensor_list_add(TensorList *list, SimOp *op);

/* A new op with its TensorOp in op->tracked. */
SimOp *tensor_op_new(SimWarp *warp, size_t payload, TensorKind kind, uint32_t lane, uint32_t group);
static inline TensorOp *
tensor_op(const SimOp *op)
{
    return op->tracked;
}

/* Checks that `columns` columns from the address on are allocated; reports it if not. */
bool tensor_in_bounds(SimWarp *warp, int32_t lane, SimCta *cta, uint32_t address, uint32_t columns);

/* Notes that the op reads or writes lanes (a bit each, of one strip) and columns: checks order
 * against earlier ops, and reads for being initialised. */
void tensor_note(SimWarp *warp, SimOp *op, SimCta *cta, uint32_t strip, uint16_t lanes,
                 uint32_t column, uint32_t columns, bool write);
/* The same for deallocation. */
void tensor_note_free(SimWarp *warp, SimCta *cta, uint32_t column, uint32_t columns);

/* Completes the earlier ops of the same thread that the pipelines put before this one. */
void tensor_finish_before(SimCluster *cluster, SimOp *op);

/* Has the warp a fence after its last synchronisation?  tcgen05.fence (9.7.16.11.1). */
void tensor_fence_before(SimWarp *warp, uint32_t mask);

/* Common decoding: .cta_group::N (0 on failure), which must be the same in all of a function; the
 * address of a tensor memory operand. */
uint32_t tensor_take_group(SimDecode *dx);

typedef struct TensorAddress {
    uint8_t slot;
    bool wide;
    int64_t offset;
} TensorAddress;

bool tensor_decode_address(SimDecode *dx, const PtxOperand *operand, TensorAddress *address);
uint32_t tensor_address(const SimWarp *warp, const SimInsn *insn, const TensorAddress *address,
                        uint32_t lane);

/* The block of an op's pair with this half (0 even, 1 odd), or for cta_group::1 its own. */
SimCta *tensor_pair(SimCta *cta, uint32_t group, uint32_t half);

/* Before an instruction of a warp with SimWarp.unread_loads. */
void sim_sm100_watch(SimWarp *warp, const SimInsn *insn);

/* ---- matrices in shared memory (9.7.16.4.1, 9.7.16.10.6) */

typedef struct SharedMatrix {
    uint32_t start, leading, stride; /* bytes */
    uint8_t mode;                    /* swizzle, as in the descriptor */
    bool transposed;                 /* MN-major */
} SharedMatrix;

/* Decodes a descriptor; reports reserved bits and the like for the lane and returns false. */
bool tensor_descriptor(SimWarp *warp, int32_t lane, uint64_t bits, SharedMatrix *matrix);

/* Offset in shared memory of the 16-byte chunk that holds byte `at` of the row: K-major rows are
 * along M or N and bytes along k, MN-major rows are along k and bytes along M or N. */
uint32_t tensor_chunk(const SharedMatrix *matrix, uint32_t row, uint32_t at);
/* How many chunks from this one on, of a row's `end` bytes, fill an aligned part of shared memory,
 * in whatever order a swizzle has them; *part is its offset. */
uint32_t tensor_chunks_together(const SharedMatrix *matrix, uint32_t row, uint32_t at, uint32_t end,
                                uint32_t *part);

/* ---- tcgen05.mma */

typedef enum MmaKind {
    KIND_F16,
    KIND_TF32,
    KIND_F8F6F4,
    KIND_I8,
    KIND_MXF8F6F4,
    KIND_MXF4,
    KIND_MXF4NVF4
} MmaKind;

typedef struct MmaForm { /* SimInsn.data */
    MmaKind kind;
    uint8_t group;
    bool ws, a_in_tensor_memory, negated; /* the predicate enable-input-d */
    bool sparse;
    uint8_t scale_vector; /* scales a row has, 0 without .block_scale */
    uint8_t scale_d;      /* D is divided by 2 to this */
    uint8_t a_slot, b_slot, idesc_slot, mask_slot, mask_count, enable_slot, zero_slot;
    bool has_zero_mask;
    TensorAddress d, a, scale_a, scale_b, metadata;
} MmaForm;

typedef struct MmaShape { /* what an instruction descriptor says (9.7.16.4.2) */
    uint32_t m, n, k;
    uint32_t stored;  /* columns of A: of a sparse one half of k */
    uint8_t selector; /* of the metadata of a sparse A */
    SimType a, b, d;
    bool negate_a, negate_b, transpose_a, transpose_b, saturate;
    bool scale_ue4m3;
    uint8_t scale_a_id, scale_b_id;
} MmaShape;

typedef struct Product { /* payload of an mma */
    const MmaForm *form;
    MmaShape shape;
    SharedMatrix a, b;
    uint32_t d_address, a_address, scale_a, scale_b, metadata;
    uint32_t parts; /* pieces of N that lie below each other in tensor memory */
    uint32_t disabled[8];
    bool enable_d;
    uint32_t *a_value, *b_value; /* m by k and k by n: floats, or ints for kind::i8 */
    uint32_t *a_stored;          /* m by shape.stored; a_value itself without sparsity */
    uint32_t room[];
} Product;

/* Rows of D in a block's tensor memory: lane of part 0, and how far below it the next part is. */
uint32_t tensor_row_lane(const Product *product, uint32_t row);
uint32_t tensor_part_lanes(const Product *product);
uint32_t tensor_metadata_columns(const Product *product);
void tensor_product_fetch(SimCluster *cluster, SimOp *op);
void tensor_product_land(SimCluster *cluster, SimOp *op);
/* Bytes of an element's container in shared memory; of packed 4-bit ones a row of k takes 32. */
uint32_t tensor_element_bytes(MmaKind kind);
/* Of the 16 bytes of a chunk, the first that hold data: behind 16 elements of 4 or 6 bits lies
 * padding, which nobody reads (9.7.16.10.4.4). */
uint32_t tensor_chunk_bytes(MmaKind kind, SimType type);

/* ---- decoders */
bool sim_decode_tcgen05_alloc(SimDecode *dx);
bool sim_decode_tcgen05_dealloc(SimDecode *dx);
bool sim_decode_tcgen05_relinquish(SimDecode *dx);
bool sim_decode_tcgen05_fence_before(SimDecode *dx);
bool sim_decode_tcgen05_fence_after(SimDecode *dx);
bool sim_decode_tcgen05_ld(SimDecode *dx);
bool sim_decode_tcgen05_ld_red(SimDecode *dx);
bool sim_decode_tcgen05_st(SimDecode *dx);
bool sim_decode_tcgen05_wait_ld(SimDecode *dx);
bool sim_decode_tcgen05_wait_st(SimDecode *dx);
bool sim_decode_tcgen05_mma(SimDecode *dx);
bool sim_decode_tcgen05_cp(SimDecode *dx);
bool sim_decode_tcgen05_commit(SimDecode *dx);
bool sim_decode_tcgen05_unsupported(SimDecode *dx);
bool sim_decode_clc_try_cancel(SimDecode *dx);
bool sim_decode_clc_query(SimDecode *dx);

#endif
