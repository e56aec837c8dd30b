func.func @four(%x: memref<8xf32>) {
  %arena = memref.alloc() {alignment = 64 : i64} : memref<6656xi8>
  %a = memref.view %arena[0][] : memref<6656xi8> to memref<64x16xf32>
  %b = memref.view %arena[4096][] : memref<6656xi8> to memref<32x16xf32>
  "use"(%x, %a, %b) : (memref<8xf32>, memref<64x16xf32>, memref<32x16xf32>) -> ()
  %c = memref.view %arena[6144][] : memref<6656xi8> to memref<256xf16>
  "use"(%a, %b, %c) : (memref<64x16xf32>, memref<32x16xf32>, memref<256xf16>) -> ()
  %d = memref.view %arena[0][] : memref<6656xi8> to memref<4096xi8>
  "use"(%c, %d) : (memref<256xf16>, memref<4096xi8>) -> ()
  return
}
