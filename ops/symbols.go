package ops

import (
	"slices"
	"strconv"
	"strings"
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

// expr is a parsed dimension: integers, names, + - * // / % **, parentheses, Max
// and Min as exporters write them.
type expr struct {
	names    []string
	compound bool // more than a single name or number
	eval     func(symbols) (int64, bool)
}

// value evaluates the expression; false if there is none or it has no value.
func (e expr) value(s symbols) (int64, bool) {
	if e.eval == nil {
		return 0, false
	}
	return e.eval(s)
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
