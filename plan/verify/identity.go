package verify

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/lossless"
	"github.com/onnxmem/onnxmem/plan/verify/internal/named"
	"github.com/onnxmem/onnxmem/plan/verify/internal/unchanged"
)

// version is the version that a plan with these fields has.
func (v *verifier) version() int {
	if v.Plan.Ranges != nil {
		return plan.RangesVersion
	}
	return plan.Version
}

// file checks that the plan belongs to the file, and that it holds no impossible figures.
func (v *verifier) file() bool {
	v.identity()
	v.source()
	for _, f := range v.Plan.Impossible() {
		v.Fault(codeOf[f.Field], "%s", f.Message)
	}
	return true
}

// codeOf maps fields of the plan to the codes of impossible figures.
var codeOf = map[string]string{
	"model": CodeFormat, "source": CodeSource, "steps": CodeLimit, "subgraphs": CodeSubgraph,
	"frontier": CodeFrontier, "traversal": CodeOrder, "certificates": CodeCertificate, "workspaces": CodeWorkspace,
	"slices": CodeSlices,
}

// identity compares the plan's description of its file with the file.
func (v *verifier) identity() {
	version := v.version()
	if v.Plan.Format != plan.Format || v.Plan.Version != version {
		v.Fault(CodeFormat, "format: expected %q version %d, found %q version %d", plan.Format, version, graph.Short(v.Plan.Format), v.Plan.Version)
	}
	if (v.opt.SkipAnnotations || v.opt.Unwritten) && v.Plan.Model == (plan.File{}) {
		return
	}
	want := plan.SourceOf(v.Model)
	if want.File != v.Plan.Model.File {
		v.Claim("model.file") // the file may have been renamed
	}
	if want.Bytes != v.Plan.Model.Bytes {
		v.Fault(CodeBytes, "model: expected %d bytes, found %d", want.Bytes, v.Plan.Model.Bytes)
	}
	if want.GraphSHA256 != v.Plan.Model.GraphSHA256 {
		v.Fault(CodeSHA256, "model: graph_sha256: expected %s, found %s: the plan belongs to another graph", want.GraphSHA256, graph.Short(v.Plan.Model.GraphSHA256))
	}
}

// source compares the plan's description of its source file with that file.
func (v *verifier) source() {
	if v.Plan.Source == (plan.File{}) {
		return
	}
	if v.Source == nil {
		v.Claim("source")
		return
	}
	want := plan.SourceOf(v.Source)
	if want.Bytes != v.Plan.Source.Bytes {
		v.Fault(CodeSource, "source: expected %d bytes, found %d", want.Bytes, v.Plan.Source.Bytes)
	}
	if want.GraphSHA256 != v.Plan.Source.GraphSHA256 {
		v.Fault(CodeSource, "source: graph_sha256: expected %s, found %s: the plan was made from another graph", want.GraphSHA256, graph.Short(v.Plan.Source.GraphSHA256))
	}
	if want.File != v.Plan.Source.File {
		v.Claim("source.file")
	}
	if len(v.Violations) == 0 && !v.opt.Unwritten && !v.encodedAnew() {
		if x := lossless.Compare(v.Source.Source.Bytes, v.Model.Source.Bytes, v.otherElements()); x != "" {
			v.Fault(CodeLossless, "%s", x)
		}
	}
}

// otherElements reports which tensors have other elements than in the source, as the plan says:
// the provers of folded constants and of slices compare them.
func (v *verifier) otherElements() lossless.Other {
	main, bodies := unchanged.ReplacedBy(v.Plan.Folded)
	return func(name string, body bool) bool {
		if body {
			return bodies.Constants[name]
		}
		return v.Plan.Slices != nil || main.Constants[name]
	}
}

// sameNodes checks that what the plan did not add is the source's; with slices, their prover does.
func (v *verifier) sameNodes() bool {
	if v.Source == nil || v.opt.Unwritten || v.Plan.Source == (plan.File{}) || len(v.Violations) > 0 {
		return true
	}
	if named.Prove(v.Subject); v.madeStep() {
		v.step()
		return true
	}
	if v.Plan.Precision != nil || v.Plan.Attention != nil && v.Plan.KV == nil {
		v.forward()
		return true
	}
	if v.Plan.Slices != nil || v.encodedAnew() {
		return true
	}
	plain := v.withoutAdded()
	unchanged.Prove(v.Subject, plain.g, plain.originals)
	return true
}

// withoutAdded returns the scope of the graph without nodes that the plan added. That graph is one for
// all points of ranges, so what is compared with the source there holds at each of them, also where the
// order is checked at the corner alone and nobody made the scope.
func (v *verifier) withoutAdded() *scope {
	switch {
	case v.plain != nil:
		return v.plain
	case v.added == nil:
		return v.main
	}
	plain, _ := v.main.without(v.added, v.again)
	return plain
}

// encodedAnew reports whether the file's graph is not the source's with changes: a training
// step of an inference model, a graph in 16 bits or with attention of one node, a decoder with caches of fixed capacity, or one in which
// the calls of local functions were replaced.
func (v *verifier) encodedAnew() bool {
	if v.Plan.KV != nil || v.Plan.Precision != nil || v.Plan.Attention != nil {
		return true
	}
	return isStep(v.Model) != isStep(v.Source) || calls(v.Source, v.Source) && !calls(v.Model, v.Source)
}

// madeStep reports whether the file is a training step, and the source is not.
func (v *verifier) madeStep() bool { return isStep(v.Model) && !isStep(v.Source) }

func isStep(m *graph.Model) bool {
	mode, _ := m.Prop(keyMode)
	return mode == modeTraining
}

// calls reports whether a node of the main graph, or of a body, calls a local function of the
// source. One that only the plan has, as those of swaps and slices, does not count; one that
// the plan of the source had does.
func calls(m, source *graph.Model) bool {
	local := map[[2]string]bool{}
	for _, f := range source.Functions {
		local[[2]string{f.Domain, f.Name}] = true
	}
	found := false
	var look func(g *graph.Graph)
	look = func(g *graph.Graph) {
		for _, n := range g.Nodes {
			found = found || local[[2]string{n.Domain, n.Op}]
			for _, a := range n.Bodies() {
				for _, body := range a.All() {
					look(body)
				}
			}
		}
	}
	look(m.Graph)
	return found
}
