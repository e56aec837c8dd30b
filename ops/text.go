package ops

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// text lists the operators on strings. Strings have no fixed size, but their
// number is inferred, since other shapes may depend on it.
var text = family{"", []Op{
	{Name: "StringNormalizer", Class: Other, Infer: inferStringNormalizer},
	{Name: "StringConcat", Class: Elementwise, Infer: inferStringConcat},
	{Name: "StringSplit", Class: Other, Infer: inferStringSplit},
	{Name: "RegexFullMatch", Class: Elementwise, Infer: inferRegexFullMatch},
	{Name: "TfIdfVectorizer", Class: Other, Infer: inferTfIdfVectorizer, Check: checkTfIdfVectorizer},
}}

// contribText lists ONNX Runtime's operators on strings. Exporters of text pipelines
// write Tokenizer in front of TfIdfVectorizer.
var contribText = family{"com.microsoft", []Op{
	{Name: "Tokenizer", Class: Other, Infer: inferTokenizer, Check: checkTokenizer},
}}

// needStrings refuses input i unless it is, or may be, a tensor of strings.
func (c *Call) needStrings(i int) error {
	a := c.In[i]
	if a.Kind == graph.KindUnknown || a.Kind == graph.KindTensor && (a.Elem == graph.String || a.Elem == graph.Undefined) {
		return nil
	}
	return c.Errf("input %d%s is %v, expected strings", i, c.inputName(i), a.Type)
}

// strings reports whether input 0, which must be strings, has a rank; if it has none,
// neither has output 0, which is strings, too.
func (c *Call) strings() (ranked bool, err error) {
	if err := c.Need(1); err != nil {
		return false, err
	}
	if err := c.needStrings(0); err != nil {
		return false, err
	}
	if c.In[0].Ranked {
		return true, nil
	}
	c.SetUnranked(0, graph.String)
	return false, nil
}

// inferStringNormalizer removes stop words from a list [C] or [1,C]. If nothing
// remains, the result is one empty string.
func inferStringNormalizer(c *Call) error {
	ranked, err := c.strings()
	if !ranked {
		return err
	}
	x := c.In[0]
	if n := len(x.Shape); n != 1 && (n != 2 || !SameDim(x.Shape[0], 1)) {
		return c.BadInput(0, "[C] or [1,C]")
	}
	shape := slices.Clone(x.Shape)
	last := len(shape) - 1
	stop := c.Node.Attr("stopwords")
	words, ok := shape[last].Max()
	switch {
	case shape[last] == 0:
		shape[last] = 1
	case ok && (stop != nil && len(stop.Strings) > 0 || !shape[last].Exact()):
		shape[last] = graph.AtMost(max(words, 1))
	}
	c.Set(0, graph.String, shape)
	return nil
}

func inferStringConcat(c *Call) error {
	if err := c.Need(2); err != nil {
		return err
	}
	for i := range 2 {
		if err := c.needStrings(i); err != nil {
			return err
		}
	}
	return broadcastTo(c, graph.String, 0, 1)
}

// inferStringSplit: the parts form a new last axis, as long as the longest list;
// maxsplit bounds it. Output 1 holds the number of parts.
func inferStringSplit(c *Call) error {
	if err := c.Need(1); err != nil {
		return err
	}
	if err := c.needStrings(0); err != nil {
		return err
	}
	x := c.In[0]
	if !x.Ranked {
		c.SetUnranked(0, graph.String)
		c.SetUnranked(1, graph.Int64)
		return nil
	}
	parts := graph.Unknown
	switch most := c.Int("maxsplit", -1); {
	case slices.Contains(x.Shape, 0):
		parts = 0
	case most >= 0 && most < math.MaxInt32:
		parts = graph.AtMost(most + 1)
	}
	c.Set(0, graph.String, append(slices.Clone(x.Shape), parts))
	c.Set(1, graph.Int64, x.Shape)
	return nil
}

// inferTokenizer: the tokens of each string form a new last axis, as long as the
// longest list.
func inferTokenizer(c *Call) error {
	ranked, err := c.strings()
	if !ranked {
		return err
	}
	x := c.In[0]
	if n := len(x.Shape); n != 1 && n != 2 {
		return c.BadInput(0, "[C] or [N,C]")
	}
	tokens := graph.Unknown
	if slices.Contains(x.Shape, 0) {
		tokens = 0
	}
	c.Set(0, graph.String, append(slices.Clone(x.Shape), tokens))
	return nil
}

// checkTokenizer: separators, or an expression for tokens, are there; a token has at
// least one character, and exactly one if the only separator is empty.
func checkTokenizer(c *Call) error {
	var separators []string
	if a := c.Node.Attr("separators"); a != nil {
		separators = a.Strings
	}
	least := c.Int("mincharnum", 1)
	switch {
	case len(separators) == 0 && c.Str("tokenexp", "") == "":
		return c.Errf("expected separators or tokenexp, found neither")
	case least < 1:
		return c.Errf("mincharnum is %d, expected at least 1", least)
	case len(separators) == 1 && separators[0] == "" && least > 1:
		return c.Errf("mincharnum is %d, but each character is a token: expected 1", least)
	}
	return nil
}

func inferRegexFullMatch(c *Call) error {
	if err := c.Need(1); err != nil {
		return err
	}
	if err := c.needStrings(0); err != nil {
		return err
	}
	if !c.In[0].Ranked {
		c.SetUnranked(0, graph.Bool)
		return nil
	}
	c.Set(0, graph.Bool, c.In[0].Shape)
	return nil
}

// inferTfIdfVectorizer counts n-grams: [C] gives [K], [N,C] gives [N,K], where
// K - 1 is the largest of ngram_indexes.
func inferTfIdfVectorizer(c *Call) error {
	if err := c.Need(1); err != nil {
		return err
	}
	if err := c.needTensor(0); err != nil {
		return err
	}
	at := c.Ints("ngram_indexes")
	if len(at) == 0 {
		return c.Errf(`attribute "ngram_indexes" is missing: expected the place of each n-gram`)
	}
	if least, most := slices.Min(at), slices.Max(at); least < 0 || most >= math.MaxInt64-2 {
		return c.Errf("ngram_indexes has %d, expected places >= 0", least)
	}
	k := graph.Dim(slices.Max(at) + 1)
	x := c.In[0]
	switch x.Rank() {
	case -1:
		c.SetUnranked(0, graph.Float32)
	case 1:
		c.Set(0, graph.Float32, []graph.Dim{k})
	case 2:
		c.Set(0, graph.Float32, []graph.Dim{x.Shape[0], k})
	default:
		return c.BadInput(0, "[C] or [N,C]")
	}
	return nil
}

// checkTfIdfVectorizer: the pool is split into n-grams; each has an index, and a
// weight if there are any.
func checkTfIdfVectorizer(c *Call) error {
	if _, err := c.OneOf("mode", "TF", "TF", "IDF", "TFIDF"); err != nil {
		return err
	}
	least, most, skips := c.Int("min_gram_length", 1), c.Int("max_gram_length", 1), c.Int("max_skip_count", 0)
	if least < 1 || most < least || skips < 0 {
		return c.Errf("n-grams of %d to %d words with up to %d skips, expected 1 or more, and 0 or more skips", least, most, skips)
	}
	pool := int64(len(c.Ints("pool_int64s")))
	if a := c.Node.Attr("pool_strings"); a != nil && pool == 0 {
		pool = int64(len(a.Strings))
	}
	starts, places := c.Ints("ngram_counts"), int64(len(c.Ints("ngram_indexes")))
	grams := int64(0)
	for k, from := range starts {
		to := pool
		if k+1 < len(starts) {
			to = starts[k+1]
		}
		length := int64(k + 1)
		if from < 0 || to < from || to > pool || (to-from)%length != 0 {
			return c.Errf("ngram_counts[%d] is %d, and what follows %d, expected a multiple of %d words in a pool of %d", k, from, to, length, pool)
		}
		grams += (to - from) / length
	}
	if grams > places {
		return c.Errf("ngram_indexes has %d places, expected one for each of %d n-grams", places, grams)
	}
	if a := c.Node.Attr("weights"); a != nil && int64(len(a.Floats)) != places {
		return c.Errf("weights has %d numbers, expected %d as ngram_indexes has", len(a.Floats), places)
	}
	return nil
}
