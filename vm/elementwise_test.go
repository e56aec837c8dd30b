package vm_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// Between two convolutions, the result of every elementwise operator on reals is held in
// NCHW16c, with the bits that it has in NCHW.
func TestElementwiseOperatorsKeepBlocks(t *testing.T) {
	needBlocks(t)
	inputs := map[string]vm.Value{"x": ramp([]graph.Dim{1, 3, 6, 5})}
	held := 0
	for _, domain := range []string{"", "com.microsoft"} {
		for _, op := range ops.Names(domain) {
			if ops.Lookup(domain, op).Class != ops.Elementwise {
				continue
			}
			for operands := 1; operands < 3; operands++ {
				n := newNet()
				n.opset = 24
				n.other = []graph.Opset{{Domain: "com.microsoft", Version: 1}}
				n.input("x", 1, 3, 6, 5)
				n.filter("a", "x", nil, 16, 3, 1, 1)
				n.node(op, "y", slices.Repeat([]string{"a"}, operands)...)
				n.g.Nodes[len(n.g.Nodes)-1].Domain = domain
				if op == "Cast" {
					n.g.Nodes[len(n.g.Nodes)-1].Attrs = attrs(attr("to", int(graph.Float32)))
				}
				n.filter("z", "y", nil, 16, 16, 1, 1)
				n.output("z", 1, 16, 6, 5)
				path := filepath.Join(t.TempDir(), "net.onnx")
				n.write(t, path)
				f, err := onnx.Open(path, onnx.ReadOptions{})
				if err != nil {
					t.Fatal(err)
				}
				_, err = passes.Optimize(t.Context(), f.Model, passes.Options{})
				f.Close()
				if err != nil {
					continue // it has no such result
				}
				var want []byte
				for _, hold := range []bool{false, true} {
					p, _ := program(t, path, passes.Options{})
					s, err := p.NewSession(vm.Options{Workers: 1, Without: leftOut("nchw16c", hold)})
					if err != nil {
						break // it has no kernel for reals
					}
					got, err := s.Run(t.Context(), inputs)
					if err != nil {
						t.Fatal(err)
					}
					switch z := got["z"].Data; {
					case !hold:
						want = bytes.Clone(z)
					case !slices.Equal(s.HeldInNCHW16c(), []string{"a", "y"}):
						t.Errorf("%s %s of %d operands: held in NCHW16c: %v", domain, op, operands, s.HeldInNCHW16c())
					case !bytes.Equal(z, want):
						t.Errorf("%s %s of %d operands has other bits in NCHW16c", domain, op, operands)
					default:
						held++
					}
					s.Close()
				}
			}
		}
	}
	if held < 60 {
		t.Errorf("%d operators keep blocks, expected most of those on reals", held)
	}
	t.Logf("%d operators keep blocks", held)
}
