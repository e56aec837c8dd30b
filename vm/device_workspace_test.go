package vm_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/vm"
)

// TestPlannedWorkspaces: the scratch that a run records becomes workspaces of the next
// plan, which then takes no scratch beside the arena, and gives the same bits, planned,
// apart, and poisoned.
func TestPlannedWorkspaces(t *testing.T) {
	d, f := onDevice(t)
	for _, c := range []struct {
		name string
		net  smallNetwork
		opt  func() passes.Options
	}{
		{"inference", smallNetworks[0], func() passes.Options { return passes.Options{} }},
		{"recomputed", smallNetworks[3], func() passes.Options {
			return passes.Options{Train: &autodiff.Options{Optimizer: "sgd"}, Limit: &passes.Limit{Percent: 85}, Effort: schedule.EffortFast}
		}},
		{"in slices", smallNetworks[0], func() passes.Options { return passes.Options{Slices: passes.SlicesExact, ExtraPercent: 200} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := c.net.file(t)
			p, r := program(t, file, c.opt())
			want, s := runSteps(t, p, vm.Options{Device: d}, params(r), 1)
			w := s.Workspaces()
			before := s.DeviceUse()
			if before.ScratchBytes == 0 || len(w.Nodes) == 0 {
				t.Fatalf("%d bytes of scratch, of %d nodes: expected some", before.ScratchBytes, len(w.Nodes))
			}
			opt := c.opt()
			opt.Workspaces = w
			p, r = program(t, file, opt)
			list := r.Plan.Workspaces
			again := 0
			for _, st := range r.Plan.Steps {
				if st.Again != nil {
					again++
				}
			}
			if list == nil || list.Device != d.Name() || len(list.Nodes) < len(w.Nodes) || again == 0 && len(list.Nodes) > len(w.Nodes) {
				t.Fatalf("%+v: expected the workspaces of %d nodes", list, len(w.Nodes))
			}
			got, s := runSteps(t, p, vm.Options{Device: d}, params(r), 1)
			sameBits(t, "in workspaces", got, want)
			if u := s.DeviceUse(); u.ScratchBytes > 0 {
				t.Errorf("%d bytes of scratch beside the arena, expected none", u.ScratchBytes)
			}
			apart, s := runSteps(t, p, vm.Options{Device: d, Separate: true}, params(r), 1)
			sameBits(t, "apart", apart, want)
			if u := s.DeviceUse(); u.ScratchBytes == 0 {
				t.Error("no scratch where every tensor is apart, expected some")
			}
			poisoned, _ := runSteps(t, p, vm.Options{Device: d, Poison: true}, params(r), 1)
			sameBits(t, "poisoned", poisoned, want)
			if f != nil {
				f.Mode("random:3")
				mixed, _ := runSteps(t, p, vm.Options{Device: d}, params(r), 1)
				f.Mode("lazy")
				sameBits(t, "in another order", mixed, want)
			}
			onCPU, _ := runSteps(t, p, vm.Options{}, params(r), 1)
			if len(onCPU) != len(want) {
				t.Errorf("%d outputs on the CPU, expected %d", len(onCPU), len(want))
			}
			if again := s.Workspaces(); len(again.Nodes) != len(w.Nodes) || again.Model.GraphSHA256 == w.Model.GraphSHA256 && w.Model != (plan.File{}) {
				t.Errorf("recorded again: %d nodes of %+v, expected %d of another file", len(again.Nodes), again.Model, len(w.Nodes))
			}
		})
	}
}

// params returns the initial values of a training step's parameters; nil for inference.
func params(r *passes.Result) *graph.Model {
	if r.Step == nil {
		return nil
	}
	return r.Step.Params
}

// TestWorkspacesAroundBodies: the scratch of nodes in the branches of an If lies in the
// workspace of the If, behind what the branches take; so does that of a Loop's body.
func TestWorkspacesAroundBodies(t *testing.T) {
	d, f := onDevice(t)
	if f == nil {
		t.Skip("needs products by a library that is there")
	}
	f.UseBLAS(t)
	x := graphText{main: `
		in c bool[]
		in m int64[]
		in x float32[6,6]
		p = MatMul(x, x)
		q = If(c)
		r = Loop(m, _, q)
		s = MatMul(r, p)
		out s
	`, bodies: map[string]string{
		"q.then_branch": "a = MatMul(p, x)\na2 = Neg(a)\nout a2",
		"q.else_branch": "b = Abs(p)\nb2 = Gemm(b, x, p)\nb3 = MatMul(b2, b)\nout b3",
		"r.body": `
			in i
			in k
			in v
			w = MatMul(v, x)
			e = Identity(k)
			out e
			out w
		`,
	}}
	plan := func(w *plan.Recording) *vm.Program {
		im, err := onnx.Encode(&graph.Model{IRVersion: 8, Graph: x.graph(x.main), Opsets: []graph.Opset{{Version: 21}}})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := im.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "bodies.onnx")
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		p, _ := program(t, path, passes.Options{Workspaces: w})
		return p
	}
	values := func(c byte) map[string]vm.Value {
		return map[string]vm.Value{"c": octets(graph.Bool, []int{}, c), "m": vm.Int64s([]int64{2}), "x": ramp([]graph.Dim{6, 6})}
	}
	run := func(p *vm.Program, opt vm.Options) (results []map[string]vm.Value, s *vm.Session) {
		s = newSession(t, p, opt)
		for _, c := range []byte{0, 1, 0} {
			out, err := s.Run(t.Context(), values(c))
			if err != nil {
				t.Fatal(err)
			}
			results = append(results, map[string]vm.Value{"s": out["s"].Clone()})
		}
		return results, s
	}
	plain := plan(nil)
	want, s := run(plain, vm.Options{Device: d})
	w := s.Workspaces()
	if len(w.Nodes) != 4 {
		t.Fatalf("%+v: expected workspaces of two MatMuls, the If and the Loop", w.Nodes)
	}
	planned := plan(w)
	for _, opt := range []vm.Options{{Device: d}, {Device: d, Poison: true}} {
		got, s := run(planned, opt)
		for i := range want {
			sameBits(t, "in workspaces", got[i], want[i])
		}
		if n := s.DeviceUse().ScratchBytes; n != 0 {
			t.Errorf("%d bytes of scratch beside the arena, expected none", n)
		}
	}
	onCPU, _ := run(planned, vm.Options{})
	for i := range want {
		nearly(t, want[i], onCPU[i], 1e-5)
	}
}
