package gpu

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// recurrence lists the recurrent layers.
var recurrence = []Row{
	{Name: "RNN", Make: func(n *Node) error { return makeRecurrent(n, 1) }},
	{Name: "GRU", Make: func(n *Node) error { return makeRecurrent(n, 3) }},
	{Name: "LSTM", Make: func(n *Node) error { return makeRecurrent(n, 4) }},
}

// recurrentFunctions are the activations in the order of the enumeration Function in
// kernels/recurrent.cu.
var recurrentFunctions = []string{
	"sigmoid", "tanh", "relu", "softsign", "softplus", "affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu",
}

// recurrentActivation is the struct Activation there.
type recurrentActivation struct {
	function    int32
	alpha, beta float32
}

// recurrentLayer is the struct Layer there.
type recurrentLayer struct {
	gates, batch, hidden, directions, steps int32
	batchFirst, couple, wide                int32
	clip                                    float32
	act                                     [2][3]recurrentActivation
}

// recurrentStep is the struct Step there.
type recurrentStep struct {
	at   [2]int32
	sums [2]int64
}

// recurrentTensors is the struct Tensors there.
type recurrentTensors struct{ y, r, bias, peep, lengths driver.Ptr }

const (
	recurrentRows  = 8       // ROWS there
	recurrentWarps = 4       // of a block
	mostSteps      = 1 << 14 // of a sequence: each is a launch
)

// sumsAtOnce is the bytes of sums of gates in scratch, unless one step has more. Tests
// lower it.
var sumsAtOnce int64 = 1 << 25

// recurrent is a layer that is being prepared.
type recurrent struct {
	n       *Node
	f       *form.Recurrent
	layer   recurrentLayer
	tensors recurrentTensors
	check   faults
	chunk   int // steps whose products with the input are in scratch together

	definitions []string // of the products
	x, w        driver.Ptr
	sums        cuda.Room
	states      [2]cuda.Room // before and after a step
	more        cuda.Room    // cells of an LSTM, gates of a GRU
}

// makeRecurrent multiplies the input of several steps with W at once, and then runs step
// by step. The states between the steps are in scratch.
func makeRecurrent(n *Node, gates int) error {
	x := n.In[0]
	if err := sameReals(x, n.In[1], n.In[2], n.Input(3), n.Input(5), n.Input(6), n.Input(7), n.output(0), n.output(1), n.output(2)); err != nil {
		return err
	}
	if l := n.Input(4); l != nil && l.Type != graph.Int32 {
		return unsupportedf("lengths of dtype %v", l.Type)
	}
	f, err := n.Recurrent(gates)
	if err != nil {
		return refused(err)
	}
	if f.Steps > mostSteps {
		return unsupportedf("%d steps, more than %d", f.Steps, mostSteps)
	}
	if f.Directions*f.Batch*f.Hidden > most || cuts(f.Batch, recurrentRows) > math.MaxUint16 {
		return unsupportedf("%d sequences with states of %d", f.Batch, f.Hidden)
	}
	r := &recurrent{n: n, f: f}
	if err := r.place(); err != nil {
		return err
	}
	if err := r.begin(); err != nil {
		return err
	}
	for first := 0; first < f.Steps; first += r.chunk {
		many := min(r.chunk, f.Steps-first)
		for d := range f.Directions {
			if err := r.project(d, first, many); err != nil {
				return err
			}
		}
		for t := first; t < first+many; t++ {
			if err := r.step(t, first, many); err != nil {
				return err
			}
		}
	}
	return r.finish()
}

// place finds addresses, and asks for scratch.
func (r *recurrent) place() error {
	n, f := r.n, r.f
	at, err := n.addresses(n.In[0], n.In[1], n.In[2], n.Input(3), n.Input(4), n.output(0), n.Input(7))
	if err != nil {
		return err
	}
	r.x, r.w = at[0], at[1]
	r.tensors = recurrentTensors{r: at[2], bias: at[3], lengths: at[4], y: at[5], peep: at[6]}
	if f.Gates != 4 {
		r.tensors.peep = 0
	}
	if r.definitions, err = productDefinitions(n.In[0], n.In[1]); err != nil {
		return err
	}
	if l := n.Input(4); l != nil {
		r.check = n.checks(checked{index: l, length: always(f.Steps + 1), fromZero: true})
	}
	r.layer = layerOf(f)
	r.layer.wide = flag(f.Hidden%4 == 0 && at[2]%16 == 0)
	width := int64(computeBytes(n.In[0]))
	row := width * int64(f.Directions) * int64(f.Batch) * int64(f.Hidden)
	r.chunk = max(1, min(f.Steps, int(sumsAtOnce/(row*int64(f.Gates)))))
	r.sums = n.scratch(row * int64(f.Gates) * int64(r.chunk))
	r.states = [2]cuda.Room{n.scratch(row), n.scratch(row)}
	if f.Gates == 4 || r.resets() {
		r.more = n.scratch(row)
	}
	return nil
}

// layerOf is a layer whose rows of R are not wide.
func layerOf(f *form.Recurrent) recurrentLayer {
	l := recurrentLayer{
		gates: int32(f.Gates), batch: int32(f.Batch), hidden: int32(f.Hidden), directions: int32(f.Directions), steps: int32(f.Steps),
		batchFirst: flag(f.BatchFirst), couple: flag(f.Couple), clip: float32(f.Clip),
	}
	each := len(f.Activations) / f.Directions
	for i, a := range f.Activations {
		l.act[i/each][i%each] = recurrentActivation{int32(slices.Index(recurrentFunctions, a.Name)), a.Alpha, a.Beta}
	}
	return l
}

// flag is a boolean in C.
func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// resets reports whether the layer is a GRU that resets the state, for which a step is two
// launches.
func (r *recurrent) resets() bool { return r.f.Gates == 3 && !r.f.Before }

// kernel returns a kernel of recurrent.cu.
func (r *recurrent) kernel(name string) cuda.Kernel {
	return r.n.kernel("recurrent.cu", name, "ELEMENT="+cType[r.n.In[0].Type])
}

// begin appends the copies of the first states.
func (r *recurrent) begin() error {
	inputs := []*form.Tensor{r.n.Input(5)}
	rooms := []cuda.Room{r.states[0]}
	if r.f.Gates == 4 {
		inputs, rooms = append(inputs, r.n.Input(6)), append(rooms, r.more)
	}
	at, err := r.n.addresses(inputs...)
	if err != nil {
		return err
	}
	for i := range inputs {
		if err := r.n.launch(r.kernel("begin"), r.blocks(), threadsPerBlock, rooms[i], at[i], r.layer); err != nil {
			return err
		}
	}
	return nil
}

// blocks is the number of blocks for all elements of a state.
func (r *recurrent) blocks() int { return blocksFor(r.f.Directions * r.f.Batch * r.f.Hidden) }

// backward reports whether a direction begins at the end.
func (r *recurrent) backward(d int) bool { return r.f.Backward || d == 1 }

// time is the step in time at which a direction is at its step t, and begin the first step
// in time of many that begin with step first.
func (r *recurrent) time(d, t int) int {
	if r.backward(d) {
		return r.f.Steps - 1 - t
	}
	return t
}

func (r *recurrent) from(d, first, many int) int {
	if r.backward(d) {
		return r.f.Steps - first - many
	}
	return first
}

// rowOfSums is the number of sums of a step of a direction.
func (r *recurrent) rowOfSums() int { return r.f.Batch * r.f.Gates * r.f.Hidden }

// project appends the products of the input with W for steps of a direction.
func (r *recurrent) project(d, first, many int) error {
	f := r.f
	wide := f.Gates * f.Hidden
	p := &matrices{
		m: many * f.Batch, n: wide, k: f.Input,
		aRow: f.Input, aDeep: 1, bColumn: f.Input, bDeep: 1, yRow: wide, yColumn: 1,
	}
	begin := r.from(d, first, many) * f.Batch * f.Input
	if f.BatchFirst {
		begin = r.from(d, first, many) * f.Input
		p.m, p.yRow = many, f.Batch*wide
		p.batch, p.steps = []int{f.Batch}, [3][]int{{f.Steps * f.Input}, {0}, {wide}}
	}
	x := r.n.In[0]
	width := x.Bytes() / max(1, x.Len())
	off := int64(d) * int64(r.chunk) * int64(r.rowOfSums()) * int64(computeBytes(x))
	room := cuda.Room{Off: r.sums.Off + off, Bytes: r.sums.Bytes - off}
	return p.launchSums(r.n, x, r.definitions, room, r.x+driver.Ptr(begin*width), r.w+driver.Ptr(d*wide*f.Input*width))
}

// at is where step t is, if the sums of many steps from first on are in scratch.
func (r *recurrent) at(t, first, many int) (p recurrentStep) {
	for d := range r.f.Directions {
		at := r.time(d, t)
		p.at[d] = int32(at)
		p.sums[d] = int64(d*r.chunk+at-r.from(d, first, many)) * int64(r.rowOfSums())
	}
	return p
}

// step appends the launches of a step.
func (r *recurrent) step(t, first, many int) error {
	p := r.at(t, first, many)
	if r.resets() {
		if err := r.launch("gru_gates", &p, r.states[0], r.states[1], r.more); err != nil {
			return err
		}
		return r.launch("gru_state", &p, r.states[1], r.states[0], r.more)
	}
	name, rooms := map[int]string{1: "rnn", 3: "gru_before", 4: "lstm"}[r.f.Gates], []any{r.states[t%2], r.states[1-t%2]}
	if r.f.Gates == 4 {
		rooms = append(rooms, r.more)
	}
	return r.launch(name, &p, rooms...)
}

// launch appends a launch of a kernel of a step.
func (r *recurrent) launch(name string, p *recurrentStep, rooms ...any) error {
	grid := driver.Dim3{X: uint32(cuts(r.f.Hidden, recurrentWarps)), Y: uint32(cuts(r.f.Batch, recurrentRows)), Z: uint32(r.f.Directions)}
	block := driver.Dim3{X: 32 * recurrentWarps, Y: 1, Z: 1}
	params := append([]any{r.sums}, rooms...)
	return r.n.launch3(r.kernel(name), grid, block, 0, append(params, r.tensors, r.layer, *p, r.check)...)
}

// finish appends the copies of the last states.
func (r *recurrent) finish() error {
	last := r.states[r.f.Steps%2]
	if r.resets() {
		last = r.states[0]
	}
	at, err := r.n.addresses(r.n.output(1), r.n.output(2))
	if err != nil {
		return err
	}
	for i, room := range []cuda.Room{last, r.more} {
		if r.n.output(1+i) == nil {
			continue
		}
		if err := r.n.launch(r.kernel("finish"), r.blocks(), threadsPerBlock, at[i], room, r.layer); err != nil {
			return err
		}
	}
	return nil
}
