func.func @four(%x: memref<8xf32>) {
  %a = memref.alloc() {alignment = 64 : i64} : memref<64x16xf32>
  %b = memref.alloc() {alignment = 64 : i64} : memref<32x16xf32>
  "use"(%x, %a, %b) : (memref<8xf32>, memref<64x16xf32>, memref<32x16xf32>) -> ()
  %c = memref.alloc() {alignment = 64 : i64} : memref<256xf16>
  "use"(%a, %b, %c) : (memref<64x16xf32>, memref<32x16xf32>, memref<256xf16>) -> ()
  memref.dealloc %a : memref<64x16xf32>
  memref.dealloc %b : memref<32x16xf32>
  %d = memref.alloc() {alignment = 64 : i64} : memref<4096xi8>
  "use"(%c, %d) : (memref<256xf16>, memref<4096xi8>) -> ()
  memref.dealloc %c : memref<256xf16>
  memref.dealloc %d : memref<4096xi8>
  return
}
