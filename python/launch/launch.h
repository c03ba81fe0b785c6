/* launch.h - the extension tilec._launch: prepared launches on tensors, the hot path of
 * tilec.torch.
 *
 *   needs    CPython's stable ABI (3.10); libcuda.so.1 at run time, opened by open()
 *   does     keeps launch plans by the shapes, strides, types and values of a call; patches
 * addresses, launches, returns the new tensors leaves   everything else to Python: what a plan is
 * made of, and every refusal in words
 *
 *   device.c   Device, a GPU: its context, modules, and the scratch that a stream's launches share
 *   tensor.c   what a tensor is: address, shape, strides, type, device
 *   plan.c     Plan, the launches that one call comes to, with all parameters but the addresses
 *   plans.c    Plans, the plans of a kernel by key; calls `miss` for one that is not there
 *   native.c   running a plan without the interpreter's lock, for the gradient node in C++
 *   module.c   open(), and the module
 *
 * A tensor is read through DLPack's exchange API, a table of C functions that its type has (PyTorch
 * from 2.10), else by calling its methods.  Nothing here knows PyTorch: open() is told which types
 * may take this path, how the current stream is found, and what to raise.
 */
#ifndef TILEC_LAUNCH_H
#define TILEC_LAUNCH_H

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_TENSORS = 48, /* arguments of a call, tensors that it makes, pieces of them */
    MAX_RANK = 8,
    MAX_STEPS = 24,
    MAX_PARAMETERS = 128,
    MAX_BYTES = 4096, /* of a kernel's parameters */
    MAX_SCRATCH = 8,  /* of a plan */
    MAX_KEY = 256,    /* words */
    MAX_TYPES = 4,
    MAX_VALUES = 32,  /* of a call, beside tensors */
    MAX_PLANS = 4096, /* of a kernel; then it starts anew */
    MAP_BYTES = 128,
    DL_CUDA = 2
};

/* ---- the driver ---- */

typedef int Result;

typedef struct LaunchAttribute { /* CUlaunchAttribute */
    unsigned id, pad, value[16];
} LaunchAttribute;

typedef struct LaunchConfig { /* CUlaunchConfig */
    unsigned grid[3], block[3], shared;
    void *stream;
    LaunchAttribute *attributes;
    unsigned n;
} LaunchConfig;

enum { CAPTURE_RELAXED = 2 };
enum { CLUSTER_DIMENSION = 4, STREAM_SERIALIZATION = 6, MAX_DYNAMIC_SHARED = 8 };

/* Functions that are always there, and those that older drivers, or the ones of tests, lack. */
#define DRIVER(F)                                                                                  \
    F(cuInit, (unsigned))                                                                          \
    F(cuGetErrorString, (Result, const char **))                                                   \
    F(cuDeviceGet, (int *, int))                                                                   \
    F(cuDeviceGetAttribute, (int *, int, int))                                                     \
    F(cuDevicePrimaryCtxRetain, (void **, int))                                                    \
    F(cuCtxGetCurrent, (void **))                                                                  \
    F(cuCtxPushCurrent_v2, (void *))                                                               \
    F(cuCtxPopCurrent_v2, (void **))                                                               \
    F(cuModuleLoadDataEx, (void **, const void *, unsigned, int *, void **))                       \
    F(cuModuleGetFunction, (void **, void *, const char *))                                        \
    F(cuFuncSetAttribute, (void *, int, int))                                                      \
    F(cuMemsetD8Async, (unsigned long long, unsigned char, size_t, void *))                        \
    F(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,         \
                       unsigned, void *, void **, void **))
#define DRIVER_OPTIONAL(F)                                                                         \
    F(cuGetErrorName, (Result, const char **))                                                     \
    F(cuDriverGetVersion, (int *))                                                                 \
    F(cuLaunchKernelEx, (const LaunchConfig *, void *, void **, void **))                          \
    F(cuTensorMapEncodeTiled, (void *, int, uint32_t, void *, const uint64_t *, const uint64_t *,  \
                               const uint32_t *, const uint32_t *, int, int, int, int))            \
    F(cuTensorMapReplaceAddress, (void *, void *))                                                 \
    F(cuStreamIsCapturing, (void *, int *))                                                        \
    F(cuStreamGetCaptureInfo_v2, (void *, int *, uint64_t *, void *, void *, void *))              \
    F(cuThreadExchangeStreamCaptureMode, (int *))

#define FIELD(name, parameters) Result(*name) parameters;
typedef struct Driver {
    DRIVER(FIELD)
    DRIVER_OPTIONAL(FIELD)
} Driver;

/* ---- DLPack's exchange API (dlpack.h, version 1) ---- */

typedef struct DlTensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} DlTensor;

typedef struct DlExchange {
    struct {
        uint32_t major, minor;
    } version;
    struct DlExchange *previous;
    void *allocator, *from_object, *to_object;
    int (*read)(void *object, DlTensor *out);
    int (*stream)(int32_t device_type, int32_t device, void **out);
} DlExchange;

/* ---- the module ---- */

typedef struct State {
    void *library;
    Driver cu;
    PyObject *error;                /* the class of what is raised */
    const DlExchange *exchange;     /* NULL: tensors are read by their methods */
    PyTypeObject *types[MAX_TYPES]; /* that may take the fast path; none: all may */
    int n_types;
    PyObject *stream; /* current stream of a device's number; NULL: the default one */
    bool replace;     /* addresses in tensor maps are replaced, not encoded anew */
    uint64_t plans;   /* how many there were */
    PyObject *names[5];
    PyTypeObject *device_type, *plan_type, *plans_type;
} State;

enum { NAME_SHAPE, NAME_STRIDE, NAME_DTYPE, NAME_DEVICE, NAME_ADDRESS };

/* Raises what a call of the driver gave; NULL. */
PyObject *fail(State *st, Result result, const char *what);
bool is_open(State *st);
/* What is not part of a CUDA graph is done though one is being captured; *mode becomes the one
 * before. */
void exchange_capture_mode(State *st, int *mode);

/* ---- device.c ---- */

typedef struct Scratch {
    void *stream;
    uint64_t capture, bytes, address;
} Scratch;

typedef struct Device {
    PyObject_HEAD State *st;
    PyObject *module;
    int number, handle;
    void *context;
    PyObject *zeros;      /* callable: the address of so many bytes that are zero */
    pthread_mutex_t lock; /* of what follows */
    Scratch *scratch;     /* of each stream, or of each graph that was captured */
    size_t n_scratch;
} Device;

extern PyType_Spec device_spec;

/* Makes the device's context current; *pushed says whether leave() has to undo it. */
Result enter(Device *d, bool *pushed);
void leave(Device *d, bool pushed);
/* The address of `bytes` that are zero before and after each launch of this stream; 0: an error is
 * set. Launches of a stream run one after the other and may share it; a captured graph has one of
 * its own. */
uint64_t scratch_of(Device *d, void *stream, uint64_t capture, uint64_t bytes);
/* The same where it is known, else 0; without the interpreter's lock. */
uint64_t known_scratch(Device *d, void *stream, uint64_t capture, uint64_t bytes);

/* ---- tensor.c ---- */

typedef struct View {
    uint64_t address;
    int64_t type, device; /* numbers that are equal for equal ones */
    int rank;
    int64_t shape[MAX_RANK], stride[MAX_RANK];
} View;

/* False: an error is set. */
bool read_tensor(State *st, PyObject *tensor, View *v);
bool read_address(State *st, PyObject *tensor, uint64_t *address);
/* PyTorch's current stream of a device. */
bool current_stream(State *st, int device, void **stream);

/* ---- plan.c ---- */

/* An address in the parameters: that of tensor `tensor` of the call. */
typedef struct Address {
    unsigned offset, tensor;
} Address;

typedef struct Map {
    unsigned offset;
    int tensor; /* -1: `address` for ever */
    uint64_t address;
    bool encoded; /* into the template */
    int type, swizzle, promotion;
    uint32_t rank, box[5];
    uint64_t size[5], pitch[4];
} Map;

typedef struct Memory { /* a scratch */
    unsigned offset;
    uint64_t bytes;
} Memory;

/* A launch; or, without a function, `bytes` zeros at a tensor's address. */
typedef struct Step {
    void *function;
    unsigned grid[3], block, shared, cluster[3];
    bool early;
    int tensor;
    uint64_t bytes;
    unsigned n_offsets, n_addresses, n_maps, n_scratch, n_bytes;
    unsigned *offsets; /* of all parameters */
    Address *addresses;
    Map *maps;
    Memory *scratch;
    unsigned char *template; /* aligned for maps */
    void *room;              /* what `template` lies in */
} Step;

typedef struct Piece { /* memory inside of a tensor that the call makes */
    unsigned tensor;
    uint64_t offset;
} Piece;

typedef struct Plan {
    PyObject_HEAD State *st;
    Device *device;
    unsigned n_inputs, n_made, n_pieces, n_returns, n_steps, n_scratch;
    bool single;                 /* the one result, not a tuple */
    bool asks;                   /* whether the stream is being captured matters */
    bool ran;                    /* once at least: its maps are encoded */
    uint64_t serial;             /* of all plans of the process; from 1 */
    uint64_t mask[MAX_TENSORS];  /* an argument's address and this: 0 */
    PyObject *made[MAX_TENSORS]; /* (callable, arguments, keywords) */
    Piece pieces[MAX_TENSORS];
    unsigned returns[MAX_TENSORS];
    Step steps[MAX_STEPS];
} Plan;

extern PyType_Spec plan_spec;

/* The items of a tuple, at most `most`; -1: an error is set. */
Py_ssize_t count(PyObject *tuple, Py_ssize_t most, const char *what);
/* Makes the new tensors, runs, returns what the call gives. */
PyObject *plan_run(Plan *p, PyObject *const *args, const View *views);
typedef uint64_t (*FindScratch)(Device *d, void *stream, uint64_t capture, uint64_t bytes);
/* The scratch of all steps in order, for launches in `stream`, as `find` has it; false: it has not.
 * `*capturing`: whether the stream is captured. */
bool find_scratch(Plan *p, FindScratch find, void *stream, bool *capturing, uint64_t *scratch);
/* The launches; the context is current. */
Result launch_steps(Plan *p, const uint64_t *address, const uint64_t *scratch, void *stream,
                    bool capturing);

/* ---- plans.c ---- */

extern PyType_Spec plans_spec;

/* ---- native.c ---- */

enum { NATIVE_VERSION = 1 };
enum { NATIVE_DONE, NATIVE_NOT_READY, NATIVE_FAILED };

/* What the gradient node calls (python/tilec/torch/node.cpp has the same); it needs no lock. */
typedef struct Native {
    uint32_t version, max_tensors;
    /* Launches.  `address` has those of the arguments and of what is made, and room for
     * max_tensors. Unless it is NATIVE_DONE the caller takes the way through Python, which says
     * what is wrong. */
    int (*run)(void *plan, uint64_t *address);
    void (*keep)(void *plan);
    void (*drop)(void *plan);
} Native;

const Native *native_functions(void);

#endif
