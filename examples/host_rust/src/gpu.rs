//! The driver and the kernels: what is taken is given back when it is dropped, errors are values.
use std::{ffi::c_char, ffi::c_void, fmt, marker::PhantomData, mem::size_of, ptr::null_mut};

/// The structures of the generated header, field by field.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct View<const RANK: usize> {
    pub data: u64,
    pub shape: [i64; RANK],
    pub stride: [i64; RANK],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Args {
    pub q: View<4>,
    pub k: View<4>,
    pub v: View<4>,
    pub o: View<4>,
    pub l: View<3>,
    pub scale: f32,
    pub softcap: f32,
    pub scratch: u64, // found by run(); the last: a compilation that takes none does not look at it
}

extern "C" {
    fn cuInit(flags: u32) -> i32;
    fn cuDeviceGet(device: *mut i32, ordinal: i32) -> i32;
    fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, device: i32) -> i32;
    fn cuDevicePrimaryCtxRelease_v2(device: i32) -> i32;
    fn cuCtxSetCurrent(context: *mut c_void) -> i32;
    fn cuCtxSynchronize() -> i32;
    fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> i32;
    fn cuMemFree_v2(address: u64) -> i32;
    fn cuMemsetD8_v2(address: u64, byte: u8, bytes: usize) -> i32;
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> i32;
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> i32;
    fn shim_load(out: *mut *mut c_void, message: *mut c_char, bytes: usize) -> i32;
    fn shim_unload(module: *mut c_void);
    fn shim_scratch_bytes(module: *const c_void, args: *const Args) -> usize;
    fn shim_check(args: *const Args, message: *mut c_char, bytes: usize) -> i32;
    fn shim_launch(module: *const c_void, args: *const Args, stream: *mut c_void) -> i32;
}

/// A call of the driver, or of the header, that failed.
#[derive(Debug)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(&self.0)
    }
}

fn check(result: i32, what: &str, message: &[u8]) -> Result<(), Error> {
    if result == 0 {
        return Ok(());
    }
    let text = message.split(|&byte| byte == 0).next().unwrap_or(&[]);
    Err(Error(format!("{what}: error {result} {}", String::from_utf8_lossy(text))))
}

/// The first GPU, whose context is current in this thread.
pub struct Context(i32);

impl Context {
    pub fn new() -> Result<Context, Error> {
        let (mut device, mut context) = (0, null_mut());
        unsafe {
            check(cuInit(0), "cuInit", &[])?;
            check(cuDeviceGet(&mut device, 0), "cuDeviceGet", &[])?;
            check(cuDevicePrimaryCtxRetain(&mut context, device), "cuDevicePrimaryCtxRetain", &[])?;
            check(cuCtxSetCurrent(context), "cuCtxSetCurrent", &[])?;
        }
        Ok(Context(device))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        unsafe { cuDevicePrimaryCtxRelease_v2(self.0) };
    }
}

/// Memory of the GPU for so many T; it does not outlive the context.
pub struct Buffer<'c, T> {
    pub address: u64,
    n: usize,
    of: PhantomData<(&'c Context, T)>,
}

impl<'c, T: Copy + Default> Buffer<'c, T> {
    pub fn new(_: &'c Context, n: usize) -> Result<Self, Error> {
        let mut address = 0;
        unsafe { check(cuMemAlloc_v2(&mut address, n * size_of::<T>()), "cuMemAlloc", &[])? };
        let made = Buffer { address, n, of: PhantomData };
        unsafe { check(cuMemsetD8_v2(address, 0, n * size_of::<T>()), "cuMemsetD8", &[])? };
        Ok(made)
    }

    pub fn from(context: &'c Context, values: &[T]) -> Result<Self, Error> {
        let made = Buffer::new(context, values.len())?;
        let bytes = std::mem::size_of_val(values);
        unsafe { check(cuMemcpyHtoD_v2(made.address, values.as_ptr().cast(), bytes), "cuMemcpyHtoD", &[])? };
        Ok(made)
    }

    pub fn read(&self) -> Result<Vec<T>, Error> {
        let mut values = vec![T::default(); self.n];
        let bytes = self.n * size_of::<T>();
        unsafe { check(cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), self.address, bytes), "cuMemcpyDtoH", &[])? };
        Ok(values)
    }
}

impl<T> Drop for Buffer<'_, T> {
    fn drop(&mut self) {
        unsafe { cuMemFree_v2(self.address) };
    }
}

/// The kernels of the header, loaded.
pub struct Attention<'c> {
    module: *mut c_void,
    context: &'c Context,
}

impl<'c> Attention<'c> {
    pub fn new(context: &'c Context) -> Result<Self, Error> {
        let (mut module, mut message) = (null_mut(), [0u8; 4096]);
        let result = unsafe { shim_load(&mut module, message.as_mut_ptr().cast(), message.len()) };
        check(result, "attention_load", &message)?;
        Ok(Attention { module, context })
    }

    /// Runs to its end.
    pub fn run(&self, mut args: Args) -> Result<(), Error> {
        let mut message = [0u8; 4096];
        unsafe {
            let bytes = shim_scratch_bytes(self.module, &args);
            // of this call alone: each launch leaves it zero
            let scratch = if bytes > 0 { Some(Buffer::<u8>::new(self.context, bytes)?) } else { None };
            args.scratch = scratch.as_ref().map_or(0, |buffer| buffer.address);
            check(shim_check(&args, message.as_mut_ptr().cast(), message.len()), "attention", &message)?;
            check(shim_launch(self.module, &args, null_mut()), "attention", &[])?;
            check(cuCtxSynchronize(), "attention", &[])
        }
    }
}

impl Drop for Attention<'_> {
    fn drop(&mut self) {
        unsafe { shim_unload(self.module) };
    }
}
