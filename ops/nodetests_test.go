package ops_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/ops"
)

// exceptions are the node tests whose output shape is not fixed by the shapes of the
// inputs alone. In the first run only the shapes of the inputs are known; in the second
// run small inputs also have known values, as if they were initializers. A shape that is
// still open then is open for every planner.
var exceptions = []struct {
	tests  string // a regular expression for the whole name, without "test_"
	values bool   // the shape stays open even if the values of small inputs are known
	reason string
}{
	{`strnormalizer_export_.*`, true, "how many stop words there are depends on the strings"},
	{`string_split_(basic|empty_string_delimiter|maxsplit)`, true, "how many parts there are depends on the strings"},
	{`image_decoder_decode_.*`, true, "the picture's size stands in its bytes"},
	{`nonmaxsuppression_.*`, true, "how many boxes are kept depends on the scores"},
	{`unique_.*`, false, "how many distinct elements there are depends on them"},
	{`nonzero_.*|compress_.*`, false, "how many elements are kept depends on them"},

	{
		`reshape_.*|constantofshape_(float_ones|int_zeros)|expand_dim_unchanged|center_crop_pad_.*|affine_grid_.*|col2im.*|maxunpool_export_with_output_shape`, false,
		"the shape is a value",
	},
	{`(un)?squeeze_.*_?ax[ie]s.*`, false, "the axes are a value"},
	{`reduce_(l1|l2|log_sum|log_sum_exp|max|mean|min|prod|sum|sum_square)_(do_not_keep|keep|negative|empty_set|asc|desc|bool).*`, false, "the axes are a value"},
	{`slice.*`, false, "starts and ends are values"},
	{`split_variable_parts_.*`, false, "the lengths of the parts are a value"},
	{`(constant|edge|reflect|wrap)_pad.*`, false, "the pads are a value"},
	{`tile.*`, false, "the repeats are a value"},
	{`resize_.*|upsample_nearest`, false, "scales or sizes are a value"},
	{`top_k.*`, false, "k is a value"},
	{`onehot_.*`, false, "the depth is a value"},
	{`range_.*`, false, "start, limit and delta are values"},
	{`(blackman|hamming|hann)window.*|melweightmatrix`, false, "the size is a value"},
	{`dft_rfft|stft_with_window`, false, "the length of the transform or its step is a value"},
}

// patterns are the compiled expressions of exceptions.
var patterns = func() []*regexp.Regexp {
	var list []*regexp.Regexp
	for _, x := range exceptions {
		list = append(list, regexp.MustCompile(`^test_(`+x.tests+`)$`))
	}
	return list
}()

// TestNodeTests infers every operator test of ONNX from the types of its inputs and
// compares the result with the expected outputs.
func TestNodeTests(t *testing.T) {
	tests := readNodeTests(t)
	for _, values := range []bool{false, true} {
		name := "shapes"
		if values {
			name = "values"
		}
		t.Run(name, func(t *testing.T) { runNodeTests(t, tests, values) })
	}
}

func runNodeTests(t *testing.T, tests []nodeTest, values bool) {
	used := map[string]bool{}
	allowed := func(name string) string {
		for i, x := range exceptions {
			if (x.values || !values) && patterns[i].MatchString(name) {
				used[x.tests] = true
				return x.reason
			}
		}
		return ""
	}
	count := map[string]int{}
	failed := map[string][]string{} // by operator
	for _, k := range tests {
		outcome, err := k.run(values)
		if err == nil && outcome != exact && allowed(k.name) == "" {
			err = fmt.Errorf("%s: expected exact types (or add the test to exceptions)", outcome)
		}
		if err == nil && outcome == exact && allowed(k.name) != "" {
			err = errors.New("exact, but in the table of exceptions")
		}
		if err != nil {
			for _, op := range k.operators {
				failed[op] = append(failed[op], k.name)
			}
			count["failed"]++
			t.Errorf("%s: %v", k.name, err)
			continue
		}
		count[outcome]++
	}
	t.Logf("%d tests: %d exact, %d bounded, %d dynamic, %d failed", len(tests), count[exact], count[bounded], count[dynamic], count["failed"])
	for _, op := range slices.Sorted(maps.Keys(failed)) {
		t.Logf("%s: %d failed", op, len(failed[op]))
	}
	if !values {
		for _, x := range exceptions {
			if !used[x.tests] {
				t.Errorf("exception %q: no test needs it", x.tests)
			}
		}
	}
}

// Outcomes of a test.
const (
	exact   = "exact"
	bounded = "bounded"
	dynamic = "dynamic"
)

// nodeTest is one of ONNX's operator tests.
type nodeTest struct {
	name            string
	operators       []string
	model           []byte
	inputs, outputs [][]byte // TensorProto, SequenceProto or OptionalProto; nil: none
}

func readNodeTests(t testing.TB) []nodeTest {
	t.Helper()
	dir := datafolder.Path(t)
	f, err := os.Open(filepath.Join(dir, "node-tests.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(h.Name, "node-tests/")] = b
	}
	var tests []nodeTest
	for _, row := range readCSV(t, filepath.Join(dir, "node-tests.csv")) {
		k := nodeTest{name: row["test"], operators: strings.Fields(row["operators"])}
		k.model = files[k.name+"/model.onnx"]
		for i := range 64 {
			if b, ok := files[fmt.Sprintf("%s/test_data_set_0/input_%d.pb", k.name, i)]; ok {
				k.inputs = append(slices.Grow(k.inputs, i+1)[:i], b)
			}
			if b, ok := files[fmt.Sprintf("%s/test_data_set_0/output_%d.pb", k.name, i)]; ok {
				k.outputs = append(slices.Grow(k.outputs, i+1)[:i], b)
			}
		}
		tests = append(tests, k)
	}
	return tests
}

func readCSV(t testing.TB, path string) []map[string]string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var list []map[string]string
	for _, r := range rows[1:] {
		m := map[string]string{}
		for i, name := range rows[0] {
			m[name] = r[i]
		}
		list = append(list, m)
	}
	return list
}

// run infers the test's model and compares. Inputs with an open declared shape are bound
// to their actual shapes.
func (k *nodeTest) run(values bool) (string, error) {
	m, err := onnx.Parse(k.name+".onnx", k.model)
	if err != nil {
		return "", err
	}
	var open []graph.TensorID
	for i, id := range m.Graph.Inputs {
		t := m.Graph.Tensors[id]
		if i >= len(k.inputs) || k.inputs[i] == nil || t.Declared == nil || t.Declared.Type.Kind != graph.KindTensor {
			open = append(open, id)
			continue
		}
		d, err := onnx.ParseTensor(k.name, k.inputs[i])
		if err != nil {
			return "", err
		}
		const small = 64
		if values && d.Elements() <= small && d.Type != graph.String {
			t.Data, t.Input = d, false
			continue
		}
		open = append(open, id)
		t.Declared = &graph.Declared{Type: d.TensorType(), Symbols: make([]string, len(d.Dims))}
	}
	m.Graph.Inputs = open
	declared := forget(m.Graph)
	if _, err := ops.Infer(m, ops.Options{IgnoreDeclared: true}); err != nil {
		return "", err
	}
	outcome := exact
	for i, id := range m.Graph.Outputs {
		if i >= len(k.outputs) || k.outputs[i] == nil {
			continue
		}
		t := m.Graph.Tensors[id]
		want, err := k.typeOf(declared[id], k.outputs[i])
		if err != nil {
			return "", err
		}
		o, ok := holds(t.Type, want)
		if !ok {
			return "", fmt.Errorf("output %d is inferred %v, but is %v", i, t.Type, want)
		}
		if o == dynamic || o == bounded && outcome == exact {
			outcome = o
		}
	}
	return outcome, nil
}

// forget drops the file's declarations of all tensors but the inputs, so that only the
// operators determine the types, and returns them.
func forget(g *graph.Graph) map[graph.TensorID]*graph.Declared {
	declared := map[graph.TensorID]*graph.Declared{}
	for id, t := range g.Tensors {
		declared[graph.TensorID(id)] = t.Declared
		if !t.Input {
			t.Declared = nil
		}
	}
	return declared
}

// typeOf returns the type of a stored value; for a sequence, the least type that holds
// all items.
func (k *nodeTest) typeOf(d *graph.Declared, b []byte) (graph.Type, error) {
	switch d.Type.Kind {
	case graph.KindTensor:
		data, err := onnx.ParseTensor(k.name, b)
		if err != nil {
			return graph.Type{}, err
		}
		return data.TensorType(), nil
	case graph.KindSequence:
		t := graph.Type{Kind: graph.KindSequence}
		items, err := messages(b, 3) // SequenceProto.tensor_values
		for _, item := range items {
			data, err := onnx.ParseTensor(k.name, item)
			if err != nil {
				return t, err
			}
			of := data.TensorType()
			if t.Of != nil {
				of = ops.Union(*t.Of, of)
			}
			t.Of = &of
		}
		return t, err
	}
	return graph.Type{Kind: d.Type.Kind}, nil
}

// messages returns the payloads of one field of a message.
func messages(b []byte, field protowire.Number) ([][]byte, error) {
	var list [][]byte
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return nil, protowire.ParseError(n)
		}
		if num == field && typ == protowire.BytesType {
			v, _ := protowire.ConsumeBytes(b)
			list = append(list, v)
		}
		b = b[n:]
	}
	return list, nil
}

// holds compares an inferred type with the actual one.
func holds(got, want graph.Type) (string, bool) {
	if got.Kind != want.Kind {
		return "", false
	}
	if got.Kind != graph.KindTensor {
		if got.Of != nil && want.Of != nil {
			// Items of a sequence are never planned, so their types may be less exact, but
			// must not contradict.
			_, ok := holds(*got.Of, *want.Of)
			return exact, ok
		}
		return exact, true
	}
	if got.Elem != want.Elem || got.Ranked && len(got.Shape) != len(want.Shape) && want.Ranked {
		return "", false
	}
	if !got.Ranked || !want.Ranked {
		return dynamic, true
	}
	outcome := exact
	for i, d := range got.Shape {
		most, known := d.Max()
		n, _ := want.Shape[i].Max()
		switch {
		case d == want.Shape[i]:
		case !known:
			outcome = dynamic
		case d.Exact() || n > most:
			return "", false
		case outcome == exact:
			outcome = bounded
		}
	}
	return outcome, true
}

// TestZoo infers whole networks from the shapes of their inputs. Only the tensors of
// detection models are dynamic, and the declared types of inner tensors agree with the
// inferred ones.
func TestZoo(t *testing.T) {
	dir := datafolder.Path(t)
	paths, err := filepath.Glob(filepath.Join(dir, "light", "*.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	shapes := map[string]string{}
	for _, row := range readCSV(t, filepath.Join(dir, "zoo", "expected.csv")) {
		path := filepath.Join(dir, "zoo", row["file"])
		shapes[path] = row["inputs"]
		paths = append(paths, path)
	}
	mayBeDynamic := map[string]bool{
		"fasterrcnn_resnet50_fpn.onnx": true, // boxes that are kept
	}
	for _, path := range paths {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			for _, ignore := range []bool{true, false} {
				f, err := onnx.Open(path, onnx.ReadOptions{AllowMissingWeights: true})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = f.Close() }()
				dims := bind(t, f.Model.Graph, shapes[path])
				inf, err := ops.Infer(f.Model, ops.Options{Dims: dims, StrictDims: true, Strict: true, IgnoreDeclared: ignore})
				if err != nil {
					t.Fatal(err)
				}
				for _, w := range inf.Warnings {
					t.Error(w)
				}
				tensors, unsized := 0, 0
				for _, x := range f.Model.Graph.Tensors {
					tensors++
					if x.Dynamic == "" {
						continue
					}
					if unsized++; !mayBeDynamic[name] && unsized <= 3 {
						t.Errorf("tensor %q (made by %s): dynamic, %v: %s", x.Name, maker(f.Model.Graph, x), x.Type, x.Dynamic)
					}
				}
				if unsized > 0 {
					t.Logf("%d of %d tensors are dynamic", unsized, tensors)
				}
			}
		})
	}
}

func maker(g *graph.Graph, t *graph.Tensor) string {
	if t.Maker < 0 {
		return "nobody"
	}
	return g.Label(t.Maker)
}

// bind reads input shapes such as "x=2x3;steps=scalar" and returns the lengths of the
// symbolic dimensions.
func bind(t *testing.T, g *graph.Graph, text string) map[string]int64 {
	t.Helper()
	dims := map[string]int64{}
	for _, part := range strings.Split(text, ";") {
		name, shape, _ := strings.Cut(part, "=")
		for _, id := range g.Inputs {
			x := g.Tensors[id]
			if x.Name != name || shape == "scalar" {
				continue
			}
			for axis, n := range strings.Split(shape, "x") {
				v, err := strconv.ParseInt(n, 10, 64)
				if err != nil {
					t.Fatalf("%s: %v", part, err)
				}
				if x.Declared.Type.Shape[axis].Exact() {
					continue
				}
				symbol := x.Declared.Symbols[axis]
				if symbol == "" {
					symbol = fmt.Sprintf("%s[%d]", name, axis)
				}
				if !strings.ContainsAny(symbol, " +-*/") {
					dims[symbol] = v
				}
			}
		}
	}
	return dims
}

// TestBadModels: inference refuses models whose fault shows in the graph alone, and
// accepts odd but sound ones. A wrong declaration is refused, since Strict is set. The
// reader's tests cover files that the reader refuses.
func TestBadModels(t *testing.T) {
	dir := datafolder.Path(t, "bad")
	for _, row := range readCSV(t, filepath.Join(dir, "expected.csv")) {
		f, err := onnx.Open(filepath.Join(dir, row["file"]), onnx.ReadOptions{})
		if err != nil {
			continue
		}
		_, err = ops.Infer(f.Model, ops.Options{Strict: true})
		switch {
		case row["expected"] == "refuse" && err == nil:
			t.Errorf("%s: accepted: %s", row["file"], row["reason"])
		case row["expected"] == "accept" && err != nil:
			t.Errorf("%s (%s): %v", row["file"], row["reason"], err)
		case err != nil:
			t.Logf("%s: %v", row["file"], err)
		}
		_ = f.Close()
	}
}
