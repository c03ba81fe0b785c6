/* sim_module.c - modules of a device: loading PTX, and what is asked of them. */
#include <stdlib.h>

#include "sim_contract.h"
#include "sim_core.h"
#include "sim_parse.h"

static SimTarget
facts_of(const char *target)
{
    static const SimTarget rows[] = {{90, .known_sums = true}};
    SimTarget facts = {0};

    if (target && strncmp(target, "sm_", 3) == 0)
        facts.capability = (uint32_t)strtoul(target + 3, NULL, 10);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].capability == facts.capability)
            facts = rows[i];
    return facts;
}

static void
read_module(SimModule *mod, const char *text, size_t length, const char *name, SimError *error,
            jmp_buf *failed)
{
    mod->name = sim_arena_copy(&mod->arena, name, strlen(name));
    PtxFile *file = sim_arena_alloc(&mod->arena, sizeof *file);
    file->mod = mod;
    file->error = error;
    file->failed = failed;
    sim_parse(file, text, length);
    mod->facts = facts_of(mod->target);
    sim_decode_file(file);
    sim_contract_find(file);
}

/* The one place that a failed allocation or a malformed text jumps to. */
static bool
guarded_read(SimModule *mod, const char *text, size_t length, const char *name, SimError *error)
{
    jmp_buf out_of_memory, failed;
    mod->arena.out_of_memory = &out_of_memory;
    if (setjmp(out_of_memory)) {
        snprintf(error->message, sizeof error->message, "out of memory");
        return false;
    }
    if (setjmp(failed))
        return false;
    sim_keep_head(mod, text, length);
    read_module(mod, text, length, name, error, &failed);
    mod->arena.out_of_memory = NULL;
    return true;
}

SimModule *
sim_module_load(SimDevice *dev, const char *text, size_t length, const char *name, SimError *err)
{
    SimError local;
    SimError *error = err ? err : &local;
    memset(error, 0, sizeof *error);
    SimModule *mod = calloc(1, sizeof *mod);
    if (!mod) {
        snprintf(error->message, sizeof error->message, "out of memory");
        return NULL;
    }
    mod->device = dev;
    mod->next = dev->modules;
    dev->modules = mod;
    if (guarded_read(mod, text, length, name ? name : "ptx", error))
        return mod;
    sim_module_free(mod);
    return NULL;
}

void
sim_module_free(SimModule *mod)
{
    if (!mod)
        return;
    SimDevice *dev = mod->device;
    for (SimModule **m = &dev->modules; *m; m = &(*m)->next)
        if (*m == mod) {
            *m = mod->next;
            break;
        }
    /* the last ones first: little moves up in the device's array */
    for (size_t i = mod->global_count; i-- > 0;)
        sim_free(dev, mod->globals[i].address);
    sim_arena_free(&mod->arena);
    free(mod);
}

size_t
sim_entry_count(const SimModule *mod)
{
    return mod->entry_count;
}

const SimEntry *
sim_entry_at(const SimModule *mod, size_t index)
{
    return index < mod->entry_count ? &mod->entries[index]->entry : NULL;
}

const SimEntry *
sim_entry_find(const SimModule *mod, const char *name)
{
    if (!name)
        return mod->entry_count == 1 ? &mod->entries[0]->entry : NULL;
    for (size_t i = 0; i < mod->entry_count; i++)
        if (strcmp(mod->entries[i]->name, name) == 0)
            return &mod->entries[i]->entry;
    return NULL;
}

uint64_t
sim_global_find(const SimModule *mod, const char *name, size_t *size)
{
    for (size_t i = 0; i < mod->global_count; i++)
        if (strcmp(mod->globals[i].name, name) == 0) {
            if (size)
                *size = mod->globals[i].size;
            return mod->globals[i].address;
        }
    return 0;
}

const char *
sim_module_target(const SimModule *mod)
{
    return mod->target ? mod->target : "";
}
