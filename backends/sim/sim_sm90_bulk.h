/* sim_sm90_bulk.h - what linear and tensor bulk copies share. */
#ifndef TILEC_SIM_SM90_BULK_H
#define TILEC_SIM_SM90_BULK_H

#include "sim_sm90.h"
#include "sim_tensormap.h"

typedef enum Sm90Reduce {
    SM90_COPY,
    SM90_ADD,
    SM90_MIN,
    SM90_MAX,
    SM90_INC,
    SM90_DEC,
    SM90_AND,
    SM90_OR,
    SM90_XOR
} Sm90Reduce;

typedef enum Sm90Direction { SM90_LOAD, SM90_STORE, SM90_TO_CLUSTER } Sm90Direction;

/* What decoding keeps of one instruction (SimInsn.data). */
typedef struct Sm90BulkForm {
    Sm90Direction direction;
    SimSpace to_space;
    bool tensor, multicast, has_mask;
    bool four_rows; /* .tile::gather4, .tile::scatter4 */
    uint8_t im2col; /* SimIm2col: .im2col, .im2col_no_offs, .im2col::w, .im2col::w::128 */
    uint8_t offsets;
    SimSlot offset[3];
    uint8_t dims; /* of a tensor copy */
    uint8_t coordinates;
    uint8_t cta_group; /* 0 if not given */
    Sm90Reduce reduce;
    SimType type;                   /* of a linear reduction */
    Sm90Address to, from, mbarrier; /* `from`/`to`: the map of a tensor copy */
    SimSlot size, coordinate[5], cta_mask, byte_mask;
} Sm90BulkForm;

/* One copy in flight.  `data` holds the bytes in order of the box. */
typedef struct Sm90Copy {
    const Sm90BulkForm *form;
    SimCta *cta; /* of the shared side that is written, or of the only one */
    uint32_t offset, bytes;
    uint32_t row_bytes, pitch; /* of a tensor copy in shared memory */
    SimCta *from_cta;          /* SM90_TO_CLUSTER */
    uint32_t from_offset;
    SimCta *mbarrier_cta;
    uint32_t mbarrier;
    SimAllocation *global;
    uint64_t address;   /* of a linear copy */
    uint32_t byte_mask; /* .cp_mask: which of each 16 bytes are written */
    SimTensorMap map;
    int32_t coordinate[5], pixel_offset[3];
    SimRun *run;
    SimOp *reader; /* of a store: the op that fills `data` */
    uint8_t data[];
} Sm90Copy;

/* Combines one element in global or shared memory with an operand. */
void sim_sm90_reduce(SimRun *run, const SimAllocation *global, uint8_t *at, const uint8_t *operand,
                     uint32_t bytes, uint64_t address, Sm90Reduce op, SimType type);

void sim_sm90_land_load(SimCluster *cluster, SimOp *op);
void sim_sm90_land_store(SimCluster *cluster, SimOp *op);
/* Notes that the op of a store will write these bytes. */
bool sim_sm90_note_global(SimWarp *warp, uint32_t lane, const Sm90BulkForm *form, SimOp *writer,
                          const SimMemory *memory, uint32_t bytes);

/* The tensor parts, in sim_sm90_tensor.c. */
/* Checks every row of the box, and notes what is read or written. */
bool sim_sm90_box_check(SimWarp *warp, uint32_t lane, Sm90Copy *copy, SimOp *writer);
void sim_sm90_box_read(Sm90Copy *copy);  /* global to data */
void sim_sm90_box_write(Sm90Copy *copy); /* data to global, or combined with it */
uint32_t sim_sm90_box_bytes(const Sm90BulkForm *form, const SimTensorMap *map, uint32_t halo);
/* How rows of the box lie in shared memory; false where that is not known. */
bool sim_sm90_box_rows(SimWarp *warp, Sm90Copy *copy);
uint32_t sim_sm90_box_span(const Sm90Copy *copy); /* bytes from the first to behind the last */
/* The offset in shared memory of byte `at` of the box. */
uint32_t sim_sm90_box_place(const Sm90Copy *copy, uint32_t at);
uint32_t sim_sm90_swizzle(uint32_t swizzle, uint32_t offset); /* an offset in shared memory */
/* Notes the bytes of the box as read or written by the op. */
void sim_sm90_box_note(SimWarp *warp, SimOp *op, const Sm90Copy *copy, bool write);
SimType sim_sm90_map_type(uint32_t type);

bool sim_sm90_decode_bulk_form(SimDecode *dx, bool tensor, bool reduce);

#endif
