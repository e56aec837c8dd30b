package verify

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/lossless"
)

// version is the version that a plan with these fields has.
func (v *verifier) version() int {
	if v.p.Ranges != nil {
		return plan.RangesVersion
	}
	return plan.Version
}

// file checks that the plan belongs to the file, and that it holds no impossible figures.
func (v *verifier) file() bool {
	v.identity()
	v.source()
	for _, f := range v.p.Impossible() {
		v.fault(codeOf[f.Field], "%s", f.Message)
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
	if v.p.Format != plan.Format || v.p.Version != version {
		v.fault(CodeFormat, "format: expected %q version %d, found %q version %d", plan.Format, version, graph.Short(v.p.Format), v.p.Version)
	}
	if (v.opt.SkipAnnotations || v.opt.Unwritten) && v.p.Model == (plan.File{}) {
		return
	}
	want := plan.SourceOf(v.m)
	if want.File != v.p.Model.File {
		v.claim("model.file") // the file may have been renamed
	}
	if want.Bytes != v.p.Model.Bytes {
		v.fault(CodeBytes, "model: expected %d bytes, found %d", want.Bytes, v.p.Model.Bytes)
	}
	if want.GraphSHA256 != v.p.Model.GraphSHA256 {
		v.fault(CodeSHA256, "model: graph_sha256: expected %s, found %s: the plan belongs to another graph", want.GraphSHA256, graph.Short(v.p.Model.GraphSHA256))
	}
}

// source compares the plan's description of its source file with that file.
func (v *verifier) source() {
	if v.p.Source == (plan.File{}) {
		return
	}
	if v.opt.Source == nil {
		v.claim("source")
		return
	}
	want := plan.SourceOf(v.opt.Source)
	if want.Bytes != v.p.Source.Bytes {
		v.fault(CodeSource, "source: expected %d bytes, found %d", want.Bytes, v.p.Source.Bytes)
	}
	if want.GraphSHA256 != v.p.Source.GraphSHA256 {
		v.fault(CodeSource, "source: graph_sha256: expected %s, found %s: the plan was made from another graph", want.GraphSHA256, graph.Short(v.p.Source.GraphSHA256))
	}
	if want.File != v.p.Source.File {
		v.claim("source.file")
	}
	if len(v.r.Violations) == 0 && !v.opt.Unwritten && !v.encodedAnew() {
		if x := lossless.Compare(v.opt.Source.Source.Bytes, v.m.Source.Bytes); x != "" {
			v.fault(CodeLossless, "%s", x)
		}
	}
}

// encodedAnew reports whether the file's graph is not the source's with changes: a training
// step of an inference model, a decoder with caches of fixed capacity, or a graph in which
// the calls of local functions were replaced.
func (v *verifier) encodedAnew() bool {
	if v.p.KV != nil {
		return true
	}
	is := func(m *graph.Model) bool {
		mode, _ := m.Prop("onnxmem.mode")
		return mode == "training"
	}
	return is(v.m) != is(v.opt.Source) || calls(v.opt.Source, v.opt.Source) && !calls(v.m, v.opt.Source)
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
