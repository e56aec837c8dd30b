package autodiff

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/ops"
)

// Options says what a training step is made of. The zero value trains by sgd
// on cross-entropy.
type Options struct {
	Dims       map[string]int64         // symbolic dimensions and their lengths
	Values     map[string]graph.Literal // values of inputs that are known before the model runs
	StrictDims bool                     // refuse a dimension that stays unbound
	SpareDims  bool                     // Dims and Values may name dimensions and inputs that the model does not have
	Strict     bool                     // refuse a declared shape that contradicts inference, instead of a warning

	// Loss is cross-entropy (""), mse, bce, l1, or none for an output that is a loss, with the
	// output from which it is computed: mse:OUTPUT. Several are summed:
	// "mse:OUTPUT + 0.5*bce:OUTPUT". Each then has labels of its own, labels.OUTPUT.
	Loss          string
	LossOutput    string // the output from which the loss is computed; "" is the first
	ClassAxis     *int   // of cross-entropy; nil: 1, or the last axis if there are three
	Probabilities bool   // for bce: the output is a probability, not a logit

	Optimizer string             // sgd (""), momentum, adam or adamw
	Constants map[string]float64 // constants of the optimizer, by name
	Groups    []ParamGroup       // parameters with their own learning rate and constants
	ClipNorm  float64            // largest norm of all gradients together; 0: no clipping
	// LossScale multiplies the loss for the backward pass, for models of 16-bit types;
	// nil: it does not.
	LossScale *LossScale
	// Accumulate is the number of runs for one update; 0 and 1: each run updates. Gradients
	// are the mean over these runs.
	Accumulate int
	DecayAll   bool // apply weight decay also to biases and to weights of normalisations

	Trainable *regexp.Regexp // initializers to train; nil: chosen by the operators that read them
	Freeze    *regexp.Regexp // initializers not to train
	// Adapters are the names of initializers to train, as package lora adds them, beside those
	// that Trainable matches; nothing else is then trained. Those on which the loss does not
	// depend are left out.
	Adapters         []string
	Untie            *regexp.Regexp // initializers of which each node that reads them trains a copy of its own
	UntieEqual       bool           // the same for all whose elements are all equal: an exporter may have merged them
	FreezeStatistics bool           // BatchNormalization does not update its statistics
	KeepGradients    bool           // gradients of parameters are graph outputs
	FusedGradients   Fusion         // which gradients are single nodes of domain onnxmem
	NoLean           []string       // names of Savings to switch off
	// Attention replaces attention that is spelled out by a node that keeps no scores and
	// computes them again for its gradient. Results differ by rounding.
	Attention bool

	openDims bool // of TrainRange
}

// Fusion says which gradients are single nodes of domain onnxmem. The model has a function
// for each kind of them, so that every runtime can run it; one without kernels of its own for
// them runs the nodes of the function, and needs memory for their results.
type Fusion int

const (
	// FuseDefault is FuseOff for [Train]; passes.Optimize takes FuseOn unless the plan is for
	// another runtime.
	FuseDefault Fusion = iota
	// FuseOff: all gradients are standard operators.
	FuseOff
	// FuseOn: the gradient of a convolution's weights is an operator, whose kernel in package
	// vm needs no copies of the image and of the result's gradient.
	FuseOn
	// FuseAll: other gradients of several nodes are nodes, too, which package vm runs as
	// functions, with memory for what these compute in between.
	FuseAll
)

// Step is the graph of one training step.
type Step struct {
	Model  *graph.Model // forward, backward and update nodes
	Params *graph.Model // initial values of parameters and states, as initializers of a graph without nodes
	Dims   []ops.BoundDim
	Spare  ops.Spare // names in Options.Dims and Options.Values that bind nothing

	Parameters []string // names of the trained tensors
	Trained    []Count  // the same by kind: convolution, product, normalization, embedding, bias and so on
	LeftOut    []string // initializers that could be trained but are not, with the reason; without literals
	NotTrained []Count  // the same by reason, with literals
	Tied       []Tie    // parameters that several nodes read
	Separated  []string // parameters of which each node has a copy, since Options.Untie says so
	Copies     []Copy   // initializers that the source does not have
	Weights    []string // tensors of weights of attention that the step would not have with Options.Attention
	Warnings   []string
}

// Count is how many initializers of a kind there are.
type Count struct {
	Kind         string `json:"kind"`
	Initializers int    `json:"initializers"`
	Elements     int64  `json:"elements"`
}

// OptionError reports an option whose value is wrong for every model.
type OptionError struct{ Err error }

// Error names the option, what was expected and what was found.
func (e *OptionError) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error.
func (e *OptionError) Unwrap() error { return e.Err }

func optionf(format string, args ...any) error { return &OptionError{fmt.Errorf(format, args...)} }

// minOpset is the lowest version of ai.onnx in which gradients are written.
const minOpset = 18

// Train makes the graph of one training step from an inference model: forward,
// loss, backward and update nodes in one graph of standard operators
// (docs/formats/training.md). Calls of local functions are inlined. Train
// changes m only by setting inferred types. Errors in the model are of type
// *graph.Error, errors in opt of type *OptionError.
func Train(m *graph.Model, opt Options) (step *Step, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	err = retryIfMerged(func(salt int) error {
		s := &trainer{opt: opt, source: m, noDecay: map[ID]bool{}, given: map[ID]bool{}, inner: map[*graph.Node]bool{}, expanded: map[ID]role{}, scale: graph.None, unscale: graph.None, due: graph.None, updating: graph.None, factors: map[[3]float64]ID{}}
		var err error
		step, err = s.run(salt)
		return err
	})
	var e *graph.Error
	if errors.As(err, &e) && e.File == "" && m.Source != nil {
		e.File = m.Source.Name
	}
	return step, mapped.Unchanged(m.Source, err)
}

// trainer makes one Step.
type trainer struct {
	*emitter
	opt    Options
	source *graph.Model
	step   Step

	parameters []ID
	groups     []*rateGroup // those of Options.Groups, and the rest
	groupOf    map[ID]*rateGroup
	noDecay    map[ID]bool
	expanded   map[ID]role // weights of expanded operators
	grads      []ID        // of the parameters, in this run
	reduced    []ID        // what the updates read: the same, summed over runs, or clipped
	scale      ID          // the loss scale, and 1 divided by it
	unscale    ID
	due        ID // whether this run is the last of an update; None: each is
	updating   ID // whether this run updates; None: each does
	factors    map[[3]float64]ID
	updates    []update             // of parameters, states and statistics
	states     map[ID]bool          // running statistics that are updated
	inBody     bool                 // forward is in the body of a node
	weighted   map[*graph.Node]bool // Loops that compute with weights
	ties       map[ID]*Tie          // initializers that several nodes read
	loss       ID
	labelsName string      // of the loss that is being added
	given      map[ID]bool // inputs for labels
	files      *constant.Files
	inner      map[*graph.Node]bool // nodes that recurrent nodes became
	unnamed    map[ID]bool          // set after backward: outputs of nodes that may still be renamed
	stepped    ID                   // the number of the step, float64
}

// update is a resident tensor and its updated value.
type update struct{ old, updated ID }

func (s *trainer) run(salt int) (*Step, error) {
	var err error
	if mode, _ := s.source.Prop("onnxmem.mode"); mode == "training" {
		return nil, graph.Errorf("is a training step already (its metadata say onnxmem.mode = training): expected an inference model; onnxmem optimize plans a step without --train")
	}
	if s.groups, err = newGroups(s.opt); err != nil {
		return nil, err
	}
	if err := s.opt.LossScale.check(); err != nil {
		return nil, err
	}
	switch {
	case s.opt.ClipNorm < 0:
		return nil, optionf("clip norm %g: expected 0 or more", s.opt.ClipNorm)
	case s.opt.Accumulate < 0 || s.opt.Accumulate > mostMicroSteps:
		return nil, optionf("accumulate %d: expected 1 to %d runs", s.opt.Accumulate, mostMicroSteps)
	}
	saving, err := savingsWithout(s.opt.NoLean)
	if err != nil {
		return nil, err
	}
	if s.source, err = graph.Inline(s.source); err != nil {
		return nil, err
	}
	inference, err := ops.Infer(s.source, ops.Options{Dims: s.opt.Dims, Values: s.opt.Values, StrictDims: s.opt.StrictDims, SpareDims: s.opt.SpareDims, Strict: s.opt.Strict})
	if err != nil {
		return nil, err
	}
	s.step.Dims, s.step.Spare, s.step.Warnings = inference.Dims, inference.Spare, inference.Warnings
	g := s.source.Graph.Clone()
	constant.Hoist(g)
	s.emitter = newEmitter(g, slices.Clone(s.source.Opsets), slices.Clone(inference.Values))
	s.saving = saving
	s.waiting = s.opt.ClipNorm > 0 && s.opt.Accumulate <= 1
	s.fused = s.opt.FusedGradients >= FuseOn
	if s.opt.FusedGradients == FuseAll {
		s.fuse = &fuser{byBody: map[string]*graph.Function{}, names: map[string]int{}}
	}
	s.salt, s.openDims = salt, s.opt.openDims
	for _, make := range []func() error{
		s.upgrade, s.untie, s.checkPatterns, s.forward, s.objective, s.selectParameters, s.groupParameters, s.fuseAttention, s.backward, s.accumulate, s.decide, s.clip, s.update, s.finish,
	} {
		if err := make(); err != nil {
			return nil, err
		}
		if s.err != nil {
			return nil, s.err
		}
	}
	return &s.step, nil
}

// backward emits the gradients of the parameters.
func (s *trainer) backward() error {
	order, err := s.g.Topological()
	if err != nil {
		return err
	}
	nodes := make([]*graph.Node, len(order))
	for i, n := range order {
		nodes[i] = s.g.Nodes[n]
	}
	s.forgetParameters(nodes)
	s.phase = phaseBackward
	seed, err := s.seed()
	if err != nil {
		return err
	}
	s.grads, err = s.differentiate(nodes, []ID{s.loss}, []ID{seed}, s.parameters)
	if err != nil {
		return err
	}
	s.unnamed = map[ID]bool{}
	for _, n := range s.g.Nodes {
		for _, t := range n.Outputs {
			s.unnamed[t] = true
		}
	}
	delete(s.unnamed, s.loss)
	for i, d := range s.grads {
		name := s.g.Tensors[s.parameters[i]].Name
		if d == graph.None {
			e := graph.Errorf("the loss does not depend on it: expected a differentiable path: exclude it (--trainable, --freeze)")
			e.Tensor = name
			return e
		}
		s.phase, s.of, s.scope = phaseBackward, name, name+".grad/"
		s.grads[i] = s.named(s.unscaled(d), name+".grad")
	}
	s.of, s.scope = "", ""
	return nil
}

// forgetParameters drops what is known of the elements of parameters, and of what nodes
// make of them: it holds for the first step alone.
func (s *trainer) forgetParameters(nodes []*graph.Node) {
	changes := map[ID]bool{}
	for _, p := range s.parameters {
		changes[p] = true
		s.values[p] = nil
	}
	for _, n := range nodes {
		if ops.OfShape(n) {
			continue
		}
		read := false
		n.Reads(func(t ID) { read = read || changes[t] })
		if !read {
			continue
		}
		for _, t := range n.Outputs {
			if t != graph.None {
				changes[t] = true
				s.values[t] = nil
			}
		}
	}
}

// named gives a tensor a name. A tensor that must keep its name (the loss, an
// input, the gradient of two parameters) is copied, and the copy gets the name.
func (s *trainer) named(t ID, name string) ID {
	if !s.unnamed[t] {
		t = s.op("Identity", t)
	}
	delete(s.unnamed, t)
	if s.err == nil {
		s.g.Tensors[t].Name = s.unique(name)
	}
	return t
}

// castTo converts a tensor to an element type.
func (e *emitter) castTo(t ID, elem graph.DType) ID {
	if e.typeOf(t).Elem == elem {
		return t
	}
	return e.with("Cast", attrs{"to": elem}, t)
}

// finish sets inputs, outputs and metadata, and removes unused nodes and tensors.
func (s *trainer) finish() error {
	g := s.g
	g.Outputs = []ID{s.loss}
	for _, u := range s.updates {
		g.Outputs = append(g.Outputs, u.updated)
	}
	if s.opt.KeepGradients {
		g.Outputs = append(g.Outputs, s.grads...)
	}
	params := &graph.Graph{Name: g.Name + ".params"}
	for _, u := range s.updates {
		t := g.Tensors[u.old]
		p := params.NewTensor(t.Name)
		params.Tensors[p].Data, params.Tensors[p].Type = t.Data, t.Type
		t.Data = nil
		g.Inputs = append(g.Inputs, u.old)
	}
	updates, gradients := s.updateNames(), s.gradientNames() // before indices change
	s.trimScans()
	s.prune()
	if s.narrowAgain() {
		s.prune()
	}
	g.NameCaptures()
	g.Link()
	opaque := map[ID]bool{}
	for _, n := range g.Nodes {
		for _, t := range n.Outputs {
			// Only value_info describes it to everyone, or to other runtimes.
			opaque[t] = !n.Semantics.Known && ops.Lookup(n.Domain, n.Op) == nil || n.Domain == fusedDomain
		}
	}
	for i, t := range g.Tensors {
		if t.Input || t.Output || opaque[ID(i)] {
			t.Declared = &graph.Declared{Type: t.Type, Symbols: make([]string, len(t.Type.Shape))}
		} else {
			t.Declared = nil // it speaks of symbolic dimensions
		}
	}
	g.Span = graph.Span{}
	m := s.source
	functions := []*graph.Function(nil)
	if s.fuse != nil && len(s.fuse.functions) > 0 {
		functions = s.fuse.functions
		s.opsets = append(s.opsets, graph.Opset{Domain: fusedDomain, Version: 1})
	}
	s.step.Model = &graph.Model{
		IRVersion: max(m.IRVersion, 8), Producer: m.Producer, Opsets: s.opsets, Graph: g,
		Functions: functions, Props: slices.Clone(m.Props), Source: m.Source,
	}
	if calls(g, graph.ConvWeightGrad) {
		if err := s.step.Model.AddConvWeightGrad(); err != nil {
			return err
		}
	}
	if calls(g, graph.FlashAttention) {
		if err := s.step.Model.AddFlashAttention(); err != nil {
			return err
		}
	}
	s.step.Params = &graph.Model{IRVersion: max(m.IRVersion, 8), Producer: "onnxmem", Opsets: s.opsets, Graph: params, Source: m.Source}
	return s.describe(updates, gradients)
}

// updateNames lists w=w.new for every updated tensor, and records the trained
// ones.
func (s *trainer) updateNames() []string {
	list := []string{}
	for _, u := range s.updates {
		list = append(list, s.g.Tensors[u.old].Name+"="+s.g.Tensors[u.updated].Name)
	}
	for _, p := range s.parameters {
		s.step.Parameters = append(s.step.Parameters, s.g.Tensors[p].Name)
	}
	return list
}

// gradientNames lists w=w.grad for all parameters.
func (s *trainer) gradientNames() []string {
	list := make([]string, len(s.grads))
	for i, d := range s.grads {
		list[i] = s.g.Tensors[s.parameters[i]].Name + "=" + s.g.Tensors[d].Name
	}
	return list
}

// describe writes the metadata of a training graph (docs/formats/training.md).
func (s *trainer) describe(updates, gradients []string) error {
	loss := s.opt.Loss
	if loss == "" {
		loss = "cross-entropy"
	}
	set := func(key string, v any) error {
		text, err := json.Marshal(v)
		if err == nil {
			s.step.Model.SetProp(key, string(text))
		}
		return err
	}
	s.step.Model.SetProp("onnxmem.mode", "training")
	s.step.Model.SetProp("onnxmem.loss", loss)
	if len(s.step.Copies) > 0 {
		if err := set("onnxmem.copies", s.step.Copies); err != nil {
			return err
		}
	}
	return errors.Join(
		set("onnxmem.updates", updates), set("onnxmem.trainable", s.step.Parameters),
		set("onnxmem.gradients", gradients), set("onnxmem.optimizer", s.describeUpdates()),
	)
}

// pruneBodies removes what the bodies of nodes capture and do not read: the trip count of a Loop
// that has become a Scan, say. A plan would count it as read.
func pruneBodies(g *graph.Graph) {
	for _, n := range g.Nodes {
		bodies := n.Bodies()
		if len(bodies) == 0 {
			continue
		}
		for _, a := range bodies {
			for _, b := range a.All() {
				pruneBodies(b)
				dropUnreadCaptures(b)
			}
		}
		n.SetCaptures()
	}
}

// prune removes the nodes that no output needs.
func (s *trainer) prune() {
	g := s.g
	pruneBodies(g)
	maker := make([]*graph.Node, len(g.Tensors))
	for _, n := range g.Nodes {
		for _, t := range n.Outputs {
			if t != graph.None {
				maker[t] = n
			}
		}
	}
	needed := map[*graph.Node]bool{}
	read := make([]bool, len(g.Tensors))
	stack := slices.Clone(g.Outputs)
	for len(stack) > 0 {
		t := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if read[t] {
			continue
		}
		read[t] = true
		if n := maker[t]; n != nil && !needed[n] {
			needed[n] = true
			n.Reads(func(t ID) { stack = append(stack, t) })
		}
	}
	for _, t := range g.Inputs {
		read[t] = true // stays even if nothing reads it
	}
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *graph.Node) bool { return !needed[n] })
	g.DropTensors(func(t ID) bool {
		return !read[t] && (maker[t] == nil || !needed[maker[t]])
	})
}
