package ops

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// Dimensions that nobody binds are taken as 1. If shapes then contradict each other,
// the assumption may be at fault: settle looks for lengths that others force, and
// names the dimensions that matter.

// settle is called after an inference that failed within the graph. If an unbound
// dimension must be equal to a bound one, it returns the inference with that
// length. Exporters such as tf2onnx name each axis by itself, even where two must be
// equal. Otherwise the error lists the unbound dimensions that it depends on.
//
// It repeats the inference, but not if that takes too much work.
func (inf *inferrer) settle(err error) (*inferrer, error) {
	s := &settler{inf: inf, left: min(maxAttempts, maxAttempted/inf.work()), err: err.Error()}
	lengths := s.force()
	if lengths == nil {
		err = s.explain(err)
	}
	again := newInferrer(inf.model, inf.opt)
	again.taken, again.forced = lengths, lengths != nil
	if failed := again.run(); failed != nil {
		return again, err
	}
	for _, name := range inf.unbound {
		if n, ok := lengths[name]; ok {
			again.warnf("dimension %q is unbound: taken as %d, like %s, because the shapes contradict each other otherwise (say --dim %s=N)", graph.Short(name), n, s.named(n), graph.Short(name))
		}
	}
	return again, nil
}

// Limits on the work of settle: the attempts, and about how many nodes and tensors
// they infer together.
const (
	maxAttempts  = 200
	maxAttempted = 1_000_000
)

// work is the number of nodes and tensors that an inference visited.
func (inf *inferrer) work() int {
	return 1 + len(inf.model.Graph.Nodes) + len(inf.model.Graph.Tensors) + inf.visits + inf.cloned + inf.folded
}

// settler searches lengths for the unbound dimensions of an inference that failed.
type settler struct {
	inf   *inferrer
	left  int    // attempts
	spent int    // their work
	err   string // of the failed inference
}

// outcome is how far an inference came.
type outcome struct {
	err string // "" if it succeeded
	at  int    // the position of the node that failed, in topological order
}

// attempt infers the model with other lengths; ok is false if no attempt is left.
func (s *settler) attempt(lengths map[string]int64) (_ outcome, ok bool) {
	if s.left--; s.left < 0 || s.spent > maxAttempted {
		return outcome{}, false
	}
	again := newInferrer(s.inf.model, s.inf.opt)
	again.taken = lengths
	defer func() { s.spent += again.work() }()
	if err := again.run(); err != nil {
		return outcome{err.Error(), again.at}, true
	}
	return outcome{"", math.MaxInt}, true
}

// force returns the lengths, among those that are given, with which the inference
// succeeds; nil if it finds none. It settles one node after the other: at the node
// that failed, it tries to set one dimension, then two, then three, and takes what
// brings the inference further than all others of that number. If two are equal, no
// length is forced.
func (s *settler) force() map[string]int64 {
	var given []int64
	for _, d := range s.inf.result.Dims {
		if !d.Assumed && d.Value != 1 && !slices.Contains(given, d.Value) {
			given = append(given, d.Value)
		}
	}
	lengths := map[string]int64{}
	now := outcome{s.err, s.inf.at}
	for now.err != "" && len(given) > 0 {
		next, best := s.further(lengths, now, s.concerned(lengths, now), given)
		if next == nil { // the message may hide a dimension, as that of another input
			next, best = s.further(lengths, now, s.open(lengths), given)
		}
		if next == nil {
			return nil
		}
		lengths, now = next, best
	}
	if now.err != "" {
		return nil
	}
	return lengths
}

// further returns lengths with up to three more of the names that bring the
// inference further than all others of their number; nil if there are none, or
// several.
func (s *settler) further(lengths map[string]int64, now outcome, names []string, given []int64) (next map[string]int64, best outcome) {
	best = now
	for size := 1; size <= min(len(names), 3) && next == nil; size++ {
		tied := false
		ok := assignments(lengths, names, given, size, func(l map[string]int64) bool {
			o, ok := s.attempt(l)
			switch {
			case !ok || o.at < best.at || o.at == now.at:
			case o.at == best.at:
				tied = true
			default:
				next, best, tied = maps.Clone(l), o, false
			}
			return ok
		})
		if !ok || tied {
			return nil, now
		}
	}
	return next, best
}

// open lists the unbound dimensions except those in lengths.
func (s *settler) open(lengths map[string]int64) []string {
	return slices.DeleteFunc(slices.Clone(s.inf.unbound), func(name string) bool { _, set := lengths[name]; return set })
}

// concerned lists the open dimensions that change the outcome.
func (s *settler) concerned(lengths map[string]int64, now outcome) []string {
	var list []string
	for _, name := range s.open(lengths) {
		with := maps.Clone(lengths)
		with[name] = probes[0]
		if o, ok := s.attempt(with); ok && o != now {
			list = append(list, name)
		}
	}
	return list
}

// probes are lengths that no model needs for all dimensions: an outcome that changes
// with them depends on the dimension.
var probes = []int64{997, 2}

// assignments calls visit with lengths and one of the given lengths for each of size
// more names, in every way, until it returns false.
func assignments(lengths map[string]int64, names []string, given []int64, size int, visit func(map[string]int64) bool) bool {
	if size == 0 {
		return visit(lengths)
	}
	for i, name := range names {
		for _, n := range given {
			with := maps.Clone(lengths)
			with[name] = n
			if !assignments(with, names[i+1:], given, size-1, visit) {
				return false
			}
		}
	}
	return true
}

// named lists the bound dimensions of a length.
func (s *settler) named(n int64) string {
	var names []string
	for _, d := range s.inf.result.Dims {
		if !d.Assumed && d.Value == n {
			names = append(names, fmt.Sprintf("%q", graph.Short(d.Name)))
		}
	}
	return strings.Join(names, ", ")
}

// explain adds the unbound dimensions that an error depends on, which other lengths
// change, and how to bind them.
func (s *settler) explain(err error) error {
	matters := func(names ...string) bool {
		for _, n := range probes {
			lengths := map[string]int64{}
			for _, name := range names {
				lengths[name] = n
			}
			if o, ok := s.attempt(lengths); ok && o.err != s.err {
				return true
			}
		}
		return false
	}
	if s.inf.work() <= maxAttempted/20 { // else the work of the search is enough
		s.left, s.spent = 2*len(probes)*(1+len(s.inf.unbound)), 0
	}
	if len(s.inf.unbound) == 0 || !matters(s.inf.unbound...) {
		return err
	}
	list := s.inf.unbound
	if len(list) > 1 {
		list = slices.DeleteFunc(slices.Clone(list), func(name string) bool { return !matters(name) })
	}
	if len(list) == 0 { // only together
		list = s.inf.unbound
	}
	const most = 6
	var texts []string
	for _, name := range list[:min(len(list), most)] {
		at := ""
		if i := slices.IndexFunc(s.inf.result.Dims, func(d BoundDim) bool { return d.Name == name }); i >= 0 && s.inf.result.Dims[i].Place != name {
			at = fmt.Sprintf(" or %s=N", s.inf.result.Dims[i].Place)
		}
		texts = append(texts, fmt.Sprintf("%q (say --dim %s=N%s)", graph.Short(name), graph.Short(name), at))
	}
	if n := len(list) - most; n > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", n))
	}
	hint := "; taken as 1: " + strings.Join(texts, ", ")
	var e *graph.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%w%s", err, hint)
	}
	e.Err = fmt.Errorf("%w%s", e.Err, hint)
	return err
}
