// Package prooftest checks proofs in tests: by a checker of its own for the few rules that our
// proofs use, so that tests need no other program, and by VeriPB where that is installed.
package prooftest

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
)

// constraint is a sum of coefficients times variables that is at least a degree.
type constraint struct {
	at    map[string]int64
	least int64
}

// Check checks a proof and returns the bounds that it concludes.
func Check(opb, pbp string) (lower, upper int64, err error) {
	defer func() {
		if x := recover(); x != nil {
			fault, is := x.(fault)
			if !is {
				panic(x)
			}
			err = fault
		}
	}()
	c := &checker{objective: constraint{at: map[string]int64{}}}
	c.formula(opb)
	c.rows = len(c.all)
	return c.proof(pbp)
}

// fault is what is wrong with a proof.
type fault string

func (f fault) Error() string { return string(f) }

func failf(format string, args ...any) { panic(fault(fmt.Sprintf(format, args...))) }

type checker struct {
	objective constraint
	all       []constraint // by id, from 1 on
	rows      int
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		failf("expected a number, found %q", s)
	}
	return n
}

// plus adds, and fails if a sum has more than 63 bits.
func plus(a, b int64) int64 {
	if s := a + b; (s > a) == (b > 0) {
		return s
	}
	failf("a sum overflows")
	return 0
}

func times(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	if p := a * b; p/b == a && p != math.MinInt64 {
		return p
	}
	failf("a product overflows")
	return 0
}

// add adds a literal with a coefficient.
func (c *constraint) add(coefficient int64, lit string) {
	if name, negated := strings.CutPrefix(lit, "~"); negated {
		c.least = plus(c.least, -coefficient)
		lit, coefficient = name, -coefficient
	}
	c.at[lit] = plus(c.at[lit], coefficient)
}

// linear reads "coefficient literal ... >= number".
func linear(words []string) (c constraint) {
	c.at = map[string]int64{}
	for len(words) > 2 && words[0] != ">=" {
		c.add(number(words[0]), words[1])
		words = words[2:]
	}
	if len(words) != 2 || words[0] != ">=" {
		failf("expected a constraint, found %q", words)
	}
	c.least = plus(c.least, number(words[1]))
	return c
}

func (c *checker) formula(opb string) {
	for line := range strings.Lines(opb) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || strings.HasPrefix(words[0], "*"):
		case words[len(words)-1] != ";":
			failf("expected a line that ends in ;, found %q", line)
		case words[0] == "min:":
			for k := 1; k+1 < len(words); k += 2 {
				c.objective.add(number(words[k]), words[k+1])
			}
		default:
			c.all = append(c.all, linear(words[:len(words)-1]))
		}
	}
}

// normal returns the sum of the coefficients and the degree with literals that have positive
// coefficients.
func (c *constraint) normal() (sum, degree int64) {
	degree = c.least
	for _, a := range c.at {
		if a < 0 {
			degree, a = plus(degree, -a), -a
		}
		sum = plus(sum, a)
	}
	return sum, degree
}

// contradicts reports whether no values satisfy the constraint.
func (c *constraint) contradicts() bool {
	sum, degree := c.normal()
	return degree > sum
}

func (c *checker) get(id int64) constraint {
	if id < 0 {
		id += int64(len(c.all)) + 1
	}
	if id < 1 || id > int64(len(c.all)) {
		failf("no constraint %d", id)
	}
	return c.all[id-1]
}

// pol computes a sum in reverse Polish notation.
func (c *checker) pol(words []string) constraint {
	var stack []any // constraints and numbers
	pop := func() constraint {
		if len(stack) == 0 {
			failf("pol: the stack is empty")
		}
		x := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if id, is := x.(int64); is {
			return c.get(id)
		}
		return x.(constraint)
	}
	for _, w := range words {
		switch w {
		case "+":
			var own [2]bool // it may be changed
			for i := range own {
				if k := len(stack) - 1 - i; k >= 0 {
					_, own[i] = stack[k].(constraint)
				}
			}
			a, b := pop(), pop()
			if own[1] && (!own[0] || len(b.at) > len(a.at)) {
				a, b = b, a
			} else if !own[0] {
				a.at = maps.Clone(a.at)
			}
			a.least = plus(a.least, b.least)
			for v, n := range b.at {
				a.at[v] = plus(a.at[v], n)
			}
			stack = append(stack, a)
		case "*":
			if len(stack) == 0 {
				failf("pol: the stack is empty")
			}
			k, is := stack[len(stack)-1].(int64)
			if stack = stack[:len(stack)-1]; !is || k < 1 {
				failf("pol: expected a factor above 0")
			}
			a := pop()
			scaled := constraint{map[string]int64{}, times(a.least, k)}
			for v, n := range a.at {
				scaled.at[v] = times(n, k)
			}
			stack = append(stack, scaled)
		case "d":
			if len(stack) == 0 {
				failf("pol: the stack is empty")
			}
			k, is := stack[len(stack)-1].(int64)
			if stack = stack[:len(stack)-1]; !is || k < 1 {
				failf("pol: expected a divisor above 0")
			}
			stack = append(stack, divided(pop(), k))
		case "s":
			stack = append(stack, saturated(pop()))
		default:
			if w[0] == '-' || w[0] >= '0' && w[0] <= '9' {
				stack = append(stack, number(w))
				continue
			}
			axiom := constraint{at: map[string]int64{}}
			axiom.add(1, w)
			stack = append(stack, axiom)
		}
	}
	if len(stack) != 1 {
		failf("pol: expected one constraint, found %d", len(stack))
	}
	return pop()
}

// saturated is a constraint without coefficients above the degree.
func saturated(c constraint) constraint {
	_, degree := c.normal()
	s := constraint{at: map[string]int64{}, least: degree}
	for v, n := range c.at {
		switch n = max(min(n, degree), -degree); {
		case degree <= 0 || n == 0:
		case n < 0:
			s.least = plus(s.least, n)
			fallthrough
		default:
			s.at[v] = n
		}
	}
	return s
}

// divided is a constraint whose positive literals have coefficients, and whose degree is, divided
// and rounded up.
func divided(c constraint, by int64) constraint {
	up := func(n int64) int64 {
		if n > 0 {
			return (n-1)/by + 1
		}
		return n / by
	}
	_, degree := c.normal()
	d := constraint{at: map[string]int64{}, least: up(degree)}
	for v, n := range c.at {
		if n < 0 {
			d.at[v] = -up(-n)
			d.least = plus(d.least, d.at[v])
		} else {
			d.at[v] = up(n)
		}
	}
	return d
}

func (c *checker) proof(pbp string) (lower, upper int64, err error) {
	head, rest, found := strings.Cut(pbp, "\n")
	if !found || head != "pseudo-Boolean proof version 3.0" {
		failf("expected a proof of version 3.0, found %q", head)
	}
	var goal *constraint // of the proof by contradiction that is under way
	concluded, ended := false, false
	for line := range strings.Lines(rest) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		closed := words[len(words)-1] == ";"
		if closed {
			words = words[:len(words)-1]
		}
		switch rule := words[0]; {
		case rule == "pbc" && goal == nil && len(words) > 2 && words[len(words)-1] == "subproof" && words[len(words)-2] == ":":
			x := linear(words[1 : len(words)-2])
			goal = &x
			not := constraint{map[string]int64{}, plus(1, -x.least)}
			for v, n := range x.at {
				not.at[v] = -n
			}
			c.all = append(c.all, not)
		case !closed:
			failf("expected ; behind %q", words)
		case rule == "f" && len(words) == 2:
			if number(words[1]) != int64(c.rows) {
				failf("expected %d rows, found %s", c.rows, words[1])
			}
		case rule == "pol":
			c.all = append(c.all, c.pol(words[1:]))
		case rule == "qed" && goal != nil && len(words) == 3 && words[1] == ":":
			last := c.get(number(words[2]))
			if !last.contradicts() {
				failf("qed: no contradiction")
			}
			c.all = append(c.all, *goal)
			goal = nil
		case rule == "output" && len(words) == 2 && words[1] == "NONE":
		case rule == "conclusion" && goal == nil && !concluded:
			lower, upper = c.conclusion(words[1:])
			concluded = true
		case rule == "end" && concluded:
			ended = true
		default:
			failf("no rule for %q", words)
		}
	}
	if !ended {
		failf("the proof has no end")
	}
	return lower, upper, nil
}

// conclusion checks "BOUNDS lower : id upper : literals".
func (c *checker) conclusion(words []string) (lower, upper int64) {
	if len(words) < 6 || words[0] != "BOUNDS" || words[2] != ":" || words[5] != ":" {
		failf("expected bounds, found %q", words)
	}
	lower, upper = number(words[1]), number(words[4])
	from := c.get(number(words[3]))
	least := plus(from.least, c.objective.least) // the objective may have a constant
	for v := range c.objective.at {
		least = plus(least, min(0, plus(c.objective.at[v], -from.at[v])))
	}
	for v, n := range from.at {
		if _, is := c.objective.at[v]; !is {
			least = plus(least, min(0, -n))
		}
	}
	if least < lower {
		failf("the constraint %s proves %d, expected %d", words[3], least, lower)
	}
	values := map[string]int64{}
	for _, l := range words[6:] {
		name, negated := strings.CutPrefix(l, "~")
		values[name] = 1
		if negated {
			values[name] = 0
		}
	}
	value := func(x constraint) (sum int64) {
		for v, n := range x.at {
			one, known := values[v]
			if !known {
				failf("%s has no value", v)
			}
			sum = plus(sum, times(n, one))
		}
		return sum
	}
	for i, x := range c.all[:c.rows] {
		if value(x) < x.least {
			failf("the values break row %d", i+1)
		}
	}
	if got := plus(value(c.objective), -c.objective.least); got > upper {
		failf("the values cost %d, expected at most %d", got, upper)
	}
	return lower, upper
}
