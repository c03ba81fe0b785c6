"""_library.py - libtilec by ctypes: the structures of compiler/tilec.h, and nothing more."""
import ctypes
import glob
import os
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32,
                    c_uint64, c_void_p)

HERE = os.path.dirname(os.path.abspath(__file__))


class Error(RuntimeError):
    """The program or an option is wrong, in the compiler's words; or, with `status` 2, a fault of tilec itself."""

    def __init__(self, message, status):
        super().__init__(message)
        self.status = status

    def __reduce__(self):
        return type(self), (str(self), self.status)


class Define(Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


Import = CFUNCTYPE(c_bool, c_void_p, c_char_p, POINTER(c_char_p), POINTER(c_char_p), POINTER(c_size_t))


class Options(Structure):  # TilecOptions
    _fields_ = [
        ("arch", c_char_p), ("tune", c_char_p), ("emit", c_int), ("level", c_int),
        ("defines", POINTER(Define)), ("n_defines", c_size_t),
        ("sizes", POINTER(Define)), ("n_sizes", c_size_t), ("kernel", c_char_p),
        ("switches", POINTER(c_char_p)), ("n_switches", c_size_t),
        ("warps", c_uint32), ("stages", c_uint32), ("plan", c_char_p),
        ("line_info", c_bool), ("warnings_are_errors", c_bool), ("remarks", c_bool), ("verify", c_bool),
        ("report", c_bool), ("time_report", c_bool), ("dump_ir", c_char_p),
        ("schedule", c_bool), ("schedule_picture", c_bool), ("page", c_bool), ("run_pass", c_char_p),
        ("header_name", c_char_p), ("header_with_ptx", c_bool), ("header_cubins", c_void_p), ("n_header_cubins", c_size_t),
        ("ignore_debug", c_bool),
        ("tuning", c_char_p), ("tuning_path", c_char_p),
        ("import_", Import), ("import_user", c_void_p), ("allocator", c_void_p),
        ("unproved", c_int), ("no_plan", c_int), ("variants", c_char_p),
        ("unused", c_int), ("dimension", c_int),
        ("broadcast", c_int), ("repeated", c_int), ("order", c_int), ("narrow", c_int)]


class Result(Structure):  # TilecResult
    _fields_ = [
        ("status", c_int), ("output", c_char_p), ("output_bytes", c_size_t), ("messages", c_char_p),
        ("dump", c_char_p), ("report", c_char_p), ("time_report", c_char_p),
        ("schedule", c_char_p), ("schedule_picture", c_char_p), ("page", c_char_p),
        ("errors", ctypes.c_uint), ("warnings", ctypes.c_uint), ("memory_bytes", c_size_t),
        ("storage", c_void_p)]


class Array(Structure):  # TilecArray
    _fields_ = [
        ("name", c_char_p), ("kind", c_char), ("bytes", c_uint32), ("rank", c_uint32), ("shape", c_int64 * 8),
        ("total", c_size_t), ("data", c_void_p), ("tolerance", POINTER(c_double))]


Print = CFUNCTYPE(None, c_void_p, c_void_p, c_size_t)


class Run(Structure):  # TilecRun
    _fields_ = [
        ("inputs", POINTER(Array)), ("n_inputs", c_size_t), ("sets", POINTER(Define)), ("n_sets", c_size_t),
        ("outputs", POINTER(c_char_p)), ("n_outputs", c_size_t), ("tolerance", c_bool), ("seed", c_uint64),
        ("nan", c_int), ("work_limit", c_uint64), ("print", Print), ("print_user", c_void_p),
        ("keeps", c_bool), ("sums", c_char_p)]


class RunResult(Structure):  # TilecRunResult
    _fields_ = [("status", c_int), ("messages", c_char_p), ("outputs", POINTER(Array)), ("storage", c_void_p)]


def path():
    """The file of the library, where it can be known."""
    beside = sorted(glob.glob(os.path.join(HERE, "lib*", "libtilec.so*")))
    return os.environ.get("TILEC_LIBRARY") or (beside[0] if beside else None)


def _load():
    library = ctypes.CDLL(path() or "libtilec.so")
    library.tilec_default_options.restype = Options
    library.tilec_compile.argtypes = [POINTER(Options), c_char_p, c_char_p, c_size_t, POINTER(Result)]
    library.tilec_result_free.argtypes = [POINTER(Result)]
    library.tilec_result_free.restype = None
    library.tilec_run.argtypes = [POINTER(Options), POINTER(Run), c_char_p, c_char_p, c_size_t, POINTER(RunResult)]
    library.tilec_run_free.argtypes = [POINTER(RunResult)]
    library.tilec_run_free.restype = None
    return library


_tilec = _load()


def default_options():
    return _tilec.tilec_default_options()


def importer(folders):
    """A callback that finds modules in `folders`, and what must live as long as it is used."""
    texts = {}

    def find(_user, name, path, text, n):
        for folder in folders:
            at = os.path.join(folder, name.decode() + ".tile")
            if os.path.isfile(at):
                with open(at, "rb") as file:
                    texts[name] = (os.fsencode(at), file.read())
                path[0], text[0] = texts[name]
                n[0] = len(texts[name][1])
                return True
        return False

    callback = Import(find)
    return callback, (callback, texts)


def settings(values):
    """Rows of TilecDefine for values by name, and how many."""
    rows = (Define * max(len(values), 1))()
    for row, (name, value) in zip(rows, values.items()):
        row.name, row.value = name.encode(), (str(value).lower() if isinstance(value, bool) else str(value)).encode()
    return rows, len(values)


def run(options, path, text):
    """The output, the messages and the page of a compilation."""
    data, result = text.encode(), Result()
    status = _tilec.tilec_compile(ctypes.byref(options), os.fsencode(path), data, len(data), ctypes.byref(result))
    try:
        messages = (result.messages or b"").decode(errors="replace")
        if status != 0:
            raise Error(messages.strip() or f"tilec failed with status {status}", status)
        return result.output.decode(), messages, (result.page or b"").decode()
    finally:
        _tilec.tilec_result_free(ctypes.byref(result))


copy = ctypes.memmove
IGNORE = 2  # a TilecAction
NAN = {"note": 0, "ignore": 1, "error": 2}


def interpret(options, path, text, inputs, sets, outputs, take, *, seed=0, nan="note", show=None, keeps=False, sums=None):
    """Runs a program in the reference interpreter; its messages.  `inputs` are rows (name, kind, bytes, shape, address), `sets`
    values by name, `outputs` names, of which `take` is given each in the same form.  `show` is called with what `print` says; `keeps`, `sums`: see
    TilecRun."""
    data, result = text.encode(), RunResult()
    rows = (Array * max(len(inputs), 1))()
    for row, (name, kind, bytes_, shape, address) in zip(rows, inputs):
        row.name, row.kind, row.bytes, row.rank, row.data = name.encode(), kind.encode(), bytes_, len(shape), address
        row.shape[:len(shape)] = shape
        row.total = bytes_
        for extent in shape:
            row.total *= extent
    given, n = settings(sets)
    names = (c_char_p * max(len(outputs), 1))(*[name.encode() for name in outputs])
    told = Print(lambda _user, at, n: show(ctypes.string_at(at, n).decode(errors="replace"))) if show else Print()
    asked = Run(inputs=rows, n_inputs=len(inputs), sets=given, n_sets=n, outputs=names, n_outputs=len(outputs), seed=seed,
                nan=NAN[nan], print=told, keeps=keeps, sums=sums and sums.encode())
    status = _tilec.tilec_run(ctypes.byref(options), ctypes.byref(asked), os.fsencode(path), data, len(data), ctypes.byref(result))
    try:
        messages = (result.messages or b"").decode(errors="replace")
        if status != 0:
            raise Error(messages.strip() or f"tilec failed with status {status}", status)
        for k in range(len(outputs)):
            row = result.outputs[k]
            take(row.name.decode(), row.kind.decode(), row.bytes, tuple(row.shape[:row.rank]), row.data)
        return messages
    finally:
        _tilec.tilec_run_free(ctypes.byref(result))
