/* sim_sm90_tensor.c - the boxes of tensor copies in the tile modes (PTX ISA 5.5.3, 5.5.5, 5.5.6).
 *
 * A box in shared memory is row-major, innermost dimension first, without padding; the swizzle then
 * exchanges 16-byte pieces by bits of the shared address itself.  Elements outside of the tensor
 * are filled on loads, and left alone on stores.
 */
#include "sim_sm90_bulk.h"

#include "sim_exec.h"

/* Swizzles as XOR of address bits (5.5.6): which bits from 4 up are changed, by those from 7 up.
 * Shared memory starts at a multiple of 1024, so an offset serves as the address. */
uint32_t
sim_sm90_swizzle(uint32_t swizzle, uint32_t offset)
{
    switch (swizzle) {
    case 1: return offset ^ (offset >> 3 & 0x10);
    case 2: return offset ^ (offset >> 3 & 0x30);
    case 3: return offset ^ (offset >> 3 & 0x70);
    case 4: return offset ^ (offset >> 2 & 0x60); /* 128B with atoms of 32 bytes */
    default: return offset;
    }
}

SimType
sim_sm90_map_type(uint32_t type) /* of CUtensorMapDataType */
{
    static const SimType types[] = {SIM_U8,  SIM_U16, SIM_U32,  SIM_S32, SIM_U64,  SIM_S64, SIM_F16,
                                    SIM_F32, SIM_F64, SIM_BF16, SIM_F32, SIM_TF32, SIM_TF32};
    return type < sizeof types / sizeof *types ? types[type] : SIM_NO_TYPE;
}

/* Elements of the box along a dimension: with an element stride every n-th is taken.  The stride of
 * the innermost dimension does not count without interleaving (driver API). */
static uint32_t
extent(const SimTensorMap *map, uint32_t i)
{
    uint32_t step = i ? map->element_stride[i] : 1;
    return (map->box[i] + step - 1) / step;
}

uint32_t
sim_sm90_box_bytes(const Sm90BulkForm *form, const SimTensorMap *map)
{
    SimTensorUnit unit = sim_tensor_map_unit(map->type);
    uint32_t bytes = extent(map, 0) / unit.elements * unit.shared_bytes;
    if (form->four_rows)
        return bytes * 4;
    if (map->im2col)
        return bytes * map->box[1];
    for (uint32_t i = 1; i < map->rank; i++)
        bytes *= extent(map, i);
    return bytes;
}

/* Calls `row` for each row of the box: at `at` in the box, its elements [from, from + count), or units of a
 * packed type, lie at `address`; count 0: all of it is outside. */
typedef bool (*RowFn)(void *context, Sm90Copy *c, uint32_t at, uint32_t from, uint32_t count,
                      uint64_t address);

/* The same for the pixels of an im2col copy (5.5.4): from the one that the coordinates name on through
 * the box of pixels, the first dimension first and the batch last; each lies `offset` further. */
static bool
each_pixel(Sm90Copy *c, RowFn row, void *context)
{
    const SimTensorMap *map = &c->map;
    uint32_t element = sim_tensor_map_element_bytes(map->type), n = extent(map, 0),
             last = map->rank - 1;
    int64_t at[5], low = c->coordinate[0], high = low + n;
    int64_t first = low < 0 ? 0 : low, size = (int64_t)map->size[0],
            end = high < size ? high : size;
    for (uint32_t i = 1; i < map->rank; i++)
        at[i] = c->coordinate[i];
    for (uint32_t p = 0; p < map->box[1]; p++) {
        bool inside = end > first;
        uint64_t address = map->address + (uint64_t)(inside ? first : 0) * element;
        for (uint32_t i = 1; i < map->rank; i++) {
            int64_t x = at[i] + (i < last ? c->pixel_offset[i - 1] : 0);
            inside &= x >= 0 && x < (int64_t)map->size[i];
            address += (uint64_t)x * map->stride[i - 1];
        }
        if (!row(context, c, p * n * element, inside ? (uint32_t)(first - low) : 0,
                 inside ? (uint32_t)(end - first) : 0, address))
            return false;
        uint32_t i = 1;
        for (; i < last; i++) {
            at[i] += map->element_stride[i];
            if (at[i] <= (int64_t)map->size[i] - 1 + map->upper[i - 1])
                break;
            at[i] = map->lower[i - 1];
        }
        at[last] += i == last;
    }
    return true;
}

static bool
each_row(Sm90Copy *c, RowFn row, void *context)
{
    if (c->map.im2col)
        return each_pixel(c, row, context);
    const SimTensorMap *map = &c->map;
    SimTensorUnit unit = sim_tensor_map_unit(map->type);
    uint32_t n[5], index[5] = {0}, rows = 1;
    for (uint32_t i = 0; i < 5; i++) {
        n[i] = i < map->rank ? extent(map, i) : 1;
        if (i == 1 && c->form->four_rows)
            n[i] = 4;
        rows *= i ? n[i] : 1;
    }
    n[0] /= unit.elements;
    int64_t low = c->coordinate[0] / unit.elements, high = low + n[0];
    int64_t size = (int64_t)map->size[0] / unit.elements, first = low < 0 ? 0 : low;
    int64_t end = high < size ? high : size;
    for (uint32_t r = 0; r < rows; r++) {
        bool inside = end > first;
        uint64_t address = map->address + (uint64_t)(inside ? first : 0) * unit.global_bytes;
        for (uint32_t i = 1; i < map->rank; i++) {
            int64_t x = c->form->four_rows /* each row has its own (5.5.3.4) */
                            ? (int64_t)c->coordinate[1 + index[1]]
                            : (int64_t)c->coordinate[i] +
                                  (int64_t)index[i] * map->element_stride[i];
            inside &= x >= 0 && x < (int64_t)map->size[i];
            address += (uint64_t)x * map->stride[i - 1];
        }
        if (!row(context, c, r * n[0] * unit.shared_bytes, inside ? (uint32_t)(first - low) : 0,
                 inside ? (uint32_t)(end - first) : 0, address))
            return false;
        for (uint32_t i = 1; i < map->rank && ++index[i] == n[i]; i++)
            index[i] = 0;
    }
    return true;
}

typedef struct Check {
    SimWarp *warp;
    uint32_t lane;
    SimOp *writer;
    bool some; /* of the box lies inside */
} Check;

static bool
check_row(void *context, Sm90Copy *c, uint32_t at, uint32_t from, uint32_t count, uint64_t address)
{
    Check *check = context;
    uint32_t bytes = count * sim_tensor_map_unit(c->map.type).global_bytes;
    SimMemory m;
    (void)at, (void)from;
    if (!count)
        return true;
    check->some = true;
    if (!sim_memory_find(check->warp, check->lane, SIM_GLOBAL, address, bytes, 1, &m) ||
        !sim_sm90_note_global(check->warp, check->lane, c->form, check->writer, &m, bytes))
        return false;
    c->global = m.in; /* a map may begin outside of what lies inside of its sizes and is read */
    return true;
}

/* Where the box may begin: "the address of the bounding box must be aligned to 16 bytes" (5.5.3.1), and
 * as the tensor and its strides are, that is the innermost coordinate.  An H200 stops with "illegal
 * instruction" otherwise.  Coordinates of stores are not negative (9.7.9.25.5.1). */
static void
check_coordinates(SimWarp *warp, uint32_t lane, const Sm90Copy *copy)
{
    SimTensorUnit unit = sim_tensor_map_unit(copy->map.type);
    int64_t begin = (int64_t)copy->coordinate[0] / unit.elements * unit.global_bytes;
    if (copy->coordinate[0] % unit.step)
        sim_find(warp, SIM_FIND_MISALIGNED, (int32_t)lane, copy->map.address, NULL,
                 "the innermost coordinate %d of a map of this packed type must be a multiple of %u",
                 copy->coordinate[0], unit.step);
    if (begin % 16)
        sim_find(warp, SIM_FIND_MISALIGNED, (int32_t)lane, copy->map.address, NULL,
                 "the innermost coordinate %d is byte %lld of its row; a box begins at a multiple "
                 "of 16 (hardware stops with \"illegal instruction\")",
                 copy->coordinate[0], (long long)begin);
    if (copy->form->im2col != (copy->map.im2col != 0))
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, copy->map.address, NULL,
                 "the copy is %sof an im2col mode, and the map is %s",
                 copy->form->im2col ? "" : "not ", copy->map.im2col ? "one for it" : "none for it");
    for (uint32_t i = 0; copy->form->direction == SM90_STORE && i < copy->form->coordinates; i++)
        if (copy->coordinate[i] < 0)
            sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, copy->map.address, NULL,
                     "coordinate %u of a store is %d; it must not be negative", i,
                     copy->coordinate[i]);
}

bool
sim_sm90_box_check(SimWarp *warp, uint32_t lane, Sm90Copy *copy, SimOp *writer)
{
    Check check = {warp, lane, writer, false};
    SimMemory first;
    SimTensorUnit unit = sim_tensor_map_unit(copy->map.type);

    if (unit.elements > 1 && copy->form->direction == SM90_STORE &&
        (unit.shared_bytes != unit.global_bytes || copy->form->reduce != SM90_COPY)) {
        sim_fail(warp,
                 "stores of padded packed types, and reductions of packed ones, are not supported");
        return false;
    }

    check_coordinates(warp, lane, copy);
    if (!each_row(copy, check_row, &check))
        return false;
    /* A load of nothing asks for the first address of the map: where none of the box lies inside, an H200 stops with
     * CUDA_ERROR_ILLEGAL_ADDRESS if that one is not mapped (docs/simulator.md).  A store of nothing does not. */
    return check.some || copy->form->direction == SM90_STORE ||
           sim_memory_find(warp, lane, SIM_GLOBAL, copy->map.address, 1, 1, &first);
}

static bool
read_row(void *context, Sm90Copy *c, uint32_t at, uint32_t from, uint32_t count, uint64_t address)
{
    SimTensorUnit unit = sim_tensor_map_unit(c->map.type);
    uint8_t *to = c->data + at + from * unit.shared_bytes;
    const uint8_t *data = count ? c->global->data + (address - c->global->address) : NULL;
    (void)context;
    if (unit.shared_bytes == unit.global_bytes && count)
        memcpy(to, data, (size_t)count * unit.global_bytes);
    for (uint32_t i = 0; unit.shared_bytes != unit.global_bytes && i < count; i++)
        memcpy(to + i * unit.shared_bytes, data + i * unit.global_bytes, unit.global_bytes);
    return true;
}

/* The fill is zeros, or NaN where the map asks for it (5.5.5): the text does not say which one; an
 * H200 writes 7FF7 over and over, whatever the type. */
void
sim_sm90_box_read(Sm90Copy *c)
{
    memset(c->data, 0, c->bytes);
    if (c->map.fill) {
        uint32_t element = sim_tensor_map_element_bytes(c->map.type);
        uint64_t nan = UINT64_C(0x7ff77ff77ff77ff7);
        for (uint32_t i = 0; i < c->bytes; i += element)
            memcpy(c->data + i, &nan, element);
    }
    each_row(c, read_row, NULL);
}

static bool
write_row(void *context, Sm90Copy *c, uint32_t at, uint32_t from, uint32_t count, uint64_t address)
{
    uint32_t element = sim_tensor_map_unit(c->map.type).global_bytes, bytes = count * element;
    uint64_t offset = address - c->global->address;
    (void)context;
    if (!count)
        return true;
    if (c->form->reduce != SM90_COPY)
        sim_sm90_reduce(c->run, c->global, c->global->data + offset, c->data + at + from * element,
                        bytes, address, c->form->reduce, sim_sm90_map_type(c->map.type));
    else
        memcpy(c->global->data + offset, c->data + at + from * element, bytes);
    if (c->global->init)
        memset(c->global->init + offset, 1, bytes);
    return true;
}

void
sim_sm90_box_write(Sm90Copy *c)
{
    each_row(c, write_row, NULL);
}
