// ONNXMEM_LIB is the folder of libonnxmem; by default that of `make lib`.
fn main() {
    let folder = std::env::var("ONNXMEM_LIB").unwrap_or_else(|_| format!("{}/../../../build/lib", env!("CARGO_MANIFEST_DIR")));
    println!("cargo:rerun-if-env-changed=ONNXMEM_LIB");
    println!("cargo:rustc-link-search=native={folder}");
    println!("cargo:rustc-link-lib=dylib=onnxmem");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
}
