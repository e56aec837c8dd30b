package reference

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// mlOperators are those of ai.onnx.ml.
var mlOperators = []operator{
	{"ArrayFeatureExtractor", func(c *evaluation) []*Tensor {
		x, list := c.x(0), c.x(1)
		if len(x.Shape) == 1 {
			x = x.shaped(1, x.Shape[0])
		}
		last := len(x.Shape) - 1
		shape := slices.Clone(x.Shape)
		shape[last] = len(list.I)
		from := make([]int, 0, size(shape))
		each(shape, func(at []int) {
			p := slices.Clone(at)
			p[last] = int(list.I[at[last]])
			from = append(from, index(x.Shape, p))
		})
		return one(x.pick(shape, from))
	}},
	{"Binarizer", func(c *evaluation) []*Tensor {
		x, above := c.x(0), c.float("threshold", 0)
		y := zeros(x.Type, x.Shape)
		for i := range size(x.Shape) {
			switch {
			case x.real(i) <= above || math.IsNaN(x.real(i)):
			case x.I != nil:
				y.I[i] = 1
			default:
				y.F[i] = 1
			}
		}
		return one(y)
	}},
	{"Scaler", func(c *evaluation) []*Tensor {
		x := c.x(0)
		offset, scale := c.attr("offset").Floats, c.attr("scale").Floats
		y := zeros(graph.Float32, x.Shape)
		mass := make([]float64, len(y.F))
		n := x.Shape[len(x.Shape)-1]
		for i := range y.F {
			o, s := float64(offset[min(i%n, len(offset)-1)]), float64(scale[min(i%n, len(scale)-1)])
			y.F[i] = (x.real(i) - o) * s
			mass[i] = (math.Abs(x.real(i)) + math.Abs(o)) * math.Abs(s)
		}
		c.terms(0, mass)
		return one(y)
	}},
	{"Normalizer", func(c *evaluation) []*Tensor {
		x := c.x(0)
		y := zeros(graph.Float32, x.Shape)
		mass := make([]float64, len(y.F))
		n := x.Shape[len(x.Shape)-1]
		for row := 0; row < len(y.F); row += n {
			most, sum, squares := math.Inf(-1), 0.0, 0.0
			for i := row; i < row+n; i++ {
				v := x.real(i)
				most, sum, squares = max(most, v), sum+math.Abs(v), squares+v*v
			}
			by := map[string]float64{"MAX": most, "L1": sum, "L2": math.Sqrt(squares)}[c.str("norm", "MAX")]
			for i := row; i < row+n; i++ {
				if y.F[i] = x.real(i); by != 0 {
					y.F[i] /= by
				}
				mass[i] = math.Abs(y.F[i])
			}
		}
		c.sums(0, mass, n)
		return one(y)
	}},
	{"LinearRegressor", func(c *evaluation) []*Tensor {
		if c.str("post_transform", "NONE") != "NONE" {
			fail("post_transform")
		}
		scores, mass := c.linear(c.int("targets", 1))
		c.sums(0, mass, c.x(0).Shape[len(c.x(0).Shape)-1])
		return one(scores)
	}},
	{"LinearClassifier", func(c *evaluation) []*Tensor {
		labels := c.labels("classlabels_ints")
		targets := len(c.attr("intercepts").Floats)
		scores, mass := c.linear(targets)
		for i := range mass { // a sum of as many roundings
			mass[i] *= float64(c.x(0).Shape[len(c.x(0).Shape)-1] + 1)
		}
		return c.classified(labels, scores, mass, targets == 1, 0)
	}},
	{"LabelEncoder", labelEncoder},
	{"Imputer", imputer},
	{"FeatureVectorizer", featureVectorizer},
	{"OneHotEncoder", oneHotEncoder},
	{"SVMRegressor", svmRegressor},
	{"SVMClassifier", svmClassifier},
	{"TreeEnsembleRegressor", func(c *evaluation) []*Tensor {
		return c.regressed(graph.Float32, c.oldTrees("target"), c.int("n_targets", 0), c.str("aggregate_function", "SUM"), c.str("post_transform", "NONE"))
	}},
	{"TreeEnsembleClassifier", treeClassifier},
	{"TreeEnsemble", func(c *evaluation) []*Tensor {
		how := []string{"AVERAGE", "SUM", "MIN", "MAX"}[c.int("aggregate_function", 1)]
		post := []string{"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}[c.int("post_transform", 0)]
		return c.regressed(c.x(0).Type, c.newTrees(), c.int("n_targets", 0), how, post)
	}},
}

// linear returns the scores of linear models, one for each row and target, and the sums of
// the magnitudes of their terms.
func (c *evaluation) linear(targets int) (scores *Tensor, mass []float64) {
	x := c.x(0)
	rows, n := 1, x.Shape[len(x.Shape)-1]
	if len(x.Shape) == 2 {
		rows = x.Shape[0]
	}
	by := c.attr("coefficients").Floats
	scores = zeros(graph.Float32, []int{rows, targets})
	mass = make([]float64, rows*targets)
	for row := range rows {
		for k := range targets {
			at := row*targets + k
			if a := c.attr("intercepts"); a != nil && len(a.Floats) > 0 {
				scores.F[at], mass[at] = float64(a.Floats[k]), math.Abs(float64(a.Floats[k]))
			}
			for i := range n {
				term := float64(by[k*n+i]) * x.real(row*n+i)
				scores.F[at] += term
				mass[at] += math.Abs(term)
			}
		}
	}
	return scores, mass
}
