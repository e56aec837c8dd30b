package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// sequence lists the operators on sequences and optionals. Such values have no
// fixed size, but their elements do: if the items are known individually,
// inference follows them (Value.Items).
var sequence = family{"", []Op{
	{Name: "SequenceEmpty", Class: Box, Infer: inferSequenceEmpty},
	{Name: "SequenceConstruct", Class: Box, Infer: inferSequenceConstruct},
	{Name: "SequenceInsert", Class: Box, Infer: inferSequenceInsert},
	{Name: "SequenceErase", Class: Box, Infer: inferSequenceErase},
	{Name: "SequenceAt", Class: Box, Infer: inferSequenceAt},
	{Name: "SequenceLength", Class: Box, Infer: inferSequenceLength},
	{Name: "ConcatFromSequence", Class: Box, Infer: inferConcatFromSequence},
	{Name: "SplitToSequence", Class: Box, Infer: inferSplitToSequence},
	{Name: "Optional", Class: Box, Infer: inferOptional},
	{Name: "OptionalHasElement", Class: Box, Infer: inferOptionalHasElement},
	{Name: "OptionalGetElement", Class: Box, Infer: inferOptionalGetElement},
}}

// items returns the items of a sequence; nil if they are not known.
func (v *Value) items() []Arg {
	if v == nil {
		return nil
	}
	return v.Items
}

// sequenceOf is the value of a sequence of these items; nil if there are too many
// to follow.
func sequenceOf(items []Arg) *Value {
	if len(items) > maxItems {
		return nil
	}
	if items == nil {
		items = []Arg{}
	}
	return &Value{Items: items}
}

// unionOf is the union of the types of the items; there is at least one.
func unionOf(items []Arg) graph.Type {
	t := items[0].Type
	for _, a := range items[1:] {
		t = Union(t, a.Type)
	}
	return t
}

// setSequence sets the type of output 0, and its items if they are known.
func setSequence(c *Call, of graph.Type, items []Arg, known bool) {
	c.SetType(0, graph.Type{Kind: graph.KindSequence, Of: &of})
	if known {
		c.SetValue(0, sequenceOf(items))
	}
}

// needSequence refuses input i unless it is, or may be, a sequence.
func (c *Call) needSequence(i int) error {
	if k := c.In[i].Kind; k != graph.KindSequence && k != graph.KindUnknown {
		return c.BadInput(i, "a sequence")
	}
	return nil
}

// needTensor refuses input i unless it is, or may be, a tensor.
func (c *Call) needTensor(i int) error {
	if k := c.In[i].Kind; k != graph.KindTensor && k != graph.KindSparse && k != graph.KindUnknown {
		return c.BadInput(i, "a tensor")
	}
	return nil
}

// itemType is the common type of the items of sequence input i.
func (c *Call) itemType(i int) graph.Type {
	if of := c.In[i].Of; of != nil {
		return *of
	}
	return graph.Type{Kind: graph.KindTensor}
}

func inferSequenceEmpty(c *Call) error {
	elem := graph.DType(graph.Float32)
	if c.HasAttr("dtype") {
		d := c.Int("dtype", 0)
		if elem = graph.DType(d); d != int64(elem) || !elem.Valid() {
			return c.Errf("dtype is %d, expected a data type that ONNX defines", d)
		}
	}
	setSequence(c, graph.Type{Kind: graph.KindTensor, Elem: elem}, nil, true)
	return nil
}

func inferSequenceConstruct(c *Call) error {
	if len(c.In) == 0 {
		return c.Need(1)
	}
	if err := c.Need(len(c.In)); err != nil {
		return err
	}
	for i := range c.In {
		if err := c.needTensor(i); err != nil {
			return err
		}
		if err := c.sameItems(i, c.In[0].Type); err != nil {
			return err
		}
	}
	setSequence(c, unionOf(c.In), slices.Clone(c.In), true)
	return nil
}

// sameItems refuses input i if its element type differs from that of t.
func (c *Call) sameItems(i int, t graph.Type) error {
	if a := c.In[i].Elem; a != t.Elem && a != graph.Undefined && t.Elem != graph.Undefined {
		return c.Errf("input %d%s is %v, expected %v elements as in the rest of the sequence", i, c.inputName(i), c.In[i].Type, t.Elem)
	}
	return nil
}

// position returns the position given by input i in a sequence of n items; when
// inserting, the end is allowed, too. known is false if it is not known.
func (c *Call) position(i int, n int64, inserting bool) (at int64, known bool, err error) {
	if c.In[i].Kind == graph.KindTensor && c.In[i].Elem != graph.Undefined && !c.In[i].Elem.Integer() {
		return 0, false, c.BadInput(i, "a position of type int32 or int64, found %v", c.In[i].Elem)
	}
	at, known = c.In[i].Value.Int()
	if !known {
		return 0, false, nil
	}
	most := n - 1
	if inserting {
		most = n
	}
	if at < -n || at > most {
		return 0, false, c.Errf("position is %d, expected one of [%d, %d] in a sequence of %d items", at, -n, most, n)
	}
	if at < 0 {
		at += n
	}
	return at, true, nil
}

func inferSequenceInsert(c *Call) error {
	if err := c.Need(2); err != nil {
		return err
	}
	if err := c.needSequence(0); err != nil {
		return err
	}
	if err := c.needTensor(1); err != nil {
		return err
	}
	if err := c.sameItems(1, c.itemType(0)); err != nil {
		return err
	}
	items := c.In[0].Value.items()
	if items == nil {
		setSequence(c, Union(c.itemType(0), c.In[1].Type), nil, false)
		return nil
	}
	at, known := int64(len(items)), true
	if c.Has(2) {
		var err error
		if at, known, err = c.position(2, int64(len(items)), true); err != nil {
			return err
		}
	}
	if known {
		items = slices.Insert(slices.Clone(items), int(at), c.In[1])
		setSequence(c, unionOf(items), items, true)
		return nil
	}
	// Any item may be at any position now.
	of := unionOf(append(slices.Clone(items), c.In[1]))
	setSequence(c, of, repeated(Arg{Present: true, Type: of}, len(items)+1), true)
	return nil
}

func repeated(a Arg, n int) []Arg {
	return slices.Repeat([]Arg{a}, n)
}

func inferSequenceErase(c *Call) error {
	if err := c.Need(1); err != nil {
		return err
	}
	if err := c.needSequence(0); err != nil {
		return err
	}
	of := c.itemType(0)
	items := c.In[0].Value.items()
	if items == nil {
		setSequence(c, of, nil, false)
		return nil
	}
	if len(items) == 0 {
		return c.Errf("input 0%s is an empty sequence, expected an item to erase", c.inputName(0))
	}
	at, known := int64(len(items)-1), true
	if c.Has(1) {
		var err error
		if at, known, err = c.position(1, int64(len(items)), false); err != nil {
			return err
		}
	}
	if known {
		setSequence(c, of, slices.Delete(slices.Clone(items), int(at), int(at)+1), true)
		return nil
	}
	setSequence(c, of, repeated(Arg{Present: true, Type: of}, len(items)-1), true)
	return nil
}

func inferSequenceAt(c *Call) error {
	if err := c.Need(2); err != nil {
		return err
	}
	if err := c.needSequence(0); err != nil {
		return err
	}
	items := c.In[0].Value.items()
	if items != nil {
		at, known, err := c.position(1, int64(len(items)), false)
		if err != nil {
			return err
		}
		if known {
			c.SetType(0, items[at].Type)
			c.SetValue(0, items[at].Value)
			return nil
		}
		if len(items) > 0 {
			c.SetType(0, unionOf(items))
			return nil
		}
	}
	c.SetType(0, c.itemType(0))
	return nil
}

func inferSequenceLength(c *Call) error {
	if err := c.Need(1); err != nil {
		return err
	}
	if err := c.needSequence(0); err != nil {
		return err
	}
	c.Set(0, graph.Int64, nil)
	if items := c.In[0].Value.items(); items != nil {
		c.SetValue(0, scalarOf(Scalar{I: int64(len(items))}))
	}
	return nil
}

// inferConcatFromSequence joins the items along an axis, which is new if new_axis
// is set.
func inferConcatFromSequence(c *Call) error {
	if err := c.Need(1); err != nil {
		return err
	}
	if err := c.needSequence(0); err != nil {
		return err
	}
	if !c.HasAttr("axis") {
		return c.Errf(`attribute "axis" is missing: expected the axis to join along`)
	}
	items, of := c.In[0].Value.items(), c.itemType(0)
	if items != nil && len(items) == 0 {
		return c.Errf("input 0%s is an empty sequence, expected at least one item", c.inputName(0))
	}
	fresh := c.Int("new_axis", 0)
	if fresh != 0 && fresh != 1 {
		return c.Errf("new_axis is %d, expected 0 or 1", fresh)
	}
	length := graph.Unknown
	for i, a := range items {
		if !a.Ranked {
			c.SetUnranked(0, of.Elem)
			return nil
		}
		if len(a.Shape) != len(items[0].Shape) {
			return c.Errf("item %d of the sequence has shape %s, expected the rank of item 0 %s", i, graph.ShapeString(a.Shape), graph.ShapeString(items[0].Shape))
		}
	}
	if items != nil {
		of = graph.Type{Kind: graph.KindTensor, Elem: items[0].Elem, Ranked: true, Shape: slices.Clone(items[0].Shape)}
		length = graph.Dim(len(items))
	}
	if !of.Ranked {
		c.SetUnranked(0, of.Elem)
		return nil
	}
	axis, err := attr.Axis("axis", c.Int("axis", 0), len(of.Shape)+int(fresh))
	if err != nil {
		return err
	}
	if fresh == 0 && items != nil {
		length = 0
	}
	for i, a := range items {
		for k, d := range a.Shape {
			if fresh == 0 && k == axis {
				length = AddDims(length, d)
				continue
			}
			if !SameDim(of.Shape[k], d) {
				return c.Errf("item %d of the sequence has shape %s, expected one that joins item 0 %s along axis %d", i, graph.ShapeString(a.Shape), graph.ShapeString(items[0].Shape), axis)
			}
			of.Shape[k] = TakeDim(of.Shape[k], d)
		}
	}
	shape := slices.Clone(of.Shape)
	if fresh == 1 {
		shape = slices.Insert(shape, axis, length)
	} else {
		shape[axis] = length
	}
	c.Set(0, of.Elem, shape)
	return nil
}

// inferSplitToSequence: without split, parts have length 1; their axis is removed
// unless keepdims is set.
func inferSplitToSequence(c *Call) error {
	if err := c.Need(1); err != nil {
		return err
	}
	if err := c.needTensor(0); err != nil {
		return err
	}
	x := c.In[0]
	if !x.Ranked {
		setSequence(c, graph.Type{Kind: graph.KindTensor, Elem: x.Elem}, nil, false)
		return nil
	}
	axis, err := attr.Axis("axis", c.Int("axis", 0), len(x.Shape))
	if err != nil {
		return err
	}
	length := x.Shape[axis]
	part := func(n graph.Dim) Arg {
		shape := slices.Clone(x.Shape)
		shape[axis] = n
		return Arg{Present: true, Type: graph.TensorOf(x.Elem, shape...)}
	}
	if !c.Has(1) {
		one := part(1)
		if c.Int("keepdims", 1) == 0 {
			one.Shape = slices.Delete(one.Shape, axis, axis+1)
		}
		c.setParts(one, length, 1)
		return nil
	}
	split := c.In[1]
	if split.Ranked && len(split.Shape) > 1 {
		return c.BadInput(1, "a scalar or a list")
	}
	parts, known := split.Value.Ints()
	if !known || !split.Ranked {
		most, ok := length.Max()
		of := part(graph.Unknown)
		if ok {
			of = part(graph.AtMost(most))
		}
		setSequence(c, of.Type, nil, false)
		return nil
	}
	if slices.ContainsFunc(parts, func(n int64) bool { return n < 0 || n == 0 && len(split.Shape) == 0 }) {
		return c.Errf("split is %v, expected positive lengths", shortened(parts))
	}
	if len(split.Shape) == 0 {
		c.setParts(part(graph.Dim(parts[0])), length, parts[0])
		return nil
	}
	sum, ok := int64(0), true
	for _, n := range parts {
		if sum, ok = addChecked(sum, n); !ok {
			break
		}
	}
	if !ok || !SameDim(length, graph.Dim(sum)) {
		return c.Errf("split is %v, expected lengths that add up to %v, the length of axis %d", shortened(parts), length, axis)
	}
	if len(parts) > maxItems || len(parts) == 0 {
		setSequence(c, part(graph.AtMost(sum)).Type, nil, false)
		return nil
	}
	var items []Arg
	for _, n := range parts {
		items = append(items, part(graph.Dim(n)))
	}
	setSequence(c, unionOf(items), items, true)
	return nil
}

// setParts makes output 0 a sequence of parts of a length. All have the type of
// one, except the last, which may be shorter.
func (c *Call) setParts(one Arg, length graph.Dim, size int64) {
	n, ok := length.Max()
	if !length.Exact() || !ok || n/size >= maxItems {
		of := one.Type
		if n%size != 0 || !length.Exact() {
			of = c.shorter(one, graph.AtMost(size)).Type
		}
		setSequence(c, of, nil, false)
		return
	}
	items := repeated(one, int(n/size))
	if rest := n % size; rest != 0 {
		items = append(items, c.shorter(one, graph.Dim(rest)))
	}
	if len(items) == 0 {
		setSequence(c, one.Type, nil, true)
		return
	}
	setSequence(c, unionOf(items), items, true)
}

// shorter is one with another length along the split axis. Parts of length 1
// cannot be shorter.
func (c *Call) shorter(one Arg, n graph.Dim) Arg {
	if len(one.Shape) < len(c.In[0].Shape) || n == graph.AtMost(1) {
		return one
	}
	axis, _ := attr.Axis("axis", c.Int("axis", 0), len(one.Shape))
	one.Shape = slices.Clone(one.Shape)
	one.Shape[axis] = n
	return one
}

// shortened shortens a list for a message.
func shortened(list []int64) []int64 { return list[:min(len(list), 16)] }

// inferOptional: an optional of the input, or an empty one of the type in the
// attribute.
func inferOptional(c *Call) error {
	if c.Has(0) {
		of := c.In[0].Type
		c.SetType(0, graph.Type{Kind: graph.KindOptional, Of: &of})
		c.SetValue(0, &Value{Items: []Arg{c.In[0]}})
		return nil
	}
	a := c.Node.Attr("type")
	if a == nil || a.TypeOf == nil {
		return c.Errf(`neither an input nor the attribute "type": expected one of them`)
	}
	of := a.TypeOf.Type
	c.SetType(0, graph.Type{Kind: graph.KindOptional, Of: &of})
	c.SetValue(0, &Value{Items: []Arg{}})
	return nil
}

// inferOptionalHasElement: since 18 the input may be left out, or be a tensor or
// a sequence, which always is an element.
func inferOptionalHasElement(c *Call) error {
	c.Set(0, graph.Bool, nil)
	has := func(v int64) { c.SetValue(0, scalarOf(Scalar{I: v})) }
	switch {
	case !c.Has(0):
		if c.Version < 18 {
			return c.Need(1)
		}
		has(0)
	case c.In[0].Kind == graph.KindOptional:
		if items := c.In[0].Value.items(); items != nil {
			has(int64(len(items)))
		}
	case c.In[0].Kind != graph.KindUnknown:
		has(1)
	}
	return nil
}

// inferOptionalGetElement: since 18 the input may be a tensor or a sequence,
// which is passed on.
func inferOptionalGetElement(c *Call) error {
	if err := c.Need(1); err != nil {
		return err
	}
	a := c.In[0]
	if a.Kind != graph.KindOptional {
		c.SetType(0, a.Type)
		c.SetValue(0, a.Value)
		return nil
	}
	if items := a.Value.items(); len(items) == 1 {
		c.SetType(0, items[0].Type)
		c.SetValue(0, items[0].Value)
		return nil
	} else if items != nil {
		return c.Errf("input 0%s is an empty optional, expected one that holds an element", c.inputName(0))
	}
	if a.Of != nil {
		c.SetType(0, *a.Of)
	}
	return nil
}
