package autodiff

import (
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// forward visits the model's nodes in a topological order, sets training modes,
// and replaces operators without a gradient rule by others that have one.
func (s *trainer) forward() error {
	order, err := s.g.Topological()
	if err != nil {
		return err
	}
	nodes := s.g.Nodes
	s.g.Nodes = make([]*graph.Node, 0, len(nodes))
	s.phase = phaseForward
	s.states = map[ID]bool{}
	s.weighted = s.weightedLoops(nodes, order)
	for _, k := range order {
		n := nodes[k]
		if err := s.forwardBodies(n); err != nil {
			return err
		}
		s.of = n.Name
		s.readSequence(n)
		if f := trainingModes[ruleKey{n.Domain, n.Op}]; f != nil {
			f(s, n)
		}
		if f := expansions[ruleKey{n.Domain, n.Op}]; f != nil && s.expands(n) {
			s.expandNode(n, f)
		} else if !s.joinBias(n, nodes) {
			s.mark(n)
			s.g.Nodes = append(s.g.Nodes, n)
		}
		if s.err != nil {
			return s.err
		}
	}
	s.of = ""
	return nil
}

// expansions are operators that are replaced by others before differentiation.
// Each returns the tensors that replace the node's outputs; graph.None for an
// output that it does not make.
var expansions = merged(recurrentExpansions, attentionExpansions, contribExpansions, lossExpansions, loopExpansions, convExpansions, activationExpansions, moreContribExpansions, sequenceExpansions)

// expansionsOf adds the domain to a table of expansions.
func expansionsOf(domain string, list map[string]func(*Backward) []ID) map[ruleKey]func(*Backward) []ID {
	m := map[ruleKey]func(*Backward) []ID{}
	for op, f := range list {
		m[ruleKey{domain, op}] = f
	}
	return m
}

func merged(list ...map[ruleKey]func(*Backward) []ID) map[ruleKey]func(*Backward) []ID {
	m := map[ruleKey]func(*Backward) []ID{}
	for _, l := range list {
		maps.Copy(m, l)
	}
	return m
}

// admission says which nodes of an operator an expansion replaces.
type admission struct {
	admits func(*trainer, *graph.Node) bool
	why    func(*emitter, *graph.Node) string // why a node was not replaced; nil: its gradient tells
}

// admissions are those of the operators of which not every node is replaced by its expansion.
var admissions = map[ruleKey]admission{
	{"", "Loop"}: {admitsLoop, func(e *emitter, n *graph.Node) string {
		_, why := e.bounded(n)
		return why
	}},
	{"", "Scan"}: {admits: func(_ *trainer, n *graph.Node) bool { return turns(n) }},
	{"", "SequenceAt"}: {func(s *trainer, n *graph.Node) bool {
		_, known := s.itemAt(n)
		return known
	}, func(*emitter, *graph.Node) string { return whyNoItems }},
	{"", "ConcatFromSequence"}: {
		func(s *trainer, n *graph.Node) bool { return len(s.items[n.Inputs[0]]) > 0 },
		func(*emitter, *graph.Node) string { return whyNoItems },
	},
	{"", "SoftmaxCrossEntropyLoss"}: {admits: admitsLoss},
}

// expands reports whether a node that has an expansion is replaced by it.
func (s *trainer) expands(n *graph.Node) bool {
	a, limited := admissions[ruleKey{n.Domain, n.Op}]
	return !limited || a.admits(s, n)
}

// expandNode replaces a node by its expansion. The outputs keep their names.
func (s *trainer) expandNode(n *graph.Node, f func(c *Backward) []ID) {
	first := len(s.g.Nodes)
	s.scope = s.of + "/"
	if s.of == "" {
		s.scope = s.g.Tensors[firstOutput(n)].Name + "/"
	}
	if !s.inBody {
		s.recordRoles(n)
	}
	made := f(&Backward{emitter: s.emitter, Node: n})
	if recurrent(n) {
		for _, m := range s.g.Nodes[first:] {
			s.inner[m] = true
		}
	}
	s.scope = ""
	if s.err != nil {
		return
	}
	for k, old := range n.Outputs {
		if old == graph.None {
			continue
		}
		if k >= len(made) || made[k] == graph.None {
			s.fail(graph.Errorf("output %d is not made by its expansion", k).AtNode(label(n)))
			return
		}
		s.rename(s.g.Nodes[first:], made[k], old)
	}
}

// rename replaces one tensor by another in the inputs and outputs of nodes.
func (s *trainer) rename(nodes []*graph.Node, from, to ID) {
	found := false
	for _, n := range nodes {
		for _, list := range [][]ID{n.Inputs, n.Outputs} {
			for i, t := range list {
				if t == from {
					list[i] = to
				}
			}
		}
		found = found || slices.Contains(n.Outputs, to)
	}
	if !found { // it was not emitted by the expansion
		s.g.Nodes = append(s.g.Nodes, &graph.Node{
			Name: s.unique(s.g.Tensors[to].Name + "/Identity"), Op: "Identity", Inputs: []ID{from}, Outputs: []ID{to},
		})
	}
}

func firstOutput(n *graph.Node) ID {
	for _, t := range n.Outputs {
		if t != graph.None {
			return t
		}
	}
	return graph.None
}

// trainingModes are operators that behave differently in training.
var trainingModes = map[ruleKey]func(*trainer, *graph.Node){
	{"", "Dropout"}:            (*trainer).trainDropout,
	{"", "BatchNormalization"}: (*trainer).trainBatchNorm,
}

// trainDropout sets the input training_mode.
func (s *trainer) trainDropout(n *graph.Node) {
	n.Inputs = n.Inputs[:min(len(n.Inputs), 2):2]
	for len(n.Inputs) < 2 {
		n.Inputs = append(n.Inputs, graph.None)
	}
	n.Inputs = append(n.Inputs, s.constant(graph.Bool, nil, []byte{1}, &ops.Value{Elems: []ops.Scalar{{I: 1}}}))
	n.Span = graph.Span{}
	s.infer(n) // up to opset 9 the mask is not a bool
}

// trainBatchNorm makes the node normalise by the batch and update its running
// statistics, unless these are frozen or computed.
func (s *trainer) trainBatchNorm(n *graph.Node) {
	if s.opt.FreezeStatistics || len(n.Inputs) < 5 {
		return
	}
	for _, t := range n.Inputs[3:5] {
		if s.g.Tensors[t].Data == nil {
			s.step.Warnings = append(s.step.Warnings, "running statistics "+graph.Short(s.g.Tensors[t].Name)+" are computed: "+label(n)+" stays in inference mode")
			return
		}
	}
	n.Attrs = slices.DeleteFunc(slices.Clone(n.Attrs), func(a *graph.Attr) bool { return a.Name == "training_mode" })
	n.Attrs = append(n.Attrs, attrs{"training_mode": 1}.list()...)
	n.Outputs = n.Outputs[:1:1]
	for i := 3; i < 5; i++ {
		t := n.Inputs[i]
		updated := s.newTensor("", s.typeOf(t), nil)
		n.Outputs = append(n.Outputs, updated)
		s.replace(t, updated)
		s.states[t] = true
	}
	n.Span = graph.Span{}
}
