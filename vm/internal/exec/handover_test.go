package exec

import (
	"encoding/binary"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/program"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// checkHandovers runs a model with the comparer of CheckReference, after spoil has changed
// the steps of the main graph.
func checkHandovers(t *testing.T, m *graph.Model, inputs map[string]values.Value, spoil func(st *lower.Step)) *ReferenceCheck {
	t.Helper()
	r, err := passes.Optimize(t.Context(), m, passes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := program.New(r.Model, r.Plan, func(r *store.Refusal) error { return errors.New("too much memory") })
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	w := newComparer(p)
	s, err := newSession(p, lower.Options{Workers: 1}, w)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, st := range s.main.Steps {
		spoil(st)
	}
	if _, err := s.Run(t.Context(), inputs); err != nil {
		t.Fatal(err)
	}
	return w.count()
}

// corruptOutput makes a step change the last byte of an output after each run.
func corruptOutput(st *lower.Step, i int) {
	run := st.Run
	st.Run = func(w *work.Pool) error {
		err := run(w)
		b := values.BytesOf(st.Out[i])
		b[len(b)-1] ^= 1
		return err
	}
}

// Loop, Scan, If and calls must copy tensors to and from bodies bit for bit, and a loop
// must not end early.
func TestReferenceSeesWhatIsHanded(t *testing.T) {
	read := func(name string) *graph.Model {
		f, err := onnx.Open(filepath.Join("..", "..", "..", "testdata", "functions", name+".onnx"), onnx.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f.Model
	}
	inputs := map[string]values.Value{"X": floats([]float32{1, 2, 3, -4, 5, 6}, 2, 3)}
	loops := map[string]values.Value{
		"trips": {Type: graph.Int64, Shape: []int{}, Data: binaryInt(4)}, "begin": {Type: graph.Bool, Shape: []int{}, Data: []byte{1}},
		"x": floats([]float32{0.5, -1, 2}, 3), "state0": floats([]float32{1, -2}, 2),
		"as": floats([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 4, 2), "bs": floats([]float32{8, 6, 7, 5, 3, 0, 9, 1}, 2, 4),
	}
	for _, c := range []struct {
		name, model, op, want string
		spoil                 func(st *lower.Step)
	}{
		{"sound", "calls", "", "", func(*lower.Step) {}},
		{"the second result of a call", "calls", "Thru", `(Thru, loc): tensor "c": byte 23 differs from the copied tensor`, func(st *lower.Step) { corruptOutput(st, 1) }},
		{"sound bodies", "bodies", "", "", func(*lower.Step) {}},
		{"the result of a call", "bodies", "Cond", `(Cond, loc): tensor "h": byte 23 differs`, func(st *lower.Step) { corruptOutput(st, 0) }},
		{"sound loops", "loops", "", "", func(*lower.Step) {}},
		{"what a Loop carried", "loops", "Loop", `(Loop): tensor "last": byte 11 differs`, func(st *lower.Step) { corruptOutput(st, 0) }},
		{"what a Loop stacked", "loops", "Loop", `(Loop): tensor "rows": the row of pass 3 is wrong`, func(st *lower.Step) { corruptOutput(st, 1) }},
		{"a Loop that ends early", "loops", "Loop", `(Loop): tensor "last": the loop ends after 2 iterations`, func(st *lower.Step) {
			run := st.Run
			st.Run = func(w *work.Pool) error {
				trips := (*int64)(st.In[0].At)
				defer func(n int64) { *trips = n }(*trips)
				*trips = 2
				return run(w)
			}
		}},
		{"what a Scan carried", "loops", "Scan", `(Scan): tensor "sum": byte 7 differs`, func(st *lower.Step) { corruptOutput(st, 0) }},
		{"what a Scan laid", "loops", "Scan", `(Scan): tensor "laid": the row of pass 0 is wrong`, func(st *lower.Step) { corruptOutput(st, 1) }},
		{"a slice that a Scan took", "loops", "Scan", `(Scan): tensor "b": byte 7 differs`, func(st *lower.Step) {
			run := st.Run
			st.Run = func(w *work.Pool) error {
				values.BytesOf(st.In[2])[31] ^= 1 // after the comparer has saved it
				return run(w)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			done := false
			x := inputs
			if c.model == "loops" {
				x = loops
			}
			r := checkHandovers(t, read(c.model), x, func(st *lower.Step) {
				if st.Node().Op == c.op && !done {
					done = true
					c.spoil(st)
				}
			})
			if c.want == "" && (r.First != nil || r.Compared < 5 || len(r.Uncompared) > 0) {
				t.Errorf("%+v", r)
			}
			if c.want != "" && (r.First == nil || !strings.Contains(r.First.Error(), c.want)) {
				t.Errorf("%v, want %s", r.First, c.want)
			}
		})
	}
}

// floats is a value of float32.
func floats(list []float32, shape ...int) values.Value {
	v := values.Value{Type: graph.Float32, Shape: shape}
	for _, x := range list {
		v.Data = binary.LittleEndian.AppendUint32(v.Data, math.Float32bits(x))
	}
	return v
}
