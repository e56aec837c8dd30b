package verify_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// stepCases are training steps: each loss and each optimizer, with what changes gradients before the updates.
var stepCases = []struct {
	name string
	x    text
	opt  passes.Options
}{
	{"cross-entropy, momentum", classifier, passes.Options{Dims: map[string]int64{"batch": 3}, Train: &autodiff.Options{Optimizer: "momentum", KeepGradients: true}}},
	{"ranges", classifier, passes.Options{Ranges: map[string]string{"batch": "2..4"}, Train: &autodiff.Options{Optimizer: "momentum"}}},
	{"mse, adam, aliases", trainedJoin, passes.Options{Train: &autodiff.Options{Loss: "mse", Optimizer: "adam"}}},
	{"l1, adamw, clipped", classifier, passes.Options{Dims: map[string]int64{"batch": 3}, Train: &autodiff.Options{Loss: "l1", Optimizer: "adamw", ClipNorm: 1}}},
	{"bce, sgd, sums of gradients", classifier, passes.Options{Dims: map[string]int64{"batch": 3}, Train: &autodiff.Options{Loss: "bce", Accumulate: 4, Constants: map[string]float64{"weight_decay": 0.1}, DecayAll: true}}},
	{"probabilities", trainedJoin, passes.Options{Train: &autodiff.Options{Loss: "bce", Probabilities: true}}},
	{"a scale that changes", classifier, passes.Options{Dims: map[string]int64{"batch": 3}, Train: &autodiff.Options{Optimizer: "adam", LossScale: autodiff.DynamicScale(), Accumulate: 2, ClipNorm: 1}}},
	{"a scale", classifier, passes.Options{Dims: map[string]int64{"batch": 3}, Train: &autodiff.Options{LossScale: &autodiff.LossScale{Initial: 1024}}}},
	{"in 16 bits", rowsWithBias, passes.Options{Precision: &passes.Precision{Type: graph.BFloat16}, Train: &autodiff.Options{Loss: "mse"}}},
	{"in float16, with a gradient that is made again", wide, passes.Options{Precision: &passes.Precision{Type: graph.Float16}, Train: &autodiff.Options{Loss: "mse"}}},
	{"below a limit", trainedJoin, passes.Options{Train: &autodiff.Options{Loss: "mse"}, ExtraPercent: 1000, UpdatesLast: true}},
}

// rowsWithBias has a product of three axes and its bias, which are one node of a step in 16 bits.
var rowsWithBias = text{opset: 22, main: `
	in x float32[2,3,8]
	init w float32[8,4] = ...
	init b float32[4] = ...
	h = MatMul(x, w)
	s = Add(h, b)
	y = Tanh(s)
	out y
`}

// wide has matrices of which the gradients are larger than all else, one of them transposed.
var wide = text{opset: 22, main: `
	in x float32[1,32]
	init w float32[32,32] = ...
	init v float32[32,32] = ...
	h = MatMul(x, w)
	t = Tanh(h)
	u = Transpose(v) perm=[1,0]
	y = MatMul(t, u)
	out y
`}

// TestChangedStepsAreFound: with the source, a step whose plan is right is not valid if a node of its
// forward pass, its loss or an update computes something else, or if a constant has another value.
// Changes of gradients are not found: the report says so.
func TestChangedStepsAreFound(t *testing.T) {
	for _, c := range stepCases {
		t.Run(c.name, func(t *testing.T) {
			source, file, p := planReal(t, c.x, c.opt)
			from := parse(t, source)
			check := func(file []byte) (*verify.Report, error) { return besideSource(from, file, p) }
			r, err := check(bytes.Clone(file))
			if err != nil || !r.Valid || !strings.Contains(r.String(), "training: ") || !strings.Contains(r.Training, "nodes of gradients") {
				t.Fatalf("%v %v: expected a valid plan, and what was compared", r, err)
			}
			found, left := 0, 0
			try := func(what, phase string, file []byte) {
				r, err := check(file)
				switch {
				case err != nil:
				case r.Valid && (phase == "backward" || phase == "accumulate"):
					left++
				case r.Valid && !slices.Contains(alike, what):
					t.Errorf("%s: valid: %s", what, r.Training)
				case slices.ContainsFunc(r.Violations, func(v verify.Violation) bool { return v.Code == verify.CodeTraining }):
					found++
				}
			}
			inferred := func() *graph.Model {
				m := parse(t, file)
				if _, err := ops.Infer(m, ops.Options{Dims: dimsOf(p), SpareDims: true}); err != nil {
					t.Fatal(err)
				}
				return m
			}
			g := inferred().Graph
			for i, n := range g.Nodes {
				phase, _ := n.Prop("onnxmem.phase")
				for j, c := range rewrites(g, i) {
					m := inferred()
					rewrites(m.Graph, i)[j].do(m.Graph.Nodes[i])
					anew(m, m.Graph.Nodes[i])
					try(fmt.Sprintf("%s: %s", g.Label(graph.NodeID(i)), c.what), phase, encode(t, m))
				}
			}
			for _, x := range g.Tensors {
				if x.Data == nil || folded(p, x.Name) || x.Data.External != nil || len(x.Data.Payload) != 1 || x.Data.Payload[0].Len == 0 || x.Data.Elements() > 6 {
					continue
				}
				other := bytes.Clone(file)
				other[x.Data.Payload[0].Off] ^= 1
				try(fmt.Sprintf("initializer %q", x.Name), "", other)
			}
			if t.Logf("%d found, %d of gradients are left", found, left); found == 0 {
				t.Errorf("no file had a violation of code %s", verify.CodeTraining)
			}
		})
	}
}

// alike are changes after which a step computes the same.
var alike = []string{
	`node "loss_scale/And" (And): input 0 is "loss_scale/Equal"`, // it matters where gradients are finite alone
	`node "w.update/Where" (Where): input 2 is "updating/Where"`, // the rate of a run that does not update is 0, too
	`node "v.update/Where" (Where): input 2 is "updating/Where"`,
}

// folded reports whether an initializer is claimed, since the plan folded it: the source lacks its nodes.
func folded(p *plan.Plan, name string) bool {
	return p.Folded != nil && slices.ContainsFunc(p.Folded.Tensors, func(f plan.FoldedTensor) bool { return f.Tensor == name })
}

// dimsOf are the lengths with which a plan is inferred.
func dimsOf(p *plan.Plan) map[string]int64 {
	dims := map[string]int64{}
	for name, d := range p.Dims {
		if !d.Assumed && !d.Follows {
			dims[name] = d.Value
		}
	}
	return dims
}

// TestStepsOfOtherLossesAreFound: the metadata say what a step minimises, and how; a step whose metadata
// name another loss or another optimizer is not valid.
func TestStepsOfOtherLossesAreFound(t *testing.T) {
	source, file, p := planReal(t, classifier, stepCases[0].opt)
	from := parse(t, source)
	for key, value := range map[string]string{
		"onnxmem.loss":      "mse",
		"onnxmem.optimizer": `{"name":"momentum","momentum":0.8,"weight_decay":0}`,
		"onnxmem.trainable": `[]`,
	} {
		m := parse(t, file)
		m.SetProp(key, value)
		m = parse(t, encode(t, m))
		q := *p
		q.Model = plan.SourceOf(m)
		r, err := verify.Plan(m, &q, verify.Options{Source: from})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(r.Violations, func(v verify.Violation) bool { return v.Code == verify.CodeTraining || v.Code == verify.CodeKind }) {
			t.Errorf("%s %s: %v, expected a violation of code %s", key, value, r, verify.CodeTraining)
		}
	}
}

// TestChangesAreFoundAtTheCorner: a plan for ranges in which nodes run again is compared with its source
// also where its bounds are not checked.
func TestChangesAreFoundAtTheCorner(t *testing.T) {
	source, file, p := planReal(t, text{main: `
		in x float32[batch,1]
		init c float32[64] = ...
		init w float32[64,64] = ...
		a = Add(x, c)
		l = MatMul(a, w)
		m = MatMul(l, w)
		n = MatMul(m, w)
		y = Sub(n, a)
		out y
	`}, passes.Options{Ranges: map[string]string{"batch": "2..4"}, ExtraPercent: 1000})
	if !slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return s.Again != nil }) {
		t.Fatal("expected nodes that run again")
	}
	check := func(m *graph.Model) *verify.Report {
		t.Helper()
		q := *p
		q.Model = plan.SourceOf(m)
		r, err := verify.Plan(m, &q, verify.Options{Source: parse(t, source), SkipBounds: true})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := check(parse(t, file)); !r.Valid {
		t.Fatal(r)
	}
	m := parse(t, file)
	for _, n := range m.Graph.Nodes {
		if n.Op == "Sub" {
			n.Inputs[0], n.Inputs[1] = n.Inputs[1], n.Inputs[0]
			anew(m, n)
		}
	}
	if r := check(parse(t, encode(t, m))); !slices.ContainsFunc(r.Violations, func(v verify.Violation) bool { return v.Code == verify.CodeLossless }) {
		t.Errorf("%v: expected a violation of code %s", r, verify.CodeLossless)
	}
}
