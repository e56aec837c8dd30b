// Package subject is what every prover gets: a plan, the files, and where it says what it found.
// The provers that are packages of their own import it, and so does package verify, which runs
// them.
//
//	subject.go  Subject: faults and claims
//	names.go    tensors by name
//	poll.go     the end of the work
package subject

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// Subject is a plan that is checked, and what was found so far.
type Subject struct {
	Model   *graph.Model // the planned file
	Plan    *plan.Plan
	Source  *graph.Model    // the file that was planned; nil: it is not available
	Context context.Context // ends the work; nil: nothing does

	Violations []Violation // the first of them, as found
	More       int         // others
	Claimed    []string    // fields of the plan that were not checked

	names names
}

// Violation is one way in which a plan does not fit its model.
type Violation struct{ Code, Message string }

// maxViolations is the largest number of violations that are kept.
const maxViolations = 100

// None is the index of no node, tensor, storage or buffer.
const None = -1

// Fault records a violation.
func (s *Subject) Fault(code, format string, args ...any) {
	if len(s.Violations) >= maxViolations {
		s.More++
		return
	}
	s.Violations = append(s.Violations, Violation{code, fmt.Sprintf(format, args...)})
}

// Claim records a field of the plan that cannot be checked, because the model does not
// determine it. Fields of the summary have their own name, others their path.
func (s *Subject) Claim(field string) {
	if !slices.Contains(s.Claimed, field) {
		s.Claimed = append(s.Claimed, field)
	}
}

// Count is a number of things in words.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Entries counts the entries of a key.
func Entries(props []graph.Prop, key string) (n int) {
	for i := range props {
		if props[i].Key == key {
			n++
		}
	}
	return n
}

// FirstOutput is the index of the first output that a node makes, None if it makes none.
func FirstOutput(n *graph.Node) int {
	for k, t := range n.Outputs {
		if t >= 0 {
			return k
		}
	}
	return None
}
