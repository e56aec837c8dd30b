package lower

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/internal/device"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gpu"
)

// Rewriter is one row of the lowering, the table that makes tasks of the nodes of a frame. A
// rewriter gives the work of several nodes to one kernel, chooses the layout of a tensor, or
// does the work of a node when the session is built.
type Rewriter struct {
	Name string // unique within the table
	Doc  string // what it does, in one line
	On   string // OnCPU, OnGPU or OnBoth
	Only string // why it is not on the other device; "" if it is

	// An optional rewriter can be left out by name (Options.Without): the session is then
	// slower, and its results are the same bits unless Rounds says why they are not.
	Optional bool
	Rounds   string

	// Of is the row whose tasks, or constants, it works on, if it makes none of its own.
	Of string

	// Planned says that it needs planned places: it leaves bodies alone, and sessions whose
	// tensors are apart, guarded or compared node by node, so --check compares the two.
	Planned bool

	run func(*lowering) error
}

// Where the sessions run that a rewriter works for (Rewriter.On).
const (
	OnCPU  = "CPU"
	OnGPU  = "GPU"
	OnBoth = "both"
)

// Lowering returns the rewriters in the order in which they run, once for each frame.
func Lowering() []Rewriter {
	return []Rewriter{
		{Name: "qdq", Doc: "QDQ fusion: compute from bytes to bytes between DequantizeLinear and QuantizeLinear", On: OnCPU, Only: "a GPU has no product of bytes for QDQ: its kernels take reals", Optional: true, Rounds: "sums of bytes are exact, and rounded once", run: (*lowering).fuseQDQ},
		{Name: "nchw", Doc: "hold images of ONNX Runtime's NCHWc operators in NCHW", On: OnBoth, Optional: true, run: (*lowering).holdNCHW},
		{Name: "nhwc", Doc: "hold quantized images in NHWC, where convolutions of bytes are products", On: OnCPU, Only: "kernels of a GPU read images in NCHW", Optional: true, run: (*lowering).holdNHWC},
		{Name: "alike-weights", Doc: "pack weights whose elements a node makes alike from the one element", On: OnCPU, Only: "no weights are prepacked on a GPU", Optional: true, Planned: true, run: (*lowering).findAlike},
		{Name: "nchw16c", Doc: "hold images of reals in NCHW16c between convolutions, pools and elementwise operators", On: OnCPU, Only: "kernels of a GPU read images in NCHW", Optional: true, run: (*lowering).holdNCHW16c},
		{Name: "fold-weights", Doc: "compute constants that only products read, and Casts of constant numbers, when the session is built", On: OnCPU, Only: "no weights are prepacked on a GPU, so a constant that was computed would take memory at every step", Optional: true, run: (*lowering).foldWeights},
		{Name: "fold-shapes", Doc: "compute a few integers or bools from shapes and constants when the session is built", On: OnGPU, Only: "on the CPU no step waits for a shape to come from another memory", Optional: true, run: (*lowering).foldShapes},
		{Name: "norm-gradients", Doc: "compute the gradient of a normalization by one kernel, or by few", On: OnBoth, Optional: true, Planned: true, run: (*lowering).joinNormGradients},
		{Name: "updates", Doc: "compute the update of a parameter by one kernel", On: OnGPU, Only: "on the CPU the groups of elementwise are faster: both moments of AdamW in one kernel take 15 % longer than in two", Optional: true, Planned: true, run: (*lowering).joinUpdates},
		{Name: "residuals", Doc: "let a convolution add the other operand of a residual connection", On: OnCPU, Only: "only convolutions in NCHW16c add an image", Optional: true, Planned: true, run: (*lowering).joinResiduals},
		{Name: "byte-copies", Doc: "let what computes from and to bytes read and write them where they would be copied", On: OnCPU, Only: "as qdq", Of: "qdq", Optional: true, Planned: true, run: (*lowering).omitCopies},
		{Name: "sums", Doc: "add up the elements of a product of few depths, of 16 bits, without writing it", On: OnCPU, Only: "a GPU's product of few depths is no more than its launch", Optional: true, Planned: true, run: (*lowering).joinSums},
		{Name: "elementwise", Doc: "compute elementwise nodes that follow one another by one kernel", On: OnBoth, Optional: true, run: (*lowering).joinElementwise},
		{Name: "activations", Doc: "let a convolution or product apply the activation that overwrites its result", On: OnCPU, Only: "no kernel of a GPU applies an activation: a group of elementwise nodes takes it", Optional: true, run: (*lowering).findActivations},
		{Name: "kernels", Doc: "build bodies and prepare the kernels", On: OnBoth, run: (*lowering).prepareAll},
		{Name: "refold-weights", Doc: "compute freed constants again for readers that have not prepacked them", On: OnCPU, Only: "as fold-weights", Of: "fold-weights", run: (*lowering).computeAgain},
		{Name: "release-weights", Doc: "free the computed constants that every reader has prepacked", On: OnCPU, Only: "as fold-weights", Of: "fold-weights", run: (*lowering).releasePacked},
	}
}

// loweringConstraints lists which rewriter must run before which, and why.
var loweringConstraints = []struct{ before, after, why string }{
	{"qdq", "nhwc", "the fusion says which operators compute bytes"},
	{"qdq", "nchw16c", "a tensor that holds bytes is no image of reals"},
	{"qdq", "fold-weights", "weights that are read as bytes alone are not computed"},
	{"nchw", "nchw16c", "an image of blocks that is held in NCHW stays there"},
	{"nchw", "elementwise", "links go through elements as they lie"},
	{"alike-weights", "nchw16c", "a convolution in blocks has weights that are constants or alike"},
	{"nhwc", "kernels", "a kernel is made for the layouts of its images"},
	{"nchw16c", "residuals", "a convolution adds an image in NCHW16c"},
	{"fold-weights", "elementwise", "a node that runs when the session is built is in no group"},
	{"norm-gradients", "updates", "a new value may depend on sums that a gradient's kernel makes at another step"},
	{"norm-gradients", "elementwise", "a gradient needs nodes that a group would take"},
	{"fold-shapes", "elementwise", "a node that is computed once is in no group"},
	{"updates", "elementwise", "a group takes neighbours only, and the nodes of an update stand apart"},
	{"residuals", "elementwise", "a sum that a convolution computes is in no group"},
	{"residuals", "activations", "the activation may follow the sum"},
	{"qdq", "byte-copies", "the fusion says what is copied"},
	{"residuals", "byte-copies", "a sum may be written before its node stands"},
	{"byte-copies", "sums", "a sum reads what is still there once results are written earlier"},
	{"sums", "elementwise", "a product that a sum makes is no end of a group"},
	{"byte-copies", "elementwise", "a group reads what is still there once results are written earlier"},
	{"elementwise", "activations", "a node of a group is computed there"},
	{"activations", "kernels", "a kernel is prepared together with its activation"},
	{"kernels", "refold-weights", "readers say what they have prepacked"},
	{"refold-weights", "release-weights", "a constant that is computed again stays"},
}

// checkLowering checks the names of rewriters and their order.
func checkLowering(list []Rewriter) error {
	find := func(name string) int {
		return slices.IndexFunc(list, func(r Rewriter) bool { return r.Name == name })
	}
	for i, r := range list {
		switch {
		case find(r.Name) != i:
			return fmt.Errorf("two rewriters have the name %q: expected unique names", r.Name)
		case r.Of != "" && (find(r.Of) < 0 || find(r.Of) >= i):
			return fmt.Errorf("rewriter %q must run after rewriter %q, on whose results it works", r.Name, r.Of)
		}
	}
	for _, c := range loweringConstraints {
		switch before, after := find(c.before), find(c.after); {
		case before < 0 || after < 0:
			return fmt.Errorf("a constraint names the rewriters %q and %q: expected rows of the table", c.before, c.after)
		case before > after:
			return fmt.Errorf("rewriter %q must run before rewriter %q: %s", c.before, c.after, c.why)
		}
	}
	return nil
}

// CheckWithout reports names that Options.Without may not have.
func CheckWithout(names []string) error {
	var optional []string
	for _, r := range Lowering() {
		if r.Optional {
			optional = append(optional, r.Name)
		}
	}
	for _, name := range names {
		if !slices.Contains(optional, name) {
			return fmt.Errorf("rewriter %q is unknown or needed: expected some of %s", name, strings.Join(optional, ", "))
		}
	}
	return nil
}

// rewriters returns those that the session runs.
func (s *Site) rewriters() []Rewriter {
	list := slices.DeleteFunc(Lowering(), func(r Rewriter) bool {
		return slices.Contains(s.Options.Without, r.Name) || r.On == OnGPU && s.GPU == nil || r.On == OnCPU && s.GPU != nil
	})
	return append(list, lastRewriter...)
}

// lowering is a frame on its way from nodes to tasks.
type lowering struct {
	*builder
	f      *Frame
	opsets []graph.Opset
	a      *area
	order  []graph.NodeID // in which the nodes run

	then map[graph.NodeID]*Step // activations that the kernels of nodes may apply
}

// planned reports whether nodes of the frame may run together at planned places.
func (l *lowering) planned() bool {
	s := l.s
	return !s.Options.Separate && s.Compared == nil && s.Mem.Guard == nil && s.Program.Model.Graph == l.f.Graph
}

// steps makes the steps of a frame and lowers them.
func (b *builder) steps(f *Frame, opsets []graph.Opset, a *area) error {
	order, err := b.order(f.Graph)
	if err != nil {
		return err
	}
	if b.inFunction {
		if b.called += len(order); b.called > maxCalled {
			return fmt.Errorf("called functions have more than %d nodes, counted at each call", maxCalled)
		}
	}
	f.opsets, f.block = opsets, int32(attr.NchwcBlock(f.Graph))
	f.listSteps()
	l := &lowering{builder: b, f: f, opsets: opsets, a: a, order: order}
	if l.checksAfter() { // else the verifier has found it right
		if err := l.check(); err != nil {
			return fmt.Errorf("the plan is wrong: %w", err)
		}
	}
	for _, r := range b.rewriters {
		if r.Planned && !l.planned() {
			continue
		}
		f.row, f.changed = r.Name, false
		if err := r.run(l); err != nil {
			return err
		}
		if !l.checksAfter() {
			continue
		}
		if err := l.check(); err != nil {
			return fmt.Errorf("the lowering is wrong after %q: %w", r.Name, err)
		}
	}
	f.sortSteps(order)
	if b.s.Compared != nil {
		b.s.Compared.AddSteps(f)
	}
	return nil
}

// listSteps makes a step of each node, in the listed order.
func (f *Frame) listSteps() {
	f.Steps = make([]*Step, len(f.Graph.Nodes))
	all, ends := make([]Step, len(f.Graph.Nodes)), endsOf(f.Graph)
	for i, n := range f.Graph.Nodes {
		st := &all[i]
		st.Frame, st.ID = f, graph.NodeID(i)
		last := len(n.Inputs)
		for last > 0 && n.Inputs[last-1] < 0 {
			last-- // kernels see no omitted inputs at the end
		}
		st.In, ends = f.take(ends, n.Inputs[:last])
		st.Out, ends = f.take(ends, n.Outputs)
		f.Steps[i] = st
	}
}

// sortSteps puts the steps into the order in which they run.
func (f *Frame) sortSteps(order []graph.NodeID) {
	listed := f.Steps
	f.Steps = make([]*Step, len(order))
	place := make([]int, len(order))
	for i, n := range order {
		f.Steps[i] = listed[n]
		place[n] = i
	}
	f.planFrees(place)
}

// workspaceOf returns the place that the plan has for the scratch of a node of the main graph on a
// device: the end of its workspace, behind what bodies and functions take.
func (l *lowering) workspaceOf(n graph.NodeID) device.Workspace {
	if l.s.GPU == nil {
		return device.Workspace{Node: n}
	}
	at := l.a.scratch[n] // else nothing was recorded, or every tensor is apart
	return l.s.GPU.WorkspaceAt(n, at.at, at.bytes)
}

// prepareOnDevice puts a node on the device. It reports false if the node runs on the host. Its
// scratch lies in the workspace that the plan has for it.
func (l *lowering) prepareOnDevice(st *Step) (bool, error) {
	if l.s.GPU == nil {
		return false, nil
	}
	run, scratch, err := l.s.GPU.Kernels.PrepareIn(&st.Call().Call, l.workspace.Space)
	switch {
	case errors.Is(err, gpu.ErrUnsupported), errors.Is(err, form.ErrDataDependent):
		return false, nil
	case err != nil:
		return false, err
	}
	st.Run, st.Device = run, true
	st.describe(st.Call().Way)
	l.s.GPU.Took(l.workspace, scratch)
	return true, nil
}
