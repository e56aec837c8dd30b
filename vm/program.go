package vm

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/internal/program"
)

// Program is a planned model that is ready to run. Sessions share it. It must be
// closed after the last of them, and before the model's file. Weights are packed for the
// first session, shared by all sessions of all programs of the same file, and freed with the
// last session: a server keeps one open.
type Program struct {
	p *program.Program
}

// New checks that the plan fits the model (the file's hash, sizes, lifetimes,
// offsets) and maps the model's constants. Errors about the model or the plan are of
// type *graph.Error. New infers m's types again, with the plan's dimensions; if the plan
// is for ranges of them, with the largest lengths.
func New(m *graph.Model, p *plan.Plan) (*Program, error) {
	x, err := program.New(m, p, limitError)
	if err != nil {
		return nil, err
	}
	return &Program{x}, nil
}

// Close unmaps the external data. The program's sessions must not be used afterwards, nor
// what At returned. It does nothing for a program that At returned.
func (p *Program) Close() error { return p.p.Close() }

// Trim drops what the plan and the model hold for readers and verifiers and no session needs: the
// steps, the program order, the certificates and most buffers of the plan, and the metadata of
// the nodes. It changes the plan and the model that New was given. Sessions that are made
// afterwards have no Profile, and can have no Device, Guard or Poison. It does nothing if the
// plan is for ranges of dimensions, of which At makes further ones.
func (p *Program) Trim() { p.p.Trim() }

// Inputs returns the graph inputs for which Run needs values, in the file's order: all
// but parameters and states.
func (p *Program) Inputs() []graph.Tensor { return p.p.Inputs() }

// Given returns the value of an input that the plan was made for: Run takes no
// other, and uses it if the input is left out. ok is false for all other inputs.
func (p *Program) Given(input string) (v Value, ok bool) {
	given, ok := p.p.Given[input]
	return outer(given.Clone()), ok
}

// States returns the graph inputs that a session keeps from one run to the next:
// parameters and states.
func (p *Program) States() []graph.Tensor { return p.p.States() }

// Updates reports whether an output is the new value of a parameter or state.
func (p *Program) Updates(output string) bool { return p.p.Updates(output) }

// Outputs returns the graph outputs in the file's order.
func (p *Program) Outputs() []graph.Tensor { return p.p.Outputs() }

// Plan returns the plan: that of the point for a program that At returned. It must not be
// changed.
func (p *Program) Plan() *plan.Plan { return p.p.Plan }

// At returns the program at one point of a plan for ranges of dimensions: what New returns
// for a plan of that point alone, with the order, the sharing and the stacking of the plan.
// It infers a copy of the model, and shares the constants of p, which must be closed after
// it. dims has a length for each dimension with several. At fails, and names the dimension,
// if the plan is not for these lengths. Several goroutines may call it at once.
func (p *Program) At(dims map[string]int64) (*Program, error) {
	at, err := p.p.At(dims)
	if err != nil {
		return nil, err
	}
	return &Program{at}, nil
}

// Point returns the lengths at which a program is that At returned, of each dimension with
// several; nil for others.
func (p *Program) Point() map[string]int64 { return p.p.Point() }

// LengthsOf returns the lengths of dimensions that the shapes of inputs have, by
// dimension: a point for At, if every dimension with several lengths is an axis of one of
// the inputs. It fails if two inputs disagree, or if one has another rank than the model
// says. It is empty for a plan without ranges.
func (p *Program) LengthsOf(inputs map[string]Value) (map[string]int64, error) {
	return p.p.LengthsOf(inner(inputs))
}

// Caches returns the graph inputs whose values are caches: a run writes over them, and
// the next one reads what it wrote. A session begins with zeros. They are States, too.
func (p *Program) Caches() []graph.Tensor { return p.p.Caches() }

// KV describes the caches of a decoder that was rewritten to a fixed capacity; nil if the
// model is none. The number of new tokens is that of the program's point; with ranges, the
// largest.
func (p *Program) KV() *plan.KV { return p.p.KV() }
