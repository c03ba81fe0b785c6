/* sim_device.c - device memory: allocations in one 64-bit address space. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "sim_core.h"

enum { ALLOCATION_ALIGN = 1024, ALLOCATION_GAP = 1 << 16 };
#define MOST_BYTES (SIZE_MAX / 2)
#define FIRST_ADDRESS UINT64_C(0x00007f0000000000)

void
sim_keep_memory(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 512 << 20);
#endif
}

SimDevice *
sim_device_new(void)
{
    SimDevice *dev = calloc(1, sizeof *dev);
    if (!dev)
        return NULL;
    dev->next_address = FIRST_ADDRESS;
    dev->bytes_left = UINT64_MAX;
    for (int i = 0; i < SIM_ATOMIC_LOCKS; i++)
        pthread_mutex_init(&dev->atomic_lock[i], NULL);
    return dev;
}

static void
free_allocation(SimAllocation *a)
{
    free(a->data);
    free(a->init);
    free((char *)a->name);
    free(a);
}

void
sim_device_free(SimDevice *dev)
{
    if (!dev)
        return;
    /* their variables are allocations */
    for (SimModule *mod = dev->modules, *next; mod; mod = next) {
        next = mod->next;
        sim_arena_free(&mod->arena);
        free(mod);
    }
    for (size_t i = 0; i < dev->count; i++)
        free_allocation(dev->allocations[i]);
    for (int i = 0; i < SIM_ATOMIC_LOCKS; i++)
        pthread_mutex_destroy(&dev->atomic_lock[i]);
    free(dev->allocations);
    free(dev);
}

struct SimSaved {
    size_t count;
    uint8_t *bytes[]; /* of each allocation: its data, then what is written; NULL: read-only */
};

SimSaved *
sim_device_save(const SimDevice *dev)
{
    SimSaved *saved = calloc(1, sizeof *saved + (dev->count + 1) * sizeof saved->bytes[0]);
    bool ok = saved != NULL;

    for (size_t i = 0; ok && i < dev->count; i++) {
        const SimAllocation *a = dev->allocations[i];
        saved->count++;
        if (a->read_only)
            continue;
        saved->bytes[i] = malloc(2 * a->size + 1);
        ok = saved->bytes[i] != NULL;
        if (ok) {
            memcpy(saved->bytes[i], a->data, a->size);
            memcpy(saved->bytes[i] + a->size, a->init, a->size);
        }
    }
    if (ok)
        return saved;
    sim_saved_free(saved);
    return NULL;
}

void
sim_device_restore(SimDevice *dev, const SimSaved *saved)
{
    for (size_t i = 0; i < saved->count; i++) {
        SimAllocation *a = dev->allocations[i];
        if (saved->bytes[i]) {
            memcpy(a->data, saved->bytes[i], a->size);
            memcpy(a->init, saved->bytes[i] + a->size, a->size);
        }
    }
}

void
sim_saved_free(SimSaved *saved)
{
    for (size_t i = 0; saved && i < saved->count; i++)
        free(saved->bytes[i]);
    free(saved);
}

void
sim_device_limit(SimDevice *dev, uint64_t bytes)
{
    dev->bytes_left = bytes;
}

/* Of memory that is about to be written whole: as much memory, but fewer page faults. */
#define LARGE_PAGE ((size_t)2 << 20)
static void
prefer_large_pages(uint8_t *start, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    size_t to_first = -(uintptr_t)start % LARGE_PAGE;
    if (bytes >= to_first + LARGE_PAGE)
        madvise(start + to_first, (bytes - to_first) / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
#else
    (void)start, (void)bytes;
#endif
}

uint64_t
sim_alloc(SimDevice *dev, size_t bytes, const char *name)
{
    if (bytes > MOST_BYTES || bytes > dev->bytes_left)
        return 0;
    SimAllocation *a = calloc(1, sizeof *a);
    if (dev->count == dev->capacity) {
        size_t capacity = dev->capacity ? 2 * dev->capacity : 16;
        SimAllocation **bigger = realloc(dev->allocations, capacity * sizeof(SimAllocation *));
        if (!bigger) {
            free(a);
            return 0;
        }
        dev->allocations = bigger;
        dev->capacity = capacity;
    }
    if (!a)
        return 0;
    size_t padded = (bytes + 63) / 64 * 64 + 64; /* room for wide host loads */
    size_t page = padded < 2 * LARGE_PAGE ? 64 : LARGE_PAGE;
    a->size = bytes;
    a->data = aligned_alloc(page, (padded + page - 1) / page * page); /* C wants whole ones */
    a->init = calloc(1, bytes + 64);
    a->name = strdup(name ? name : "unnamed");
    if (!a->data || !a->init || !a->name) {
        free_allocation(a);
        return 0;
    }
    prefer_large_pages(a->data, padded);
    memset(a->data, 0xa5, padded); /* what nobody wrote should not look like zeros */
    a->address = dev->next_address;
    uint64_t span = (bytes + ALLOCATION_GAP + ALLOCATION_ALIGN - 1) / ALLOCATION_ALIGN;
    dev->next_address += span * ALLOCATION_ALIGN;
    dev->allocations[dev->count++] = a;
    dev->bytes_left -= bytes;
    return a->address;
}

/* Addresses only grow, so the array is sorted. */
static size_t
position_of(const SimDevice *dev, uint64_t address) /* index of the last one at or below it + 1 */
{
    size_t low = 0, high = dev->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (dev->allocations[middle]->address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

SimAllocation *
sim_device_find(const SimDevice *dev, uint64_t address)
{
    size_t at = position_of(dev, address);
    if (at == 0)
        return NULL;
    SimAllocation *a = dev->allocations[at - 1];
    return address - a->address < a->size ? a : NULL;
}

bool
sim_free(SimDevice *dev, uint64_t address)
{
    size_t at = position_of(dev, address);
    if (at == 0 || dev->allocations[at - 1]->address != address)
        return false;
    free_allocation(dev->allocations[at - 1]);
    memmove(&dev->allocations[at - 1], &dev->allocations[at],
            (dev->count - at) * sizeof *dev->allocations);
    dev->count--;
    return true;
}

static SimAllocation *
whole_range(const SimDevice *dev, uint64_t address, size_t bytes)
{
    SimAllocation *a = sim_device_find(dev, address);
    return a && bytes <= a->size - (address - a->address) ? a : NULL;
}

bool
sim_write(SimDevice *dev, uint64_t address, const void *source, size_t bytes)
{
    SimAllocation *a = whole_range(dev, address, bytes);
    if (!a)
        return bytes == 0;
    memcpy(a->data + (address - a->address), source, bytes);
    prefer_large_pages(a->init + (address - a->address), bytes);
    memset(a->init + (address - a->address), 1, bytes);
    return true;
}

bool
sim_read(const SimDevice *dev, uint64_t address, void *destination, size_t bytes)
{
    const SimAllocation *a = whole_range(dev, address, bytes);
    if (!a)
        return bytes == 0;
    memcpy(destination, a->data + (address - a->address), bytes);
    return true;
}

bool
sim_fill(SimDevice *dev, uint64_t address, int byte, size_t bytes)
{
    SimAllocation *a = whole_range(dev, address, bytes);
    if (!a)
        return bytes == 0;
    memset(a->data + (address - a->address), byte, bytes);
    memset(a->init + (address - a->address), 1, bytes);
    return true;
}

bool
sim_mark(SimDevice *dev, uint64_t address, size_t bytes, bool initialised)
{
    SimAllocation *a = whole_range(dev, address, bytes);
    if (!a)
        return bytes == 0;
    memset(a->init + (address - a->address), initialised, bytes);
    return true;
}

size_t
sim_count_initialised(const SimDevice *dev, uint64_t address, size_t bytes)
{
    const SimAllocation *a = whole_range(dev, address, bytes);
    size_t count = 0;
    for (size_t i = 0; a && i < bytes; i++)
        count += a->init[address - a->address + i];
    return count;
}
