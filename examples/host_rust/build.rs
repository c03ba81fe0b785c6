//! Makes the header of the kernels with tilec, and a library of src/shim.c, which includes it.
use std::{env, path::Path, process::Command};

fn variable(name: &str, default: &str) -> String {
    println!("cargo:rerun-if-env-changed={name}");
    env::var(name).unwrap_or_else(|_| default.to_string())
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{program} {}: {status}", arguments.join(" ")),
        Err(error) => panic!("{program} cannot be run: {error}"),
    }
}

fn main() {
    let tilec = variable("TILEC", "../../build/release/tilec");
    let arch = variable("ARCH", "sm_80");
    let cuda = variable("CUDA", "/usr/local/cuda");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let made = |name: &str| Path::new(&out).join(name).to_str().expect("a path in UTF-8").to_string();
    let (header, object, library) = (made("attention.h"), made("shim.o"), made("libshim.a"));

    run(&tilec, &["../attention.tile", "-arch", &arch, "-D", "D=64", "-D", "CAUSAL=true", "--emit=header",
                  "--header-ptx", "-o", &header]);
    let (made_here, cuda_here) = (format!("-I{out}"), format!("-I{cuda}/include"));
    run("cc", &["-std=c99", "-O2", "-fPIC", &made_here, &cuda_here, "-c", "src/shim.c", "-o", &object]);
    run("ar", &["rcs", &library, &object]);

    println!("cargo:rerun-if-changed=src/shim.c");
    println!("cargo:rerun-if-changed=../attention.tile");
    println!("cargo:rustc-link-search=native={out}");
    println!("cargo:rustc-link-lib=static=shim");
    println!("cargo:rustc-link-search=native={cuda}/lib64/stubs");
    println!("cargo:rustc-link-lib=dylib=cuda");
}
