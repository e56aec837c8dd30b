package vm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// TestAlgorithms: a profile has the algorithm of each node that may have several, with the layout
// of the image and what the kernel computes as well.
func TestAlgorithms(t *testing.T) {
	needBlocks(t)
	vm.HoldNHWC(t)
	for _, c := range []struct {
		name   string
		path   string
		inputs map[string]vm.Value
		want   map[string]string // by the name of the operator's output
	}{
		{"reals", blockNet(t, graph.Float32), map[string]vm.Value{"x": ramp([]graph.Dim{2, 3, 18, 15})}, map[string]string{
			"a": "NCHW to NCHW16c direct 3x3, bias, relu",
			"b": "NCHW16c direct 3x3, bias", "c": "NCHW16c direct 1x1, bias, add, relu",
			"d": "NCHW16c depthwise 3x3, bias", "u": "NCHW16c direct 2x2, bias", "o": "NCHW16c to NCHW direct 3x3, bias",
		}},
		{"16 bits", blockNet(t, graph.Float16), map[string]vm.Value{"x": converted(ramp([]graph.Dim{2, 3, 18, 15}), graph.Float16)}, map[string]string{
			"b": "NCHW16c direct 3x3, bias", "d": "NCHW16c depthwise 3x3, bias",
		}},
		{"bytes", pixelNet(t), map[string]vm.Value{"x": ramp([]graph.Dim{2, 3, 9, 11})}, map[string]string{
			"a": "NCHW to NHWC implicit GEMM 3x3, bytes, bias, from bytes to bytes",
		}},
		{"chain", gated(t), map[string]vm.Value{"x": ramp([]graph.Dim{64, 64})}, map[string]string{
			"y": "2 nodes at once: Sigmoid, Mul", "p": "GEMM, prepacked",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, s := session(t, c.path, passes.Options{}, vm.Options{})
			profile := s.Profile()
			if _, err := s.Run(t.Context(), c.inputs); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := profile.Write(&out); err != nil {
				t.Fatal(err)
			}
			for name, want := range c.want {
				if got := algorithmIn(t, out.Bytes(), name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
		})
	}
}

// TestTasks: a lowered network can be read, a line for each node.
func TestTasks(t *testing.T) {
	needBlocks(t)
	vm.HoldNHWC(t)
	for _, c := range []struct{ name, path, want string }{
		{"reals", blockNet(t, graph.Float32), `
node "a" (Conv): covers a ar; reads x, a.w, a.b; writes ar in NCHW16c; NCHW to NCHW16c direct 3x3, bias, relu
node "ar" (Relu): in the task of node "a" (Conv)
node "b" (Conv): reads ar in NCHW16c, b.w, b.b; writes b in NCHW16c; NCHW16c direct 3x3, bias
node "bn" (BatchNormalization): covers bn br; reads b in NCHW16c, bn.scale, bn.shift, bn.mean, bn.variance; writes br in NCHW16c; NCHW16c, relu
node "br" (Relu): in the task of node "bn" (BatchNormalization)
node "c" (Conv): covers c s sr; reads br in NCHW16c, c.w, c.b, ar in NCHW16c; writes sr in NCHW16c; NCHW16c direct 1x1, bias, add, relu
`},
		{"bytes", pixelNet(t), `
node "e" (Conv): covers e e.w e.b; reads d.r in NHWC; writes e in NHWC as bytes; NHWC implicit GEMM 1x1, bytes, bias, from bytes to bytes
node "e.q" (QuantizeLinear): covers e.q; reads e in NHWC as bytes; writes e.q in NHWC; NHWC
node "e.r" (DequantizeLinear): in the task of node "s.q" (QuantizeLinear)
node "s" (Sub): in the task of node "s.q" (QuantizeLinear)
node "s.q" (QuantizeLinear): covers e.r s s.q; reads e.q in NHWC, e.scale, e.zero, d.r in NHWC, s.scale, s.zero; writes s.q in NHWC; 3 nodes at once: DequantizeLinear, Sub, QuantizeLinear
`},
		{"constants", foldable(t), `
node "wt" (Transpose): computed before the first run
node "y" (MatMul): reads x, wt; writes y; GEMM, prepacked
node "s" (Shape): reads y; writes s; Shape
`},
		{"sums", outerNet(t), `
node "turned" (Gemm): in the task of node "turned.sum" (ReduceMean)
node "turned.sum" (ReduceMean): covers turned turned.sum; reads a16, b16; writes turned.sum; without the product
node "plain" (MatMul): in the task of node "plain.sum" (ReduceMean)
node "plain.sum" (ReduceMean): covers plain plain.sum; reads c16, d16; writes plain.sum; without the product
node "again" (Gemm): in the task of node "again.sum" (ReduceSum)
node "again.sum" (ReduceSum): covers again again.sum; reads c16, d16; writes again.sum; without the product
`},
	} {
		_, s := session(t, c.path, passes.Options{Fold: passes.FoldOff}, vm.Options{})
		if got := s.Lowered(); !strings.Contains("\n"+got, c.want) {
			t.Errorf("%s:\n%s\nexpected:%s", c.name, got, c.want)
		}
	}
}

// gated writes a product and a gate.
func gated(t *testing.T) string {
	n := newNet()
	n.input("x", 64, 64)
	n.weight("w", 64, 64)
	n.node("MatMul", "p", "x", "w")
	n.node("Sigmoid", "g", "p")
	n.node("Mul", "y", "p", "g")
	n.output("y", 64, 64)
	path := t.TempDir() + "/gated.onnx"
	n.write(t, path)
	return path
}

// algorithmIn returns the algorithm of a node in a profile.
func algorithmIn(t *testing.T, profile []byte, name string) string {
	t.Helper()
	var list struct {
		Events []struct {
			Name string
			Ph   string
			Args struct{ Algorithm string }
		} `json:"traceEvents"`
	}
	if err := json.Unmarshal(profile, &list); err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Events {
		if e.Ph == "X" && e.Name == name {
			return e.Args.Algorithm
		}
	}
	t.Errorf("the profile has no node %q", name)
	return ""
}

// TestErrorsNameTheAlgorithm: so do the error of a node that fails, and that of CheckReference.
func TestErrorsNameTheAlgorithm(t *testing.T) {
	_, s := session(t, gated(t), passes.Options{}, vm.Options{})
	undo := s.SetRun(0, func(*kernel.Invocation, *work.Pool) error { return errors.New("no") })
	defer undo()
	_, err := s.Run(t.Context(), map[string]vm.Value{"x": ramp([]graph.Dim{64, 64})})
	if err == nil || !strings.HasSuffix(err.Error(), `node "p" (MatMul): no (algorithm: GEMM, prepacked)`) {
		t.Errorf("a kernel that fails: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stop := s.SetRun(0, func(_ *kernel.Invocation, w *work.Pool) error {
		for cancel(); ; {
			w.Poll()
		}
	})
	defer stop()
	if _, err := s.Run(ctx, map[string]vm.Value{"x": ramp([]graph.Dim{64, 64})}); !errors.Is(err, vm.ErrStopped) || strings.Contains(err.Error(), "algorithm") {
		t.Errorf("a run that is stopped: %v", err)
	}
	if list := strings.Split(s.Lowered(), "\n"); !slices.ContainsFunc(list, func(line string) bool { return strings.Contains(line, "GEMM, prepacked") }) {
		t.Errorf("lowered:\n%s", s.Lowered())
	}
}

// TestPoisonBesideOmittedInputs: a task may read an activation's inputs, of which some are left out.
func TestPoisonBesideOmittedInputs(t *testing.T) {
	n := newNet()
	n.input("x", 8, 16)
	n.weight("w", 16, 32)
	n.constant("high", graph.Float32, nil, float32(0.5))
	n.node("MatMul", "p", "x", "w")
	n.node("Clip", "y", "p", "none", "high")
	n.g.Nodes[1].Inputs[1] = graph.None
	n.output("y", 8, 32)
	path := filepath.Join(t.TempDir(), "clip.onnx")
	n.write(t, path)
	_, s := session(t, path, passes.Options{Fold: passes.FoldOff}, vm.Options{Poison: true})
	if at := s.KernelOf("y"); at != "p" {
		t.Fatalf("the Clip is computed by the kernel of %q", at)
	}
	if _, err := s.Run(t.Context(), map[string]vm.Value{"x": ramp([]graph.Dim{8, 16})}); err != nil {
		t.Error(err)
	}
}
