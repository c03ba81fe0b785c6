package main

// The driver and the kernels: errors are values, and what is taken is given back by Free, Unload and Close.

// #cgo LDFLAGS: -lcuda
// #include "shim.h"
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

func check(result C.CUresult, what string, message []C.char) error {
	if result == C.CUDA_SUCCESS {
		return nil
	}
	text := ""
	if len(message) > 0 {
		text = C.GoString(&message[0])
	}
	return fmt.Errorf("%s: error %d %s", what, int(result), text)
}

// Context is the first GPU's.  A context is current in a thread of the system, so the goroutine keeps its own.
type Context struct{ device C.CUdevice }

func Open() (*Context, error) {
	var context C.CUcontext
	made := &Context{}
	runtime.LockOSThread()
	if err := check(C.cuInit(0), "cuInit", nil); err != nil {
		return nil, err
	}
	if err := check(C.cuDeviceGet(&made.device, 0), "cuDeviceGet", nil); err != nil {
		return nil, err
	}
	if err := check(C.cuDevicePrimaryCtxRetain(&context, made.device), "cuDevicePrimaryCtxRetain", nil); err != nil {
		return nil, err
	}
	return made, check(C.cuCtxSetCurrent(context), "cuCtxSetCurrent", nil)
}

func (c *Context) Close() {
	C.cuDevicePrimaryCtxRelease(c.device)
	runtime.UnlockOSThread()
}

// Number is what a buffer holds: bfloat16 as its bits, or float32.
type Number interface{ uint16 | float32 }

// Buffer is memory of the GPU for n numbers, zero at first.
type Buffer[T Number] struct {
	address C.CUdeviceptr
	n       int
}

func NewBuffer[T Number](n int) (*Buffer[T], error) {
	made := &Buffer[T]{n: n}
	if err := check(C.cuMemAlloc(&made.address, made.bytes()), "cuMemAlloc", nil); err != nil {
		return nil, err
	}
	return made, check(C.cuMemsetD8(made.address, 0, made.bytes()), "cuMemsetD8", nil)
}

func Copied[T Number](values []T) (*Buffer[T], error) {
	made, err := NewBuffer[T](len(values))
	if err != nil {
		return nil, err
	}
	return made, check(C.cuMemcpyHtoD(made.address, unsafe.Pointer(&values[0]), made.bytes()), "cuMemcpyHtoD", nil)
}

func (b *Buffer[T]) bytes() C.size_t {
	var number T
	return C.size_t(b.n) * C.size_t(unsafe.Sizeof(number))
}

func (b *Buffer[T]) Read() ([]T, error) {
	values := make([]T, b.n)
	return values, check(C.cuMemcpyDtoH(unsafe.Pointer(&values[0]), b.address, b.bytes()), "cuMemcpyDtoH", nil)
}

func (b *Buffer[T]) Free() { C.cuMemFree(b.address) }

// Args are the tensors and numbers of one launch; cgo gives the header's structures as Go's.
type Args = C.attention_args

// lay writes the shape and the strides of a tensor with rows in order.
func lay(dims []int, shape, stride []C.int64_t) {
	next := 1
	for i := len(dims) - 1; i >= 0; i-- {
		shape[i], stride[i] = C.int64_t(dims[i]), C.int64_t(next)
		next *= dims[i]
	}
}

// View4 is a tensor of four dimensions, rows in order; a View3 one of three.
func View4[T Number](b *Buffer[T], shape [4]int) C.tilec_view4 {
	view := C.tilec_view4{data: b.address}
	lay(shape[:], view.shape[:], view.stride[:])
	return view
}

func View3[T Number](b *Buffer[T], shape [3]int) C.tilec_view3 {
	view := C.tilec_view3{data: b.address}
	lay(shape[:], view.shape[:], view.stride[:])
	return view
}

// Attention is the kernels of the header, loaded.
type Attention struct{ module *C.attention_module }

func Load() (*Attention, error) {
	made, message := &Attention{}, make([]C.char, 4096)
	result := C.shim_load(&made.module, &message[0], C.size_t(len(message)))
	return made, check(result, "attention_load", message)
}

func (a *Attention) Unload() { C.shim_unload(a.module) }

// Run runs to its end.
func (a *Attention) Run(args Args) error {
	if n := C.shim_scratch_bytes(a.module, &args); n > 0 {
		scratch, err := NewBuffer[uint16](int(n+1) / 2) // of this call alone: each launch leaves it zero
		if err != nil {
			return err
		}
		defer scratch.Free()
		C.shim_set_scratch(&args, scratch.address)
	}
	message := make([]C.char, 4096)
	if err := check(C.shim_check(&args, &message[0], C.size_t(len(message))), "attention", message); err != nil {
		return err
	}
	if err := check(C.shim_launch(a.module, &args, nil), "attention", nil); err != nil {
		return err
	}
	return check(C.cuCtxSynchronize(), "attention", nil)
}
