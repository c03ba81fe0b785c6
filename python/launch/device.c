/* device.c - a GPU: its context, code on it, the scratch that the launches of a stream share. */
#include "launch.h"

PyObject *
fail(State *st, Result result, const char *what)
{
    const char *name = NULL, *text = NULL;

    if (st->cu.cuGetErrorName != NULL)
        st->cu.cuGetErrorName(result, &name);
    st->cu.cuGetErrorString(result, &text);
    PyErr_Format(st->error, "%s: %s (%d): %s", what, name ? name : "error", result,
                 text ? text : "");
    return NULL;
}

bool
is_open(State *st)
{
    if (st->library == NULL)
        PyErr_SetString(PyExc_RuntimeError, "open() was not called");
    return st->library != NULL;
}

Result
enter(Device *d, bool *pushed)
{
    void *now = NULL;
    Result result = d->st->cu.cuCtxGetCurrent(&now);

    *pushed = result == 0 && now != d->context;
    return *pushed ? d->st->cu.cuCtxPushCurrent_v2(d->context) : result;
}

void
leave(Device *d, bool pushed)
{
    void *now;

    if (pushed)
        d->st->cu.cuCtxPopCurrent_v2(&now);
}

void
exchange_capture_mode(State *st, int *mode)
{
    if (st->cu.cuThreadExchangeStreamCaptureMode != NULL)
        st->cu.cuThreadExchangeStreamCaptureMode(mode);
}

static PyObject *
device_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *module = PyType_GetModule(type), *zeros;
    State *st = module ? PyModule_GetState(module) : NULL;
    int number;

    (void)kwargs;
    if (st == NULL || !is_open(st) || !PyArg_ParseTuple(args, "iO", &number, &zeros))
        return NULL;
    Device *d = (Device *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (d == NULL)
        return NULL;
    d->st = st;
    d->module = Py_NewRef(module);
    d->number = number;
    d->zeros = Py_NewRef(zeros);
    pthread_mutex_init(&d->lock, NULL);
    Result result = st->cu.cuDeviceGet(&d->handle, number);
    if (result == 0)
        result = st->cu.cuDevicePrimaryCtxRetain(&d->context, d->handle);
    if (result != 0) {
        Py_DECREF(d);
        return fail(st, result, "the context of a GPU");
    }
    return (PyObject *)d;
}

static void
device_free(Device *d)
{
    PyTypeObject *type = Py_TYPE(d);

    pthread_mutex_destroy(&d->lock);
    free(d->scratch);
    Py_XDECREF(d->zeros);
    Py_XDECREF(d->module);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(d);
    Py_DECREF(type);
}

static PyObject *
device_attribute(Device *d, PyObject *argument)
{
    long which = PyLong_AsLong(argument);
    int value = 0;

    if (which == -1 && PyErr_Occurred())
        return NULL;
    Result result = d->st->cu.cuDeviceGetAttribute(&value, (int)which, d->handle);
    return result == 0 ? PyLong_FromLong(value) : fail(d->st, result, "cuDeviceGetAttribute");
}

/* The options of the driver's compiler: where it writes what is wrong. */
typedef struct Log {
    char text[8192];
    int keys[2];
    void *values[2];
} Log;

static void
log_begin(Log *log)
{
    log->text[0] = '\0';
    log->keys[0] = 5; /* CU_JIT_ERROR_LOG_BUFFER */
    log->keys[1] = 6; /* CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES */
    log->values[0] = log->text;
    log->values[1] = (void *)(uintptr_t)sizeof log->text;
}

/* load(image): the handle of a module of PTX (NUL-terminated) or a cubin. */
static PyObject *
device_load(Device *d, PyObject *image)
{
    State *st = d->st;
    char *bytes;
    Py_ssize_t n;
    void *loaded = NULL;
    bool pushed;
    int mode = CAPTURE_RELAXED;
    Log log;

    if (PyBytes_AsStringAndSize(image, &bytes, &n) < 0)
        return NULL;
    log_begin(&log);
    Result result = enter(d, &pushed);
    if (result == 0) {
        exchange_capture_mode(st, &mode);
        Py_BEGIN_ALLOW_THREADS result = st->cu.cuModuleLoadDataEx(&loaded, bytes, 2, log.keys,
                                                                  log.values);
        Py_END_ALLOW_THREADS exchange_capture_mode(st, &mode);
        leave(d, pushed);
    }
    if (result != 0 && log.text[0] != '\0')
        return PyErr_Format(st->error, "the driver does not take the code: %s", log.text);
    return result == 0 ? PyLong_FromVoidPtr(loaded) : fail(st, result, "loading the code");
}

/* function(module, entry, shared): the handle of a kernel that may have so much dynamic shared
 * memory. */
static PyObject *
device_function(Device *d, PyObject *args)
{
    State *st = d->st;
    PyObject *handle;
    const char *entry;
    int shared, mode = CAPTURE_RELAXED;
    void *function = NULL;
    bool pushed;

    if (!PyArg_ParseTuple(args, "Osi", &handle, &entry, &shared))
        return NULL;
    void *loaded = PyLong_AsVoidPtr(handle);
    if (PyErr_Occurred())
        return NULL;
    Result result = enter(d, &pushed);
    if (result == 0) {
        exchange_capture_mode(st, &mode); /* a function may be loaded only now */
        result = st->cu.cuModuleGetFunction(&function, loaded, entry);
        if (result == 0 && shared > 48 * 1024)
            result = st->cu.cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED, shared);
        exchange_capture_mode(st, &mode);
        leave(d, pushed);
    }
    return result == 0 ? PyLong_FromVoidPtr(function) : fail(st, result, entry);
}

uint64_t
known_scratch(Device *d, void *stream, uint64_t capture, uint64_t bytes)
{
    uint64_t address = 0;

    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < d->n_scratch && address == 0; i++) {
        Scratch *s = &d->scratch[i];
        if (s->stream == stream && s->capture == capture && s->bytes == bytes)
            address = s->address;
    }
    pthread_mutex_unlock(&d->lock);
    return address;
}

uint64_t
scratch_of(Device *d, void *stream, uint64_t capture, uint64_t bytes)
{
    uint64_t address = known_scratch(d, stream, capture, bytes);

    if (address != 0)
        return address;
    PyObject *made = PyObject_CallFunction(d->zeros, "iK", d->number, (unsigned long long)bytes);
    address = made ? PyLong_AsUnsignedLongLong(made) : 0;
    Py_XDECREF(made);
    if (PyErr_Occurred())
        return 0;
    pthread_mutex_lock(&d->lock);
    Scratch *bigger = realloc(d->scratch, (d->n_scratch + 1) * sizeof *bigger);
    if (bigger != NULL) {
        d->scratch = bigger;
        d->scratch[d->n_scratch++] = (Scratch){stream, capture, bytes, address};
    }
    pthread_mutex_unlock(&d->lock);
    if (bigger == NULL)
        PyErr_NoMemory();
    return bigger ? address : 0;
}

static PyMethodDef device_methods[] = {
    {"attribute", (PyCFunction)device_attribute, METH_O, "a CUdevice_attribute"},
    {"load", (PyCFunction)device_load, METH_O, "the handle of a module"},
    {"function", (PyCFunction)device_function, METH_VARARGS, "the handle of a kernel"},
    {NULL, NULL, 0, NULL}};

static PyType_Slot device_slots[] = {{Py_tp_new, device_new},
                                     {Py_tp_dealloc, device_free},
                                     {Py_tp_methods, device_methods},
                                     {0, NULL}};
PyType_Spec device_spec = {"tilec._launch.Device", sizeof(Device), 0, Py_TPFLAGS_DEFAULT,
                           device_slots};
