package program

import (
	"sync"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/internal/marks"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/internal/constants"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// Program is a planned model that is ready to run. Sessions share it. It must be
// closed after the last of them, and before the model's file. Weights are packed for the
// first session, shared by all sessions of all programs of the same file, and freed with the
// last session: a server keeps one open.
type Program struct {
	Model  *graph.Model
	Plan   *plan.Plan
	Known  []*ops.Value            // of the main graph's tensors
	Given  map[string]values.Value // values of inputs for which the plan holds
	Placed *placed                 // of the main graph's tensors, after Trim: what is not among the plan's buffers; else nil

	Groups  []*marks.Found // of nodes of the main graph, by their marks
	Trimmed bool           // see Trim

	Constants *constants.Set
	Next      map[string]string // of a training graph: the new value's tensor, by parameter or state

	ranged *ranged              // of a plan for ranges of dimensions; else nil
	of     *Program             // of a program that At returned: the one with the ranges
	layers map[*graph.Graph]int // of such a program: its graphs, as indices into of.ranged.layers
	point  map[string]int64     // where that is
	dims   map[string]int64     // there, those that follow from others too

	deviceLock sync.Mutex // sessions may be made and closed at the same time
	onDevice   map[*cuda.Device]*DeviceConstants
}

// New checks that the plan fits the model (the file's hash, sizes, lifetimes,
// offsets) and maps the model's constants. Errors about the model or the plan are of
// type *graph.Error. New infers m's types again, with the plan's dimensions; if the plan
// is for ranges of them, with the largest lengths.
func New(m *graph.Model, p *plan.Plan, explain func(*store.Refusal) error) (_ *Program, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	r, err := verify.Plan(m, p, verify.Options{SkipBounds: true, SkipAnnotations: m.Source == nil || p.Model == (plan.File{})})
	if err != nil {
		return nil, err
	}
	if !r.Valid {
		return nil, Refuse(m, "the plan does not fit the model: %s", r.Violations[0].Message)
	}
	m = p.InRunOrder(m)
	dims := map[string]int64{}
	for name, d := range p.Dims {
		if !d.Assumed {
			dims[name] = d.Value
		}
	}
	// Of a training graph's dimensions, those without a range were bound when it was made.
	inf, err := ops.Infer(m, ops.Options{Dims: dims, Values: p.Values, SpareDims: p.Mode == "training"})
	if err != nil {
		return nil, err
	}
	pr := &Program{Model: m, Plan: p.Flat(), Known: inf.Values, Given: map[string]values.Value{}, Constants: constants.New(m, &store.Account{Explain: explain}), Next: map[string]string{}, Groups: marks.Find(m.Graph)}
	for i := range p.Buffers {
		if b := &p.Buffers[i]; plan.Stays(b.Kind) {
			pr.Next[b.Tensors[0]] = updated(m, b)
		}
	}
	if p.Ranges != nil {
		if pr.ranged, err = newRanged(m, p); err != nil {
			return nil, err
		}
	}
	if err := pr.take(inf); err != nil {
		return nil, err
	}
	pr.Constants.Drop() // the verifier has read the file
	return pr, nil
}

// updated is the new value of the parameter or state that a buffer holds: its first graph
// output. Views of the new value may follow.
func updated(m *graph.Model, b *plan.Buffer) string {
	for _, name := range b.Tensors {
		for _, t := range m.Graph.Outputs {
			if m.Graph.Tensors[t].Name == name {
				return name
			}
		}
	}
	return b.Tensors[len(b.Tensors)-1]
}

// take takes over the values of inputs that inference was told.
func (p *Program) take(inf *ops.Inference) (err error) {
	for _, id := range p.Model.Graph.Inputs {
		t := p.Model.Graph.Tensors[id]
		if l, ok := inf.Given[t.Name]; ok {
			if p.Given[t.Name], err = values.Of(l, t.Type.Elem); err != nil {
				return Refuse(p.Model, "%w", err)
			}
		}
	}
	return nil
}

// Refuse returns an error about the model.
func Refuse(m *graph.Model, format string, args ...any) error {
	e := graph.Errorf(format, args...)
	e.File = FileOf(m)
	return e
}

// FileOf names the file that a model was read from; "" if there is none.
func FileOf(m *graph.Model) string {
	if m.Source == nil {
		return ""
	}
	return m.Source.Name
}

// Close unmaps the external data. The program's sessions must not be used afterwards, nor
// what At returned. It does nothing for a program that At returned.
func (p *Program) Close() error {
	if p.of != nil {
		return nil
	}
	return p.Constants.Close()
}

// Trim drops what the plan and the model hold for readers and verifiers and no session needs: the
// steps, the program order, the certificates and most buffers of the plan, and the metadata of
// the nodes. It changes the plan and the model that New was given. Sessions that are made
// afterwards have no Profile, and can have no Device, Guard or Poison. It does nothing if the
// plan is for ranges of dimensions, of which At makes further ones.
func (p *Program) Trim() {
	if p.ranged != nil || p.of != nil || p.Trimmed {
		return
	}
	p.Trimmed = true
	p.Plan.Steps, p.Plan.ProgramOrder, p.Plan.Certificates = nil, plan.ProgramOrder{}, nil
	if len(p.Plan.Spans) == 0 { // else they refer to buffers
		p.Placed = placedOf(p.Model.Graph, p.Plan)
	}
	for _, n := range p.Model.Graph.Nodes {
		n.Props = nil
	}
}

// Inputs returns the graph inputs for which Run needs values, in the file's order: all
// but parameters and states.
func (p *Program) Inputs() []graph.Tensor { return p.pick(p.Model.Graph.Inputs, false) }

// States returns the graph inputs that a session keeps from one run to the next:
// parameters and states.
func (p *Program) States() []graph.Tensor { return p.pick(p.Model.Graph.Inputs, true) }

// Updates reports whether an output is the new value of a parameter or state.
func (p *Program) Updates(output string) bool {
	for _, updated := range p.Next {
		if updated == output {
			return true
		}
	}
	return false
}

// Outputs returns the graph outputs in the file's order.
func (p *Program) Outputs() []graph.Tensor {
	var list []graph.Tensor
	for _, t := range p.Model.Graph.Outputs {
		list = append(list, *p.Model.Graph.Tensors[t])
	}
	return list
}

func (p *Program) pick(inputs []graph.TensorID, states bool) []graph.Tensor {
	var list []graph.Tensor
	for _, t := range inputs {
		if _, is := p.Next[p.Model.Graph.Tensors[t].Name]; is == states {
			list = append(list, *p.Model.Graph.Tensors[t])
		}
	}
	return list
}
