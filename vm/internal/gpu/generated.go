package gpu

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/kernels"
)

// generated is the source of the elementwise kernels of a session that are not ready
// yet: one function for each distinct computation. They are cut into several sources,
// which are compiled at the same time. Sums and products are not contracted to fused
// ones, so nodes that share a kernel have the bits of nodes that do not.
type generated struct {
	sources []*cuda.Source
	names   []string // of the functions, in the order in which they were added
	list    map[string]function
}

// function is a kernel with its source text.
type function struct {
	kernel cuda.Kernel
	text   string
}

// generatedPrelude begins each generated source.
const generatedPrelude = "#include \"elementwise.cuh\"\n"

// perSource is the number of functions in a source: some tenths of a second of compiling,
// beside which reading the headers is little.
const perSource = 32

// add returns the kernel with a body, which it adds if it is new.
func (k *Kernels) add(signature, body string) cuda.Kernel {
	if k.generated == nil {
		k.generated = &generated{list: map[string]function{}}
	}
	g := k.generated
	sum := sha256.Sum256([]byte(signature + body))
	name := "e" + hex.EncodeToString(sum[:8])
	if f, ok := g.list[name]; ok {
		return f.kernel
	}
	if len(g.list)%perSource == 0 {
		g.sources = append(g.sources, &cuda.Source{Name: "generated.cu", Headers: kernels.Headers(generatedPrelude), Options: []string{"--fmad=false"}})
	}
	f := function{
		kernel: cuda.Kernel{Source: g.sources[len(g.sources)-1], Name: name},
		text:   fmt.Sprintf("KERNEL(%s, (%s)) {\n%s}\n", name, signature, body),
	}
	g.names, g.list[name] = append(g.names, name), f
	return f.kernel
}

// finish writes the sources.
func (g *generated) finish() {
	if g == nil {
		return
	}
	for i, s := range g.sources {
		var b strings.Builder
		b.WriteString(generatedPrelude)
		for _, name := range g.names[i*perSource : min((i+1)*perSource, len(g.names))] {
			b.WriteString(g.list[name].text)
		}
		s.Text = b.String()
	}
}
