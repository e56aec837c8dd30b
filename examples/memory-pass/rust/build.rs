// The program finds libonnxmem where the crate has found it.
fn main() {
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", std::env::var("DEP_ONNXMEM_FOLDER").unwrap());
}
