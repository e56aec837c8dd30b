package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/ops"
)

// Upgrade returns a copy of a model without local functions whose nodes are those of an
// opset of ai.onnx, if its own is lower: 18 at least. The model has its inferred types, and
// values are the folded elements of its tensors.
func Upgrade(m *graph.Model, values []*ops.Value, opset int64) (_ *graph.Model, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	s := &trainer{source: m}
	s.emitter = newEmitter(m.Graph.Clone(), slices.Clone(m.Opsets), slices.Clone(values))
	if err := s.upgradeTo(opset); err != nil {
		return nil, err
	}
	if s.err != nil {
		return nil, s.err
	}
	order, err := s.g.Topological()
	if err != nil {
		return nil, err
	}
	s.g.Reorder(order)
	s.g.Span = graph.Span{}
	out := *m
	out.Graph, out.Opsets, out.Props = s.g, s.opsets, slices.Clone(m.Props)
	out.IRVersion = max(out.IRVersion, irOf(opset))
	return &out, nil
}

// irOf is the version of the format that came with an opset from 18 on: what is older may
// not import it.
func irOf(opset int64) int64 {
	switch {
	case opset >= 25:
		return 13
	case opset == 24:
		return 12
	case opset == 23:
		return 11
	case opset >= 21:
		return 10
	case opset >= 19:
		return 9
	}
	return 8
}

// upgrade brings the graph and its bodies to opset 18, in which gradients are
// written, if their opset is lower.
func (s *trainer) upgrade() error { return s.upgradeTo(minOpset) }

func (s *trainer) upgradeTo(to int64) error {
	from := s.version
	if from >= to {
		return nil
	}
	to = max(to, minOpset)
	if from < leastOpset {
		return graph.Errorf("is of opset %d: expected opset %d or later for training", from, leastOpset)
	}
	for k, o := range s.opsets {
		if o.Domain == "" {
			s.opsets[k].Version = to
		}
	}
	s.version = to
	return s.upgradeNodes(from)
}

// upgradeNodes brings the nodes of the emitter's graph to its opset.
func (s *trainer) upgradeNodes(from int64) error {
	for _, n := range s.g.Nodes {
		for _, a := range n.Bodies() {
			for _, b := range a.All() {
				if err := s.upgradeBody(b, from); err != nil {
					return err
				}
			}
			a.Span, n.Span = graph.Span{}, graph.Span{}
		}
		if n.Domain != "" {
			continue
		}
		for _, u := range upgrades {
			if slices.Contains(u.ops, n.Op) && from < u.since && u.since <= s.version {
				u.change(s, n)
				n.Span = graph.Span{}
			}
		}
		if s.err != nil {
			return s.err
		}
	}
	s.g.Link()
	return nil
}

// upgradeBody does the same for a body, which has constants of its own.
func (s *trainer) upgradeBody(b *graph.Graph, from int64) error {
	outer := s.emitter
	defer func() { s.emitter = outer }()
	for _, t := range b.Tensors {
		outer.taken[t.Name]++
	}
	s.emitter = newEmitter(b, outer.opsets, make([]*ops.Value, len(b.Tensors)))
	s.taken = outer.taken
	if err := s.upgradeNodes(from); err != nil {
		return err
	}
	order, err := b.Topological()
	if err != nil {
		return err
	}
	b.Reorder(order)
	dropUnmade(b)
	b.Link()
	b.Span = graph.Span{}
	return nil
}

// leastOpset is the first opset with today's broadcasting.
const leastOpset = 7

// upgrades lists the changes of operators, each with the version that made it, in
// ascending order.
var upgrades = []struct {
	since  int64
	ops    []string
	change func(*trainer, *graph.Node)
}{
	{9, []string{"Scan"}, func(s *trainer, n *graph.Node) {
		s.fail(graph.Errorf("of opset 8 has an axis for the batch: expected opset 9 or later").AtNode(label(n)))
	}},
	{9, []string{"BatchNormalization"}, dropSpatial},
	{10, []string{"Slice"}, sliceToInputs},
	{10, []string{"TopK"}, func(s *trainer, n *graph.Node) { s.listToInput(n, "k", 1) }},
	{10, []string{"Upsample"}, func(s *trainer, n *graph.Node) { s.scalesToInput(n); n.Op = "Resize" }},
	{11, []string{"Resize"}, resizeCoordinates},
	{11, []string{"Clip"}, clipToInputs},
	{11, []string{"Pad"}, padToInputs},
	{11, []string{"Scatter"}, func(_ *trainer, n *graph.Node) { n.Op = "ScatterElements" }},
	{12, []string{"Dropout"}, ratioToInput},
	{13, []string{"Resize"}, refuseHalfPixelForNN},
	{13, []string{"Softmax", "LogSoftmax", "Hardmax"}, flatten},
	{13, []string{"Squeeze", "Unsqueeze", "ReduceSum"}, axesToInput},
	{13, []string{"Split"}, splitToInput},
	{14, []string{"BatchNormalization"}, dropSaved},
	{16, []string{"RoiAlign"}, roiCoordinates},
	{18, []string{"Split"}, countSplit},
	{18, []string{
		"ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
	}, axesToInput},
	{20, []string{"GridSample"}, gridModes},
	{20, []string{"DFT"}, func(s *trainer, n *graph.Node) { s.scalarToInput(n, "axis", 2, 1) }},
	{21, []string{"GroupNormalization"}, groupsToChannels},
}

// takeAttr removes an attribute and returns it; nil if the node does not have it.
func takeAttr(n *graph.Node, name string) *graph.Attr {
	a := n.Attr(name)
	n.Attrs = slices.DeleteFunc(slices.Clone(n.Attrs), func(b *graph.Attr) bool { return b == a })
	return a
}

// setInput sets input i of a node and marks missing inputs before it as left out.
func setInput(n *graph.Node, i int, t ID) {
	n.Inputs = slices.Clone(n.Inputs)
	for len(n.Inputs) <= i {
		n.Inputs = append(n.Inputs, graph.None)
	}
	n.Inputs[i] = t
}

// listToInput: an integer attribute, or a list of integers, became input i.
func (s *trainer) listToInput(n *graph.Node, name string, i int) {
	if a := takeAttr(n, name); a != nil {
		list := a.Ints
		if a.Type == graph.AttrInt {
			list = []int64{a.Int}
		}
		setInput(n, i, s.list(list...))
	}
}

// realToInput: a float attribute became input i, of the type of input 0.
func (s *trainer) realToInput(n *graph.Node, name string, i int) {
	a := takeAttr(n, name)
	switch {
	case a == nil:
	case s.typeOf(n.Inputs[0]).Elem == graph.Undefined:
		setInput(n, i, s.blindly("CastLike", nil, s.number(float64(a.Float)), n.Inputs[0]))
	default:
		setInput(n, i, s.scalar(n.Inputs[0], float64(a.Float)))
	}
}

// blindly adds a node to a body that never runs, in which no tensor has a type: what the node
// makes has none either.
func (s *trainer) blindly(op string, a attrs, in ...ID) ID {
	n := &graph.Node{Name: s.unique(op), Op: op, Inputs: in, Attrs: a.list()}
	n.Outputs = []ID{s.newTensor(s.unique(n.Name), graph.Type{}, nil)}
	s.mark(n)
	s.g.Nodes = append(s.g.Nodes, n)
	return n.Outputs[0]
}

// scalarToInput: an integer attribute with a default became input i, one number.
func (s *trainer) scalarToInput(n *graph.Node, name string, i int, otherwise int64) {
	if a := takeAttr(n, name); a != nil {
		otherwise = a.Int
	}
	setInput(n, i, s.reals(graph.Int64, nil, []float64{float64(otherwise)}))
}

// gridModes: opset 20 says linear and cubic in any number of dimensions.
func gridModes(_ *trainer, n *graph.Node) {
	renamed := map[string]string{"bilinear": "linear", "bicubic": "cubic"}
	n.Attrs = slices.Clone(n.Attrs)
	for i, a := range n.Attrs {
		if a.Name == "mode" && renamed[a.String] != "" {
			b := *a
			b.String, b.Span = renamed[a.String], graph.Span{}
			n.Attrs[i] = &b
		}
	}
}

// groupsToChannels: a scale and a bias for each group became one for each channel.
func groupsToChannels(s *trainer, n *graph.Node) {
	shape := s.shape(n.Inputs[0])
	for i := 1; i <= 2 && s.err == nil; i++ {
		groups := s.shape(n.Inputs[i])[0]
		wide := s.op("Expand", s.reshape(n.Inputs[i], []int64{groups, 1}), s.list(groups, shape[1]/max(groups, 1)))
		setInput(n, i, s.reshape(wide, []int64{shape[1]}))
	}
}

// dropSpatial: statistics per element instead of per channel are no longer
// supported.
func dropSpatial(s *trainer, n *graph.Node) {
	if a := takeAttr(n, "spatial"); a != nil && a.Int == 0 {
		s.fail(graph.Errorf("spatial is 0: expected 1, the only choice from opset 9 on").AtNode(label(n)))
	}
}

// dropSaved: more than one output used to mean that the node is in training mode.
func dropSaved(s *trainer, n *graph.Node) {
	for _, t := range n.Outputs[1:] {
		if t != graph.None && (s.g.Tensors[t].Output || len(s.g.Tensors[t].Readers) > 0) {
			s.fail(graph.Errorf("output %s is read: expected running statistics that nothing reads", graph.Short(s.g.Tensors[t].Name)).AtNode(label(n)))
		}
	}
	n.Outputs = n.Outputs[:1:1]
}

// sliceToInputs: starts, ends and axes became inputs.
func sliceToInputs(s *trainer, n *graph.Node) {
	s.listToInput(n, "starts", 1)
	s.listToInput(n, "ends", 2)
	s.listToInput(n, "axes", 3)
}

// clipToInputs: both bounds became inputs.
func clipToInputs(s *trainer, n *graph.Node) {
	s.realToInput(n, "min", 1)
	s.realToInput(n, "max", 2)
}

// padToInputs: lengths and value became inputs.
func padToInputs(s *trainer, n *graph.Node) {
	s.listToInput(n, "pads", 1)
	s.realToInput(n, "value", 2)
}

// scalesToInput: scales, an attribute of Upsample in opset 7, became input 1.
func (s *trainer) scalesToInput(n *graph.Node) {
	if a := takeAttr(n, "scales"); a != nil {
		scales := make([]float64, len(a.Floats))
		for i, v := range a.Floats {
			scales[i] = float64(v)
		}
		setInput(n, 1, s.reals(graph.Float32, []int64{int64(len(scales))}, scales))
	}
}

// resizeCoordinates: up to opset 10 the scales are input 1 and the coordinate
// mode is fixed.
func resizeCoordinates(_ *trainer, n *graph.Node) {
	setInput(n, 2, n.Inputs[1])
	n.Inputs[1] = graph.None
	n.Attrs = append(slices.Clone(n.Attrs), attrs{"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}.list()...)
}

// refuseHalfPixelForNN: opset 13 removed this coordinate mode.
func refuseHalfPixelForNN(s *trainer, n *graph.Node) {
	const gone = "tf_half_pixel_for_nn"
	if a := n.Attr("coordinate_transformation_mode"); a != nil && a.String == gone {
		s.fail(graph.Errorf("coordinate_transformation_mode is %s: expected one that opset %d has", gone, minOpset).AtNode(label(n)))
	}
}

// ratioToInput: ratio became input 1.
func ratioToInput(s *trainer, n *graph.Node) { s.realToInput(n, "ratio", 1) }

// flatten: up to opset 12 all axes from the given one on are treated as one. The
// node is put between two reshapes unless at most one of these axes is longer
// than 1.
func flatten(s *trainer, n *graph.Node) {
	axis := int64(1)
	if a := takeAttr(n, "axis"); a != nil {
		axis = a.Int
	}
	x, y := n.Inputs[0], n.Outputs[0]
	if s.typeOf(x).Elem == graph.Undefined {
		n.Attrs = append(n.Attrs, attrs{"axis": 1}.list()...)
		n.Inputs = []ID{s.blindly("Flatten", attrs{"axis": axis}, x)}
		flat := s.newTensor(s.unique(s.g.Tensors[y].Name+"/flat"), graph.Type{}, nil)
		n.Outputs = []ID{flat}
		first := len(s.g.Nodes)
		wide := s.blindly("Reshape", nil, flat, s.blindly("Shape", nil, x))
		s.rename(s.g.Nodes[first:], wide, y)
		return
	}
	shape := s.shape(x)
	if s.err != nil {
		return
	}
	if axis < 0 {
		axis += int64(len(shape))
	}
	rest := shape[axis:]
	long := slices.IndexFunc(rest, func(d int64) bool { return d != 1 })
	if len(rest) > 0 && (long < 0 || elements(rest) == rest[long]) {
		n.Attrs = append(n.Attrs, attrs{"axis": axis + int64(max(long, 0))}.list()...)
		return
	}
	name := n.Name
	if name == "" {
		name = s.g.Tensors[y].Name
	}
	s.scope, s.of = name+"/", n.Name
	n.Attrs = append(n.Attrs, attrs{"axis": 1}.list()...)
	n.Inputs = []ID{s.reshape(x, []int64{elements(shape[:axis]), elements(rest)})}
	flat := s.newTensor(s.unique(name+"/flat"), s.typeOf(n.Inputs[0]), nil)
	n.Outputs = []ID{flat}
	first := len(s.g.Nodes)
	wide := s.reshape(flat, shape)
	s.rename(s.g.Nodes[first:], wide, y)
	s.scope, s.of = "", ""
}

// axesToInput: axes, an attribute, became input 1.
func axesToInput(s *trainer, n *graph.Node) { s.listToInput(n, "axes", 1) }

// splitToInput: split, an attribute, became input 1.
func splitToInput(s *trainer, n *graph.Node) { s.listToInput(n, "split", 1) }

// countSplit: a Split into equal parts states their number.
func countSplit(s *trainer, n *graph.Node) {
	if len(n.Inputs) < 2 || n.Inputs[1] == graph.None {
		n.Attrs = append(slices.Clone(n.Attrs), attrs{"num_outputs": len(n.Outputs)}.list()...)
	}
}

// roiCoordinates: up to opset 15 the coordinate mode is fixed, and not today's default.
func roiCoordinates(_ *trainer, n *graph.Node) {
	n.Attrs = append(slices.Clone(n.Attrs), attrs{"coordinate_transformation_mode": "output_half_pixel"}.list()...)
}
