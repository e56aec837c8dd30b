package vm_test

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/cuda/fake"
)

// lightNetworks are ONNX's own light networks: the one of this repository, and those of
// the test data where they are.
func lightNetworks(t testing.TB) []string {
	t.Helper()
	folder := datafolder.Lookup("light")
	if folder == "" {
		t.Logf("no test data: %s does not have light: one network is run", datafolder.Variable)
		folder = "../testdata/light"
	}
	const expected = "_output_0.pb"
	files, err := filepath.Glob(filepath.Join(folder, "*"+expected))
	if err != nil || len(files) == 0 {
		t.Fatalf("no networks in %s (%v)", folder, err)
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(f, expected) + ".onnx"
	}
	return files
}

// sweepOnFake skips on a fake device what takes seconds: make sweeps and make test-cuda run
// it. f is nil on a real one.
func sweepOnFake(t *testing.T, f *fake.Fake) {
	t.Helper()
	if f != nil && !cudaMachine {
		sweep.Only(t)
	}
}

// large skips a network that takes seconds. Make test runs the small ones, and make sweeps
// all of them.
func large(t *testing.T, name string, networks ...string) {
	t.Helper()
	if slices.Contains(networks, name) {
		sweep.Only(t)
	}
}

// ramp returns arange(n)/n in a shape, as float32.
func ramp(shape []graph.Dim) vm.Value {
	v := vm.Value{Type: graph.Float32}
	n := 1
	for _, d := range shape {
		v.Shape = append(v.Shape, int(d))
		n *= int(d)
	}
	for i := range n {
		v.Data = binary.LittleEndian.AppendUint32(v.Data, math.Float32bits(float32(i)/float32(n)))
	}
	return v
}

// program plans a model and prepares it to run.
func program(t testing.TB, path string, opt passes.Options) (*vm.Program, *passes.Result) {
	t.Helper()
	return programOf(t, open(t, path).Model, opt)
}

// programOf plans a model that is open, or was built in memory.
func programOf(t testing.TB, m *graph.Model, opt passes.Options) (*vm.Program, *passes.Result) {
	t.Helper()
	r, err := passes.Optimize(t.Context(), m, opt)
	if err != nil {
		t.Fatal(err)
	}
	p, err := vm.New(r.Model, r.Plan)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, r
}

// session plans a model and creates a session of it.
func session(t testing.TB, file string, opt passes.Options, run vm.Options) (*vm.Program, *vm.Session) {
	t.Helper()
	p, _ := program(t, file, opt)
	s, err := p.NewSession(run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return p, s
}

// ONNX's own light networks, when planned, give the outputs that ONNX expects.
func TestLightNetworks(t *testing.T) {
	for _, file := range lightNetworks(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".onnx"), func(t *testing.T) {
			p, s := session(t, file, passes.Options{}, vm.Options{})
			in := p.Inputs()
			out, err := s.Run(t.Context(), map[string]vm.Value{in[0].Name: ramp(in[0].Type.Shape)})
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(strings.TrimSuffix(file, ".onnx") + "_output_0.pb")
			if err != nil {
				t.Fatal(err)
			}
			want, err := onnx.ParseTensor("output_0.pb", b)
			if err != nil {
				t.Fatal(err)
			}
			got := out[p.Outputs()[0].Name]
			worst := 0.0
			for i := range len(got.Data) / 4 {
				x := float64(math.Float32frombits(binary.LittleEndian.Uint32(got.Data[4*i:])))
				y := float64(math.Float32frombits(binary.LittleEndian.Uint32(want.Raw[4*i:])))
				worst = max(worst, math.Abs(x-y)/(1e-3+math.Abs(y)))
			}
			if len(got.Data) != len(want.Raw) || worst > 1e-3 {
				t.Errorf("%d bytes, expected %d; largest relative error %g", len(got.Data), len(want.Raw), worst)
			}
		})
	}
}
