package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
)

// endless writes endless.onnx with its plan: a loop without a trip count whose condition
// never changes.
func endless(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	tensor := func(g *graph.Graph, name string, d graph.DType) graph.TensorID {
		id := g.NewTensor(name)
		g.Tensors[id].Declared = &graph.Declared{Type: graph.TensorOf(d), Symbols: []string{}}
		return id
	}
	body := &graph.Graph{Name: "body"}
	i, on, x, next := tensor(body, "i", graph.Int64), tensor(body, "on", graph.Bool), tensor(body, "x", graph.Float32), tensor(body, "next", graph.Float32)
	body.Inputs, body.Outputs = []graph.TensorID{i, on, x}, []graph.TensorID{on, next}
	body.Nodes = []*graph.Node{{Name: "step", Op: "Neg", Inputs: []graph.TensorID{x}, Outputs: []graph.TensorID{next}}}
	g := &graph.Graph{Name: "g"}
	cond, from, to := tensor(g, "cond", graph.Bool), tensor(g, "from", graph.Float32), tensor(g, "to", graph.Float32)
	g.Inputs, g.Outputs = []graph.TensorID{cond, from}, []graph.TensorID{to}
	g.Nodes = []*graph.Node{{
		Name: "forever", Op: "Loop", Inputs: []graph.TensorID{graph.None, cond, from}, Outputs: []graph.TensorID{to},
		Attrs: []*graph.Attr{{Name: "body", Type: graph.AttrGraph, Graph: body}},
	}}
	g.Link()
	m := &graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 21}}, Graph: g}
	image, err := onnx.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := onnx.Write("loop.onnx", m, image, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if status, errs := onCommandLine("optimize loop.onnx endless.onnx"); status != 0 {
		t.Fatal(errs)
	}
}

// stoppedLine is the message of a stopped run: the file, the node, and the reason.
var stoppedLine = regexp.MustCompile(`^onnxmem: endless\.onnx: node "(forever" \(Loop|step" \(Neg)\): stopped: (.*)\n$`)

// TestTimeLimit: an endless run ends at the time limit and names the node that ran.
func TestTimeLimit(t *testing.T) {
	endless(t)
	// On a slow machine a short limit passes before the first node: that is no node's fault.
	for limit := 20 * time.Millisecond; ; limit *= 4 {
		reason := fmt.Sprintf("the time limit of %v has passed", limit)
		status, errs := onCommandLine(fmt.Sprintf("run endless.onnx --time-limit %v", limit))
		if errs == "onnxmem: endless.onnx: stopped: "+reason+"\n" && status == exitFailed && limit < time.Minute {
			continue
		}
		if m := stoppedLine.FindStringSubmatch(errs); status != exitFailed || m == nil || m[2] != reason {
			t.Errorf("exit status %d: %q", status, errs)
		}
		break
	}
	if status, errs := onCommandLine("run endless.onnx --time-limit=-1s"); status != exitUsage || !strings.Contains(errs, "--time-limit -1s: expected 0 or more") {
		t.Errorf("exit status %d: %q", status, errs)
	}
}
