// Package named proves of the constants that a plan adds that they have the elements of which their names
// speak: onnxmem.float32=0.9 is one number, onnxmem.int64s=0,1 and onnxmem.int64.0x1 are lists, and
// onnxmem.float32.zero.3 has zeros alone. What nodes compute with them, other provers compare.
package named

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/numbers"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// Code is that of the violations.
const Code = "lossless"

// Prove checks the constants of a planned file, also those in bodies, which its source lacks.
func Prove(s *subject.Subject) {
	old := map[string]bool{}
	for _, g := range plan.Graphs(s.Source.Graph) {
		for _, t := range g.Tensors {
			old[t.Name] = true
		}
	}
	files := constant.NewFiles(s.Model)
	defer files.Close()
	for _, g := range plan.Graphs(s.Model.Graph) {
		for _, t := range g.Tensors {
			if t.Data == nil || old[t.Name] {
				continue
			}
			want, named := elements(t)
			if !named {
				continue
			}
			if x, err := files.Read(t.Data); err != nil || !bytes.Equal(x.Raw, want) {
				s.Fault(Code, "initializer %q: expected the elements of which its name speaks", graph.Short(t.Name))
			}
		}
	}
}

// elements are those of which a name speaks; named is false for a name that says nothing of them.
func elements(t *graph.Tensor) (want []byte, named bool) {
	rest, ours := strings.CutPrefix(t.Name, "onnxmem."+t.Data.Type.String())
	switch {
	case !ours:
	case strings.HasPrefix(rest, ".zero."):
		want = make([]byte, max(t.Data.Bytes, 0))
	case strings.HasPrefix(rest, "=") || strings.HasPrefix(rest, "s="):
		_, list, _ := strings.Cut(rest, "=")
		want = read(t.Data.Type, strings.Split(list, ","))
	case strings.HasPrefix(rest, "."):
		want = read(t.Data.Type, strings.Split(rest[1:], "x"))
	}
	return want, want != nil
}

// read reads numbers. At the end, _2 tells two constants of one value apart. nil: there are others.
func read(elem graph.DType, words []string) []byte {
	var l numbers.List
	for k, word := range words {
		if k == len(words)-1 {
			word, _, _ = strings.Cut(word, "_")
		}
		if elem.Floating() {
			v, err := strconv.ParseFloat(word, 64)
			if err != nil {
				return nil
			}
			l.Floats = append(l.Floats, v)
			continue
		}
		v, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil
		}
		l.Ints = append(l.Ints, v)
	}
	return l.Bytes(elem)
}
