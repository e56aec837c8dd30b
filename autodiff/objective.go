package autodiff

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// Names that a training graph adds (docs/formats/training.md).
const (
	lossName   = "loss"
	labelsName = "labels"
	rateName   = "learning_rate"
	stepName   = "step"
)

// Losses are the kinds of Options.Loss.
var Losses = []string{"cross-entropy", "mse", "bce", "l1", "none:OUTPUT"}

// objective adds the loss to outputs of the model: a float32 scalar, the mean over the
// batch, or a weighted sum of such.
func (s *trainer) objective() error {
	terms, err := parseLoss(s.opt.Loss)
	if err != nil {
		return err
	}
	if s.opt.LossOutput != "" {
		if len(terms) > 1 || terms[0].output != "" {
			return optionf("loss output %q: expected none, since loss %q names its outputs", s.opt.LossOutput, s.opt.Loss)
		}
		terms[0].output = s.opt.LossOutput
	}
	s.phase, s.of, s.scope = phaseForward, lossName, "loss/"
	defer func() { s.of, s.scope = "", "" }()
	s.loss = graph.None
	for _, term := range terms {
		y, err := s.output(term.output)
		if err != nil {
			return err
		}
		if term.output == "" {
			s.namesOutputs(y)
		}
		s.labelsName = labelsName
		if len(terms) > 1 {
			s.labelsName += "." + s.g.Tensors[y].Name
		}
		loss, err := s.lossOf(y, term)
		if err != nil {
			return err
		}
		loss = s.castTo(loss, graph.Float32)
		if s.err != nil {
			return s.err
		}
		if loss == y || slices.Contains(s.g.Outputs, loss) {
			loss = s.op("Identity", loss) // so that y keeps its own name
		}
		if term.factor != 1 {
			loss = s.mul(loss, s.scalar(loss, term.factor))
		}
		if s.loss != graph.None {
			loss = s.add(s.loss, loss)
		}
		s.loss = loss
	}
	if s.err != nil {
		return s.err
	}
	return s.claimName(s.loss, lossName)
}

// lossOf adds one loss.
func (s *trainer) lossOf(y ID, term lossTerm) (loss ID, err error) {
	elem, name := s.typeOf(y).Elem, s.g.Tensors[y].Name
	if !elem.Floating() {
		e := graph.Errorf("has element type %v: expected a floating-point output for the loss (--loss-output)", elem)
		e.Tensor = name
		return graph.None, e
	}
	if term.kind != ownLoss && s.err == nil && s.isLoss(y) {
		if term.kind == "cross-entropy" {
			e := graph.Errorf("has type %v: one number, as a loss is, and no scores of classes: expected --loss none:%s, which takes it as the loss, or another --loss-output", s.typeOf(y), name)
			e.Tensor = name
			return graph.None, e
		}
		s.step.Warnings = append(s.step.Warnings, fmt.Sprintf("output %s is one number, as a loss is, and %s is computed from it: --loss none:%s takes it as the loss", name, term.kind, name))
	}
	switch term.kind {
	case "cross-entropy":
		return s.crossEntropy(y)
	case "mse":
		d := s.sub(s.widened(y), s.widened(s.labels(elem, s.shape(y))))
		return s.mean(s.mul(d, d)), nil
	case "l1":
		return s.mean(s.op("Abs", s.sub(s.widened(y), s.widened(s.labels(elem, s.shape(y)))))), nil
	case "bce":
		return s.binaryCrossEntropy(y), nil
	}
	if n := elements(s.shape(y)); n != 1 {
		e := graph.Errorf("has type %v: expected a loss of one element", s.typeOf(y))
		e.Tensor = name
		return graph.None, e
	}
	return s.reshape(y, []int64{}), nil
}

// output finds an output of the model by name; "" is the first.
func (s *trainer) output(name string) (ID, error) {
	if len(s.g.Outputs) == 0 {
		return graph.None, graph.Errorf("has no output: expected one for the loss")
	}
	if name == "" {
		return s.g.Outputs[0], nil
	}
	var names []string
	for _, t := range s.g.Outputs {
		if s.g.Tensors[t].Name == name {
			return t, nil
		}
		names = append(names, s.g.Tensors[t].Name)
	}
	return graph.None, graph.Errorf("output %q not found: expected one of %s", name, strings.Join(names, ", "))
}

// claimName gives a tensor one of the names that a training graph adds.
func (s *trainer) claimName(t ID, name string) error {
	if s.taken[name] > 0 {
		e := graph.Errorf("the name is reserved for training graphs: expected another name in the model")
		e.Tensor = name
		return e
	}
	s.taken[name] = 1
	s.g.Tensors[t].Name = name
	return nil
}

// input adds a graph input.
func (s *trainer) input(name string, elem graph.DType, shape []int64) ID {
	dims := make([]graph.Dim, len(shape))
	for i, n := range shape {
		dims[i] = graph.Dim(n)
	}
	t := s.newTensor("", graph.TensorOf(elem, dims...), nil)
	if err := s.claimName(t, name); err != nil {
		s.fail(err)
		return t
	}
	s.g.Inputs = append(s.g.Inputs, t)
	return t
}

// labels is the input with which the output is compared. Two losses of one output share
// it.
func (s *trainer) labels(elem graph.DType, shape []int64) ID {
	for _, t := range s.g.Inputs {
		if s.given[t] && s.g.Tensors[t].Name == s.labelsName && s.typeOf(t).Elem == elem && slices.Equal(s.shape(t), shape) {
			return t
		}
	}
	t := s.input(s.labelsName, elem, shape)
	s.given[t] = true
	return t
}

// mean is the mean of all elements, a scalar.
func (s *trainer) mean(t ID) ID { return s.reduce("ReduceMean", t, axes(0, s.rank(t)), false) }

// crossEntropy takes class indices as labels; those of ignoredLabel do not count.
func (s *trainer) crossEntropy(y ID) (ID, error) {
	shape := s.shape(y)
	if s.err != nil { // the shape is not fixed, so the class axis is not known
		return graph.None, s.err
	}
	axis := 1
	if len(shape) == 3 {
		axis = 2
	}
	if a := s.opt.ClassAxis; a != nil {
		if axis = *a; axis < 0 {
			axis += len(shape)
		}
	}
	if axis < 0 || axis >= len(shape) {
		e := graph.Errorf("has type %v: expected a class axis %d (--class-axis, or another --loss)", s.typeOf(y), axis)
		e.Tensor = s.g.Tensors[y].Name
		return graph.None, e
	}
	if shape[axis] == 1 {
		e := graph.Errorf("has type %v: cross-entropy over one class is always 0: expected two or more along axis %d (--class-axis), or --loss bce for a probability, --loss mse for a number", s.typeOf(y), axis)
		e.Tensor = s.g.Tensors[y].Name
		return graph.None, e
	}
	y = s.classScores(y, axis)
	labels := s.labels(graph.Int64, slices.Delete(slices.Clone(shape), axis, axis+1))
	classes := shape[axis]
	switch last := len(shape) - 1; {
	case axis == 1 && last >= 1:
	case axis == last:
		y = s.reshape(y, []int64{elements(shape[:last]), classes})
		labels = s.reshape(labels, []int64{elements(shape[:last])})
	default:
		perm := slices.Insert(slices.Delete(axes(0, len(shape)), axis, axis+1), min(1, last), int64(axis))
		y = s.transpose(y, perm...)
	}
	return s.meanOverLabels(y, labels), nil
}
