package plan_test

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

var hash = strings.Repeat("0123456789abcdef", 4)

func recording() *plan.Recording {
	return &plan.Recording{
		Format: plan.RecordingFormat, Version: plan.RecordingVersion, Tool: "test",
		Model:  plan.File{File: "planned.onnx", Bytes: 20, GraphSHA256: hash},
		Source: plan.File{File: "in.onnx", Bytes: 10, GraphSHA256: strings.Repeat("a", 64)},
		Dims:   map[string]int64{"batch": 4}, Device: "a GPU", Products: "cuBLAS 13.1.0",
		Nodes: []plan.NodeScratch{{Node: "one", Output: "a", Bytes: 511}, {Node: "", Output: "b", Bytes: 300}},
	}
}

func written(t testing.TB, w *plan.Recording) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := w.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRecordingIsReadAsWritten(t *testing.T) {
	got, err := plan.ReadRecording(bytes.NewReader(written(t, recording())))
	if err != nil || !reflect.DeepEqual(got, recording()) {
		t.Errorf("%+v, %v: expected %+v", got, err, recording())
	}
}

func TestRecordingRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(w *plan.Recording)
		err    string
	}{
		{"a plan", func(w *plan.Recording) { w.Format = plan.Format }, `format is "onnxmem/plan", expected "onnxmem/workspaces"`},
		{"a later version", func(w *plan.Recording) { w.Version = 2 }, "version is 2, expected 1"},
		{"no hash", func(w *plan.Recording) { w.Model.GraphSHA256 = "abc" }, "model: graph_sha256: expected 64 digits"},
		{"a path", func(w *plan.Recording) { w.Source.File = "../in.onnx" }, "source: file: expected a base name"},
		{"a negative length", func(w *plan.Recording) { w.Dims["batch"] = -1 }, `dims: "batch": expected a length >= 0`},
		{"no name", func(w *plan.Recording) { w.Nodes[1].Output = "" }, "entry 1 has neither"},
		{"no bytes", func(w *plan.Recording) { w.Nodes[0].Bytes = 0 }, `node "one": expected from 1 to`},
		{"an absurd size", func(w *plan.Recording) { w.Nodes[1].Bytes = math.MaxInt64 }, `the node of "b": expected from 1 to`},
		{"absurd sizes together", func(w *plan.Recording) {
			for range 2000 {
				w.Nodes = append(w.Nodes, plan.NodeScratch{Node: "x", Bytes: plan.MaxScratch})
			}
		}, "bytes in all"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := recording()
			c.change(w)
			if _, err := plan.ReadRecording(bytes.NewReader(written(t, w))); err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, expected one with %q", err, c.err)
			}
		})
	}
	twice := bytes.Replace(written(t, recording()), []byte(`"tool"`), []byte(`"dims": {}, "tool"`), 1)
	if _, err := plan.ReadRecording(bytes.NewReader(twice)); err == nil {
		t.Error("a key that occurs twice was accepted")
	}
	missing := bytes.Replace(written(t, recording()), []byte(`"device"`), []byte(`"gpu"`), 1)
	if _, err := plan.ReadRecording(bytes.NewReader(missing)); err == nil {
		t.Error("a recording without a device was accepted")
	}
}

// TestRecordingSteps: a name finds its node; where it is not unique, or empty, the output
// does.
func TestRecordingSteps(t *testing.T) {
	g := &graph.Graph{}
	for _, n := range []struct{ name, out string }{{"one", "a"}, {"", "b"}, {"", "c"}, {"two", "d"}, {"two", "e"}} {
		id := g.NewTensor(n.out)
		g.Nodes = append(g.Nodes, &graph.Node{Name: n.name, Op: "Relu", Outputs: []graph.TensorID{id}})
	}
	for _, c := range []struct {
		name  string
		nodes []plan.NodeScratch
		want  []int64
		err   string
	}{
		{"names and outputs", []plan.NodeScratch{{"one", "a", 1}, {"", "c", 2}, {"two", "e", 3}}, []int64{1, 0, 2, 0, 3}, ""},
		{"the name counts", []plan.NodeScratch{{"one", "elsewhere", 1}}, []int64{1, 0, 0, 0, 0}, ""},
		{"no such node", []plan.NodeScratch{{"three", "z", 1}}, nil, `node "three" has a recorded workspace, but is not in the graph`},
		{"another node makes the output", []plan.NodeScratch{{"three", "a", 1}}, nil, "is not in the graph"},
		{"no such output", []plan.NodeScratch{{"", "z", 1}}, nil, `the node of "z" has`},
		{"twice", []plan.NodeScratch{{"one", "a", 1}, {"one", "a", 1}}, nil, "two recorded workspaces"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := (&plan.Recording{Nodes: c.nodes}).Steps(g)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, expected one with %q", err, c.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%v, %v: expected %v", got, err, c.want)
			}
		})
	}
}

// FuzzReadRecording: the reader never panics, and what it accepts can be written and read
// again.
func FuzzReadRecording(f *testing.F) {
	f.Add(written(f, recording()))
	f.Add([]byte(`{"format": "onnxmem/workspaces", "version": 1, "nodes": [null], "dims": null}`))
	f.Add([]byte(`{"format": "onnxmem/workspaces", "version": 1e0}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := plan.ReadRecording(bytes.NewReader(b))
		if err != nil {
			return
		}
		first := written(t, w)
		again, err := plan.ReadRecording(bytes.NewReader(first))
		if err != nil {
			t.Fatalf("written and not read again: %v", err)
		}
		if second := written(t, again); !bytes.Equal(first, second) {
			t.Fatalf("first  %s\nsecond %s", first, second)
		}
	})
}
