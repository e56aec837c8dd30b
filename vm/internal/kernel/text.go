package kernel

import (
	"fmt"
	"iter"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// texts lists the operators on strings, and on sequences of words.
var texts = family{"", []Kernel{
	{Name: "RegexFullMatch", Make: makeRegexFullMatch},
	{Name: "StringConcat", Make: makeStringConcat},
	{Name: "StringNormalizer", Make: makeStringNormalizer, Finds: true},
	{Name: "StringSplit", Make: makeStringSplit, Finds: true},
	{Name: "TfIdfVectorizer", Make: makeTfIdfVectorizer},
}}

// contribTexts lists ONNX Runtime's operators on strings.
var contribTexts = family{"com.microsoft", []Kernel{
	{Name: "Tokenizer", Make: makeTokenizer, Finds: true},
}}

// text returns element i of a string tensor.
func (c *Invocation) text(t *Tensor, i int) string { return c.textOf(data[uint64](t)[i]) }

// textOf returns the string that an element stands for.
func (c *Invocation) textOf(element uint64) string {
	s, err := c.Runtime.Text(element)
	if err != nil {
		form.Refuse(err)
	}
	return s
}

// element returns the element that stands for a string.
func (c *Invocation) element(text string) uint64 {
	e, err := c.Runtime.Element(text)
	if err != nil {
		form.Refuse(err)
	}
	return e
}

// compose is element for a string of at most the given bytes, which is made only if there is
// memory for it.
func (c *Invocation) compose(bytes int, make func() string) uint64 {
	e, err := c.Runtime.Compose(bytes, make)
	if err != nil {
		form.Refuse(err)
	}
	return e
}

// onStrings fails unless the inputs are strings.
func (c *Invocation) onStrings() error {
	for i, t := range c.In {
		if t != nil && t.Type != graph.String {
			return fmt.Errorf("input %d has elements of type %v, expected strings", i, t.Type)
		}
	}
	return nil
}

func makeStringConcat(c *Invocation) (Run, error) {
	if err := c.onStrings(); err != nil {
		return nil, err
	}
	return loopsOf(func(left, right uint64) uint64 {
		a, b := c.textOf(left), c.textOf(right)
		return c.compose(len(a)+len(b), func() string { return a + b })
	}).run(c)
}

// makeRegexFullMatch tests whether the whole of each string matches the pattern.
func makeRegexFullMatch(c *Invocation) (Run, error) {
	if err := c.onStrings(); err != nil {
		return nil, err
	}
	pattern := c.Str("pattern", "")
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, fmt.Errorf("pattern %q: %w", graph.Short(pattern), err)
	}
	whole, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", graph.Short(pattern), err)
	}
	return rowwise(c, perElement1(func(a uint64) bool { return whole.MatchString(c.textOf(a)) }))
}

// makeStringNormalizer removes the stop words and changes the case of the others. One
// empty string is left if all words are removed.
func makeStringNormalizer(c *Invocation) (Run, error) {
	if err := c.onStrings(); err != nil {
		return nil, err
	}
	in, out := c.In[0], c.Out[0]
	var change func(s string) string
	switch action := c.Str("case_change_action", "NONE"); action {
	case "NONE":
	case "LOWER":
		change = strings.ToLower
	case "UPPER":
		change = strings.ToUpper
	default:
		return nil, fmt.Errorf("case_change_action is %q, expected NONE, LOWER or UPPER", graph.Short(action))
	}
	fold := strings.ToLower
	if c.Int("is_case_sensitive", 0) != 0 {
		fold = func(s string) string { return s }
	}
	list := c.Strings("stopwords")
	stop := make(map[string]bool, len(list))
	longest := 0
	for _, w := range list {
		stop[fold(w)] = true
		longest = max(longest, len(fold(w)))
	}
	kept := tableOf[uint64](c, max(in.Len(), 1))
	return func(*work.Pool) error {
		n := 0
		m := c.Meter()
		for i := range in.Len() {
			s := c.text(in, i)
			m.Add(8 + len(s))
			// A longer string has more characters than any stop word has bytes.
			if len(s) <= utf8.UTFMax*longest && stop[fold(s)] {
				continue
			}
			if kept[n] = data[uint64](in)[i]; change != nil {
				// A byte becomes three at most: one that is no UTF-8.
				kept[n] = c.compose(mul(3, len(s)), func() string { return change(s) })
			}
			n++
		}
		if n == 0 {
			kept[0], n = 0, 1
		}
		shape := slices.Clone(in.Shape)
		shape[len(shape)-1] = n
		if !slices.Equal(out.Shape, shape) {
			if err := c.Runtime.Resize(0, shape); err != nil {
				return err
			}
		}
		copy(data[uint64](out), kept[:n])
		return nil
	}, nil
}

// makeStringSplit cuts each string at a delimiter, or at white space if that is empty.
// The parts of the other strings are filled up with empty strings to the longest list.
func makeStringSplit(c *Invocation) (Run, error) {
	if err := c.onStrings(); err != nil {
		return nil, err
	}
	in, out := c.In[0], c.Out[0]
	by, most := c.Str("delimiter", ""), c.Int("maxsplit", -1)
	if most < 0 {
		most = math.MaxInt
	}
	counts := tableOf[int64](c, in.Len())
	return func(*work.Pool) error {
		longest := 0
		m := c.Meter()
		for i := range counts {
			n := 0
			s := c.text(in, i)
			m.Add(8 + len(s))
			for range splits(s, by, most) {
				n++
			}
			counts[i] = int64(n)
			longest = max(longest, n)
		}
		shape := append(slices.Clone(in.Shape), longest)
		if !slices.Equal(out.Shape, shape) {
			if err := c.Runtime.Resize(0, shape); err != nil {
				return err
			}
		}
		if c.HasOut(1) {
			copyAll(c, data[int64](c.Out[1]), counts)
		}
		d := data[uint64](out)
		fillAll(c, d, 0)
		for i := range counts {
			s, k := c.text(in, i), i*longest
			m.Add(8 + len(s))
			for part := range splits(s, by, most) {
				d[k] = c.element(part)
				k++
			}
		}
		return nil
	}, nil
}

// splits yields the parts of a string, after at most most cuts.
func splits(s, by string, most int) iter.Seq[string] {
	return func(yield func(part string) bool) {
		if by == "" {
			s = strings.TrimFunc(s, unicode.IsSpace)
			for ; s != ""; most-- {
				end := strings.IndexFunc(s, unicode.IsSpace)
				if end < 0 || most == 0 {
					yield(s)
					return
				}
				if !yield(s[:end]) {
					return
				}
				s = strings.TrimLeftFunc(s[end:], unicode.IsSpace)
			}
			return
		}
		for ; most > 0; most-- {
			part, rest, cut := strings.Cut(s, by)
			if !cut {
				break
			}
			if !yield(part) {
				return
			}
			s = rest
		}
		yield(s)
	}
}

// makeTfIdfVectorizer counts the occurrences of the pool's n-grams in each row, with up
// to max_skip_count words skipped between two words of an n-gram.
func makeTfIdfVectorizer(c *Invocation) (Run, error) {
	x, out := c.In[0], c.Out[0]
	read, numbers := form.IntReader(x.Type)
	pool, starts, places := c.Ints("pool_int64s"), c.Ints("ngram_counts"), c.Ints("ngram_indexes")
	if x.Type == graph.String {
		read, numbers = form.IntReader(graph.Int64)
		pool = tableOf[int](c, len(c.Strings("pool_strings")))
		for i, w := range c.Strings("pool_strings") {
			pool[i] = int(c.element(w))
		}
	}
	if !numbers || out.Type != graph.Float32 {
		return nil, unsupported(x.Type)
	}
	var weights []float64
	if a := c.Node.Attr("weights"); a != nil {
		for _, f := range a.Floats {
			weights = append(weights, float64(f))
		}
	}
	mode := c.Str("mode", "TF")
	least, most, skips := c.Int("min_gram_length", 1), c.Int("max_gram_length", 1), c.Int("max_skip_count", 0)
	if pool == nil {
		return nil, fmt.Errorf("no n-grams of %v: expected those in pool_int64s or pool_strings", x.Type)
	}
	n, columns := x.Shape[x.Rank()-1], out.Shape[out.Rank()-1]
	// The n-grams by length. Their longest length is that of ngram_counts.
	most = min(most, len(starts))
	grams := make([]map[string]int, most+1)
	next := 0
	for length := 1; length <= len(starts); length++ {
		from, to := starts[length-1], len(pool)
		if length < len(starts) {
			to = starts[length]
		}
		list := map[string]int{}
		for ; from < to; from += length {
			list[gram(pool[from:from+length], 1, length)] = next
			next++
		}
		if length <= most {
			grams[length] = list
		}
	}
	line := numbersOf[int](c, n)
	return func(*work.Pool) error {
		d := data[float32](out)
		fillAll(c, d, 0)
		m := c.Meter()
		for row := 0; n > 0 && row < x.Len()/n; row++ {
			for i := range line {
				m.Add(1)
				line[i] = int(read(x.At, row*n+i))
			}
			to := d[row*columns : (row+1)*columns]
			for length := least; length <= most; length++ {
				// An n-gram that is longer than the line does not occur.
				for skip := 0; skip <= skips && (length-1)*(skip+1) < n; skip++ {
					if length == 1 && skip > 0 || grams[length] == nil {
						break
					}
					for i := 0; i+(length-1)*(skip+1) < n; i++ {
						m.Add(8 * length)
						k, known := grams[length][gram(line[i:], skip+1, length)]
						switch {
						case !known:
						case mode == "IDF":
							to[places[k]] = 1
						default:
							to[places[k]]++
						}
					}
				}
			}
			if mode != "TF" && weights != nil {
				for k, p := range places {
					m.Add(1)
					to[p] *= float32(weights[k])
				}
			}
		}
		return nil
	}, nil
}

// gram returns the map key of some words of a line, which are step apart.
func gram(line []int, step, length int) string {
	key := make([]byte, 0, 8*length)
	for i := range length {
		for v, b := uint64(line[i*step]), 0; b < 8; b++ {
			key = append(key, byte(v>>(8*b)))
		}
	}
	return string(key)
}
