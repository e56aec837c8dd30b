package kernel

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// classical lists the operators of ai.onnx.ml.
var classical = family{"ai.onnx.ml", []Kernel{
	{Name: "ArrayFeatureExtractor", Make: makeFeatures, Half: true},
	{Name: "Binarizer", Make: makeBinarizer},
	{Name: "CategoryMapper", Make: makeCategoryMapper},
	{Name: "FeatureVectorizer", Make: makeFeatureVectorizer},
	{Name: "Imputer", Make: makeImputer},
	{Name: "LabelEncoder", Make: makeLabelEncoder},
	{Name: "LinearClassifier", Make: makeLinearClassifier},
	{Name: "LinearRegressor", Make: makeLinearRegressor},
	{Name: "Normalizer", Make: makeNormalizer},
	{Name: "OneHotEncoder", Make: makeOneHotEncoder},
	{Name: "Scaler", Make: makeScaler},
	{Name: "SVMClassifier", Make: makeSVMClassifier},
	{Name: "SVMRegressor", Make: makeSVMRegressor},
	{Name: "TreeEnsemble", Make: makeTreeEnsemble},
	{Name: "TreeEnsembleClassifier", Make: makeTreeClassifier},
	{Name: "TreeEnsembleRegressor", Make: makeTreeRegressor},
}}

// samples is a table of features: one row per sample. A vector is one row.
type samples struct {
	in             *Tensor
	rows, features int
	get            func(row, feature int) float64
}

func (c *Invocation) samples() (samples, error) {
	in := c.In[0]
	get, ok := form.Reader(in.Type)
	if !ok {
		return samples{}, unsupported(in.Type)
	}
	if in.Rank() != 1 && in.Rank() != 2 {
		return samples{}, fmt.Errorf("input 0 has shape %v, expected [rows features]", in.Shape)
	}
	s := samples{in: in, rows: 1, features: in.Shape[in.Rank()-1]}
	if in.Rank() == 2 {
		s.rows = in.Shape[0]
	}
	s.get = func(row, feature int) float64 { return get(in.At, row*s.features+feature) }
	return s, nil
}

// floats returns a list of real numbers, or nil.
func (c *Invocation) floats(name string) []float32 {
	if a := c.Node.Attr(name); a != nil {
		return a.Floats
	}
	return nil
}

// realList returns a list of real numbers, which an attribute or a tensor of that name
// holds, or nil. A tensor may have the suffix _as_tensor.
func (c *Invocation) realList(name string) ([]float64, error) {
	list := c.floats(name)
	for _, a := range []*graph.Attr{c.Node.Attr(name), c.Node.Attr(name + "_as_tensor")} {
		if a == nil || a.Tensor == nil {
			continue
		}
		t, err := c.Runtime.Constant(a.Tensor)
		if err != nil {
			return nil, err
		}
		get, ok := form.Reader(t.Type)
		switch {
		case !ok || !t.Type.Floating():
			return nil, fmt.Errorf("%s is %v%v, expected a list of reals", a.Name, t.Type, t.Shape)
		case len(list) > 0:
			return nil, fmt.Errorf("%s and %s are both present, expected one of them", name, a.Name)
		}
		reals := tableOf[float64](c, t.Len())
		for i := range reals {
			reals[i] = get(t.At, i)
		}
		return reals, nil
	}
	if len(list) == 0 {
		return nil, nil
	}
	reals := tableOf[float64](c, len(list))
	for i, x := range list {
		reals[i] = float64(x)
	}
	return reals, nil
}

// eachSample runs a function for all rows, cost elements of work each.
func eachSample(c *Invocation, rows, cost int, do func(m *form.Meter, row int)) Run {
	return eachSampleIn(c, rows, cost, 0, func(m *form.Meter, row int, _ unsafe.Pointer) { do(m, row) })
}

// eachSampleIn is eachSample with some bytes of scratch, whose content is undefined.
func eachSampleIn(c *Invocation, rows, cost, bytes int, do func(m *form.Meter, row int, scratch unsafe.Pointer)) Run {
	group := max(1, grain/max(cost, 1))
	off := 0
	if bytes > 0 {
		off = c.Each(bytes)
	}
	return func(w *work.Pool) error {
		w.For(cuts(rows, group), func(p, worker int) {
			m := c.Meter()
			var scratch unsafe.Pointer
			if bytes > 0 {
				scratch = w.Each(worker, off)
			}
			for row := p * group; row < min((p+1)*group, rows); row++ {
				m.Add(1)
				do(&m, row, scratch)
			}
		})
		return nil
	}
}

// transform is the function that turns the scores of a sample into its results.
func transform[T float32 | float64](name string) (func(scores []T), error) {
	switch name {
	case "NONE":
		return func([]T) {}, nil
	case "LOGISTIC":
		return func(scores []T) {
			for i, x := range scores {
				scores[i] = logistic(x)
			}
		}, nil
	case "PROBIT":
		return func(scores []T) {
			for i, x := range scores {
				scores[i] = T(probit(float64(x)))
			}
		}, nil
	case "SOFTMAX":
		return func(scores []T) {
			if len(scores) == 0 {
				return
			}
			top, sum := slices.Max(scores), 0.0
			for i, x := range scores {
				e := math.Exp(float64(x - top))
				scores[i] = T(e)
				sum += e
			}
			for i := range scores {
				scores[i] = T(float64(scores[i]) / sum)
			}
		}, nil
	case "SOFTMAX_ZERO": // a softmax of the scores that are not 0
		return func(scores []T) {
			top, sum := T(math.Inf(-1)), 0.0
			for _, x := range scores {
				top = max(top, x)
			}
			for _, x := range scores {
				if x != 0 {
					sum += math.Exp(float64(x - top))
				}
			}
			for i, x := range scores {
				if x != 0 {
					scores[i] = T(math.Exp(float64(x-top)) / sum)
				}
			}
		}, nil
	default:
		return nil, unsupportedf("post_transform %q", graph.Short(name))
	}
}

// postTransform is the name of the transform.
func (c *Invocation) postTransform() string { return c.Str("post_transform", "NONE") }

func logistic[T float32 | float64](x T) T { return T(1 / (1 + math.Exp(-float64(x)))) }

// probit is about the quantile of the normal distribution: Winitzki's approximation of the
// inverse error function (2008, a = 0.147), off by some thousandths. It stands for the
// exact one since ONNX's own evaluator and ONNX Runtime compute it.
func probit(p float64) float64 {
	const a = 0.147
	x := 2*p - 1
	log := math.Log((1 - x) * (1 + x))
	half := 2/(math.Pi*a) + log/2
	return math.Copysign(math.Sqrt2*math.Sqrt(math.Sqrt(half*half-log/a)-half), x)
}

// makeFeatures copies the features with the given indices, in their order.
func makeFeatures(c *Invocation) (Run, error) {
	in, out := c.In[0], c.Out[0]
	width, err := form.WholeBytes(in)
	if err != nil {
		return nil, err
	}
	n := in.Shape[in.Rank()-1]
	rows := count(in.Shape[:in.Rank()-1])
	return func(*work.Pool) error {
		list := data[int64](c.In[1])
		for _, i := range list {
			if i < 0 || i >= int64(n) {
				return fmt.Errorf("index %d, expected one of %d features", i, n)
			}
		}
		m := c.Meter()
		for row := range rows {
			for k, i := range list {
				m.Add(1)
				moveRow(elementAt(out, row*len(list)+k, width), elementAt(in, row*n+int(i), width), 1, 1, 1, width)
			}
		}
		return nil
	}, nil
}

// makeOneHotEncoder writes 1 at the category of each element, and 0 at all others.
func makeOneHotEncoder(c *Invocation) (Run, error) {
	in := c.In[0]
	list, err := c.list("cats")
	if err != nil {
		return nil, err
	}
	if list == nil || (in.Type == graph.String) != (list.Type == graph.String) {
		return nil, fmt.Errorf("no categories of %v: expected those in cats_int64s or cats_strings", in.Type)
	}
	get, ok := form.Reader(in.Type)
	if in.Type == graph.String {
		get, ok = func(at unsafe.Pointer, i int) float64 { return float64(*(*uint64)(unsafe.Add(at, 8*i))) }, true
	}
	if !ok {
		return nil, unsupported(in.Type)
	}
	n := list.Len()
	places := make(map[int64]int, n)
	for i := n - 1; i >= 0; i-- {
		places[data[int64](list)[i]] = i // of equal ones, the first
	}
	lenient := c.Int("zeros", 1) != 0
	return func(*work.Pool) error {
		d := data[float32](c.Out[0])
		fillAll(c, d, 0)
		m := c.Meter()
		for i := range in.Len() {
			m.Add(4)
			category := int64(get(in.At, i))
			if k, known := places[category]; known {
				d[i*n+k] = 1
			} else if !lenient && in.Type == graph.String {
				return fmt.Errorf("element %d is %q, expected one of %d categories", i, graph.Short(c.text(in, i)), n)
			} else if !lenient {
				return fmt.Errorf("element %d is %d, expected one of %d categories", i, category, n)
			}
		}
		return nil
	}, nil
}

// makeFeatureVectorizer puts the features of all inputs into one row for each sample. An
// input that has fewer features than inputdimensions says is filled up with zeros.
func makeFeatureVectorizer(c *Invocation) (Run, error) {
	rows, total := c.Out[0].Shape[0], c.Out[0].Shape[1]
	wanted := c.Ints("inputdimensions")
	type block struct {
		get        func(i int) float64
		has, wants int
	}
	blocks := make([]block, len(c.In))
	sum := 0
	for i, in := range c.In {
		get, ok := form.Reader(in.Type)
		if !ok {
			return nil, unsupported(in.Type)
		}
		b := &blocks[i]
		b.get = func(i int) float64 { return get(in.At, i) }
		if in.Rank() == 1 && rows != 1 || in.Rank() > 1 && in.Shape[0] != rows {
			return nil, fmt.Errorf("input %d has shape %v, expected %d rows", i, in.Shape, rows)
		}
		b.has = in.Len() / max(rows, 1)
		b.wants = b.has
		if len(wanted) == len(c.In) {
			b.wants = wanted[i]
		}
		sum += b.wants
	}
	if sum != total {
		return nil, fmt.Errorf("shape %v, expected %d features", c.Out[0].Shape, sum)
	}
	return eachSample(c, rows, total, func(m *form.Meter, row int) {
		m.Add(total)
		d := data[float32](c.Out[0])[row*total : (row+1)*total]
		for i := range blocks {
			b := &blocks[i]
			for k := range b.wants {
				d[k] = 0
				if k < b.has {
					d[k] = float32(b.get(row*b.has + k))
				}
			}
			d = d[b.wants:]
		}
	}), nil
}

// makeScaler computes (x - offset) · scale. Both have one number for each feature, or one
// for all.
func makeScaler(c *Invocation) (Run, error) {
	s, err := c.samples()
	if err != nil {
		return nil, err
	}
	offset, scale := c.floats("offset"), c.floats("scale")
	for name, list := range map[string][]float32{"offset": offset, "scale": scale} {
		if len(list) != 1 && len(list) != s.features {
			return nil, fmt.Errorf("%s has %d numbers, expected 1 or one for each of %d features", name, len(list), s.features)
		}
	}
	of := func(list []float32, i int) float32 { return list[min(i, len(list)-1)] }
	return eachSample(c, s.rows, s.features, func(m *form.Meter, row int) {
		m.Add(s.features)
		d := data[float32](c.Out[0])[row*s.features : (row+1)*s.features]
		for i := range d {
			d[i] = (float32(s.get(row, i)) - of(offset, i)) * of(scale, i)
		}
	}), nil
}

// makeNormalizer divides each row by its maximum, by the sum of its absolute values or by
// its length; a row for which that is 0 stays.
func makeNormalizer(c *Invocation) (Run, error) {
	s, err := c.samples()
	if err != nil {
		return nil, err
	}
	norm := c.Str("norm", "MAX")
	if !slices.Contains([]string{"MAX", "L1", "L2"}, norm) {
		return nil, fmt.Errorf("norm is %q, expected MAX, L1 or L2", graph.Short(norm))
	}
	return eachSample(c, s.rows, s.features, func(m *form.Meter, row int) {
		m.Add(2 * s.features)
		by := 0.0
		if norm == "MAX" {
			by = -math.MaxFloat32 // NaN is never larger
		}
		for i := range s.features {
			switch x := s.get(row, i); {
			case norm == "L1":
				by += math.Abs(x)
			case norm == "L2":
				by += x * x
			case x > by:
				by = x
			}
		}
		if norm == "L2" {
			by = math.Sqrt(by)
		}
		if by == 0 {
			by = 1
		}
		d := data[float32](c.Out[0])[row*s.features : (row+1)*s.features]
		for i := range d {
			d[i] = float32(s.get(row, i) / by)
		}
	}), nil
}

// linear returns a function that computes the scores of a sample: a product with the
// coefficients of each target, and the target's intercept.
func (c *Invocation) linear(s samples, targets int) (func(m *form.Meter, row int, scores []float32), error) {
	by, plus := c.floats("coefficients"), c.floats("intercepts")
	if len(by) != mul(targets, s.features) {
		return nil, fmt.Errorf("coefficients has %d numbers, expected %d for %d targets and %d features", len(by), mul(targets, s.features), targets, s.features)
	}
	if len(plus) != 0 && len(plus) != targets {
		return nil, fmt.Errorf("intercepts has %d numbers, expected %d", len(plus), targets)
	}
	return func(m *form.Meter, row int, scores []float32) {
		for k := range scores {
			m.Add(s.features)
			sum := 0.0
			for i, w := range by[k*s.features : (k+1)*s.features] {
				sum += float64(w) * s.get(row, i)
			}
			if len(plus) > 0 {
				sum += float64(plus[k])
			}
			scores[k] = float32(sum)
		}
	}, nil
}

func makeLinearRegressor(c *Invocation) (Run, error) {
	s, err := c.samples()
	if err != nil {
		return nil, err
	}
	targets := c.Int("targets", 1)
	score, err := c.linear(s, targets)
	if err != nil {
		return nil, err
	}
	if c.postTransform() != "NONE" {
		return nil, unsupportedf("post_transform of a regression")
	}
	return eachSample(c, s.rows, mul(targets, s.features), func(m *form.Meter, row int) {
		score(m, row, data[float32](c.Out[0])[row*targets:(row+1)*targets])
	}), nil
}

// labels returns the elements of output 0 that name the classes: the integers of a list,
// or those that stand for strings.
func (c *Invocation) labels(name string) ([]int64, error) {
	if !c.HasOut(0) || !c.HasOut(1) {
		return nil, unsupportedf("labels without scores, or scores without labels")
	}
	words, numbers := c.Strings("classlabels_strings"), []int64(nil)
	if a := c.Node.Attr(name); a != nil {
		numbers = a.Ints
	}
	if len(words) == 0 {
		return numbers, nil
	}
	return data[int64](c.wordList(words)), nil
}

// makeLinearClassifier takes the label with the largest score. The scores are
// transformed afterwards.
func makeLinearClassifier(c *Invocation) (Run, error) {
	s, err := c.samples()
	if err != nil {
		return nil, err
	}
	labels, err := c.labels("classlabels_ints")
	if err != nil {
		return nil, err
	}
	transform, err := transform[float32](c.postTransform())
	if err != nil {
		return nil, err
	}
	classes := c.Out[1].Shape[len(c.Out[1].Shape)-1]
	if n := len(c.floats("intercepts")); n == 1 && len(labels) == 2 {
		return c.binaryLinear(s, labels)
	} else if n < 2 || n != len(labels) || n != classes {
		return nil, unsupportedf("%d intercepts and %d labels: expected two or more, as many as labels", n, len(labels))
	}
	score, err := c.linear(s, classes)
	if err != nil {
		return nil, err
	}
	return eachSample(c, s.rows, mul(classes, s.features), func(m *form.Meter, row int) {
		scores := data[float32](c.Out[1])[row*classes : (row+1)*classes]
		score(m, row, scores)
		data[int64](c.Out[0])[row] = labels[topScore(scores)]
		transform(scores)
	}), nil
}

// binaryLinear is the classifier of two labels with one score, as ONNX Runtime has it: the
// second label's if it is positive. Only LOGISTIC makes probabilities of it.
func (c *Invocation) binaryLinear(s samples, labels []int64) (Run, error) {
	score, err := c.linear(s, 1)
	if err != nil {
		return nil, err
	}
	post := c.postTransform()
	if post == "PROBIT" { // ONNX Runtime leaves one of the scores unset
		return nil, unsupportedf("post_transform PROBIT of a single score")
	}
	return eachSample(c, s.rows, s.features, func(m *form.Meter, row int) {
		scores := data[float32](c.Out[1])[2*row : 2*row+2]
		score(m, row, scores[1:])
		data[int64](c.Out[0])[row] = labels[0]
		if scores[1] > 0 {
			data[int64](c.Out[0])[row] = labels[1]
		}
		if x := scores[1]; post == "LOGISTIC" {
			scores[0], scores[1] = logistic(-x), logistic(x)
		} else {
			scores[0] = 1 - x
		}
	}), nil
}

// topScore returns the index of the first of the largest numbers.
func topScore[T float32 | float64](list []T) int {
	best := 0
	for i, x := range list {
		if x > list[best] {
			best = i
		}
	}
	return best
}
