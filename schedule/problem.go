package schedule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/internal/strictjson"
)

// Problem is a bare scheduling problem, as "onnxmem order" reads it.
type Problem struct {
	Name    string   `json:"name"`
	Mode    string   `json:"mode"`
	Nodes   []Node   `json:"nodes"` // in program order
	Tensors []Tensor `json:"tensors"`
}

// Node is one invocation of an operator.
type Node struct {
	Name      string  `json:"name"`
	Op        string  `json:"op"`
	Workspace int64   `json:"workspace"`        // bytes that are live while the node runs
	Cost      int64   `json:"cost,omitempty"`   // nanoseconds
	Once      bool    `json:"once,omitempty"`   // random or stateful: a plan must not run it again
	Args      []int32 `json:"args,omitempty"`   // tensors read, in argument order
	Writes    []int32 `json:"writes,omitempty"` // tensors overwritten in place
}

// Tensor is one storage. A view is part of the tensor that it views. A tensor of 0 bytes
// carries only precedence.
type Tensor struct {
	Name      string  `json:"name"`
	Bytes     int64   `json:"bytes"`
	Producer  int32   `json:"producer"`  // the node that makes it; -1: an input
	Consumers []int32 `json:"consumers"` // its readers, in any order; repeats and the producer are ignored
	Kind      string  `json:"kind"`
	Resident  bool    `json:"resident"` // only its precedence counts
	Output    bool    `json:"output"`   // it is live to the last step
	Reuses    Reuses  `json:"reuses,omitempty"`
}

// UnmarshalJSON reads a tensor. Without a producer it is an input.
func (t *Tensor) UnmarshalJSON(b []byte) error {
	type plain Tensor
	p := plain{Producer: -1}
	err := json.Unmarshal(b, &p)
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) {
		// The offset in typ counts from the tensor's first byte, so name the tensor.
		what := strictjson.Mismatch(typ)
		if typ.Field != "" {
			what = typ.Field + ": " + what
		}
		return &Error{-1, -1, fmt.Sprintf("tensor %.64q", p.Name), what}
	}
	*t = Tensor(p)
	return err
}

// Reuses lists the tensors over which the producer may write a result, as
// indices into Problem.Tensors. In JSON it is one index or a list of them.
type Reuses []int32

// MarshalJSON writes a single index bare.
func (r Reuses) MarshalJSON() ([]byte, error) {
	if len(r) == 1 {
		return json.Marshal(r[0])
	}
	return json.Marshal([]int32(r))
}

// UnmarshalJSON reads an index or a list of indices.
func (r *Reuses) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte("[")) || bytes.Equal(b, []byte("null")) {
		if json.Unmarshal(b, (*[]int32)(r)) == nil {
			return nil
		}
	} else {
		var t int32
		if json.Unmarshal(b, &t) == nil {
			*r = Reuses{t}
			return nil
		}
	}
	return fmt.Errorf("reuses: expected the index of a tensor or a list of them, found %.64s", b)
}

// Error says what is wrong with a problem, and where.
type Error struct {
	Node   int32  // the node at fault, or -1
	Tensor int32  // the tensor at fault, or -1
	Where  string // the place as a user sees it, such as `node "Conv_12" (Conv)`
	What   string
}

func (e *Error) Error() string {
	if e.Where == "" {
		return e.What
	}
	return e.Where + ": " + e.What
}

// Validate returns an *Error that names the first fault of the problem, nil if there is none.
// All indices must be in range, no size negative, and the sum of all sizes must fit into an
// int64. The nodes may form no cycle. All other functions of this package expect a valid
// problem or call Validate first. O(E).
func (p *Problem) Validate() error {
	if len(p.Nodes) > math.MaxInt32 || len(p.Tensors) > math.MaxInt32 {
		return &Error{-1, -1, "", fmt.Sprintf("%d nodes and %d tensors: expected at most %d of each", len(p.Nodes), len(p.Tensors), math.MaxInt32)}
	}
	var total int64
	for v := range p.Nodes {
		if err := p.validateNode(int32(v), &total); err != nil {
			return err
		}
	}
	for t := range p.Tensors {
		if err := p.validateTensor(int32(t), &total); err != nil {
			return err
		}
	}
	return p.validateAcyclic()
}

func (p *Problem) validateNode(v int32, total *int64) error {
	n := &p.Nodes[v]
	fault := func(format string, args ...any) error {
		return &Error{v, -1, p.node(v), fmt.Sprintf(format, args...)}
	}
	if n.Cost < 0 {
		return fault("cost: expected 0 or more nanoseconds, found %d", n.Cost)
	}
	if n.Workspace < 0 {
		return fault("workspace: expected 0 or more bytes, found %d", n.Workspace)
	}
	if n.Workspace > math.MaxInt64-*total {
		return fault("workspace of %d bytes: all sizes together pass %d", n.Workspace, math.MaxInt64)
	}
	*total += n.Workspace
	for _, list := range []struct {
		name    string
		tensors []int32
	}{{"args", n.Args}, {"writes", n.Writes}} {
		for i, t := range list.tensors {
			if t < 0 || int(t) >= len(p.Tensors) {
				return fault("%s[%d]: expected a tensor below %d, found %d", list.name, i, len(p.Tensors), t)
			}
		}
	}
	return nil
}

func (p *Problem) validateTensor(id int32, total *int64) error {
	t := &p.Tensors[id]
	fault := func(format string, args ...any) error {
		return &Error{-1, id, p.tensor(id), fmt.Sprintf(format, args...)}
	}
	if t.Bytes < 0 {
		return fault("bytes: expected 0 or more, found %d", t.Bytes)
	}
	if t.Bytes > math.MaxInt64-*total {
		return fault("size of %d bytes: all sizes together pass %d", t.Bytes, math.MaxInt64)
	}
	*total += t.Bytes
	if t.Producer < -1 || int(t.Producer) >= len(p.Nodes) {
		return fault("producer: expected -1 or a node below %d, found %d", len(p.Nodes), t.Producer)
	}
	for i, v := range t.Consumers {
		if v < 0 || int(v) >= len(p.Nodes) {
			return fault("consumers[%d]: expected a node below %d, found %d", i, len(p.Nodes), v)
		}
	}
	for i, r := range t.Reuses {
		if r < 0 || int(r) >= len(p.Tensors) {
			return fault("reuses[%d]: expected a tensor below %d, found %d", i, len(p.Tensors), r)
		}
	}
	return nil
}

// validateAcyclic names a cycle if there is one. A node that breadthFirst omits has a
// predecessor that it omits as well. So a path from any of them, always to such a
// predecessor, comes back to one of its own nodes.
func (p *Problem) validateAcyclic() error {
	f := index(p)
	ran := make([]bool, f.Nodes)
	order := breadthFirst(f)
	for _, v := range order {
		ran[v] = true
	}
	if len(order) == f.Nodes {
		return nil
	}
	v := int32(0)
	for ran[v] {
		v++
	}
	at := make([]int, f.Nodes) // 1 + the node's place on the path
	var path []int32
	for at[v] == 0 {
		path = append(path, v)
		at[v] = len(path)
		for _, t := range f.Reads.Of(v) {
			if m := f.Producer[t]; m >= 0 && !ran[m] {
				v = m
				break
			}
		}
	}
	cycle := path[at[v]-1:]
	return &Error{v, -1, "", "nodes form a cycle: " + p.spell(cycle)}
}

// spell writes a cycle that is listed from reader to maker in the direction of the data,
// with its first node again at the end, and without the middle of a long cycle.
func (p *Problem) spell(cycle []int32) string {
	const ends = 4
	var b strings.Builder
	fmt.Fprint(&b, p.label(cycle[0]))
	for i := len(cycle) - 1; i >= 0; i-- {
		if left := i - (ends - 1); len(cycle) > 2*ends && i == len(cycle)-ends && left > 0 {
			fmt.Fprintf(&b, " -> ... %d more ...", left)
			i = ends - 1
		}
		fmt.Fprintf(&b, " -> %s", p.label(cycle[i]))
	}
	return b.String()
}

// node returns a node's place for a message, as in `node "Conv_12" (Conv)`.
func (p *Problem) node(v int32) string {
	where := "node " + p.label(v)
	if op := p.Nodes[v].Op; op != "" {
		where += fmt.Sprintf(" (%.64s)", op)
	}
	return where
}

// tensor returns a tensor's place for a message, as in `tensor 17 "w"`.
func (p *Problem) tensor(t int32) string {
	return fmt.Sprintf("tensor %d %.64q", t, p.Tensors[t].Name)
}

// label returns a node's quoted name, or its index if it has none.
func (p *Problem) label(v int32) string {
	if name := p.Nodes[v].Name; name != "" {
		return fmt.Sprintf("%.64q", name)
	}
	return fmt.Sprint(v)
}

// Rounded returns the problem with all sizes rounded up to multiples of n bytes. It fails
// if n is below 1, or if a size or the sum of all sizes exceeds an int64. It does not
// change p.
func (p *Problem) Rounded(n int64) (*Problem, error) {
	if n < 1 {
		return nil, fmt.Errorf("alignment: expected 1 or more bytes, found %d", n)
	}
	q := *p
	q.Nodes, q.Tensors = slices.Clone(p.Nodes), slices.Clone(p.Tensors)
	round := func(bytes *int64) bool {
		rest := *bytes % n
		if rest > 0 && *bytes > math.MaxInt64-n {
			return false
		}
		if rest > 0 {
			*bytes += n - rest
		}
		return true
	}
	for v := range q.Nodes {
		if !round(&q.Nodes[v].Workspace) {
			return nil, &Error{int32(v), -1, p.node(int32(v)), fmt.Sprintf("workspace of %d bytes: rounded up to %d it passes %d", p.Nodes[v].Workspace, n, math.MaxInt64)}
		}
	}
	for t := range q.Tensors {
		if !round(&q.Tensors[t].Bytes) {
			return nil, &Error{-1, int32(t), p.tensor(int32(t)), fmt.Sprintf("size of %d bytes: rounded up to %d it passes %d", p.Tensors[t].Bytes, n, math.MaxInt64)}
		}
	}
	return &q, q.Validate()
}
