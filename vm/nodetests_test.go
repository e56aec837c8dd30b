package vm_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// nodeTest is one of ONNX's operator tests: files by name.
type nodeTest struct {
	name, runtime, operators string
	files                    map[string][]byte
}

func readNodeTests(t testing.TB) []*nodeTest {
	t.Helper()
	f, err := os.Open(datafolder.Path(t, "node-tests.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]*nodeTest{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(h.Name, "/")
		if h.Typeflag != tar.TypeReg || len(parts) < 3 {
			continue
		}
		k := tests[parts[1]]
		if k == nil {
			k = &nodeTest{name: parts[1], files: map[string][]byte{}}
			tests[k.name] = k
		}
		if k.files[path.Base(h.Name)], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(datafolder.Path(t, "node-tests.csv"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		if k := tests[row[0]]; k != nil {
			k.operators, k.runtime = row[2], row[4]
		}
	}
	list := slices.Collect(maps.Values(tests))
	slices.SortFunc(list, func(a, b *nodeTest) int { return strings.Compare(a.name, b.name) })
	return list
}

// errUnclaimed is the error of a test that the VM does not claim to run.
var errUnclaimed = errors.New("not claimed")

// program plans the test's model. With passes.FoldOff every node runs.
func (k *nodeTest) program(fold passes.Fold) (*vm.Program, error) {
	m, err := onnx.Parse(k.name, k.files["model.onnx"])
	if err != nil {
		return nil, err
	}
	r, err := passes.Optimize(context.Background(), m, passes.Options{Fold: fold, Dims: k.dims(m)})
	if err != nil {
		return nil, err
	}
	return vm.New(r.Model, r.Plan)
}

// dims are the lengths of the inputs' axes that the file leaves open, by their places.
func (k *nodeTest) dims(m *graph.Model) map[string]int64 {
	dims := map[string]int64{}
	for i, id := range m.Graph.Inputs {
		t := m.Graph.Tensors[id]
		if t.Declared == nil || t.Declared.Type.Kind != graph.KindTensor {
			continue
		}
		v, err := vm.ParseTensor(t.Name, k.files[fmt.Sprintf("input_%d.pb", i)])
		for axis, d := range t.Declared.Type.Shape {
			if err == nil && !d.Exact() && axis < len(v.Shape) {
				dims[fmt.Sprintf("%s[%d]", t.Name, axis)] = int64(v.Shape[axis])
			}
		}
	}
	return dims
}

// inputs are the values that the test gives a program.
func (k *nodeTest) inputs(p *vm.Program) (map[string]vm.Value, error) {
	inputs := map[string]vm.Value{}
	for i, t := range p.Inputs() {
		var err error
		if inputs[t.Name], err = vm.ParseValue(t.Name, k.files[fmt.Sprintf("input_%d.pb", i)], t.Type); err != nil {
			return nil, err
		}
	}
	return inputs, nil
}

// run plans the test's model, runs it and compares.
func (k *nodeTest) run(opt vm.Options) error {
	p, err := k.program(passes.FoldExact)
	if err != nil {
		return err
	}
	defer p.Close()
	return k.runIn(p, opt)
}

// runIn runs the program of the test and compares.
func (k *nodeTest) runIn(p *vm.Program, opt vm.Options) error {
	s, err := p.NewSession(opt)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnclaimed, err)
	}
	defer s.Close()
	inputs, err := k.inputs(p)
	if err != nil {
		return err
	}
	out, err := s.Run(context.Background(), inputs)
	if errors.Is(err, vm.ErrUnsupported) {
		return fmt.Errorf("%w: %w", errUnclaimed, err)
	}
	if err != nil {
		return err
	}
	for i, t := range p.Outputs() {
		want, err := vm.ParseValue(t.Name, k.files[fmt.Sprintf("output_%d.pb", i)], t.Type)
		if err != nil {
			return err
		}
		if err := compare(out[t.Name], want, 1e-3, 1e-6); err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
	}
	return nil
}

// compare compares a value with the expected one.
func compare(got, want vm.Value, relative, absolute float64) error {
	if got.String() != want.String() || len(got.Items) != len(want.Items) {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	if !slices.Equal(got.Strings, want.Strings) {
		return fmt.Errorf("got %q, want %q", got.Strings, want.Strings)
	}
	for i := range got.Items {
		if err := compare(got.Items[i], want.Items[i], relative, absolute); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	x, ok := got.Reals()
	y, _ := want.Reals()
	if !ok {
		if !bytes.Equal(got.Data, want.Data) {
			return fmt.Errorf("%v: other bytes", got)
		}
		return nil
	}
	switch want.Type { // two units in the last place
	case graph.Float16:
		relative = max(relative, 0x1p-9)
	case graph.BFloat16:
		relative = max(relative, 0x1p-6)
	}
	for i := range x {
		if math.IsNaN(x[i]) && math.IsNaN(y[i]) || x[i] == y[i] {
			continue
		}
		if d := math.Abs(x[i] - y[i]); !(d <= absolute+relative*math.Abs(y[i])) {
			return fmt.Errorf("element %d of %v: got %v, want %v", i, got, x[i], y[i])
		}
	}
	return nil
}

// TestNodeTests runs ONNX's operator tests. Every claimed test must pass.
func TestNodeTests(t *testing.T) {
	passed, claimed, runtimes, both := 0, 0, 0, 0
	missing := map[string]int{}
	tests := readNodeTests(t)
	for _, k := range tests {
		err := k.run(vm.Options{Workers: 1})
		if k.runtime == "pass" {
			runtimes++
		}
		switch {
		case err == nil:
			claimed++
			passed++
			if k.runtime == "pass" {
				both++
			}
		case errors.Is(err, errUnclaimed):
			if k.runtime == "pass" {
				missing[reason(err)]++
			}
		default:
			claimed++
			if k.runtime == "pass" {
				t.Errorf("%s: %v", k.name, err)
			} else {
				t.Logf("%s (ONNX Runtime: %s): %v", k.name, k.runtime, err)
			}
		}
	}
	t.Logf("%d tests: %d claimed, %d pass; of %d that ONNX Runtime passes, %d pass (%.1f %%)", len(tests), claimed, passed, runtimes, both, 100*float64(both)/float64(runtimes))
	list := slices.SortedFunc(maps.Keys(missing), func(a, b string) int { return missing[b] - missing[a] })
	for _, r := range list {
		t.Logf("%4d %s", missing[r], r)
	}
}

// reason returns the reason that a test is not claimed, without names.
func reason(err error) string {
	text := err.Error()
	if i := strings.Index(text, "("); i >= 0 {
		return text[i:]
	}
	return text
}

// TestNodeTestsOfKeyCounts: all tests of Attention with a number of keys for each of the batch
// (nonpad_kv_seqlen), and of TensorScatter, which writes caches of fixed room, are claimed and
// pass.
func TestNodeTestsOfKeyCounts(t *testing.T) {
	counts := map[string]int{}
	for _, k := range readNodeTests(t) {
		m, err := onnx.Parse(k.name, k.files["model.onnx"])
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range m.Graph.Nodes {
			if n.Domain != "" || n.Op != "TensorScatter" && (n.Op != "Attention" || len(n.Inputs) < 7) {
				continue
			}
			counts[n.Op]++
			if err := k.run(vm.Options{Workers: 1}); err != nil {
				t.Errorf("%s: %v", k.name, err)
			}
		}
	}
	if counts["Attention"] == 0 || counts["TensorScatter"] == 0 {
		t.Errorf("%v: expected tests of both", counts)
	}
	t.Log(counts)
}
