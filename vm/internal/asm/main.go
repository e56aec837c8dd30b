// Command asm writes the assembly of packages gemm and simd, by avo. It is a
// module of its own, so that who imports onnxmem does not get avo with it.
//
//	go generate ./vm/internal/...
package main

import (
	"flag"
	"fmt"
	"os"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/buildtags"
)

func main() {
	flag.Parse() // avo's -pkg and -out
	Constraint(buildtags.Term("amd64"))
	switch pkg := flag.Lookup("pkg").Value.String(); pkg {
	case "gemm":
		panel(avx2)
		panel(avx512)
		gather(1)
		gather(2)
		copyRows()
		taps()
		panel(avx2Pairs)
		widen()
		interleave()
	case "simd":
		function("expAVX2", "expAVX2 writes exp(scale·x + shift).", "scale, shift", linear(exponential))
		function("erfAVX2", "erfAVX2 writes erf(scale·x + shift).", "scale, shift", linear(errorFunction))
		function("clampAVX2", "clampAVX2 writes min(max(x, low), high); NaN stays, -0 becomes 0.", "low, high", clamp)
		quantize()
		requantize()
		dequantize()
		widenRows("halvesF16C", "halvesF16C reads rows of float16", fromHalf)
		widenRows("brainsAVX2", "brainsAVX2 reads rows of bfloat16", fromBrain)
		narrow("toHalfF16C", "toHalfF16C rounds to float16", toHalf)
		narrow("toBrainAVX2", "toBrainAVX2 rounds to bfloat16", toBrain)
	default:
		fmt.Fprintf(os.Stderr, "asm: -pkg %q: expected gemm or simd\n", pkg)
		os.Exit(2)
	}
	Generate()
}
