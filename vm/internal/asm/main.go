// Command asm writes the assembly of packages gemm, simd and work with avo: one file for each of the
// list below, named as the file here that holds its generator. It is a separate module, so that
// importing onnxmem does not import avo.
//
//	go generate ./vm/internal/...
package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/buildtags"
	. "github.com/mmcloughlin/avo/reg"
)

// files lists what is written: FILE_amd64.s of a package.
var files = []struct {
	pkg, file string
	write     func()
}{
	{"gemm", "panel", func() {
		for _, s := range []set{avx2, avx512, avx2Pairs, vnniPairs, vnniQuads, vnniTwoQuads} {
			panel(s)
		}
	}},
	{"gemm", "maker", maker},
	{"gemm", "blocks", func() {
		blocks(avx2, false)
		blocks(avx512, false)
	}},
	{"gemm", "blocks_ahead", func() { blocksAhead(false) }},
	{"gemm", "blocks_thin_ahead", func() { blocksAhead(true) }},
	{"gemm", "blocks_thin", func() {
		blocks(avx2, true)
		blocks(avx512, true)
	}},
	{"gemm", "blocks_slide", func() {
		for _, s := range blockSlides {
			s.write(false)
			if !s.half {
				s.write(true)
			}
		}
	}},
	{"gemm", "blocks_sum", func() {
		sumBlocks(false)
		sumBlocks(true)
	}},
	{"gemm", "lanes", func() {
		gather(1)
		gather(2)
	}},
	{"gemm", "copy", copyRows},
	{"gemm", "shift", func() {
		for stride := 1; stride <= 2; stride++ {
			shift(stride, 1)
			shift(stride, 2)
		}
	}},
	{"gemm", "shift256", func() {
		for stride := 1; stride <= 2; stride++ {
			shiftAVX2(stride, 1)
			shiftAVX2(stride, 2)
		}
	}},
	{"gemm", "shift_bytes", func() {
		shiftBytes(1)
		shiftBytes(2)
	}},
	{"gemm", "taps", func() {
		taps()
		dots()
		largestOf()
		largestTap()
	}},
	{"gemm", "direct", func() {
		directAVX2(1)
		directAVX2(2)
	}},
	{"gemm", "direct512", func() {
		for s := range slides {
			direct(1, slide(s))
			if slide(s) != chooses {
				direct(2, slide(s))
			}
		}
	}},
	{"gemm", "divide", halves},
	{"gemm", "pool", func() {
		for _, j := range joins {
			j.rowsAVX2()
			j.alongAVX2(1)
			j.alongAVX2(2)
		}
	}},
	{"gemm", "pool512", func() {
		for _, j := range joins {
			j.rows()
			j.along(1)
			j.along(2)
		}
	}},
	{"gemm", "nibble_panel", func() {
		for _, whole := range []bool{false, true} {
			nibblePanel(avx2, 4, 1, whole)
			nibblePanel(avx2, 1, 2, whole)
		}
		for _, rows := range []int{8, 4, 2, 1} {
			nibblePanel(avx512, rows, min(8/rows, 4), false)
			nibblePanel(vnniQuads, rows, min(8/rows, 4), true)
		}
	}},
	{"gemm", "nibble_tile", func() {
		for _, s := range []set{avx2, avx512} {
			nibbleTile(s)
			widenNibbles(s)
		}
	}},
	{"gemm", "bytes", func() {
		widen()
		interleave()
		interleaveFour()
		interleaveFourTwice()
		signed()
	}},
	{"gemm", "quad_planes", func() {
		quadPlanes(1)
		quadPlanes(2)
		smallQuadPlane()
	}},
	{"gemm", "quad_pixels", func() {
		for rows := 1; rows <= 2; rows++ {
			weighQuads(fmt.Sprintf("weigh%dQuadsVNNI", rows), rows, false)
			weighQuads(fmt.Sprintf("weigh%dQuadsTwiceVNNI", rows), rows, true)
		}
	}},
	{"gemm", "quad_tiles", func() {
		for _, rows := range []int{12, 9, 6, 3, 1} {
			quadTiles(rows, 1)
			quadTiles(rows, 2)
		}
	}},
	{"gemm", "pixels", func() {
		weighPixels("weighPixelsAVX2", false)
		weighPixels("weighSignedPixelsAVX2", true)
	}},
	{"simd", "functions", func() {
		functionTwice("expAVX2", "expAVX2 writes exp(scale·x + shift).", "scale, shift", linearTwice(exponentialTwice))
		functionTwice("erfAVX2", "erfAVX2 writes erf(scale·x + shift).", "scale, shift", erfTwice)
		function("clampAVX2", "clampAVX2 writes min(max(x, low), high); NaN stays, -0 becomes 0.", "low, high", clamp)
		functionTwice("sigmoidAVX2", "sigmoidAVX2 writes 1/(1 + exp(-(scale·x + shift))).", "scale, shift", linearTwice(logisticTwice))
		functionTwice("swishAVX2", "swishAVX2 writes x/(1 + exp(-scale·x)).", "scale, shift", swishTwice)
		functionTwice("tanhAVX2", "tanhAVX2 writes tanh(scale·x + shift).", "scale, shift", linearTwice(hyperbolicTangentTwice))
		functionTwice("logAVX2", "logAVX2 writes log(x).", "scale, shift", logTwice)
		functionTwice("sinAVX2", "sinAVX2 writes sin(x), for x up to 8192.", "scale, shift", circleTwice(0))
		functionTwice("cosAVX2", "cosAVX2 writes cos(x), for x up to 8192.", "scale, shift", circleTwice(1))
		functionTwice("asinAVX2", "asinAVX2 writes asin(x).", "scale, shift", arcsineTwice)
		functionTwice("acosAVX2", "acosAVX2 writes acos(x).", "scale, shift", arccosineTwice)
		functionTwice("atanAVX2", "atanAVX2 writes atan(x).", "scale, shift", arctangentTwice)
		functionTwice("geluAVX2", "geluAVX2 writes x·(1 + erf(x/√2))/2.", "scale, shift", geluTwice)
		functionTwice("geluTanhAVX2", "geluTanhAVX2 writes gelu's approximation by tanh.", "scale, shift", geluTanhTwice)
		function("hardSigmoidAVX2", "hardSigmoidAVX2 writes min(max(scale·x + shift, 0), 1).", "scale, shift", hardSigmoid)
		function("addTwoAVX2", "addTwoAVX2 writes (x + a) + b.", "a, b", addTwo)
		function("hardSwishAVX2", "hardSwishAVX2 writes x·min(max(scale·x + shift, 0), 1).", "scale, shift", hardSwish)
	}},
	{"simd", "power", func() {
		power()
		tangent()
	}},
	{"simd", "functions512", func() {
		function512("expAVX512", "expAVX512 is expAVX2 where n is a multiple of 16.", linear512(exponentialAlone512))
		function512("sigmoidAVX512", "sigmoidAVX512 is sigmoidAVX2 where n is a multiple of 16.", linear512(logistic512))
		function512("erfAVX512", "erfAVX512 is erfAVX2 where n is a multiple of 16.", linear512(errorFunction512))
		function512("tanhAVX512", "tanhAVX512 is tanhAVX2 where n is a multiple of 16.", linear512(hyperbolicTangent512))
		function512("swishAVX512", "swishAVX512 is swishAVX2 where n is a multiple of 16.", swish512)
		function512("geluAVX512", "geluAVX512 is geluAVX2 where n is a multiple of 16.", gelu512)
	}},
	{"simd", "arithmetic", func() {
		binary("addAVX2", "addAVX2 writes a + b.", func(b, a VecPhysical) { VADDPS(b, a, a) })
		binary("subAVX2", "subAVX2 writes a - b.", func(b, a VecPhysical) { VSUBPS(b, a, a) })
		binary("mulAVX2", "mulAVX2 writes a·b.", func(b, a VecPhysical) { VMULPS(b, a, a) })
		binary("divAVX2", "divAVX2 writes a/b.", func(b, a VecPhysical) { VDIVPS(b, a, a) })
		binary("maxAVX2", "maxAVX2 writes the larger of a and b, NaN if either is it.", larger)
		binary("minAVX2", "minAVX2 writes the smaller of a and b, NaN if either is it.", smaller)
		scalar("maxScalarAVX2", "maxScalarAVX2 writes the larger of a and b, NaN if either is it.", larger)
		scalar("minScalarAVX2", "minScalarAVX2 writes the smaller of a and b, NaN if either is it.", smaller)
		scalar("addScalarAVX2", "addScalarAVX2 writes a + b.", func(b, a VecPhysical) { VADDPS(b, a, a) })
		scalar("mulScalarAVX2", "mulScalarAVX2 writes a·b.", func(b, a VecPhysical) { VMULPS(b, a, a) })
		scalar("divScalarAVX2", "divScalarAVX2 writes a/b.", func(b, a VecPhysical) { VDIVPS(b, a, a) })
		scalar("subFromAVX2", "subFromAVX2 writes b - a.", func(b, a VecPhysical) { VSUBPS(a, b, a) })
		scalar("divByAVX2", "divByAVX2 writes b/a.", func(b, a VecPhysical) { VDIVPS(a, b, a) })
		unary("sqrtAVX2", "sqrtAVX2 writes the square root of a.", func(a VecPhysical) { VSQRTPS(a, a) })
		unary("negAVX2", "negAVX2 writes -a.", negative)
		unary("signAVX2", "signAVX2 writes 1 where a is above 0, -1 where it is below, else a.", signOf)
		unary("absAVX2", "absAVX2 writes the absolute value of a.", absolute)
		for mode, name := range []string{"round", "floor", "ceil"} {
			unary(name+"AVX2", name+"AVX2 writes a as an integer, NaN and infinities as they are.", integer(mode))
		}
		affine()
		addEveryOther()
		addWide()
		sum()
		squares()
		squaresAround()
		normSums()
		normGradient()
		standardize()
		extremeNumber("largestAVX2", "largestAVX2 returns the largest of n numbers, a multiple of 8, that are not NaN, or -∞.", float32(math.Inf(-1)), skipNaN(VMAXPS))
		extremeNumber("smallestAVX2", "smallestAVX2 returns the smallest of n numbers, a multiple of 8, that are not NaN, or ∞.", float32(math.Inf(1)), skipNaN(VMINPS))
		extremeNumber("highestAVX2", "highestAVX2 returns the largest of n numbers, a multiple of 8, and NaN if one is it.", float32(math.Inf(-1)), larger)
		extremeNumber("lowestAVX2", "lowestAVX2 returns the smallest of n numbers, a multiple of 8, and NaN if one is it.", float32(math.Inf(1)), smaller)
		transpose()
		transpose16()
	}},
	{"simd", "bytes", func() {
		quantize()
		requantize()
		requantizeColumns()
		dequantize()
	}},
	{"simd", "bytes512", func() {
		quantize512()
		requantize512()
	}},
	{"simd", "choose", func() {
		compare("lessAVX2", "lessAVX2 writes a < b for n numbers, a multiple of 32.", 17)
		compare("lessOrEqualAVX2", "lessOrEqualAVX2 writes a <= b for n numbers, a multiple of 32.", 18)
		compare("equalAVX2", "equalAVX2 writes a == b for n numbers, a multiple of 32.", 0)
		compare("notEqualAVX2", "notEqualAVX2 writes a != b for n numbers, a multiple of 32.", 4)
		compare("unorderedAVX2", "unorderedAVX2 says which of a and b has a NaN, for n numbers, a multiple of 32.", 3)
		logic("andAVX2", "andAVX2 writes whether a and b are not 0, for n bytes, a multiple of 32.", and)
		logic("orAVX2", "orAVX2 writes whether a or b is not 0, for n bytes, a multiple of 32.", or)
		logic("xorAVX2", "xorAVX2 writes whether one of a and b is not 0 and the other one is, for n bytes, a multiple of 32.", xor)
		logic("notAVX2", "notAVX2 writes whether a is 0, for n bytes, a multiple of 32.", not)
		choose()
		choose16()
	}},
	{"simd", "truncate", func() {
		truncate()
		truncateBytes()
		fromIntegers()
		interleaveWords()
	}},
	{"simd", "nibbles", func() {
		nibbles()
	}},
	{"simd", "extent", func() {
		extent()
	}},
	{"simd", "lookup", func() {
		lookUp()
	}},
	{"simd", "bins", bins},
	{"simd", "boxes", func() {
		meeting()
	}},
	{"simd", "half", func() {
		widenRows("halvesF16C", "halvesF16C reads rows of float16", fromHalf)
		widenRows("brainsAVX2", "brainsAVX2 reads rows of bfloat16", fromBrain)
		narrow("toHalfF16C", "toHalfF16C rounds to float16", toHalf)
		narrow("toBrainAVX2", "toBrainAVX2 rounds to bfloat16", toBrain)
		narrowed("asHalfF16C", "asHalfF16C rounds to the float32 that float16 has, too", asHalf)
		narrowed("asBrainAVX2", "asBrainAVX2 rounds to the float32 that bfloat16 has, too", asBrain)
	}},
	{"simd", "half512", halves512},
	{"work", "pause", pause},
}

// only is set where this process writes one file: avo holds what it writes in variables of its own,
// for a single file of a process.
var only = flag.String("file", "", "write this file of the package to -out; all of them, next to this module, if not given")

func main() {
	flag.Parse() // avo's -pkg and -out, too
	pkg := flag.Lookup("pkg").Value.String()
	written := 0
	for _, f := range files {
		switch {
		case f.pkg != pkg:
		case *only == "":
			written++
			writeApart(f.pkg, f.file)
		case *only == f.file:
			written++
			Constraint(buildtags.Term("amd64"))
			f.write()
			Generate()
		}
	}
	if written == 0 {
		fmt.Fprintf(os.Stderr, "asm: -pkg %q, -file %q: expected gemm or simd, and one of its files\n", pkg, *only)
		os.Exit(2)
	}
}

// writeApart writes a file in a process of its own.
func writeApart(pkg, file string) {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "asm:", err)
		os.Exit(1)
	}
	out := filepath.Join("..", pkg, file+"_amd64.s")
	c := exec.Command(self, "-pkg", pkg, "-file", file, "-out", out)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "asm: %s: %v\n", out, err)
		os.Exit(1)
	}
}
