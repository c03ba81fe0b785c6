/* native.c - running a plan without the interpreter's lock, for the gradient node in C++. */
#include "launch.h"

static int
native_run(void *plan, uint64_t *address)
{
    Plan *p = plan;
    State *st = p->st;
    uint64_t scratch[MAX_SCRATCH];
    bool pushed = false, capturing = false;
    unsigned n = p->n_inputs + p->n_made;
    void *stream = NULL;

    if (!p->ran)
        return NATIVE_NOT_READY;
    for (unsigned i = 0; i < p->n_inputs; i++)
        if (address[i] & p->mask[i])
            return NATIVE_NOT_READY;
    for (unsigned k = 0; k < p->n_pieces; k++)
        address[n++] = address[p->pieces[k].tensor] + p->pieces[k].offset;
    if (st->stream != NULL &&
        (st->exchange == NULL || st->exchange->stream(DL_CUDA, p->device->number, &stream) != 0))
        return NATIVE_NOT_READY;
    if (p->asks && !find_scratch(p, known_scratch, stream, &capturing, scratch))
        return NATIVE_NOT_READY;
    Result result = enter(p->device, &pushed);
    if (result == 0) {
        result = launch_steps(p, address, scratch, stream, capturing);
        leave(p->device, pushed);
    }
    return result == 0 ? NATIVE_DONE : NATIVE_FAILED;
}

static void
native_keep(void *plan)
{
    PyGILState_STATE state = PyGILState_Ensure();

    Py_INCREF((PyObject *)plan);
    PyGILState_Release(state);
}

static void
native_drop(void *plan)
{
    if (!Py_IsInitialized()) /* the process ends */
        return;
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)plan);
    PyGILState_Release(state);
}

const Native *
native_functions(void)
{
    static const Native functions = {NATIVE_VERSION, MAX_TENSORS, native_run, native_keep,
                                     native_drop};

    return &functions;
}
