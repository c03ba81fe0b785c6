/* tensor.c - what a tensor is, by DLPack or by its methods; the stream that is current. */
#include "launch.h"

static bool
read_tuple(PyObject *tuple, int64_t *out, int *n)
{
    Py_ssize_t have = tuple && PyTuple_Check(tuple) ? PyTuple_Size(tuple) : -1;

    if (have < 0 || have > MAX_RANK) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "a tensor of at most %d dimensions is expected", MAX_RANK);
        Py_XDECREF(tuple);
        return false;
    }
    *n = (int)have;
    for (int i = 0; i < *n; i++)
        out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    Py_DECREF(tuple);
    return !PyErr_Occurred();
}

static bool
read_by_methods(State *st, PyObject *tensor, View *v)
{
    int n = 0;

    if (!read_tuple(PyObject_GetAttr(tensor, st->names[NAME_SHAPE]), v->shape, &v->rank) ||
        !read_tuple(PyObject_CallMethodObjArgs(tensor, st->names[NAME_STRIDE], NULL), v->stride, &n))
        return false;
    PyObject *type = PyObject_GetAttr(tensor, st->names[NAME_DTYPE]);
    PyObject *device = type ? PyObject_CallMethodObjArgs(tensor, st->names[NAME_DEVICE], NULL)
                            : NULL;
    PyObject *address = device ? PyObject_CallMethodObjArgs(tensor, st->names[NAME_ADDRESS], NULL)
                               : NULL;
    if (address != NULL) {
        v->type = (int64_t)(intptr_t)type; /* the types are objects that live for ever */
        v->device = PyLong_AsLong(device);
        v->address = PyLong_AsUnsignedLongLong(address);
    }
    Py_XDECREF(type);
    Py_XDECREF(device);
    Py_XDECREF(address);
    return !PyErr_Occurred();
}

bool
read_tensor(State *st, PyObject *tensor, View *v)
{
    DlTensor t;

    if (st->exchange == NULL)
        return read_by_methods(st, tensor, v);
    if (st->exchange->read(tensor, &t) != 0)
        return false;
    if (t.ndim > MAX_RANK || (t.strides == NULL && t.ndim > 0)) {
        PyErr_Format(PyExc_TypeError, "a tensor of at most %d dimensions is expected", MAX_RANK);
        return false;
    }
    v->address = (uint64_t)(uintptr_t)t.data + t.byte_offset;
    v->type = (int64_t)t.code << 32 | (int64_t)t.bits << 16 | t.lanes;
    v->device = (int64_t)t.device_type << 32 | (uint32_t)t.device_id;
    v->rank = t.ndim;
    memcpy(v->shape, t.shape, (size_t)t.ndim * sizeof *t.shape);
    memcpy(v->stride, t.strides, (size_t)t.ndim * sizeof *t.strides);
    return true;
}

bool
read_address(State *st, PyObject *tensor, uint64_t *address)
{
    DlTensor t;

    if (st->exchange != NULL) {
        if (st->exchange->read(tensor, &t) != 0)
            return false;
        *address = (uint64_t)(uintptr_t)t.data + t.byte_offset;
        return true;
    }
    PyObject *number = PyObject_CallMethodObjArgs(tensor, st->names[NAME_ADDRESS], NULL);
    *address = number ? PyLong_AsUnsignedLongLong(number) : 0;
    Py_XDECREF(number);
    return !PyErr_Occurred();
}

bool
current_stream(State *st, int device, void **stream)
{
    *stream = NULL;
    if (st->stream == NULL)
        return true;
    if (st->exchange != NULL)
        return st->exchange->stream(DL_CUDA, device, stream) == 0;
    PyObject *number = PyObject_CallFunction(st->stream, "i", device);
    *stream = number ? PyLong_AsVoidPtr(number) : NULL;
    Py_XDECREF(number);
    return !PyErr_Occurred();
}
