package rowmap

import "github.com/onnxmem/onnxmem/graph"

// integer returns an integer attribute, or the default.
func (n *Node) integer(name string, otherwise int64) int64 {
	if a := n.Attr(name); a != nil {
		return a.Int
	}
	return otherwise
}

// text returns a string attribute, or the default.
func (n *Node) text(name, otherwise string) string {
	if a := n.Attr(name); a != nil {
		return a.String
	}
	return otherwise
}

// axis returns an attribute that names an axis of a tensor of some rank; Whole if it
// names none.
func (n *Node) axis(name string, otherwise int64, rank int) int {
	return axisOf(n.integer(name, otherwise), rank)
}

// axisOf counts a negative axis from the end; Whole if there is no such axis.
func axisOf(axis int64, rank int) int {
	if axis < 0 {
		axis += int64(rank)
	}
	if axis < 0 || axis >= int64(rank) {
		return Whole
	}
	return int(axis)
}

// integers returns a list that is an attribute or, if the node lacks it, an input. stated
// is false if it is neither, known is false if its elements are not known.
func (n *Node) integers(name string, input int) (list []int64, stated, known bool) {
	if a := n.Attr(name); a != nil && name != "" {
		return a.Ints, true, true
	}
	if !n.has(input) {
		return nil, false, true
	}
	return n.In[input].Ints, true, n.In[input].Known
}

// has reports whether an input is present.
func (n *Node) has(input int) bool { return input < len(n.In) && n.In[input].Present }

// single reports whether an input has one element.
func (n *Node) single(input int) bool {
	for _, d := range n.In[input].Shape {
		if d != 1 {
			return false
		}
	}
	return true
}

// made reports whether an output is present.
func (n *Node) made(output int) bool { return output < len(n.Out) && n.Out[output].Present }

// length is the length of an axis of an input.
func (n *Node) length(input, axis int) int64 { return n.In[input].Shape[axis] }

// shapeBut returns the shape of output 0 with another length of one axis.
func (n *Node) shapeBut(axis int, length int64) []int64 {
	shape := append([]int64{}, n.Out[0].Shape...)
	shape[axis] = length
	return shape
}

// states returns the change of a list that is an attribute or else an input.
func (n *Node) states(name string, input int, list []int64) Change {
	if n.Attr(name) != nil {
		return Change{Attrs: []*graph.Attr{ints(name, list)}}
	}
	return Change{Inputs: map[int][]int64{input: list}}
}

func ints(name string, list []int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInts, Ints: list}
}

func number(name string, v int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInt, Int: v}
}
