// ONNXMEM_LIB is the folder of libonnxmem; by default that of `make lib`.
fn main() {
    let folder = std::env::var("ONNXMEM_LIB").unwrap_or_else(|_| format!("{}/../../build/lib", env!("CARGO_MANIFEST_DIR")));
    println!("cargo:rerun-if-env-changed=ONNXMEM_LIB");
    // A program that depends on this crate reads it as DEP_ONNXMEM_FOLDER.
    println!("cargo:folder={folder}");
    if std::env::var("CARGO_CFG_WINDOWS").is_ok() {
        return; // raw.rs names the DLL, which lies beside the program
    }
    println!("cargo:rustc-link-search=native={folder}");
    println!("cargo:rustc-link-lib=dylib=onnxmem");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
}
