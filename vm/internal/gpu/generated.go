package gpu

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/kernels"
)

// generated is the source of the elementwise kernels of a session that are not ready
// yet: one function for each distinct computation. Sums and products are not contracted
// to fused ones, so nodes that share a kernel have the bits of nodes that do not.
type generated struct {
	source    *cuda.Source
	functions map[string]string // by name
}

// add returns the kernel with a body, which it adds if it is new.
func (k *Kernels) add(signature, body string) cuda.Kernel {
	if k.generated == nil {
		headers := kernels.Headers()
		k.generated = &generated{
			source:    &cuda.Source{Name: "generated.cu", Headers: headers, Options: []string{"--fmad=false"}},
			functions: map[string]string{},
		}
	}
	sum := sha256.Sum256([]byte(signature + body))
	name := "e" + hex.EncodeToString(sum[:8])
	k.generated.functions[name] = fmt.Sprintf("KERNEL(%s, (%s)) {\n%s}\n", name, signature, body)
	return cuda.Kernel{Source: k.generated.source, Name: name}
}

// finish writes the source.
func (g *generated) finish() {
	if g == nil {
		return
	}
	var names []string
	for name := range g.functions {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	b.WriteString("#include \"elementwise.cuh\"\n")
	for _, name := range names {
		b.WriteString(g.functions[name])
	}
	g.source.Text = b.String()
}
