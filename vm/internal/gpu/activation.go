package gpu

import (
	"errors"
	"regexp"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// activations lists the activation functions of neural networks.
var activations = []Row{
	{Name: "Relu", Element: like(isSigned)},
	{Name: "Sigmoid", Element: like(isReal)},
	{Name: "Tanh", Element: like(isReal)},
	{Name: "Softplus", Element: like(isReal)},
	{Name: "Softsign", Element: like(isReal)},
	{Name: "Mish", Element: like(isReal)},
	{Name: "LeakyRelu", Element: with("LeakyRelu", number{"alpha", 0.01})},
	{Name: "ThresholdedRelu", Element: with("ThresholdedRelu", number{"alpha", 1})},
	{Name: "Elu", Element: with("Elu", number{"alpha", 1})},
	{Name: "Celu", Element: with("Celu", number{"alpha", 1})},
	{Name: "Selu", Element: with("Selu", number{"alpha", 1.67326319217681884765625}, number{"gamma", 1.05070102214813232421875})},
	{Name: "Swish", Element: with("Swish", number{"alpha", 1})},
	{Name: "HardSigmoid", Element: with("HardSigmoid", number{"alpha", 0.2}, number{"beta", 0.5})},
	{Name: "HardSwish", Element: like(isReal)},
	{Name: "Gelu", Element: gelu},
	{Name: "Shrink", Element: shrink},
	{Name: "PRelu", Element: like(isNumber)},
	{Name: "Clip", Element: clip},
	{Name: "Dropout", Make: makeDropout, Element: dropout},
}

// number is an attribute with its default.
type number struct {
	name      string
	otherwise float32
}

// with makes the Element of a function of one real and of attributes.
func with(function string, list ...number) func(n *Node, e *expression) error {
	return func(n *Node, e *expression) error {
		var more []string
		for _, a := range list {
			more = append(more, literal(float64(n.Float(a.name, a.otherwise)), n.Out[0].Type))
		}
		return called(n, e, function, isReal, more...)
	}
}

// formula makes the Element of an expression in C of one real, x, and of attributes, by their
// names. It may call the functions of arithmetic.cuh and activation.cuh.
func formula(text string, list ...number) func(n *Node, e *expression) error {
	return func(n *Node, e *expression) error {
		args, err := arguments(n, e, n.In, n.Out[0].Type, isReal)
		if err != nil {
			return err
		}
		values := map[string]string{"x": args[0]}
		for _, a := range list {
			values[a.name] = literal(float64(n.Float(a.name, a.otherwise)), n.Out[0].Type)
		}
		return e.set(n.Out[0], word.ReplaceAllStringFunc(text, func(name string) string {
			if v, is := values[name]; is {
				return v
			}
			return name
		}))
	}
}

var word = regexp.MustCompile(`[A-Za-z]\w*`)

func gelu(n *Node, e *expression) error {
	if n.Str("approximate", "none") == "tanh" {
		return called(n, e, "GeluTanh", isReal)
	}
	return called(n, e, "Gelu", isReal)
}

// biased applies a function to the sum of the inputs. The bias may be omitted.
func biased(n *Node, e *expression, function string) error {
	list := n.In
	for len(list) > 1 && list[len(list)-1] == nil {
		list = list[:len(list)-1]
	}
	v, err := foldedValue(n, e, list, "Add", isReal)
	if err != nil {
		return err
	}
	return e.set(n.Out[0], call(function, v))
}

// shrink computes integers in float64.
func shrink(n *Node, e *expression) error {
	d, function := n.Out[0].Type, "Shrink"
	if !isReal(d) {
		d, function = graph.Float64, "ShrinkInteger"
	}
	return called(n, e, function, isNumber, literal(float64(n.Float("lambd", 0.5)), d), literal(float64(n.Float("bias", 0)), d))
}

// clip has its bounds in attributes before opset 11, and in inputs since.
func clip(n *Node, e *expression) error {
	x := n.In[0]
	v, err := e.value(x)
	if err != nil {
		return err
	}
	if !isNumber(x.Type) {
		return unsupportedf("dtype %v", x.Type)
	}
	for i, b := range []struct{ name, function string }{{"min", "Max"}, {"max", "Min"}} {
		switch bound := n.Input(1 + i); {
		case bound != nil && bound.Len() > 0:
			if bound.Len() > 1 || bound.Type != x.Type {
				return unsupportedf("a bound of dtype %v and shape %v", bound.Type, bound.Shape)
			}
			a, err := e.valueAs(bound, []int{})
			if err != nil {
				return err
			}
			v = call(b.function, v, a)
		case n.Node.Attr(b.name) != nil:
			v = call(b.function, v, literal(float64(n.Float(b.name, 0)), x.Type))
		}
	}
	return e.set(n.Out[0], v)
}

// dropout copies input 0, and keeps all elements, or, in training, drops some. A mode that
// is not known before the node runs is read by the kernel.
func dropout(n *Node, e *expression) error {
	v, err := e.value(n.In[0])
	if err != nil {
		return err
	}
	if err := needTypes(n.In[0].Type, n.Out[0]); err != nil {
		return err
	}
	training, err := trains(n)
	if err != nil {
		return err
	}
	if training == never {
		if err := e.set(n.Out[0], v); err != nil || !n.HasOut(1) {
			return err
		}
		return e.set(n.Out[1], "1")
	}
	if !isReal(n.In[0].Type) {
		return unsupportedf("dtype %v", n.In[0].Type)
	}
	seed, err := seedOf(n, e)
	if err != nil {
		return err
	}
	i, err := e.index()
	if err != nil {
		return err
	}
	ratio := literal(0.5, graph.Float64)
	if t := n.Input(1); t != nil {
		if ratio, err = e.valueAs(t, []int{}); err != nil {
			return err
		}
	}
	kept := call("Kept", seed, i, ratio)
	dropped := call("Dropped", v, kept, ratio)
	if training == unknown {
		is, err := e.valueAs(n.In[2], []int{})
		if err != nil {
			return err
		}
		kept, dropped = "(!"+is+" || "+kept+")", "("+is+" ? "+dropped+" : "+v+")"
	}
	if err := e.set(n.Out[0], dropped); err != nil || !n.HasOut(1) {
		return err
	}
	return e.set(n.Out[1], kept)
}

func makeDropout(n *Node) error {
	training, err := trains(n)
	if err != nil {
		return err
	}
	if training != never {
		return Lookup("", "Dropout").alone(n)
	}
	if err := makeCopy(n); err != nil || !n.HasOut(1) {
		return err
	}
	e := newExpression(n, n.Out[1].Shape)
	if err := e.set(n.Out[1], "1"); err != nil {
		return err
	}
	e.store(n.Out[1])
	return e.emit()
}

// mode says whether a Dropout drops elements.
type mode int

const (
	never mode = iota
	inTraining
	unknown
)

// trains returns the mode of a Dropout.
func trains(n *Node) (mode, error) {
	training, err := n.Value(2)
	switch {
	case errors.Is(err, form.ErrDataDependent):
		return unknown, nil
	case err != nil || len(training) == 0 || training[0] == 0:
		return never, err
	}
	return inTraining, nil
}
