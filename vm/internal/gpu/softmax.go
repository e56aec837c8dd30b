package gpu

import (
	"github.com/onnxmem/onnxmem/ops/attr"
)

// softmaxes lists the operators that turn the elements along an axis into weights.
var softmaxes = []Row{
	{Name: "Softmax", Make: makeSoftmax},
}

// makeSoftmax runs along one axis, or, before opset 13, over that axis and all that
// follow.
func makeSoftmax(n *Node) error {
	x, y := n.In[0], n.Out[0]
	if !isFloat(x) {
		return unsupportedf("dtype %v", x.Type)
	}
	old := n.Version < 13
	otherwise := -1
	if old {
		otherwise = 1
	}
	axis, err := attr.Axis("axis", int64(n.Int("axis", otherwise)), max(len(x.Shape), 1))
	if err != nil {
		return err
	}
	length, step := 1, 1
	if len(x.Shape) > 0 {
		length, step = x.Shape[axis], count(x.Shape[axis+1:])
		if old {
			length, step = length*step, 1
		}
	}
	at, err := n.addresses(y, x)
	if err != nil {
		return err
	}
	k := n.kernel("softmax.cu", "softmax", "ELEMENT="+cType[x.Type])
	return n.launch(k, x.Len()/length, rowThreads(length), at[0], at[1], int64(length), int64(step))
}

// rowThreads is the number of threads of a block that works on a row of n elements.
func rowThreads(n int) int {
	threads := 32
	for threads < 256 && threads < n {
		threads *= 2
	}
	return threads
}

// count is the number of elements of a shape.
func count(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
