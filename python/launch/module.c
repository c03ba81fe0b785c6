/* module.c - open(): the driver, and what tensors are; the module. */
#include <dlfcn.h>

#include "launch.h"

static bool
find_functions(State *st)
{
    const char *missing = NULL;

#define NEED(name, parameters)                                                                     \
    if ((*(void **)&st->cu.name = dlsym(st->library, #name)) == NULL)                              \
        missing = #name;
#define TAKE(name, parameters) *(void **)&st->cu.name = dlsym(st->library, #name);
    DRIVER(NEED)
    DRIVER_OPTIONAL(TAKE)
    if (missing != NULL)
        PyErr_Format(st->error, "the CUDA driver has no %s", missing);
    return missing == NULL;
}

/* open(error, types, exchange, stream): opens the driver.  `error` is what is raised, `types` those
 * of the tensors that take this path, `exchange` their DLPack capsule or None, `stream` a callable
 * that gives the current stream of a device's number, or None. */
static PyObject *
launch_open(PyObject *module, PyObject *args)
{
    State *st = PyModule_GetState(module);
    PyObject *error, *types, *exchange, *stream;

    if (!PyArg_ParseTuple(args, "OO!OO", &error, &PyTuple_Type, &types, &exchange, &stream))
        return NULL;
    Py_ssize_t n = count(types, MAX_TYPES, "types");
    if (n < 0)
        return NULL;
    st->error = Py_NewRef(
        error); /* once or twice in a process: what was there before is not missed */
    st->stream = stream == Py_None ? NULL : Py_NewRef(stream);
    for (st->n_types = 0; st->n_types < (int)n;
         st->n_types++) /* types that live as long as this module */
        st->types[st->n_types] = (PyTypeObject *)Py_NewRef(PyTuple_GetItem(types, st->n_types));
    st->exchange = NULL;
    if (exchange != Py_None) {
        const DlExchange *api = PyCapsule_GetPointer(exchange, "dlpack_exchange_api");
        while (api != NULL && api->version.major > 1)
            api = api->previous;
        if (PyErr_Occurred())
            return NULL;
        st->exchange = api != NULL && api->version.major == 1 && api->read && api->stream ? api
                                                                                          : NULL;
    }
    if (st->library == NULL) {
        st->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (st->library == NULL)
            return PyErr_Format(st->error, "the CUDA driver cannot be opened: %s", dlerror());
        Result result = find_functions(st) ? st->cu.cuInit(0) : -1;
        if (PyErr_Occurred() || result != 0) {
            st->library = NULL;
            return PyErr_Occurred() ? NULL : fail(st, result, "cuInit");
        }
        st->replace = st->cu.cuTensorMapReplaceAddress != NULL;
    }
    return PyLong_FromLong(st->exchange != NULL);
}

/* replace(flag): whether addresses in tensor maps are replaced (else maps are encoded anew). */
static PyObject *
launch_replace(PyObject *module, PyObject *flag)
{
    State *st = PyModule_GetState(module);

    st->replace = PyObject_IsTrue(flag) == 1 && st->cu.cuTensorMapReplaceAddress != NULL;
    return PyBool_FromLong(st->replace);
}

static PyObject *
launch_version(PyObject *module, PyObject *nothing)
{
    State *st = PyModule_GetState(module);
    int version = 0;

    (void)nothing;
    if (st->cu.cuDriverGetVersion != NULL)
        st->cu.cuDriverGetVersion(&version);
    return PyLong_FromLong(version);
}

/* relax(): this thread may do what a capture in another one forbids by default. */
static PyObject *
launch_relax(PyObject *module, PyObject *nothing)
{
    int mode = CAPTURE_RELAXED;

    (void)nothing;
    exchange_capture_mode(PyModule_GetState(module), &mode);
    return Py_NewRef(Py_None);
}

/* native(): the address of a struct Native. */
static PyObject *
launch_native(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    return PyLong_FromVoidPtr((void *)(uintptr_t)native_functions());
}

static int
launch_exec(PyObject *module)
{
    static const char *const names[5] = {"shape", "stride", "dtype", "get_device", "data_ptr"};
    State *st = PyModule_GetState(module);

    for (int i = 0; i < 5; i++)
        if ((st->names[i] = PyUnicode_InternFromString(names[i])) == NULL)
            return -1;
    st->device_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &device_spec, NULL);
    st->plan_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &plan_spec, NULL);
    st->plans_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &plans_spec, NULL);
    if (!st->device_type || !st->plan_type || !st->plans_type)
        return -1;
    return PyModule_AddType(module, st->device_type) || PyModule_AddType(module, st->plan_type) ||
                   PyModule_AddType(module, st->plans_type)
               ? -1
               : 0;
}

static PyMethodDef launch_methods[] = {
    {"open", launch_open, METH_VARARGS, "open(error, types, exchange, stream)"},
    {"replace", launch_replace, METH_O, "replace(flag)"},
    {"relax", launch_relax, METH_NOARGS, "captures do not bind this thread"},
    {"native", launch_native, METH_NOARGS, "the address of functions for code in C++"},
    {"driver_version", launch_version, METH_NOARGS, "13000, say"},
    {NULL, NULL, 0, NULL}};
static PyModuleDef_Slot launch_slots[] = {{Py_mod_exec, launch_exec}, {0, NULL}};
static struct PyModuleDef launch_module = {PyModuleDef_HEAD_INIT,
                                           "tilec._launch",
                                           "Prepared launches on tensors.",
                                           sizeof(State),
                                           launch_methods,
                                           launch_slots,
                                           NULL,
                                           NULL,
                                           NULL};

PyMODINIT_FUNC PyInit__launch(void);

PyMODINIT_FUNC
PyInit__launch(void)
{
    return PyModuleDef_Init(&launch_module);
}
