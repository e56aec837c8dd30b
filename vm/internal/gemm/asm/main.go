// Command asm writes the assembly of package gemm, by avo. It is a module of its
// own, so that who imports onnxmem does not get avo with it.
//
//	cd vm/internal/gemm && go generate
package main

import (
	"flag"
	"fmt"
	"os"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/buildtags"
)

func main() {
	flag.Parse() // avo's -out
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "asm: %q: expected flags only\n", flag.Args())
		os.Exit(2)
	}
	Constraint(buildtags.Term("amd64"))
	panel(avx2)
	panel(avx512)
	gather(1)
	gather(2)
	copyRows()
	Generate()
}
