/* plan.c - the launches that a call comes to: read from tuples of Python once, run often. */
#include "launch.h"

static void
plan_free(Plan *p)
{
    PyTypeObject *type = Py_TYPE(p);

    for (unsigned i = 0; i < p->n_steps; i++) {
        PyMem_Free(p->steps[i].offsets);
        PyMem_Free(p->steps[i].addresses);
        PyMem_Free(p->steps[i].maps);
        PyMem_Free(p->steps[i].scratch);
        PyMem_Free(p->steps[i].room);
    }
    for (unsigned i = 0; i < p->n_made; i++)
        Py_XDECREF(p->made[i]);
    Py_XDECREF(p->device);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(p);
    Py_DECREF(type);
}

Py_ssize_t
count(PyObject *tuple, Py_ssize_t most, const char *what)
{
    Py_ssize_t n = PyTuple_Check(tuple) ? PyTuple_Size(tuple) : -1;

    if (n >= 0 && n <= most)
        return n;
    PyErr_Format(PyExc_ValueError, "a plan takes a tuple of at most %d %s", (int)most, what);
    return -1;
}

static bool
numbers(PyObject *tuple, uint64_t *out, Py_ssize_t most, Py_ssize_t *n)
{
    *n = count(tuple, most, "numbers");
    for (Py_ssize_t i = 0; i < *n; i++)
        out[i] = PyLong_AsUnsignedLongLongMask(PyTuple_GetItem(tuple, i));
    return *n >= 0 && !PyErr_Occurred();
}

static bool
read_map(PyObject *item, Map *m)
{
    PyObject *size, *pitch, *box;
    uint64_t wide[5];
    Py_ssize_t n, n_pitch, n_box;
    unsigned long long address;

    if (!PyArg_ParseTuple(item, "IiKiO!O!O!ii", &m->offset, &m->tensor, &address, &m->type,
                          &PyTuple_Type, &size, &PyTuple_Type, &pitch, &PyTuple_Type, &box,
                          &m->swizzle, &m->promotion) ||
        !numbers(size, m->size, 5, &n) || !numbers(pitch, m->pitch, 4, &n_pitch) ||
        !numbers(box, wide, 5, &n_box))
        return false;
    if (n < 1 || n_box != n || n_pitch != n - 1 || m->offset % 64 != 0) {
        PyErr_SetString(PyExc_ValueError, "a tensor map of another form");
        return false;
    }
    m->address = address;
    m->rank = (uint32_t)n;
    for (Py_ssize_t i = 0; i < n; i++)
        m->box[i] = (uint32_t)wide[i];
    return true;
}

/* Fills the lists of a step; `bytes` is how many of the parameters there are. */
static bool
read_lists(Step *s, PyObject *offsets, PyObject *addresses, PyObject *maps, PyObject *scratch)
{
    Py_ssize_t n_offsets = count(offsets, MAX_PARAMETERS, "parameters");
    Py_ssize_t n_addresses = count(addresses, MAX_PARAMETERS, "addresses");
    Py_ssize_t n_maps = count(maps, MAX_TENSORS, "tensor maps");
    Py_ssize_t n_scratch = count(scratch, MAX_SCRATCH, "scratches");
    unsigned long long bytes;

    if (n_offsets < 0 || n_addresses < 0 || n_maps < 0 || n_scratch < 0)
        return false;
    s->offsets = PyMem_Calloc((size_t)n_offsets + 1, sizeof *s->offsets);
    s->addresses = PyMem_Calloc((size_t)n_addresses + 1, sizeof *s->addresses);
    s->maps = PyMem_Calloc((size_t)n_maps + 1, sizeof *s->maps);
    s->scratch = PyMem_Calloc((size_t)n_scratch + 1, sizeof *s->scratch);
    if (!s->offsets || !s->addresses || !s->maps || !s->scratch)
        return PyErr_NoMemory() != NULL;
    for (; s->n_offsets < (unsigned)n_offsets; s->n_offsets++)
        s->offsets[s->n_offsets] = (unsigned)PyLong_AsUnsignedLong(
            PyTuple_GetItem(offsets, s->n_offsets));
    for (; s->n_addresses < (unsigned)n_addresses; s->n_addresses++) {
        Address *a = &s->addresses[s->n_addresses];
        if (!PyArg_ParseTuple(PyTuple_GetItem(addresses, s->n_addresses), "II", &a->offset,
                              &a->tensor))
            return false;
    }
    for (; s->n_maps < (unsigned)n_maps; s->n_maps++)
        if (!read_map(PyTuple_GetItem(maps, s->n_maps), &s->maps[s->n_maps]))
            return false;
    for (; s->n_scratch < (unsigned)n_scratch; s->n_scratch++) {
        Memory *m = &s->scratch[s->n_scratch];
        if (!PyArg_ParseTuple(PyTuple_GetItem(scratch, s->n_scratch), "IK", &m->offset, &bytes))
            return false;
        m->bytes = bytes;
    }
    return !PyErr_Occurred();
}

/* Whether what a step patches lies inside of its parameters, and is a tensor of the plan. */
static bool
is_sound(const Step *s, unsigned tensors)
{
    for (unsigned i = 0; i < s->n_offsets; i++)
        if (s->offsets[i] >= s->n_bytes)
            return false;
    for (unsigned i = 0; i < s->n_addresses; i++)
        if (s->addresses[i].offset + 8 > s->n_bytes || s->addresses[i].tensor >= tensors)
            return false;
    for (unsigned i = 0; i < s->n_maps; i++)
        if (s->maps[i].offset + MAP_BYTES > s->n_bytes || s->maps[i].tensor >= (int)tensors)
            return false;
    for (unsigned i = 0; i < s->n_scratch; i++)
        if (s->scratch[i].offset + 8 > s->n_bytes)
            return false;
    return true;
}

/* (function, grid, block, shared, cluster, early, parameters, offsets, addresses, maps, scratch),
 * or (tensor, bytes): zeros. */
static bool
read_step(State *st, PyObject *item, Step *s, unsigned tensors)
{
    PyObject *function, *grid, *cluster, *bytes, *offsets, *addresses, *maps, *scratch;
    unsigned long long zeros;
    uint64_t wide[3];
    Py_ssize_t n;
    int early;

    if (PyTuple_Check(item) && PyTuple_Size(item) == 2) {
        bool read = PyArg_ParseTuple(item, "iK", &s->tensor, &zeros);
        s->bytes = zeros;
        if (read && (s->tensor < 0 || s->tensor >= (int)tensors))
            PyErr_SetString(PyExc_ValueError, "zeros for a tensor that is not there");
        return read && !PyErr_Occurred();
    }
    if (!PyArg_ParseTuple(item, "OO!IIO!pSO!O!O!O!", &function, &PyTuple_Type, &grid, &s->block,
                          &s->shared, &PyTuple_Type, &cluster, &early, &bytes, &PyTuple_Type,
                          &offsets, &PyTuple_Type, &addresses, &PyTuple_Type, &maps, &PyTuple_Type,
                          &scratch))
        return false;
    s->early = early != 0;
    s->function = PyLong_AsVoidPtr(function);
    if (!numbers(grid, wide, 3, &n) || n != 3)
        return false;
    for (int i = 0; i < 3; i++)
        s->grid[i] = (unsigned)wide[i];
    if (!numbers(cluster, wide, 3, &n) || n != 3)
        return false;
    for (int i = 0; i < 3; i++)
        s->cluster[i] = (unsigned)wide[i];
    if (!read_lists(s, offsets, addresses, maps, scratch))
        return false;
    if (PyBytes_Size(bytes) > MAX_BYTES) {
        PyErr_SetString(PyExc_ValueError, "too many bytes of parameters");
        return false;
    }
    s->n_bytes = (unsigned)PyBytes_Size(bytes);
    s->room = PyMem_Calloc(1, s->n_bytes + 128);
    if (s->room == NULL)
        return PyErr_NoMemory() != NULL;
    s->template = (unsigned char *)s->room + (128 - (uintptr_t)s->room % 128);
    memcpy(s->template, PyBytes_AsString(bytes), s->n_bytes);
    if (s->function == NULL || !is_sound(s, tensors))
        PyErr_SetString(PyExc_ValueError, "a launch of another form");
    bool grouped = s->early || s->cluster[0] * s->cluster[1] * s->cluster[2] > 1;
    if ((s->n_maps > 0 && st->cu.cuTensorMapEncodeTiled == NULL) ||
        (grouped && st->cu.cuLaunchKernelEx == NULL))
        PyErr_SetString(st->error,
                        "the CUDA driver is too old for this kernel: it needs 12.0 or later");
    return !PyErr_Occurred();
}

/* Plan(device, masks, made, pieces, returns, single, steps) */
static PyObject *
plan_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *module = PyType_GetModule(type), *device, *masks, *made, *pieces, *returns, *steps;
    State *st = module ? PyModule_GetState(module) : NULL;
    unsigned long long offset;
    uint64_t wide[MAX_TENSORS];
    Py_ssize_t n;
    int single;

    (void)kwargs;
    if (st == NULL ||
        !PyArg_ParseTuple(args, "O!O!O!O!O!pO!", st->device_type, &device, &PyTuple_Type, &masks,
                          &PyTuple_Type, &made, &PyTuple_Type, &pieces, &PyTuple_Type, &returns,
                          &single, &PyTuple_Type, &steps))
        return NULL;
    Plan *p = (Plan *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (p == NULL)
        return NULL;
    p->st = st;
    p->serial = ++st->plans;
    p->device = (Device *)Py_NewRef(device);
    p->single = single != 0;
    Py_ssize_t n_made = count(made, MAX_TENSORS, "tensors"),
               n_pieces = count(pieces, MAX_TENSORS, "pieces");
    Py_ssize_t n_steps = count(steps, MAX_STEPS, "steps");
    if (n_made < 0 || n_pieces < 0 || n_steps < 0 || !numbers(masks, p->mask, MAX_TENSORS, &n))
        goto wrong;
    p->n_inputs = (unsigned)n;
    if (n + n_made + n_pieces > MAX_TENSORS) {
        PyErr_SetString(PyExc_ValueError, "too many tensors for a plan");
        goto wrong;
    }
    for (; p->n_made < (unsigned)n_made; p->n_made++)
        p->made[p->n_made] = Py_NewRef(PyTuple_GetItem(made, p->n_made));
    for (; p->n_pieces < (unsigned)n_pieces; p->n_pieces++) {
        Piece *piece = &p->pieces[p->n_pieces];
        if (!PyArg_ParseTuple(PyTuple_GetItem(pieces, p->n_pieces), "IK", &piece->tensor, &offset))
            goto wrong;
        piece->offset = offset;
        if (piece->tensor >= p->n_inputs + p->n_made) {
            PyErr_SetString(PyExc_ValueError, "a piece of no tensor");
            goto wrong;
        }
    }
    if (!numbers(returns, wide, MAX_TENSORS, &n))
        goto wrong;
    for (; p->n_returns < (unsigned)n; p->n_returns++) {
        p->returns[p->n_returns] = (unsigned)wide[p->n_returns];
        if (wide[p->n_returns] >= p->n_inputs + p->n_made) {
            PyErr_SetString(PyExc_ValueError, "a result that is no tensor");
            goto wrong;
        }
    }
    for (unsigned i = 0; i < (unsigned)n_steps; i++) {
        p->n_steps++;
        if (!read_step(st, PyTuple_GetItem(steps, i), &p->steps[i],
                       p->n_inputs + p->n_made + p->n_pieces))
            goto wrong;
        p->n_scratch += p->steps[i].n_scratch;
        p->asks |= p->steps[i].n_scratch > 0 || p->steps[i].early;
    }
    if (p->n_scratch > MAX_SCRATCH || (p->single && p->n_returns != 1)) {
        PyErr_SetString(PyExc_ValueError, "a plan of another form");
        goto wrong;
    }
    return (PyObject *)p;
wrong:
    Py_DECREF(p);
    return NULL;
}

static PyObject *
plan_made(Plan *p, void *nothing)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)p->n_made);

    (void)nothing;
    for (unsigned i = 0; tuple != NULL && i < p->n_made; i++)
        PyTuple_SetItem(tuple, (Py_ssize_t)i, Py_NewRef(p->made[i]));
    return tuple;
}

/* Which of the arguments, and then of what is made, a call gives. */
static PyObject *
plan_returns(Plan *p, void *nothing)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)p->n_returns);

    (void)nothing;
    for (unsigned i = 0; tuple != NULL && i < p->n_returns; i++)
        PyTuple_SetItem(tuple, (Py_ssize_t)i, PyLong_FromUnsignedLong(p->returns[i]));
    return tuple;
}

static PyObject *
plan_serial(Plan *p, void *nothing)
{
    (void)nothing;
    return PyLong_FromUnsignedLongLong(p->serial);
}

static PyGetSetDef plan_properties[] = {
    {"made", (getter)plan_made, NULL, "how new tensors are made", NULL},
    {"returns", (getter)plan_returns, NULL, "places of what a call gives", NULL},
    {"serial", (getter)plan_serial, NULL, "which plan of the process it is", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot plan_slots[] = {
    {Py_tp_new, plan_new}, {Py_tp_dealloc, plan_free}, {Py_tp_getset, plan_properties}, {0, NULL}};
PyType_Spec plan_spec = {"tilec._launch.Plan", sizeof(Plan), 0, Py_TPFLAGS_DEFAULT, plan_slots};

/* ---- running ---- */

static Result
encode_map(State *st, const Map *m, uint64_t address, void *out)
{
    static const uint32_t steps[5] = {1, 1, 1, 1, 1};

    return st->cu.cuTensorMapEncodeTiled(out, m->type, m->rank, (void *)(uintptr_t)address, m->size,
                                         m->pitch, m->box, steps, 0, m->swizzle, m->promotion, 0);
}

/* Of memory of the launcher's own; else so far before a tensor. */
static uint64_t
map_address(const Map *m, const uint64_t *address)
{
    return m->tensor < 0 ? m->address : address[m->tensor] - m->address;
}

/* The maps of a plan that was never run; the context is current. */
static Result
encode_new_maps(Plan *p, const uint64_t *address)
{
    for (unsigned i = 0; i < p->n_steps; i++)
        for (unsigned k = 0; k < p->steps[i].n_maps; k++) {
            Map *m = &p->steps[i].maps[k];
            if (m->encoded)
                continue;
            Result result = encode_map(p->st, m, map_address(m, address),
                                       p->steps[i].template + m->offset);
            if (result != 0)
                return result;
            m->encoded = true;
        }
    return 0;
}

static Result
launch(State *st, const Step *s, const uint64_t *address, const uint64_t *scratch, void *stream,
       bool capturing)
{
    _Alignas(128) unsigned char bytes[MAX_BYTES];
    void *parameters[MAX_PARAMETERS];
    LaunchAttribute attributes[2];
    unsigned n = 0;

    if (s->function == NULL)
        return st->cu.cuMemsetD8Async(address[s->tensor], 0, s->bytes, stream);
    memcpy(bytes, s->template, s->n_bytes);
    for (unsigned i = 0; i < s->n_addresses; i++)
        memcpy(bytes + s->addresses[i].offset, &address[s->addresses[i].tensor], 8);
    for (unsigned i = 0; i < s->n_scratch; i++)
        memcpy(bytes + s->scratch[i].offset, &scratch[i], 8);
    for (unsigned i = 0; i < s->n_maps; i++) {
        const Map *m = &s->maps[i];
        if (m->tensor < 0)
            continue;
        uint64_t at = map_address(m, address);
        Result result = st->replace ? st->cu.cuTensorMapReplaceAddress(bytes + m->offset,
                                                                       (void *)(uintptr_t)at)
                                    : encode_map(st, m, at, bytes + m->offset);
        if (result != 0)
            return result;
    }
    for (unsigned i = 0; i < s->n_offsets; i++)
        parameters[i] = bytes + s->offsets[i];
    if (s->cluster[0] * s->cluster[1] * s->cluster[2] > 1) {
        attributes[n] = (LaunchAttribute){.id = CLUSTER_DIMENSION};
        memcpy(attributes[n++].value, s->cluster, sizeof s->cluster);
    }
    if (s->early && !capturing) { /* old drivers do not take it into a graph */
        attributes[n] = (LaunchAttribute){.id = STREAM_SERIALIZATION};
        attributes[n++].value[0] = 1;
    }
    if (n == 0)
        return st->cu.cuLaunchKernel(s->function, s->grid[0], s->grid[1], s->grid[2], s->block, 1,
                                     1, s->shared, stream, parameters, NULL);
    LaunchConfig config = {
        {s->grid[0], s->grid[1], s->grid[2]}, {s->block, 1, 1}, s->shared, stream, attributes, n};
    return st->cu.cuLaunchKernelEx(&config, s->function, parameters, NULL);
}

/* Whether the stream is captured, and by which graph. */
static uint64_t
capture_of(Plan *p, void *stream, bool *capturing)
{
    Driver *cu = &p->st->cu;
    uint64_t capture = 0;
    int status = 0;

    if (cu->cuStreamIsCapturing != NULL && cu->cuStreamIsCapturing(stream, &status) != 0)
        status = 0; /* the launch will say what is wrong */
    *capturing = status == 1;
    if (*capturing &&
        (cu->cuStreamGetCaptureInfo_v2 == NULL ||
         cu->cuStreamGetCaptureInfo_v2(stream, &status, &capture, NULL, NULL, NULL) != 0))
        capture = UINT64_MAX;
    return capture;
}

bool
find_scratch(Plan *p, FindScratch find, void *stream, bool *capturing, uint64_t *scratch)
{
    uint64_t capture = capture_of(p, stream, capturing);

    for (unsigned i = 0; i < p->n_steps; i++)
        for (unsigned k = 0; k < p->steps[i].n_scratch; k++) {
            *scratch = find(p->device, stream, capture, p->steps[i].scratch[k].bytes);
            if (*scratch++ == 0)
                return false;
        }
    return true;
}

Result
launch_steps(Plan *p, const uint64_t *address, const uint64_t *scratch, void *stream, bool capturing)
{
    Result result = 0;

    for (unsigned i = 0; i < p->n_steps && result == 0; i++) {
        result = launch(p->st, &p->steps[i], address, scratch, stream, capturing);
        scratch += p->steps[i].n_scratch;
    }
    return result;
}

static bool
run_steps(Plan *p, const uint64_t *address)
{
    State *st = p->st;
    uint64_t scratch[MAX_SCRATCH];
    bool pushed = false, capturing = false;
    void *stream;

    if (!current_stream(st, p->device->number, &stream))
        return false;
    if (p->asks && !find_scratch(p, scratch_of, stream, &capturing, scratch))
        return false;
    Result result = enter(p->device, &pushed);
    if (result == 0) {
        result = encode_new_maps(p, address);
        /* a full queue of launches waits for the GPU */
        Py_BEGIN_ALLOW_THREADS if (result == 0)
            result = launch_steps(p, address, scratch, stream, capturing);
        Py_END_ALLOW_THREADS leave(p->device, pushed);
    }
    if (result != 0)
        fail(st, result, "launching a kernel");
    else
        p->ran = true;
    return result == 0;
}

PyObject *
plan_run(Plan *p, PyObject *const *args, const View *views)
{
    uint64_t address[MAX_TENSORS];
    PyObject *made[MAX_TENSORS], *result = NULL;
    unsigned n_made = 0, i;

    for (i = 0; i < p->n_inputs; i++)
        address[i] = views[i].address;
    for (; n_made < p->n_made; n_made++) {
        PyObject *how = p->made[n_made];
        made[n_made] = PyObject_Call(PyTuple_GetItem(how, 0), PyTuple_GetItem(how, 1),
                                     PyTuple_GetItem(how, 2));
        if (made[n_made] == NULL)
            goto done;
        if (!read_address(p->st, made[n_made], &address[i++])) {
            n_made++;
            goto done;
        }
    }
    for (unsigned k = 0; k < p->n_pieces; k++)
        address[i++] = address[p->pieces[k].tensor] + p->pieces[k].offset;
    if (!run_steps(p, address))
        goto done;
    PyObject *results[MAX_TENSORS];
    for (unsigned k = 0; k < p->n_returns; k++) {
        unsigned at = p->returns[k];
        results[k] = at < p->n_inputs ? args[at] : made[at - p->n_inputs];
    }
    if (p->single)
        result = Py_NewRef(results[0]);
    else if ((result = PyTuple_New((Py_ssize_t)p->n_returns)) != NULL)
        for (unsigned k = 0; k < p->n_returns; k++)
            PyTuple_SetItem(result, (Py_ssize_t)k, Py_NewRef(results[k]));
done:
    for (i = 0; i < n_made; i++)
        Py_DECREF(made[i]);
    return result;
}
