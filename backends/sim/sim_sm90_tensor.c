/* sim_sm90_tensor.c - the boxes of tensor copies in the tile modes (PTX ISA 5.5.3, 5.5.5, 5.5.6).
 *
 * A box in shared memory is row-major, innermost dimension first, without padding; the swizzle then
 * exchanges 16-byte pieces by bits of the shared address itself.  Elements outside of the tensor
 * are filled on loads, and left alone on stores.
 */
#include "sim_sm90_bulk.h"

#include "sim_exec.h"
#include "sim_number.h"

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

/* Rows of a box under a swizzle of 128 bytes are 128 bytes apart, whatever it holds of them: row r
 * and piece c are at 128 r + 16 (c ^ r % 8) on an H200.  The text says nothing of a box that is
 * narrower than its swizzle, and of the other swizzles nothing was measured. */
bool
sim_sm90_box_rows(SimWarp *warp, Sm90Copy *c)
{
    static const uint32_t spans[] = {0, 32, 64, 128, 128, 128, 128};
    SimTensorUnit unit = sim_tensor_map_unit(c->map.type);
    uint32_t span = c->map.swizzle < sizeof spans / sizeof *spans ? spans[c->map.swizzle] : 0;
    c->row_bytes = extent(&c->map, 0) / unit.elements * unit.shared_bytes;
    c->row_bytes += c->row_bytes == 0; /* a packed box of less than a unit: nothing is copied */
    c->pitch = span ? span : c->row_bytes;
    if (c->row_bytes == c->pitch || c->map.swizzle == 3 || c->bytes <= c->row_bytes)
        return true;
    sim_fail(warp,
             "a box with rows of %u bytes under a swizzle of %u is not supported: the PTX ISA does "
             "not say how its rows lie",
             c->row_bytes, span);
    return false;
}

uint32_t
sim_sm90_box_span(const Sm90Copy *c)
{
    return c->bytes / c->row_bytes * c->pitch;
}

uint32_t
sim_sm90_box_place(const Sm90Copy *c, uint32_t at)
{
    return sim_sm90_swizzle(c->map.swizzle,
                            c->offset + at / c->row_bytes * c->pitch + at % c->row_bytes);
}

void
sim_sm90_box_note(SimWarp *warp, SimOp *op, const Sm90Copy *c, bool write)
{
    bool whole = c->row_bytes == c->pitch; /* then a swizzle moves bytes inside of the box */
    uint32_t piece = whole ? c->bytes : 16;
    for (uint32_t at = 0; at < c->bytes; at += piece) {
        uint32_t offset = whole ? c->offset : sim_sm90_box_place(c, at);
        if (write)
            sim_shadow_async_write(warp, op, c->cta, offset, piece, true);
        else
            sim_shadow_async_read(warp, op, c->cta, offset, piece, true);
    }
}

/* Pixels of an im2col copy without its halo (5.5.5.1). */
static uint32_t
pixels_of(const SimTensorMap *map)
{
    return map->im2col == SIM_IM2COL_W128 ? 128 : map->box[1];
}

uint32_t
sim_sm90_box_bytes(const Sm90BulkForm *form, const SimTensorMap *map, uint32_t halo)
{
    SimTensorUnit unit = sim_tensor_map_unit(map->type);
    uint32_t bytes = extent(map, 0) / unit.elements * unit.shared_bytes;
    if (form->four_rows)
        return bytes * 4;
    if (map->im2col)
        return bytes * (pixels_of(map) + halo);
    for (uint32_t i = 1; i < map->rank; i++)
        bytes *= extent(map, i);
    return bytes;
}

/* Calls `row` for each row of the box: at `at` in the box, its elements [from, from + count), or
 * units of a packed type, lie at `address`; count 0: all of it is outside. */
typedef bool (*RowFn)(void *context, Sm90Copy *c, uint32_t at, uint32_t from, uint32_t count,
                      uint64_t address);

/* The modes im2col::w (5.5.5): from W on to the upper corner, then from the lower one in the next
 * image, in one H and one D; wHalo more pixels follow the last one.  The offset moves corners and
 * W. */
typedef struct Wide {
    int64_t low, high, first;
    uint32_t pixels, halo;
} Wide;

static Wide
wide_of(const Sm90Copy *c)
{
    const SimTensorMap *map = &c->map;
    int64_t offset = c->pixel_offset[1];
    return (Wide){.low = map->lower[0] + offset,
                  .high = (int64_t)map->size[1] - 1 + map->upper[0] + offset,
                  .first = c->coordinate[1] + offset,
                  .pixels = pixels_of(map),
                  .halo = (uint32_t)c->pixel_offset[0]};
}

/* The place in W of a pixel; goes on to the next one. */
static int64_t
next_in_row(const Sm90Copy *c, const Wide *wide, int64_t *w, int64_t *image)
{
    int64_t here = *w;
    *w += c->map.element_stride[1];
    if (*w > wide->high) {
        *w = wide->low;
        ++*image;
    }
    return here;
}

/* The channels of a pixel at these coordinates, c->coordinate[0] on. */
static bool
one_pixel(Sm90Copy *c, RowFn row, void *context, uint32_t number, const int64_t x[5])
{
    const SimTensorMap *map = &c->map;
    uint32_t element = sim_tensor_map_element_bytes(map->type), n = extent(map, 0);
    int64_t low = c->coordinate[0], high = low + n, first = low < 0 ? 0 : low;
    int64_t size = (int64_t)map->size[0], end = high < size ? high : size;
    bool inside = end > first;
    uint64_t address = map->address + (uint64_t)(inside ? first : 0) * element;
    for (uint32_t i = 1; i < map->rank; i++) {
        inside &= x[i] >= 0 && x[i] < (int64_t)map->size[i];
        address += (uint64_t)x[i] * map->stride[i - 1];
    }
    return row(context, c, number * n * element, inside ? (uint32_t)(first - low) : 0,
               inside ? (uint32_t)(end - first) : 0, address);
}

static bool
each_pixel_of_rows(Sm90Copy *c, RowFn row, void *context)
{
    Wide wide = wide_of(c);
    uint32_t last = c->map.rank - 1;
    int64_t x[5], w = wide.first;
    for (uint32_t i = 1; i <= last; i++)
        x[i] = c->coordinate[i];
    for (uint32_t p = 0; p < wide.pixels + wide.halo; p++) {
        int64_t image = x[last];
        x[1] = next_in_row(c, &wide, &w, &image);
        if (!one_pixel(c, row, context, p, x))
            return false;
        x[last] = image;
    }
    return true;
}

/* The same for the pixels of an im2col copy (5.5.4): from the one that the coordinates name on
 * through the box of pixels, the first dimension first and the batch last; each lies `offset`
 * further. */
static bool
each_pixel(Sm90Copy *c, RowFn row, void *context)
{
    const SimTensorMap *map = &c->map;
    uint32_t last = map->rank - 1;
    int64_t at[5], x[5];
    for (uint32_t i = 1; i < map->rank; i++)
        at[i] = c->coordinate[i];
    for (uint32_t p = 0; p < map->box[1]; p++) {
        for (uint32_t i = 1; i < map->rank; i++)
            x[i] = at[i] + (i < last ? c->pixel_offset[i - 1] : 0);
        if (!one_pixel(c, row, context, p, x))
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
        return (c->map.im2col == SIM_IM2COL ? each_pixel : each_pixel_of_rows)(c, row, context);
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

/* Where the box may begin: "the address of the bounding box must be aligned to 16 bytes" (5.5.3.1),
 * and as the tensor and its strides are, that is the innermost coordinate.  An H200 stops with
 * "illegal instruction" otherwise.  Coordinates of stores are not negative (9.7.9.25.5.1). */
static void
check_coordinates(SimWarp *warp, uint32_t lane, const Sm90Copy *copy)
{
    static const char *const modes[] = {"tile", "im2col", "im2col::w", "im2col::w::128"};
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
    if (copy->form->im2col != copy->map.im2col)
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, copy->map.address, NULL,
                 "the copy is of the mode %s, and the map is for %s", modes[copy->form->im2col],
                 modes[copy->map.im2col]);
    for (uint32_t i = 0; copy->form->direction == SM90_STORE && i < copy->form->coordinates; i++)
        if (copy->coordinate[i] < 0)
            sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, copy->map.address, NULL,
                     "coordinate %u of a store is %d; it must not be negative", i,
                     copy->coordinate[i]);
}

/* wHalo, wOffset and W of a copy of a wide mode; false where the text does not say what is
 * copied. */
static bool
check_wide(SimWarp *warp, uint32_t lane, const Sm90Copy *c)
{
    Wide wide = wide_of(c);
    int64_t image = 0, w = wide.first, row = 0;
    uint32_t most = c->map.im2col == SIM_IM2COL_W128 ? 31 : 511;
    if (wide.halo > most || c->pixel_offset[1] > 31) {
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, c->map.address, NULL,
                 "wHalo is %u and wOffset %d: they are at most %u and 31", wide.halo,
                 c->pixel_offset[1], most);
        return false;
    }
    if (wide.first > wide.high)
        sim_find(warp, SIM_FIND_INVALID, (int32_t)lane, c->map.address, NULL,
                 "W is %d, right of the bounding box: it may begin left of it only",
                 c->coordinate[1]);
    if (!wide.halo)
        return true;
    if (c->map.im2col == SIM_IM2COL_W128) {
        sim_fail(warp,
                 "a wHalo of im2col::w::128 is not supported: the PTX ISA shows as figures only "
                 "which pixels it repeats");
        return false;
    }
    for (uint32_t p = 0; p < wide.pixels + wide.halo; p++) {
        row = p == wide.pixels - 1 ? image : row;
        if (p >= wide.pixels && image != row)
            break;
        next_in_row(c, &wide, &w, &image);
        if (p + 1 == wide.pixels + wide.halo)
            return true;
    }
    sim_fail(warp,
             "a halo beyond the bounding box of im2col::w is not supported: the PTX ISA shows as "
             "figures only what it holds");
    return false;
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
    if (copy->form->im2col != copy->map.im2col)
        return false;
    if (copy->map.im2col > SIM_IM2COL && !check_wide(warp, lane, copy))
        return false;
    if (!each_row(copy, check_row, &check))
        return false;
    /* A load of nothing asks for the first address of the map: where none of the box lies inside,
     * an H200 stops with CUDA_ERROR_ILLEGAL_ADDRESS if that one is not mapped
     * (docs/simulator-isa.md).  A store of nothing does not. */
    return check.some || copy->form->direction == SM90_STORE ||
           sim_memory_find(warp, lane, SIM_GLOBAL, copy->map.address, 1, 1, &first);
}

/* An H200 rounds as cvt.rn.tf32 does; the text does not say so. */
static void
round_row(uint8_t *row, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, row + 4 * i, 4);
        bits = (uint32_t)sim_round((double)sim_f32(bits), SIM_TF32, SIM_RN, false) & 0xffffe000u;
        memcpy(row + 4 * i, &bits, 4);
    }
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
    if (sim_sm90_map_type(c->map.type) == SIM_TF32)
        round_row(to, count);
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
