package autodiff

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// mlRules cover operators of ai.onnx.ml. Trees, tables and thresholds are piecewise
// constant.
var mlRules = []Rule{
	{Op: "Scaler", Inputs: []int{0}, Grad: func(c *Backward) {
		shape := c.shape(c.X(0))
		if c.err != nil {
			return
		}
		scale := floatsOf(c.Node, "scale")
		if n := elements(shape[max(len(shape)-1, 0):]); len(scale) == 0 || len(scale) > 1 && int64(len(scale)) != n {
			c.Failf("scale has %d numbers: expected 1 or %d", len(scale), n)
			return
		}
		c.Set(0, c.castLike(c.mul(c.D(0), c.reals(c.typeOf(c.D(0)).Elem, []int64{int64(len(scale))}, scale)), c.X(0)))
	}},
	{Op: "Normalizer", Inputs: []int{0}, Grad: normalizerGrad},
	{Op: "LinearRegressor", Inputs: []int{0}, Grad: linearRegressorGrad},
	{Op: "Imputer", Inputs: []int{0}, Grad: imputerGrad},
	{Op: "FeatureVectorizer", Grad: func(c *Backward) {
		var widths []int64
		for i := range c.Node.Inputs {
			s := c.shape(c.X(i))
			widths = append(widths, elements(s[min(1, len(s)):]))
			if len(s) == 1 {
				widths[i] = s[0]
			}
		}
		if c.err != nil {
			return
		}
		for i, d := range c.split(c.D(0), 1, widths...) {
			if c.Needs(i) {
				c.Set(i, c.castLike(c.reshape(d, c.shape(c.X(i))), c.X(i)))
			}
		}
	}},
	{Op: "ArrayFeatureExtractor", Inputs: []int{0}, Grad: func(c *Backward) {
		shape := c.shape(c.X(0))
		if c.err != nil {
			return
		}
		if len(shape) == 0 {
			c.Failf("an input without axes: expected features along the last one")
			return
		}
		index := c.reshape(c.X(1), []int64{elements(c.shape(c.X(1)))})
		d := c.reshape(c.D(0), concat(shape[:len(shape)-1], c.shape(index)))
		c.Set(0, c.gathered(d, len(shape)-1, index, shape))
	}},
	{Op: "Binarizer", Inputs: none},
	{Op: "LabelEncoder", Inputs: none},
	{Op: "OneHotEncoder", Inputs: none},
	{Op: "TreeEnsemble", Inputs: none},
	{Op: "TreeEnsembleClassifier", Inputs: none},
	{Op: "TreeEnsembleRegressor", Inputs: none},
}

// floatsOf is an attribute of floats.
func floatsOf(n *graph.Node, name string) []float64 {
	a := n.Attr(name)
	if a == nil {
		return nil
	}
	list := make([]float64, len(a.Floats))
	for i, v := range a.Floats {
		list[i] = float64(v)
	}
	return list
}

// normalizerGrad: a row is divided by its largest element, by the sum of its magnitudes or
// by its length, unless that is 0.
func normalizerGrad(c *Backward) {
	d, x := c.D(0), c.castLike(c.X(0), c.D(0))
	shape := c.shape(x)
	if c.err != nil {
		return
	}
	last := []int64{int64(len(shape) - 1)}
	var by, slope ID // slope of by by the elements
	switch norm := c.Str("norm", "MAX"); norm {
	case "MAX":
		by = c.reduce("ReduceMax", x, last, true)
		most := c.castLike(c.op("Equal", x, by), x)
		slope = c.div(most, c.sum(most, last, true))
	case "L1":
		by, slope = c.reduce("ReduceL1", x, last, true), c.op("Sign", x)
	case "L2":
		by = c.reduce("ReduceL2", x, last, true)
		slope = c.div(x, c.where(c.op("Equal", by, c.scalar(by, 0)), c.scalar(by, 1), by))
	default:
		c.Failf("norm %q: expected MAX, L1 or L2", norm)
		return
	}
	none := c.op("Equal", by, c.scalar(by, 0))
	by = c.where(none, c.scalar(by, 1), by)
	share := c.div(c.sum(c.mul(d, x), last, true), c.mul(by, by))
	share = c.where(none, c.scalar(by, 0), share)
	c.Set(0, c.castLike(c.sub(c.div(d, by), c.mul(share, slope)), c.X(0)))
}

// linearRegressorGrad: the coefficients are a matrix, a row for each target.
func linearRegressorGrad(c *Backward) {
	if post := c.Str("post_transform", "NONE"); post != "NONE" {
		c.Failf("post_transform %q has no gradient rule: expected NONE", post)
		return
	}
	x, targets, list := c.shape(c.X(0)), c.Int("targets", 1), floatsOf(c.Node, "coefficients")
	if c.err != nil {
		return
	}
	n := elements(x[max(len(x)-1, 0):])
	if targets < 1 || n < 1 || targets > math.MaxInt32 || exceeds(int64(len(list)), targets, n) || int64(len(list)) != targets*n {
		c.Failf("%d coefficients: expected %d for each of %d targets", len(list), n, targets)
		return
	}
	d := c.op("MatMul", c.D(0), c.reals(c.typeOf(c.D(0)).Elem, []int64{targets, n}, list))
	c.Set(0, c.castLike(c.reshape(d, x), c.X(0)))
}

// imputerGrad: an element that is replaced by a constant has no gradient.
func imputerGrad(c *Backward) {
	x := c.X(0)
	missing := attr.Float(c.Node, "replaced_value_float", 0)
	replaced := c.op("Equal", x, c.scalar(x, float64(missing)))
	if missing != missing {
		replaced = c.op("IsNaN", x)
	}
	c.Set(0, c.where(replaced, c.scalar(x, 0), c.castLike(c.D(0), x)))
}
