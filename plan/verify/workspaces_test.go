package verify_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// TestRecordedWorkspaces: a plan with recorded workspaces is valid, says that they are a
// claim, and its buffers must agree with them.
func TestRecordedWorkspaces(t *testing.T) {
	at := func(p *plan.Plan, k int) *plan.StepWorkspace { return &p.Workspaces.Nodes[k] }
	for _, c := range []struct {
		name   string
		change func(p *plan.Plan)
		code   string // of the violation; "": valid
	}{
		{name: "as recorded"},
		{"another device", func(p *plan.Plan) { p.Workspaces.Device = "another" }, ""},
		{"a size that is rounded up to the same", func(p *plan.Plan) { at(p, 0).Bytes-- }, ""},
		{"a larger size", func(p *plan.Plan) { at(p, 0).Bytes += 64 }, verify.CodeWorkspace},
		{"a smaller size", func(p *plan.Plan) { at(p, 1).Bytes -= 64 }, verify.CodeWorkspace},
		{"another step", func(p *plan.Plan) { at(p, 0).Step++ }, verify.CodeWorkspace},
		{"no step", func(p *plan.Plan) { at(p, 1).Step = 99 }, verify.CodeWorkspace},
		{"a negative step", func(p *plan.Plan) { at(p, 0).Step = -1 }, verify.CodeWorkspace},
		{"steps in another order", func(p *plan.Plan) { slices.Reverse(p.Workspaces.Nodes) }, verify.CodeWorkspace},
		{"no bytes", func(p *plan.Plan) { at(p, 0).Bytes = 0 }, verify.CodeWorkspace},
		{"absurdly many", func(p *plan.Plan) { at(p, 0).Bytes = 1 << 62 }, verify.CodeWorkspace},
		{"no list", func(p *plan.Plan) { p.Workspaces = nil }, verify.CodeWorkspace},
		{"one entry too few", func(p *plan.Plan) { p.Workspaces.Nodes = p.Workspaces.Nodes[1:] }, verify.CodeWorkspace},
		{"a buffer is missing", func(p *plan.Plan) {
			p.Buffers = slices.DeleteFunc(p.Buffers, func(b plan.Buffer) bool { return b.Kind == plan.KindWorkspace })
		}, verify.CodeWorkspace},
		{"a buffer is too small", func(p *plan.Plan) { workspace(p.Buffers).Bytes -= 64 }, verify.CodeWorkspace},
		{"a buffer lives for longer", func(p *plan.Plan) { workspace(p.Buffers).Last++ }, verify.CodeLifetime},
		{"a load without it", func(p *plan.Plan) { p.Steps[at(p, 0).Step].LoadBytes -= 64 }, verify.CodeLoad},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := twins.build(t)
			w := &plan.Recording{
				Format: plan.RecordingFormat, Version: plan.RecordingVersion, Model: plan.SourceOf(source), Device: "a GPU",
				Nodes: []plan.NodeScratch{{Node: "make a", Output: "a", Bytes: 1000}, {Node: "make y", Output: "y", Bytes: 65}},
			}
			r, err := passes.Optimize(t.Context(), twins.build(t), passes.Options{Workspaces: w})
			if err != nil {
				t.Fatal(err)
			}
			m := parse(t, encode(t, r.Model))
			p := clone(t, r.Plan)
			p.Model = plan.SourceOf(m)
			b, err := p.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if err := schema(t).Validate(decode(t, b)); err != nil {
				t.Error(err)
			}
			if q, err := plan.Read(bytes.NewReader(b)); err != nil || q.Check() != nil {
				t.Errorf("%v, %v: expected a consistent plan", err, q.Check())
			}
			if c.change != nil {
				c.change(p)
			}
			report, err := verify.Plan(m, p, verify.Options{Source: source})
			if err != nil {
				t.Fatal(err)
			}
			found := slices.ContainsFunc(report.Violations, func(v verify.Violation) bool { return v.Code == c.code })
			if report.Valid != (c.code == "") || c.code != "" && !found {
				t.Errorf("expected code %q, found %v", c.code, report)
			}
			if c.code == "" && !slices.Contains(report.Claimed, "workspaces") {
				t.Errorf("claimed: %v: expected workspaces among them", report.Claimed)
			}
		})
	}
}
