package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// classical lists the operators of ai.onnx.ml.
var classical = family{"ai.onnx.ml", []Op{
	{Name: "ArrayFeatureExtractor", Class: Move, Infer: arrayFeatureExtractor},
	{Name: "Binarizer", Class: Elementwise, Infer: mlSame, Inplace: overFirst, FLOPs: perElement(1)},
	{Name: "CastMap", Class: Box, Infer: castMap},
	{Name: "CategoryMapper", Class: Elementwise, Infer: categoryMapper, Inplace: overFirst},
	{Name: "DictVectorizer", Class: Box, Infer: dictVectorizer},
	{Name: "FeatureVectorizer", Class: Move, Infer: featureVectorizer},
	{Name: "Imputer", Class: Other, Infer: mlSame, Inplace: overFirst},
	{Name: "LabelEncoder", Class: Elementwise, Infer: labelEncoder, Inplace: overFirst},
	{Name: "LinearClassifier", Class: Product, Infer: classifier("classlabels_ints", linearScores)},
	{Name: "LinearRegressor", Class: Product, Infer: regressor("targets", 1)},
	{Name: "Normalizer", Class: Norm, Infer: mlFloats, Inplace: overFirst, FLOPs: perElement(3)},
	{Name: "OneHotEncoder", Class: Scatter, Infer: oneHotEncoder},
	{Name: "SVMClassifier", Class: Product, Infer: classifier("classlabels_ints", svmScores)},
	{Name: "SVMRegressor", Class: Product, Infer: svmRegressor},
	{Name: "Scaler", Class: Other, Infer: mlFloats, Inplace: overFirst, FLOPs: perElement(2)},
	{Name: "TreeEnsemble", Class: Other, Infer: treeEnsemble},
	{Name: "TreeEnsembleClassifier", Class: Other, Infer: classifier("classlabels_int64s", labelScores)},
	{Name: "TreeEnsembleRegressor", Class: Other, Infer: regressor("n_targets", 0)},
	{Name: "ZipMap", Class: Box, Infer: zipMap},
}}

// mlSame: output 0 has the type of input 0.
func mlSame(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	c.SetType(0, c.In[0].Type)
	return nil
}

// mlAs: output 0 has the shape of input 0 and another element type.
func mlAs(c *Call, elem graph.DType) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	t := c.In[0].Type
	t.Kind, t.Elem = graph.KindTensor, elem
	c.SetType(0, t)
	return nil
}

func mlFloats(c *Call) error { return mlAs(c, graph.Float32) }

// arrayFeatureExtractor selects along the last axis; a vector counts as one row.
func arrayFeatureExtractor(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	if err := c.MinRank(0, 1); err != nil {
		return err
	}
	a, picked := c.In[0], elements(c.In[1].Type)
	switch {
	case !a.Ranked:
		c.SetUnranked(0, a.Elem)
	case len(a.Shape) == 1:
		c.Set(0, a.Elem, []graph.Dim{1, picked})
	default:
		c.Set(0, a.Elem, with(a.Shape, len(a.Shape)-1, picked))
	}
	return nil
}

// castMap makes a row of the map's values: as many as it has or, in the sparse
// form, max_map.
func castMap(c *Call) error {
	elem, err := c.OneOf("cast_to", "TO_FLOAT", "TO_FLOAT", "TO_STRING", "TO_INT64")
	if err != nil {
		return err
	}
	n := graph.Unknown
	if c.Str("map_form", "DENSE") == "SPARSE" {
		most, err := c.Positive("max_map", 1)
		if err != nil {
			return err
		}
		n = graph.Dim(most)
	}
	kinds := map[string]graph.DType{"TO_FLOAT": graph.Float32, "TO_STRING": graph.String, "TO_INT64": graph.Int64}
	c.Set(0, kinds[elem], []graph.Dim{1, n})
	return nil
}

// categoryMapper turns strings into integers and integers into strings.
func categoryMapper(c *Call) error {
	switch c.Arg(0).Elem {
	case graph.String:
		return mlAs(c, graph.Int64)
	case graph.Int64:
		return mlAs(c, graph.String)
	}
	return mlAs(c, graph.Undefined)
}

// dictVectorizer makes a row with one value per word of the vocabulary. The
// element type is that of the map's values, if it is known.
func dictVectorizer(c *Call) error {
	if err := c.Need(1); err != nil {
		return err
	}
	words := 0
	if a := c.Node.Attr("string_vocabulary"); a != nil {
		words = len(a.Strings)
	} else {
		words = len(c.Ints("int64_vocabulary"))
	}
	elem := graph.Undefined
	if of := c.In[0].Of; of != nil && of.Kind == graph.KindTensor {
		elem = of.Elem // of the map's values
	}
	c.Set(0, elem, []graph.Dim{1, graph.Dim(words)})
	return nil
}

// featureVectorizer concatenates the inputs' features, inputdimensions of each.
func featureVectorizer(c *Call) error {
	if err := c.Tensors(max(len(c.In), 1)); err != nil {
		return err
	}
	stated := c.Ints("inputdimensions")
	if len(stated) > 0 && len(stated) != len(c.In) {
		return c.Errf("inputdimensions has %d values, expected %d, one per input", len(stated), len(c.In))
	}
	rows, total := graph.Unknown, graph.Dim(0)
	for i := range c.In {
		if err := c.MinRank(i, 1); err != nil {
			return err
		}
		row, n := graph.Dim(1), c.DimOf(i, -1)
		if c.In[i].Rank() != 1 {
			row = c.DimOf(i, 0)
		}
		if c.In[i].Ranked && len(c.In[i].Shape) > 2 { // all axes but the first are features
			n = 1
			for _, d := range c.In[i].Shape[1:] {
				var err error
				if n, err = c.times(n, d); err != nil {
					return err
				}
			}
		}
		rows = TakeDim(rows, row)
		if len(stated) > 0 {
			if stated[i] < 0 {
				return c.Errf("inputdimensions[%d] is %d, expected a length", i, stated[i])
			}
			n = graph.Dim(stated[i])
		}
		total = AddDims(total, n)
	}
	c.Set(0, graph.Float32, []graph.Dim{rows, total})
	return nil
}

// labelEncoder maps each element. Version 1 maps between strings and integers;
// from version 2 on the attribute with the values determines their type.
func labelEncoder(c *Call) error {
	if c.Version < 2 {
		return categoryMapper(c)
	}
	elem := graph.Undefined
	switch a := c.Node.Attr("values_tensor"); {
	case a != nil && a.Tensor != nil:
		elem = a.Tensor.Type
	case c.HasAttr("values_strings"):
		elem = graph.String
	case c.HasAttr("values_int64s"):
		elem = graph.Int64
	case c.HasAttr("values_floats"):
		elem = graph.Float32
	default:
		return c.Errf("values_* is missing: expected the values to map to")
	}
	return mlAs(c, elem)
}

// oneHotEncoder appends an axis with one position per category.
func oneHotEncoder(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	n := len(c.Ints("cats_int64s"))
	if a := c.Node.Attr("cats_strings"); a != nil && len(a.Strings) > 0 {
		n = len(a.Strings)
	}
	if n == 0 {
		return c.Errf("cats_int64s and cats_strings are empty: expected the categories")
	}
	if !c.In[0].Ranked {
		c.SetUnranked(0, graph.Float32)
		return nil
	}
	c.Set(0, graph.Float32, append(slices.Clone(c.In[0].Shape), graph.Dim(n)))
	return nil
}

// rowsOf is the number of samples of input 0: [rows features], or one row.
func rowsOf(c *Call) graph.Dim {
	if c.In[0].Ranked && len(c.In[0].Shape) < 2 {
		return 1
	}
	return c.DimOf(0, 0)
}

// classifier returns the Infer of an operator with two outputs: the label of each
// row, a string or an integer, and its scores, whose number the function scores
// computes from the number of labels.
func classifier(ints string, scores func(c *Call, labels int) graph.Dim) func(c *Call) error {
	return func(c *Call) error {
		if err := c.Tensors(1); err != nil {
			return err
		}
		if err := c.WantRank(0, 1, 2); err != nil {
			return err
		}
		elem, labels := graph.Int64, len(c.Ints(ints))
		if a := c.Node.Attr("classlabels_strings"); a != nil && len(a.Strings) > 0 {
			elem, labels = graph.String, len(a.Strings)
		}
		if labels == 0 {
			return c.Errf("%s and classlabels_strings are empty: expected the labels", ints)
		}
		c.Set(0, elem, []graph.Dim{rowsOf(c)})
		c.Set(1, graph.Float32, []graph.Dim{rowsOf(c), scores(c, labels)})
		return nil
	}
}

// labelScores is a score per label.
func labelScores(_ *Call, labels int) graph.Dim { return graph.Dim(labels) }

// linearScores: one score per intercept, but one per label for a binary
// classification with a single intercept.
func linearScores(c *Call, labels int) graph.Dim {
	if a := c.Node.Attr("intercepts"); a != nil && len(a.Floats) > 1 {
		return graph.Dim(len(a.Floats))
	}
	return graph.Dim(max(labels, 2))
}

// svmScores: a probability per class or, without probabilities, a vote per pair
// of classes.
func svmScores(c *Call, labels int) graph.Dim {
	if a := c.Node.Attr("prob_a"); a != nil && len(a.Floats) > 0 || labels <= 2 || len(c.Ints("vectors_per_class")) == 0 {
		return graph.Dim(max(labels, 2))
	}
	return graph.Dim(labels) * graph.Dim(labels-1) / 2
}

// regressor: [rows targets].
func regressor(attr string, otherwise int64) func(c *Call) error {
	return func(c *Call) error {
		if err := c.Tensors(1); err != nil {
			return err
		}
		if err := c.WantRank(0, 1, 2); err != nil {
			return err
		}
		targets, err := c.Positive(attr, otherwise)
		if err != nil {
			return err
		}
		c.Set(0, graph.Float32, []graph.Dim{rowsOf(c), graph.Dim(targets)})
		return nil
	}
}

func svmRegressor(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	if err := c.WantRank(0, 1, 2); err != nil {
		return err
	}
	c.Set(0, graph.Float32, []graph.Dim{rowsOf(c), 1})
	return nil
}

// treeEnsemble covers TreeEnsemble, which keeps the input's element type.
func treeEnsemble(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	if err := c.WantRank(0, 2); err != nil {
		return err
	}
	targets, err := c.Positive("n_targets", 0)
	if err != nil {
		return err
	}
	c.Set(0, c.In[0].Elem, []graph.Dim{c.DimOf(0, 0), graph.Dim(targets)})
	return nil
}

// zipMap: a sequence of maps, one per row, from labels to the row's elements.
func zipMap(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	labels := graph.Int64
	if a := c.Node.Attr("classlabels_strings"); a != nil && len(a.Strings) > 0 {
		labels = graph.String
	}
	one := graph.TensorOf(c.In[0].Elem)
	c.SetType(0, graph.Type{Kind: graph.KindSequence, Of: &graph.Type{Kind: graph.KindMap, Key: labels, Of: &one}})
	return nil
}
