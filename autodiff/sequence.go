package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// sequenceExpansions read tensors out of sequences whose items are known, as in models that
// TorchScript exported: a split or a stack goes through a sequence there. Sequences
// themselves have no gradient.
var sequenceExpansions = expansionsOf("", map[string]func(*Backward) []ID{
	"SequenceAt":         func(c *Backward) []ID { t, _ := c.itemAt(c.Node); return []ID{t} },
	"ConcatFromSequence": joinedItems,
})

// whyNoItems is why a reader of a sequence was not replaced.
const whyNoItems = "the items of its sequence do not follow from constants"

// readSequence notes the items of a sequence that a node makes, if they follow from
// constants. The node stays, for readers that are not rewritten.
func (e *emitter) readSequence(n *graph.Node) {
	if n.Domain != "" || len(n.Outputs) == 0 || n.Outputs[0] == graph.None {
		return
	}
	items, known := []ID(nil), true
	switch n.Op {
	case "SequenceEmpty":
	case "SequenceConstruct":
		items = slices.Clone(n.Inputs)
	case "SplitToSequence":
		items, known = e.splitItems(n)
	case "SequenceInsert":
		var at int
		if items, at, known = e.positionIn(n, 2, 0); known {
			items = slices.Insert(items, at, n.Inputs[1])
		}
	case "SequenceErase":
		var at int
		if items, at, known = e.positionIn(n, 1, -1); known {
			items = slices.Delete(items, at, at+1)
		}
	case "Identity":
		items, known = e.items[n.Inputs[0]]
	default:
		return
	}
	if known {
		if e.items == nil {
			e.items = map[ID][]ID{}
		}
		e.items[n.Outputs[0]] = items
	}
}

// positionIn returns a copy of the items of the sequence that a node changes, and the position
// that input in gives, or the last one, which is beyond items behind the last item. ok is false if they
// do not follow from constants, or the node fails when it runs.
func (e *emitter) positionIn(n *graph.Node, in, beyond int) (items []ID, at int, ok bool) {
	items, ok = e.items[n.Inputs[0]]
	if !ok {
		return nil, 0, false
	}
	last := int64(len(items) + beyond)
	from := last
	if in < len(n.Inputs) && n.Inputs[in] != graph.None {
		list, ok := e.ints(n.Inputs[in])
		if !ok || len(list) != 1 {
			return nil, 0, false
		}
		if from = list[0]; from < 0 {
			from += int64(len(items))
		}
	}
	if from < 0 || from > last {
		return nil, 0, false
	}
	return slices.Clone(items), int(from), true
}

// mostItems limits the parts of a sequence that are written as a Split.
const mostItems = 1 << 10

// splitItems emits the Split of a SplitToSequence. Without lengths, the parts have length 1,
// and their axis goes unless keepdims says otherwise.
func (e *emitter) splitItems(n *graph.Node) ([]ID, bool) {
	x := n.Inputs[0]
	typ := e.typeOf(x)
	if x == graph.None || !typ.Exact() || !typ.Elem.Floating() || len(typ.Shape) == 0 {
		return nil, false
	}
	axis, err := attr.Axis("axis", attr.Int(n, "axis", 0), len(typ.Shape))
	if err != nil {
		return nil, false
	}
	length, each, gone := int64(typ.Shape[axis]), int64(1), true
	var lengths []int64
	if len(n.Inputs) > 1 && n.Inputs[1] != graph.None {
		list, known := e.ints(n.Inputs[1])
		if !known {
			return nil, false
		}
		if gone = false; len(e.shape(n.Inputs[1])) == 0 {
			each = list[0]
		} else {
			lengths = list
		}
	} else {
		gone = attr.Int(n, "keepdims", 1) == 0
	}
	if lengths == nil {
		if each < 1 || length < 1 || length/each >= mostItems {
			return nil, false
		}
		for at := int64(0); at < length; at += each {
			lengths = append(lengths, min(each, length-at))
		}
	}
	if len(lengths) == 0 || len(lengths) > mostItems {
		return nil, false
	}
	scope := e.scope
	e.scope = n.Name + "/"
	defer func() { e.scope = scope }()
	items := e.split(x, axis, lengths...)
	if gone {
		shape := slices.Delete(slices.Clone(e.shape(x)), axis, axis+1)
		for i, t := range items {
			items[i] = e.reshape(t, shape)
		}
	}
	return items, e.err == nil
}

// itemAt is the item that a SequenceAt reads, if that is known.
func (e *emitter) itemAt(n *graph.Node) (ID, bool) {
	items, known := e.items[n.Inputs[0]]
	list, fixed := e.ints(n.Inputs[1])
	if !known || !fixed || len(list) != 1 {
		return graph.None, false
	}
	at := list[0]
	if at < 0 {
		at += int64(len(items))
	}
	if at < 0 || at >= int64(len(items)) {
		return graph.None, false
	}
	return items[at], true
}

// joinedItems concatenates the items of a sequence along an axis, which is a new one if
// the node says so.
func joinedItems(c *Backward) []ID {
	items := slices.Clone(c.items[c.Node.Inputs[0]])
	rank := c.rank(items[0])
	added := c.Int("new_axis", 0) != 0
	if added {
		rank++
	}
	axis, err := attr.Axis("axis", c.Int("axis", 0), rank)
	if err != nil {
		c.Failf("%w", err)
		return nil
	}
	for i, t := range items {
		if added {
			items[i] = c.op("Unsqueeze", t, c.list(int64(axis)))
		}
	}
	return []ID{c.with("Concat", attrs{"axis": axis}, items...)}
}
