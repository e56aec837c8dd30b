package ops

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// symbols maps symbolic dimensions to their lengths.
type symbols map[string]int64

// eval evaluates a symbol or an expression of symbols ("past + 1").
func (s symbols) eval(text string) (int64, bool) {
	if text == "" {
		return 0, false
	}
	if v, ok := s[text]; ok {
		return v, true
	}
	e, ok := parseExpr(text)
	if !ok || len(e.names) == 0 {
		return 0, false
	}
	return e.eval(s)
}

// bindInputs sets the lengths of every dimension of the main graph's inputs.
//
// A dimension is a plain symbol, unless its text is an expression whose names are
// all symbols of other dimensions. Plain symbols are bound first.
func (inf *inferrer) bindInputs() error {
	g := inf.model.Graph
	inf.symbols = symbols{}
	for _, name := range slices.Sorted(maps.Keys(inf.opt.Dims)) {
		if v := inf.opt.Dims[name]; v < 0 {
			return graph.Errorf("dimension %q is %d: expected a length >= 0", graph.Short(name), v)
		}
	}
	used := map[string]bool{}
	type place struct {
		t    *graph.Tensor
		axis int
		text string
	}
	var places []place
	plain := map[string]bool{}
	for name := range inf.opt.Dims {
		plain[name] = true
	}
	for _, id := range g.Inputs {
		t := g.Tensors[id]
		d := t.Declared
		if d == nil || d.Type.Kind == graph.KindUnknown || d.Type.Kind == graph.KindTensor && d.Type.Elem == graph.Undefined {
			return inputError(t, "graph input without a type: expected an element type and a shape")
		}
		if d.Type.Kind == graph.KindTensor && !d.Type.Ranked {
			return inputError(t, "graph input without a shape: expected at least its rank")
		}
		t.Type = d.Type
		t.Type.Shape = slices.Clone(d.Type.Shape)
		for axis, n := range d.Type.Shape {
			if n.Exact() || d.Type.Kind != graph.KindTensor {
				continue
			}
			text := d.Symbols[axis]
			if text == "" {
				text = fmt.Sprintf("%s[%d]", t.Name, axis)
			}
			places = append(places, place{t, axis, text})
			plain[text] = true
		}
	}
	isExpr := func(text string) (expr, bool) {
		e, ok := parseExpr(text)
		if !ok || !e.compound {
			return expr{}, false
		}
		for _, name := range e.names {
			if !plain[name] || name == text {
				return expr{}, false
			}
		}
		return e, true
	}
	// Plain symbols, then expressions of them.
	var unbound []string
	for _, expressions := range []bool{false, true} {
		for _, p := range places {
			if _, done := inf.symbols[p.text]; done {
				continue
			}
			e, compound := isExpr(p.text)
			if compound != expressions {
				continue
			}
			v, given := inf.opt.Dims[p.text]
			used[p.text] = true
			assumed := false
			if !given {
				v, assumed = 1, true
				if compound {
					var ok bool
					if v, ok = e.eval(inf.symbols); !ok || v < 0 {
						return inputError(p.t, fmt.Sprintf("axis %d is %q, which has no value >= 0 with the dimensions given: say --dim %q", p.axis, p.text, p.text+"=N"))
					}
					assumed = slices.ContainsFunc(e.names, inf.assumed)
				}
			}
			if assumed && !compound {
				unbound = append(unbound, p.text)
			}
			inf.symbols[p.text] = v
			inf.result.Dims = append(inf.result.Dims, BoundDim{p.text, v, assumed})
		}
	}
	for _, p := range places {
		p.t.Type.Shape[p.axis] = graph.Dim(inf.symbols[p.text])
	}
	if inf.opt.StrictDims && len(unbound) > 0 {
		return unboundError(unbound[0])
	}
	if inf.opt.SpareDims {
		return nil
	}
	return inf.checkGiven(used)
}

func unboundError(name string) error {
	return graph.Errorf("dimension %q is unbound: say --dim %s", name, name+"=N")
}

// checkGiven refuses a binding for a dimension that the model does not have.
func (inf *inferrer) checkGiven(used map[string]bool) error {
	declared := map[string]bool{}
	for _, t := range inf.model.Graph.Tensors {
		if t.Declared == nil {
			continue
		}
		for i, s := range t.Declared.Symbols {
			declared[s] = true
			declared[fmt.Sprintf("%s[%d]", t.Name, i)] = !t.Declared.Type.Shape[i].Exact()
		}
	}
	var unknown, have []string
	for name := range inf.opt.Dims {
		if !used[name] && !declared[name] {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	for name := range used {
		have = append(have, name)
	}
	sort.Strings(unknown)
	sort.Strings(have)
	if len(have) == 0 {
		return graph.Errorf("no dimension %q: every input of this model has a fixed shape", unknown[0])
	}
	return graph.Errorf("no dimension %q: this model has %s", unknown[0], strings.Join(have, ", "))
}

func (inf *inferrer) assumed(name string) bool {
	for _, d := range inf.result.Dims {
		if d.Name == name {
			return d.Assumed
		}
	}
	return false
}

func inputError(t *graph.Tensor, text string) error {
	e := graph.Errorf("%s", text)
	e.Tensor = t.Name
	return e
}

// bindOutput sets the open dimensions of an unknown operator's output as
// bindInputs does for inputs.
func (inf *inferrer) bindOutput(t *graph.Tensor) error {
	if t.Type.Kind != graph.KindTensor || !t.Type.Ranked || t.Declared == nil || !t.Declared.Type.Ranked {
		return nil
	}
	for axis, n := range t.Type.Shape {
		if n.Exact() {
			continue
		}
		text := t.Declared.Symbols[axis]
		if text == "" {
			text = fmt.Sprintf("%s[%d]", t.Name, axis)
		}
		v, given := inf.opt.Dims[text]
		if !given {
			if inf.opt.StrictDims {
				return unboundError(text)
			}
			v = 1
		}
		if _, done := inf.symbols[text]; !done {
			inf.symbols[text] = v
			inf.result.Dims = append(inf.result.Dims, BoundDim{text, v, !given})
		}
		t.Type.Shape[axis] = graph.Dim(v)
	}
	return nil
}

// expr is a parsed dimension: integers, names, + - * // / % **, parentheses, Max
// and Min as exporters write them.
type expr struct {
	names    []string
	compound bool // more than a single name or number
	eval     func(symbols) (int64, bool)
}

// parseExpr parses a dimension's text; false if it is not an expression.
func parseExpr(text string) (expr, bool) {
	if len(text) > 1000 {
		return expr{}, false
	}
	p := &exprParser{text: text}
	f := p.sum()
	p.space()
	if p.bad || p.at != len(text) {
		return expr{}, false
	}
	return expr{p.names, p.operators > 0, f}, true
}

type exprFunc = func(symbols) (int64, bool)

type exprParser struct {
	text      string
	at        int
	depth     int
	names     []string
	operators int
	bad       bool
}

func (p *exprParser) space() {
	for p.at < len(p.text) && p.text[p.at] == ' ' {
		p.at++
	}
}

func (p *exprParser) take(s string) bool {
	p.space()
	if strings.HasPrefix(p.text[p.at:], s) {
		p.at += len(s)
		return true
	}
	return false
}

func (p *exprParser) sum() exprFunc {
	left := p.product()
	for !p.bad {
		switch {
		case p.take("+"):
			left = p.binary(left, p.product(), addChecked)
		case p.take("-"):
			left = p.binary(left, p.product(), func(a, b int64) (int64, bool) { return addChecked(a, -b) })
		default:
			return left
		}
	}
	return left
}

func (p *exprParser) product() exprFunc {
	left := p.unary()
	for !p.bad {
		switch {
		case p.take("//"):
			left = p.binary(left, p.unary(), floorDiv)
		case p.take("/"):
			left = p.binary(left, p.unary(), func(a, b int64) (int64, bool) {
				if b == 0 || a%b != 0 {
					return 0, false
				}
				return a / b, true
			})
		case p.take("%"):
			left = p.binary(left, p.unary(), func(a, b int64) (int64, bool) {
				q, ok := floorDiv(a, b)
				return a - q*b, ok
			})
		case p.take("*"):
			left = p.binary(left, p.unary(), mulChecked)
		default:
			return left
		}
	}
	return left
}

func (p *exprParser) unary() exprFunc {
	if p.depth++; p.depth > 50 {
		p.bad = true
	}
	defer func() { p.depth-- }()
	if p.bad {
		return nil
	}
	if p.take("-") {
		p.operators++
		f := p.unary()
		return func(s symbols) (int64, bool) { v, ok := f(s); return -v, ok }
	}
	f := p.atom()
	if p.take("**") {
		f = p.binary(f, p.unary(), func(a, b int64) (int64, bool) {
			r, ok := int64(1), b >= 0 && b < 63
			for ; ok && b > 0; b-- {
				r, ok = mulChecked(r, a)
			}
			return r, ok
		})
	}
	return f
}

func (p *exprParser) atom() exprFunc {
	p.space()
	if p.take("(") {
		f := p.sum()
		p.bad = p.bad || !p.take(")")
		return f
	}
	start := p.at
	for p.at < len(p.text) && (isAlnum(p.text[p.at]) || p.at > start && p.text[p.at] == '.') {
		p.at++
	}
	word := p.text[start:p.at]
	if word == "" {
		p.bad = true
		return nil
	}
	if word[0] >= '0' && word[0] <= '9' {
		v, err := strconv.ParseInt(word, 10, 64)
		p.bad = p.bad || err != nil
		return func(symbols) (int64, bool) { return v, true }
	}
	if f := exprFuncs[word]; f != nil && p.take("(") {
		p.operators++
		args := []exprFunc{p.sum()}
		for p.take(",") {
			args = append(args, p.sum())
		}
		p.bad = p.bad || !p.take(")")
		return func(s symbols) (int64, bool) {
			vals := make([]int64, len(args))
			for i, a := range args {
				var ok bool
				if vals[i], ok = a(s); !ok {
					return 0, false
				}
			}
			return f(vals), true
		}
	}
	p.names = append(p.names, word)
	return func(s symbols) (int64, bool) { v, ok := s[word]; return v, ok }
}

var exprFuncs = map[string]func([]int64) int64{
	"Max": func(v []int64) int64 { return slices.Max(v) }, "max": func(v []int64) int64 { return slices.Max(v) },
	"Min": func(v []int64) int64 { return slices.Min(v) }, "min": func(v []int64) int64 { return slices.Min(v) },
}

func (p *exprParser) binary(a, b exprFunc, f func(a, b int64) (int64, bool)) exprFunc {
	p.operators++
	if p.bad {
		return nil
	}
	return func(s symbols) (int64, bool) {
		x, okX := a(s)
		y, okY := b(s)
		if !okX || !okY {
			return 0, false
		}
		return f(x, y)
	}
}

func isAlnum(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func addChecked(a, b int64) (int64, bool) {
	s := a + b
	return s, (s > a) == (b > 0)
}

func mulChecked(a, b int64) (int64, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	r := a * b
	return r, r/b == a
}

// floorDiv rounds towards minus infinity, as Python does.
func floorDiv(a, b int64) (int64, bool) {
	if b == 0 {
		return 0, false
	}
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q, true
}
