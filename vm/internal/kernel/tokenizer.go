package kernel

import (
	"fmt"
	"iter"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// The tokens with which Tokenizer marks the start and the end of a text.
const startOfText, endOfText = "\x02", "\x03"

// tokenizer divides strings as ONNX Runtime's Tokenizer does.
type tokenizer struct {
	separators []*regexp.Regexp // each divides the tokens that the ones before it leave
	token      *regexp.Regexp   // what a token is, without separators; nil: each character
	least      int              // characters of a token
}

// makeTokenizer cuts each string into tokens: at separators, into what an expression
// matches, or into characters. Lists are filled up with pad_value to the longest one.
func makeTokenizer(c *Invocation) (Run, error) {
	if err := c.onStrings(); err != nil {
		return nil, err
	}
	t, err := tokenizerOf(c)
	if err != nil {
		return nil, err
	}
	in, out := c.In[0], c.Out[0]
	pad, mark := c.Str("pad_value", ""), c.Int("mark", 0) != 0
	counts := tableOf[int64](c, in.Len())
	return func(*work.Pool) error {
		longest := 0
		m := c.Meter()
		for i := range counts {
			s := c.text(in, i)
			if !utf8.ValidString(s) {
				return fmt.Errorf("element %d is %q, expected UTF-8", i, graph.Short(s))
			}
			n := 0
			for token := range t.tokens(s) {
				m.Add(8 + len(token))
				n++
			}
			m.Add(8 + len(s))
			counts[i] = int64(n)
			longest = max(longest, n)
		}
		if longest > 0 && mark {
			longest += 2
		}
		shape := append(slices.Clone(in.Shape), longest)
		if !slices.Equal(out.Shape, shape) {
			if err := c.Runtime.Resize(0, shape); err != nil {
				return err
			}
		}
		if longest == 0 {
			return nil
		}
		d := data[uint64](out)
		fillAll(c, d, c.element(pad))
		for i := range counts {
			s, row := c.text(in, i), d[i*longest:(i+1)*longest]
			m.Add(8 + len(s))
			k := 0
			put := func(token string) {
				row[k] = c.element(token)
				k++
			}
			if mark {
				put(startOfText)
			}
			for token := range t.tokens(s) {
				m.Add(8 + len(token))
				put(token)
			}
			if mark {
				put(endOfText)
			}
		}
		return nil
	}, nil
}

// tokenizerOf reads the attributes. Expressions are those of RE2, of which Go's are;
// as in ONNX Runtime, the longest match counts, and a dot is any character.
func tokenizerOf(c *Invocation) (t tokenizer, err error) {
	t.least = int(min(c.Int("mincharnum", 1), 1<<31))
	compile := func(name, text string) *regexp.Regexp {
		re, e := regexp.Compile("(?s)" + text)
		if e != nil {
			err = fmt.Errorf("%s %q: %w", name, graph.Short(text), e)
			return nil
		}
		re.Longest()
		return re
	}
	separators := c.Strings("separators")
	switch {
	case len(separators) == 1 && separators[0] == "":
	case len(separators) > 0:
		for _, s := range separators {
			t.separators = append(t.separators, compile("separator", s))
		}
	default:
		t.token = compile("tokenexp", c.Str("tokenexp", ""))
	}
	return t, err
}

// tokens yields the tokens of a string.
func (t tokenizer) tokens(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		switch {
		case len(t.separators) > 0:
			t.divide(s, t.separators, yield)
		case t.token != nil:
			for start, end := range matches(t.token, s) {
				if end > start && t.counts(s[start:end]) && !yield(s[start:end]) {
					return
				}
			}
		default:
			for s != "" {
				_, n := utf8.DecodeRuneInString(s)
				if !yield(s[:n]) {
					return
				}
				s = s[n:]
			}
		}
	}
}

// divide yields what lies between the matches of the first separator, divided by the
// others. A match of nothing takes the next character away, as in ONNX Runtime.
func (t tokenizer) divide(s string, by []*regexp.Regexp, yield func(string) bool) bool {
	if len(by) == 0 {
		return yield(s)
	}
	from := 0
	for start, end := range matches(by[0], s) {
		if part := s[from:start]; t.counts(part) && !t.divide(part, by[1:], yield) {
			return false
		}
		if from = end; end == start {
			_, n := utf8.DecodeRuneInString(s[end:])
			from += n
		}
	}
	part := s[from:]
	return !t.counts(part) || t.divide(part, by[1:], yield)
}

// counts reports whether a string is long enough for a token.
func (t tokenizer) counts(s string) bool {
	return s != "" && (t.least <= 1 || utf8.RuneCountInString(s) >= t.least)
}

// matches yields the places of the matches in a string, from left to right, each behind the
// one before it. Behind a match of nothing, the next character is skipped. Package regexp
// leaves out a match of nothing right behind another match, but ONNX Runtime does not. So an
// expression that matches nothing is looked for in the rest of the string, where \b and ^ see
// no character before.
func matches(re *regexp.Regexp, s string) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		if !re.MatchString("") {
			for _, m := range re.FindAllStringIndex(s, -1) {
				if !yield(m[0], m[1]) {
					return
				}
			}
			return
		}
		for from := 0; from < len(s); {
			m := re.FindStringIndex(s[from:])
			if m == nil || !yield(from+m[0], from+m[1]) {
				return
			}
			if from += m[1]; m[1] == m[0] {
				_, n := utf8.DecodeRuneInString(s[from:])
				from += n
			}
		}
	}
}
