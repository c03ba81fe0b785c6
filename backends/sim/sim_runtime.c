/* sim_runtime.c - functions that the CUDA runtime gives to device code: vprintf, malloc,
 * __assertfail.
 *
 * Compilers declare them .extern and call them for printf and assert.  The simulator prints
 * nothing; a failed assertion is a finding and ends its threads, as trap does.
 */
#include "sim_exec.h"
#include "sim_memory.h"

/* Where variable i of the call lies, results first, for one lane. */
static uint8_t *
variable(SimWarp *warp, const SimInsn *insn, uint32_t i, uint32_t lane)
{
    const SimLocalVar *vars = insn->data;
    return warp->local + (size_t)lane * warp->local_size + warp->running->frame->local_base +
           vars[i].offset;
}

/* A C string in global memory, cut to what fits. */
static void
read_text(SimWarp *warp, uint64_t address, char *text, size_t room)
{
    const SimAllocation *in = sim_device_find(warp->run->device, address);
    size_t n = 0;
    while (in && n + 1 < room && address + n - in->address < in->size &&
           in->data[address + n - in->address])
        text[n] = (char)in->data[address + n - in->address], n++;
    text[n] = '\0';
}

static SimStep
print(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const SimLocalVar *vars = insn->data;
    for (uint32_t i = 0; i < insn->mode[0]; i++)
        sim_each_lane (l, mask)
            memset(variable(warp, insn, i, l), 0, vars[i].size);
    return SIM_YIELD;
}

/* __assertfail(message, file, line, function, size of a character) */
static SimStep
assertion(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    uint32_t lane = sim_first_lane(mask), line;
    uint64_t message, file;
    char what[160], where[160];
    memcpy(&message, variable(warp, insn, 0, lane), sizeof message);
    memcpy(&file, variable(warp, insn, 1, lane), sizeof file);
    memcpy(&line, variable(warp, insn, 2, lane), sizeof line);
    read_text(warp, message, what, sizeof what);
    read_text(warp, file, where, sizeof where);
    sim_find(warp, SIM_FIND_TRAP, (int32_t)lane, 0, NULL, "assertion '%s' fails, %s:%u", what,
             where, line);
    sim_warp_exit_lanes(warp, mask);
    return SIM_JUMP;
}

/* malloc: a piece of the module's heap, which is not used again in the launch.  NULL when it is
 * full. */
static SimStep
allocate(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    SimModule *mod = warp->run->module;
    SimAllocation *heap = sim_device_find(warp->run->device, mod->heap);
    sim_each_lane (l, mask) {
        uint64_t size, address = 0;
        memcpy(&size, variable(warp, insn, 1, l), sizeof size);
        pthread_mutex_lock(&warp->run->lock);
        if (size <= SIM_HEAP_BYTES - mod->heap_used) {
            address = mod->heap + mod->heap_used;
            mod->heap_used += (size + 15) / 16 * 16;
            if (mod->heap_used > SIM_HEAP_BYTES)
                mod->heap_used = SIM_HEAP_BYTES;
        }
        pthread_mutex_unlock(&warp->run->lock);
        if (address)
            memset(heap->init + (address - mod->heap), 0, size);
        memcpy(variable(warp, insn, 0, l), &address, sizeof address);
    }
    return SIM_YIELD;
}

static SimStep
release(SimWarp *warp, const SimInsn *insn, uint32_t mask)
{
    const SimModule *mod = warp->run->module;
    sim_each_lane (l, mask) {
        uint64_t address;
        memcpy(&address, variable(warp, insn, 0, l), sizeof address);
        if (address && (address < mod->heap || address - mod->heap >= mod->heap_used))
            sim_find(warp, SIM_FIND_INVALID, (int32_t)l, address, NULL,
                     "free of what malloc did not give");
    }
    return SIM_YIELD;
}

static void
make_heap(SimModule *mod)
{
    if (mod->heap)
        return;
    mod->heap = sim_alloc(mod->device, SIM_HEAP_BYTES, "heap");
    if (!mod->heap)
        longjmp(*mod->arena.out_of_memory, 1);
    mod->globals = sim_arena_grow(&mod->arena, mod->globals, mod->global_count,
                                  &mod->global_capacity, sizeof *mod->globals);
    mod->globals[mod->global_count++] = (SimGlobalVar){"", mod->heap, SIM_HEAP_BYTES};
}

bool
sim_runtime_call(SimDecode *dx, const char *name, size_t results, size_t args)
{
    const SimLocalVar *vars = dx->out->data;
    if (strcmp(name, "vprintf") == 0 && results <= 1 && args == 2) {
        dx->out->mode[0] = (uint8_t)results;
        dx->out->exec = print;
        return true;
    }
    bool allocates = strcmp(name, "malloc") == 0 && results == 1 && args == 1;
    if ((allocates || (strcmp(name, "free") == 0 && results == 0 && args == 1)) &&
        vars[0].size == 8 && vars[results].size == 8) {
        make_heap(dx->mod);
        dx->out->exec = allocates ? allocate : release;
        return true;
    }
    if (strcmp(name, "__assertfail") == 0 && results == 0 && args == 5 && vars[0].size == 8 &&
        vars[1].size == 8 && vars[2].size == 4) {
        dx->out->exec = assertion;
        return true;
    }
    return false;
}
