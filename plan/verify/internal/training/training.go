// Package training proves of a training step that it is made of its source: the nodes that the loss
// needs are nodes of the source, the loss is what the metadata say, and each trained parameter has one
// update by the named optimizer. It shares no code with package autodiff, which makes steps.
//
// That gradients are the derivatives of the loss is not proven, only of what they are made: of values of
// the forward pass, of parameters and of inputs, and of nothing that updates or states make.
//
//	training.go   Prove: the order of the proofs, and the line of the report
//	forward.go    the nodes that the loss needs, compared with the source's
//	bodies.go     those of bodies
//	adapters.go   low-rank adapters beside them
//	attention.go  attention that keeps no scores, with a gradient
//	spelled.go    attention of the opset for what the source spells out
//	layout.go     which elements of a tensor another one has
//	replaced.go   operators that others replace
//	opsets.go     what an older node of the source is in opset 18
//	loss.go       the loss
//	gradients.go  what gradients read
//	optimizer.go  the optimizer, the parameters and their states
//	updates.go    what the updates compute, by their formulas
//	uniform.go    an evaluator of tensors whose elements are all equal
//	values.go     constants
package training

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan/verify/internal/same"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// Code is that of the violations.
const Code = "training"

// none is the index of no node and no tensor.
const none = subject.None

// opset is the version in which steps of older models are written, newest that of graphs in 16 bits
// whose own version does not permit these.
const (
	opset  = 18
	newest = 22
	// withAttention is the first version that has Attention.
	withAttention = 23
)

// Step is a step, without the nodes that run again and transfers.
type Step struct {
	Graph     *graph.Graph
	Originals []graph.TensorID  // by tensor: the first with its value; nil: none was made again
	Updates   map[string]string // parameters and states with their updated values
	Trained   map[string]bool   // names of the parameters

	Made     Otherwise // in the main graph
	InBodies Otherwise
}

// Otherwise are the tensors that the plan makes otherwise, since it folded constants.
type Otherwise struct{ Constants, Products map[string]bool }

// prover is one run of Prove.
type prover struct {
	*subject.Subject
	g       *graph.Graph
	step    Step
	of      *graph.Model // the source, without calls of local functions
	version int64        // of ai.onnx in the source
	to      int64        // and in the file
	// inference: the file is no step, but the source in 16 bits
	inference bool
	values    []*ops.Value // of the source, known elements by tensor; with attention in the plan
	same      same.Node
	names     map[graph.TensorID][]string // further names of tensors that were made again
	byName    map[string]graph.TensorID   // of the step
	sources   map[string]graph.TensorID   // of the source, by name
	// spelledOut has the results of attentions that were compared.
	spelledOut map[string]bool
	casts      map[string]bool    // what the plan added to put the graph into 16 bits
	copies     map[string]string  // parameters that are copies, with the initializer that each copies
	adapters   *adapters          // that the step has and the source has not
	files      [2]*constant.Files // of the step and of the source

	forward  []bool                    // by node: the loss needs it
	pairs    []graph.TensorID          // by tensor: what it is in the source; none: not compared yet
	nodes    []graph.NodeID            // by node: the same
	open     [][2]graph.TensorID       // pairs that are to be compared
	outer    *prover                   // of a body: that of the graph around it
	captured [][2]graph.TensorID       // of a body: what it captures, outside
	known    map[string]bool           // updates that are accounted for
	claimed  map[string]bool           // what was not compared
	grads    map[string]graph.TensorID // by parameter

	compared, gradientNodes, updated int    // nodes, nodes, parameters
	optimizer                        string // its name
}

// Prove compares a step with its source, an inference model, and returns what it compared in one line.
func Prove(s *subject.Subject, step Step) string {
	return prove(s, step, func(p *prover) []func() (string, error) {
		return []func() (string, error){p.metadata, p.opsets, p.ends, p.loss, p.compare, p.gradients, p.updates}
	})
}

// ProveForward compares a model in 16 bits that is no step with its source.
func ProveForward(s *subject.Subject, step Step) string {
	return prove(s, step, func(p *prover) []func() (string, error) {
		p.inference = true
		return []func() (string, error){p.opsets, p.withTypes, p.results, p.compare, p.attentions}
	})
}

// results sets out from the outputs.
func (p *prover) results() (string, error) {
	if len(p.g.Outputs) != len(p.of.Graph.Outputs) {
		return fmt.Sprintf("expected %s, as in the source, found %d", subject.Count(len(p.of.Graph.Outputs), "output"), len(p.g.Outputs)), nil
	}
	for k, t := range p.g.Outputs {
		of := p.of.Graph.Outputs[k]
		x, s := p.g.Tensors[t], p.of.Graph.Tensors[of]
		if x.Name != s.Name || s.Declared != nil && s.Declared.Type.Elem != graph.Undefined && x.Type.Elem != s.Declared.Type.Elem {
			return fmt.Sprintf("output %d: expected %q of the source's type, found %q, %v", k, graph.Short(s.Name), graph.Short(x.Name), x.Type), nil
		}
		p.meet(t, of)
	}
	return "", nil
}

func prove(s *subject.Subject, step Step, list func(*prover) []func() (string, error)) string {
	p := &prover{
		Subject: s, g: step.Graph, step: step, of: s.Source, version: s.Source.Opset(""),
		known: map[string]bool{}, claimed: map[string]bool{}, adapters: &adapters{},
	}
	if len(s.Source.Functions) > 0 {
		inlined, err := graph.Inline(s.Source)
		if err != nil {
			s.Fault(Code, "the source: %v", err)
			return ""
		}
		inlined.Graph.Link()
		p.of = inlined
	}
	if s.Model.Source != nil && s.Source.Source != nil {
		p.same.Source, p.same.Other = s.Model.Source.Bytes, s.Source.Source.Bytes
	}
	p.files = [2]*constant.Files{constant.NewFiles(s.Model), constant.NewFiles(s.Source)}
	defer p.files[0].Close()
	defer p.files[1].Close()
	p.index()
	if x := s.Plan.Precision; x != nil {
		p.casts = map[string]bool{}
		for _, c := range x.Casts {
			p.casts[c.Tensor] = true
		}
	}
	for _, prove := range list(p) {
		wrong, err := prove()
		if err != nil {
			wrong = err.Error()
		}
		if wrong != "" {
			s.Fault(Code, "%s", wrong)
			return ""
		}
	}
	return p.line()
}

// index finds tensors by name.
func (p *prover) index() {
	p.byName, p.sources, p.names = map[string]graph.TensorID{}, map[string]graph.TensorID{}, map[graph.TensorID][]string{}
	for id, t := range p.g.Tensors {
		p.byName[t.Name] = graph.TensorID(id)
	}
	for id, t := range p.of.Graph.Tensors {
		p.sources[t.Name] = graph.TensorID(id)
	}
	for t, first := range p.step.Originals {
		if graph.TensorID(t) != first {
			p.names[first] = append(p.names[first], p.g.Tensors[t].Name)
		}
	}
	p.pairs = slices.Repeat([]graph.TensorID{none}, len(p.g.Tensors))
	p.nodes = slices.Repeat([]graph.NodeID{none}, len(p.g.Nodes))
}

// metadata reads the lists of copies and of adapters.
func (p *prover) metadata() (string, error) {
	p.copies = map[string]string{}
	if wrong := p.readAdapters(); wrong != "" {
		return wrong, nil
	}
	text, there := p.Model.Prop("onnxmem.copies")
	if !there {
		return "", nil
	}
	var list []struct{ Name, Of string }
	if json.Unmarshal([]byte(text), &list) != nil {
		return fmt.Sprintf("onnxmem.copies: expected a list, found %q", graph.Short(text)), nil
	}
	for _, c := range list {
		p.copies[c.Name] = c.Of
	}
	return "", nil
}

// opsets compares the versions of operators.
func (p *prover) opsets() (string, error) {
	for _, o := range p.of.Opsets {
		want := o.Version
		if o.Domain == "" {
			if p.to = p.Model.Opset(""); p.Plan.Precision != nil && p.to > want && p.to >= opset && p.to <= newest {
				want = p.to
			}
			if p.Plan.Attention != nil {
				want = max(want, withAttention)
			}
			if !p.inference {
				want = max(want, opset)
			}
		}
		if found := p.Model.Opset(o.Domain); found != want {
			return fmt.Sprintf("operators of domain %q: expected version %d, found %d", graph.Short(o.Domain), want, found), nil
		}
	}
	return "", nil
}

// ends checks that the step promises nothing that it should not: its outputs are the loss, updated values
// and gradients.
func (p *prover) ends() (string, error) {
	promised := map[string]bool{"loss": true}
	for _, to := range p.step.Updates {
		promised[to] = true
	}
	grads, wrong := p.listed()
	if wrong != "" {
		return wrong, nil
	}
	for _, d := range grads {
		promised[p.g.Tensors[d].Name] = true
	}
	for _, t := range p.g.Outputs {
		if name := p.g.Tensors[t].Name; !promised[name] {
			return fmt.Sprintf("output %q: expected the loss, an updated value or a gradient", graph.Short(name)), nil
		}
	}
	return "", nil
}

// line is what was compared.
func (p *prover) line() string {
	if p.inference {
		text := fmt.Sprintf("%s compared with the source", subject.Count(p.compared, "node"))
		if p.casts != nil {
			text += ", without " + subject.Count(len(p.casts), "cast")
		}
		if n := len(p.Plan.Attention); n > 0 {
			text += fmt.Sprintf(", which spells out %s", subject.Count(n, "attention"))
		}
		for _, what := range sorted(p.claimed) {
			text += ", " + what
		}
		return text
	}
	loss, _ := p.Model.Prop("onnxmem.loss")
	if loss = ", loss " + loss; p.claimed["loss"] {
		loss = ""
	}
	text := fmt.Sprintf("%s of the forward pass%s and %s by %s compared with the source; claimed: %s of gradients",
		subject.Count(p.compared, "node"), loss, subject.Count(p.updated, "update"), p.optimizer, subject.Count(p.gradientNodes, "node"))
	for _, what := range sorted(p.claimed) {
		text += ", " + what
	}
	return text
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
