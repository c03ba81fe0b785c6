/* plans.c - the plans of a kernel: a hash table by shapes, strides, types, devices and values. */
#include "launch.h"

typedef struct Row {
    uint64_t hash;
    unsigned words;
    uint64_t *key;
    Plan *plan;
} Row;

typedef struct Plans {
    PyObject_HEAD State *st;
    PyObject *module, *miss;
    unsigned n_tensors;
    Row *rows; /* a power of two of them, at most half full */
    size_t room, used;
} Plans;

static void
forget(Plans *ps)
{
    for (size_t i = 0; i < ps->room; i++) {
        PyMem_Free(ps->rows[i].key);
        Py_XDECREF(ps->rows[i].plan);
    }
    PyMem_Free(ps->rows);
    ps->rows = NULL;
    ps->room = ps->used = 0;
}

/* Plans(n_tensors, miss) */
static PyObject *
plans_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *module = PyType_GetModule(type), *miss;
    State *st = module ? PyModule_GetState(module) : NULL;
    unsigned n;

    (void)kwargs;
    if (st == NULL || !PyArg_ParseTuple(args, "IO", &n, &miss))
        return NULL;
    if (n < 1 || n > MAX_TENSORS)
        return PyErr_Format(PyExc_ValueError, "a kernel takes 1 to %d tensors", MAX_TENSORS);
    Plans *ps = (Plans *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (ps == NULL)
        return NULL;
    ps->st = st;
    ps->module = Py_NewRef(module);
    ps->miss = Py_NewRef(miss);
    ps->n_tensors = n;
    return (PyObject *)ps;
}

static int
plans_traverse(Plans *ps, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(ps));
    Py_VISIT(ps->miss);
    return 0;
}

static int
plans_clear(Plans *ps)
{
    Py_CLEAR(ps->miss);
    return 0;
}

static void
plans_free(Plans *ps)
{
    PyTypeObject *type = Py_TYPE(ps);

    PyObject_GC_UnTrack(ps);
    forget(ps);
    Py_XDECREF(ps->miss);
    Py_XDECREF(ps->module);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(ps);
    Py_DECREF(type);
}

static Row *
find_row(Row *rows, size_t room, uint64_t hash, const uint64_t *key, unsigned words)
{
    for (size_t i = (size_t)hash & (room - 1);; i = (i + 1) & (room - 1)) {
        Row *row = &rows[i];
        if (row->plan == NULL || (row->hash == hash && row->words == words &&
                                  memcmp(row->key, key, words * sizeof *key) == 0))
            return row;
    }
}

static bool
remember(Plans *ps, uint64_t hash, const uint64_t *key, unsigned words, Plan *plan)
{
    if (ps->used >= MAX_PLANS)
        forget(ps);
    if (2 * (ps->used + 1) > ps->room) {
        size_t room = ps->room ? 2 * ps->room : 16;
        Row *rows = PyMem_Calloc(room, sizeof *rows);
        if (rows == NULL)
            return PyErr_NoMemory() != NULL;
        for (size_t i = 0; i < ps->room; i++) {
            Row *old = &ps->rows[i];
            if (old->plan != NULL)
                *find_row(rows, room, old->hash, old->key, old->words) = *old;
        }
        PyMem_Free(ps->rows);
        ps->rows = rows;
        ps->room = room;
    }
    Row *row = find_row(ps->rows, ps->room, hash, key, words);
    if (row->plan != NULL) { /* another thread, or the same while it compiled, was here first */
        Plan *before = row->plan;
        row->plan = (Plan *)Py_NewRef((PyObject *)plan);
        Py_DECREF(before);
        return true;
    }
    uint64_t *kept = PyMem_Calloc(words, sizeof *kept);
    if (kept == NULL)
        return PyErr_NoMemory() != NULL;
    memcpy(kept, key, words * sizeof *kept);
    *row = (Row){hash, words, kept, (Plan *)Py_NewRef((PyObject *)plan)};
    ps->used++;
    return true;
}

/* A value's two words: what kind it is, and its bits. */
static bool
read_value(PyObject *value, uint64_t *key)
{
    enum { NONE, WHOLE, REAL };
    double real;

    key[1] = 0;
    if (value == Py_None) {
        key[0] = NONE;
    } else if (PyFloat_Check(value)) {
        key[0] = REAL;
        real = PyFloat_AsDouble(value);
        memcpy(&key[1], &real, sizeof real);
    } else if (PyLong_Check(value)) {
        key[0] = WHOLE;
        key[1] = (uint64_t)PyLong_AsLongLong(value);
    } else {
        PyErr_SetString(PyExc_TypeError, "the value of a parameter is a number, a bool or None");
    }
    return !PyErr_Occurred();
}

/* The plan of a call from `miss`, and into the table. */
static Plan *
plans_miss(Plans *ps, PyObject *const *args, Py_ssize_t n, uint64_t hash, const uint64_t *key,
           unsigned words)
{
    PyObject *tuple = PyTuple_New(n), *plan;

    for (Py_ssize_t i = 0; tuple != NULL && i < n; i++)
        PyTuple_SetItem(tuple, i, Py_NewRef(args[i]));
    plan = tuple ? PyObject_Call(ps->miss, tuple, NULL) : NULL;
    Py_XDECREF(tuple);
    if (plan == NULL)
        return NULL;
    if (Py_TYPE(plan) != ps->st->plan_type || ((Plan *)plan)->n_inputs != ps->n_tensors)
        PyErr_SetString(PyExc_TypeError, "the callback has to return a Plan of as many tensors");
    else if (remember(ps, hash, key, words, (Plan *)plan))
        return (Plan *)plan;
    Py_DECREF(plan);
    return NULL;
}

static bool
is_aligned(const Plan *p, const View *views)
{
    for (unsigned i = 0; i < p->n_inputs; i++)
        if (views[i].address & p->mask[i])
            return false;
    return true;
}

/* A tensor or a value that cannot be read is one that `miss` refuses; it has the words. */
static PyObject *
refuse(Plans *ps, PyObject *const *args, Py_ssize_t n)
{
    PyObject *type, *value, *trace, *tuple = NULL, *plan = NULL;

    PyErr_Fetch(&type, &value, &trace);
    if ((tuple = PyTuple_New(n)) != NULL) {
        for (Py_ssize_t i = 0; i < n; i++)
            PyTuple_SetItem(tuple, i, Py_NewRef(args[i]));
        plan = PyObject_Call(ps->miss, tuple, NULL);
        Py_DECREF(tuple);
    }
    if (plan == NULL) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
        return NULL;
    }
    Py_DECREF(plan);
    PyErr_Restore(type, value, trace);
    return NULL;
}

/* Adds what a tensor is to the key; false: it is not `plain`, of a type that open() was told of, or
 * an error is set. */
static bool
add_tensor(Plans *ps, PyObject *tensor, View *v, uint64_t *key, unsigned *words, bool *plain)
{
    State *st = ps->st;

    *plain = st->n_types == 0;
    for (int t = 0; t < st->n_types && !*plain; t++)
        *plain = Py_TYPE(tensor) == st->types[t];
    if (!*plain || !read_tensor(st, tensor, v))
        return false;
    uint64_t elements = v->address == 0;
    for (int d = 0; d < v->rank && elements > 0; d++)
        elements *= (uint64_t)v->shape[d];
    if (elements > 0) { /* what `miss` says in words */
        PyErr_SetString(PyExc_ValueError, "a tensor has no memory");
        return false;
    }
    uint64_t *at = key + *words;
    *at++ = (uint64_t)v->type;
    *at++ = (uint64_t)v->device;
    *at++ = (uint64_t)v->rank;
    for (int d = 0; d < v->rank; d++) {
        *at++ = (uint64_t)v->shape[d];
        *at++ = (uint64_t)v->stride[d];
    }
    *words = (unsigned)(at - key);
    return true;
}

/* The plan of a call, and what its tensors are; NULL: `*answer` is what the call gives. */
static Plan *
plan_of_call(Plans *ps, PyObject *const *args, Py_ssize_t n, View *views, PyObject **answer)
{
    uint64_t key[MAX_KEY], hash = 0x9E3779B97F4A7C15u;
    unsigned words = 0;
    bool plain;

    *answer = NULL;
    if (n < (Py_ssize_t)ps->n_tensors || n - ps->n_tensors > MAX_VALUES) {
        PyErr_Format(PyExc_TypeError, "%u tensors and their values are expected", ps->n_tensors);
        return NULL;
    }
    for (unsigned i = 0; i < ps->n_tensors; i++) {
        if (words + 3 + 2 * MAX_RANK + 2 * MAX_VALUES > MAX_KEY) {
            PyErr_SetString(PyExc_TypeError, "the tensors have too many dimensions in all");
            return NULL;
        }
        if (!add_tensor(ps, args[i], &views[i], key, &words, &plain)) {
            *answer = plain ? refuse(ps, args, n) : Py_NewRef(Py_NotImplemented);
            return NULL;
        }
    }
    for (Py_ssize_t i = ps->n_tensors; i < n; i++, words += 2)
        if (!read_value(args[i], &key[words])) {
            *answer = refuse(ps, args, n);
            return NULL;
        }
    for (unsigned i = 0; i < words; i++) {
        hash = (hash ^ key[i]) * 0xFF51AFD7ED558CCDu;
        hash ^= hash >> 32;
    }
    Plan *plan = NULL;
    if (ps->room > 0)
        plan = (Plan *)Py_XNewRef((PyObject *)find_row(ps->rows, ps->room, hash, key, words)->plan);
    if (plan == NULL || !is_aligned(plan, views)) {
        Py_XDECREF(plan);
        plan = plans_miss(ps, args, n, hash, key, words);
    }
    return plan;
}

/* Runs the plan of these arguments; `*plan`: which it was, a reference, or NULL where the answer is
 * none of a plan. */
static PyObject *
run_call(Plans *ps, PyObject *const *args, Py_ssize_t n, Plan **plan)
{
    View views[MAX_TENSORS];
    PyObject *answer;

    *plan = plan_of_call(ps, args, n, views, &answer);
    return *plan == NULL ? answer : plan_run(*plan, args, views);
}

/* run(*tensors, *values): what the plan of these gives; NotImplemented for a tensor of a type that
 * open() was not told of. */
static PyObject *
plans_run(Plans *ps, PyObject *const *args, Py_ssize_t n)
{
    Plan *plan;
    PyObject *answer = run_call(ps, args, n, &plan);

    Py_XDECREF(plan);
    return answer;
}

/* record(*tensors, *values): the same, and which plan it was: (result, plan). */
static PyObject *
plans_record(Plans *ps, PyObject *const *args, Py_ssize_t n)
{
    Plan *plan;
    PyObject *answer = run_call(ps, args, n, &plan);

    if (plan == NULL)
        return answer;
    PyObject *both = answer ? PyTuple_New(2) : NULL;
    if (both != NULL) {
        PyTuple_SetItem(both, 0, Py_NewRef(answer));
        PyTuple_SetItem(both, 1, Py_NewRef((PyObject *)plan));
    }
    Py_XDECREF(answer);
    Py_DECREF(plan);
    return both;
}

static PyObject *
plans_forget(Plans *ps, PyObject *nothing)
{
    (void)nothing;
    forget(ps);
    return Py_NewRef(Py_None);
}

static PyObject *
plans_count(Plans *ps, void *nothing)
{
    (void)nothing;
    return PyLong_FromSize_t(ps->used);
}

static PyMethodDef plans_methods[] = {
    {"run", (PyCFunction)(void (*)(void))plans_run, METH_FASTCALL,
     "run(*tensors, *values): launches"},
    {"record", (PyCFunction)(void (*)(void))plans_record, METH_FASTCALL,
     "record(*tensors, *values): launches, and gives the plan, too"},
    {"forget", (PyCFunction)plans_forget, METH_NOARGS, "forgets all plans"},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef plans_properties[] = {
    {"count", (getter)plans_count, NULL, "how many there are", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot plans_slots[] = {{Py_tp_new, plans_new},
                                    {Py_tp_dealloc, plans_free},
                                    {Py_tp_traverse, plans_traverse},
                                    {Py_tp_clear, plans_clear},
                                    {Py_tp_methods, plans_methods},
                                    {Py_tp_getset, plans_properties},
                                    {0, NULL}};
PyType_Spec plans_spec = {"tilec._launch.Plans", sizeof(Plans), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, plans_slots};
