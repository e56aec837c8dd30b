package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Diff lists the changes from one plan to another: plans of one model at two
// times, or with two settings. Nodes with the same name are the same node; a node
// without a name, or with the name of an earlier one, is identified by its
// operator and its rank among such nodes in program order. Tensors with the same
// name are the same tensor. Nodes are listed by step, tensors from the largest
// change to the smallest.
type Diff struct {
	Before  Summary       `json:"before"`
	After   Summary       `json:"after"`
	Nodes   NodeChanges   `json:"nodes"`
	Tensors TensorChanges `json:"tensors"`
	Peak    PeakChange    `json:"peak"`
	// Settings are the options that differ between the plans, which may explain
	// different figures.
	Settings []SettingChange `json:"settings"`
	// Ranges lists the points of both plans' tables at which their figures differ, if both
	// plans are for ranges of the same dimensions.
	Ranges []RangeChange `json:"ranges,omitempty"`
}

// SettingChange is an option with its value in each plan; "" if a plan does not
// have it.
type SettingChange struct {
	Name   string `json:"name"` // mode, alignment, sharing.views, sharing.inplace, keeps_random_order, or dims. or values. and a name
	Before string `json:"before"`
	After  string `json:"after"`
}

// NodeChanges lists the nodes that changed.
type NodeChanges struct {
	Appeared []NodeChange `json:"appeared"`
	Vanished []NodeChange `json:"vanished"`
	// Moved is a smallest set of nodes whose moves turn the old order of the
	// common nodes into the new one. A node that only has other neighbours now
	// has not moved.
	Moved []NodeChange `json:"moved"`
}

// NodeChange is a node that changed, with its step in each plan; -1 if the plan
// does not have it.
type NodeChange struct {
	Node   string `json:"node"` // its name, else its operator and its rank among these: "Relu#2"
	Op     string `json:"op"`
	Before int    `json:"before_step"`
	After  int    `json:"after_step"`
}

// TensorChanges lists the tensors that changed. A tensor that is dynamic in a
// plan has no buffer there and counts as missing.
type TensorChanges struct {
	Appeared []TensorChange `json:"appeared"`
	Vanished []TensorChange `json:"vanished"`
	Resized  []TensorChange `json:"resized"` // of another size, moved or not
	Moved    []TensorChange `json:"moved"`   // of the same size, at another offset or in another pool
}

// TensorChange is a tensor that changed, with its place in each plan; nil if the
// plan does not have it.
type TensorChange struct {
	Tensor string `json:"tensor"`
	Before *Place `json:"before"`
	After  *Place `json:"after"`
}

// Place is the position of a buffer in its pool and its lifetime.
type Place struct {
	Pool   string `json:"pool"`
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
	First  int    `json:"first"`
	Last   int    `json:"last"`
}

func placeOf(b *Buffer) *Place {
	if b == nil {
		return nil
	}
	return &Place{b.Pool, b.Offset, b.Bytes, b.First, b.Last}
}

// PeakChange explains the change of the peak. It compares the loads at one node:
// the node of the new peak if the peak grew, else the node of the old peak. The
// causes add up to the change of that load. If one plan lacks the node, the peaks
// themselves are compared, at different nodes, and Same is false.
type PeakChange struct {
	Node        string  `json:"node"`
	Same        bool    `json:"same_node"`         // both steps belong to one node
	Before      int     `json:"before_step"`       // -1: the plan has no steps
	After       int     `json:"after_step"`        // -1: the plan has no steps
	BeforeBytes int64   `json:"before_load_bytes"` // at these steps
	AfterBytes  int64   `json:"after_load_bytes"`
	Causes      []Cause `json:"causes"` // the largest change first; they add up to AfterBytes - BeforeBytes
}

// The kinds of causes.
const (
	CauseNew      = "new"              // the tensor is only in the new plan
	CauseGone     = "gone"             // it is only in the old plan
	CauseResized  = "resized"          // the size of its buffer changed
	CauseLives    = "lives here"       // it is live at that step now, and was not before
	CauseLeft     = "lives no longer"  // it was live at that step, and is not now
	CauseUnshared = "no longer shares" // it has its own buffer there, and used to share another's
	CauseShares   = "shares now"       // it now shares a buffer with a tensor that is live there
)

// Cause is a buffer that changed a load, and the number of bytes.
type Cause struct {
	Tensor string `json:"tensor,omitempty"` // the first tensor of the buffer; "" for a workspace
	Node   string `json:"node,omitempty"`   // the node of a workspace
	Kind   string `json:"cause"`
	Bytes  int64  `json:"bytes"`
}

// Diff compares this plan with a later one. Both must be consistent (see
// [Plan.Check]). It takes O(n log n) time.
func (p *Plan) Diff(after *Plan) *Diff {
	a, b := newSide(p), newSide(after)
	return &Diff{p.Summary, after.Summary, nodeChanges(a, b), tensorChanges(a, b), peakChange(a, b), settingChanges(p, after), rangeChanges(p, after)}
}

func settingChanges(a, b *Plan) []SettingChange {
	list := []SettingChange{}
	add := func(name string, before, after any) {
		if before != after {
			list = append(list, SettingChange{name, fmt.Sprint(before), fmt.Sprint(after)})
		}
	}
	add("mode", a.Mode, b.Mode)
	add("alignment", a.Alignment, b.Alignment)
	add("sharing.views", a.Sharing.Views, b.Sharing.Views)
	add("sharing.inplace", a.Sharing.Inplace, b.Sharing.Inplace)
	add("sharing.aliases", a.Sharing.Aliases, b.Sharing.Aliases)
	add("sharing.runtime", a.Sharing.Runtime, b.Sharing.Runtime)
	traversal := func(p *Plan) string {
		if p.Traversal == nil {
			return ""
		}
		return p.Traversal.Runtime
	}
	add("traversal", traversal(a), traversal(b))
	add("keeps_random_order", a.KeepsRandomOrder, b.KeepsRandomOrder)
	recorded := func(p *Plan) string {
		if p.Workspaces == nil {
			return ""
		}
		return fmt.Sprintf("%d nodes on %s", len(p.Workspaces.Nodes), p.Workspaces.Device)
	}
	add("workspaces", recorded(a), recorded(b))
	names := maps.Clone(a.Dims)
	if names == nil {
		names = map[string]Dim{}
	}
	maps.Copy(names, b.Dims)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		value := func(p *Plan) string {
			if d, ok := p.Dims[name]; ok {
				return d.String()
			}
			return ""
		}
		add("dims."+name, value(a), value(b))
	}
	values := maps.Clone(a.Values)
	if values == nil {
		values = map[string]graph.Literal{}
	}
	maps.Copy(values, b.Values)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := func(p *Plan) string {
			if l, ok := p.Values[name]; ok {
				return l.String()
			}
			return ""
		}
		add("values."+name, value(a), value(b))
	}
	return list
}

// planSide is one of the two plans, indexed by names that both use.
type planSide struct {
	p       *Plan
	keys    []string // of the nodes, by step
	steps   map[string]int
	places  []*Buffer          // the buffers and the spans
	buffers map[string]*Buffer // by their names
}

func newSide(p *Plan) *planSide {
	s := &planSide{p: p, keys: make([]string, len(p.Steps)), steps: map[string]int{}, buffers: map[string]*Buffer{}}
	unnamed := map[string]int{}
	name := func(i int) {
		if s.keys[i] != "" {
			return
		}
		key := p.Steps[i].Name
		if _, taken := s.steps[key]; key == "" || taken {
			for key = ""; key == ""; {
				unnamed[p.Steps[i].Op]++
				key = fmt.Sprintf("%s#%d", p.Steps[i].Op, unnamed[p.Steps[i].Op])
				if _, taken := s.steps[key]; taken {
					key = ""
				}
			}
		}
		s.keys[i], s.steps[key] = key, i
	}
	for _, i := range p.ProgramOrder.Steps {
		name(i)
	}
	for i := range p.Steps {
		name(i)
	}
	for i := range p.Buffers {
		s.places = append(s.places, &p.Buffers[i])
	}
	for i := range p.Spans {
		whole := p.Whole(i)
		s.places = append(s.places, &whole)
	}
	for _, b := range s.places {
		for _, name := range s.names(b) {
			s.buffers[name] = b
		}
	}
	return s
}

func nodeChanges(a, b *planSide) NodeChanges {
	c := NodeChanges{[]NodeChange{}, []NodeChange{}, []NodeChange{}}
	var common []int // old steps of the common nodes, in the new order
	for i, key := range b.keys {
		if at, ok := a.steps[key]; ok {
			common = append(common, at)
		} else {
			c.Appeared = append(c.Appeared, NodeChange{key, b.p.Steps[i].Op, -1, i})
		}
	}
	for i, key := range a.keys {
		if _, ok := b.steps[key]; !ok {
			c.Vanished = append(c.Vanished, NodeChange{key, a.p.Steps[i].Op, i, -1})
		}
	}
	for _, at := range outsideLongestRun(common) {
		c.Moved = append(c.Moved, NodeChange{a.keys[at], a.p.Steps[at].Op, at, b.steps[a.keys[at]]})
	}
	return c
}

// outsideLongestRun returns the members of a list of distinct numbers that do not
// belong to one longest increasing subsequence, in their order. It takes O(n log
// n) time.
func outsideLongestRun(list []int) (rest []int) {
	tails := make([]int, 0, len(list)) // indices into list: the end of the best run of each length
	link := make([]int, len(list))
	for i, x := range list {
		k, _ := slices.BinarySearchFunc(tails, x, func(at, x int) int { return cmp.Compare(list[at], x) })
		if link[i] = -1; k > 0 {
			link[i] = tails[k-1]
		}
		if k == len(tails) {
			tails = append(tails, i)
		} else {
			tails[k] = i
		}
	}
	if len(tails) == 0 {
		return nil
	}
	kept := make([]bool, len(list))
	for i := tails[len(tails)-1]; i >= 0; i = link[i] {
		kept[i] = true
	}
	for i, x := range list {
		if !kept[i] {
			rest = append(rest, x)
		}
	}
	return rest
}

func tensorChanges(a, b *planSide) TensorChanges {
	c := TensorChanges{[]TensorChange{}, []TensorChange{}, []TensorChange{}, []TensorChange{}}
	for _, now := range b.places {
		for _, t := range now.Tensors {
			was := a.buffers[t]
			switch x := (TensorChange{t, placeOf(was), placeOf(now)}); {
			case was == nil:
				c.Appeared = append(c.Appeared, x)
			case was.Bytes != now.Bytes:
				c.Resized = append(c.Resized, x)
			case was.Offset != now.Offset || was.Pool != now.Pool:
				c.Moved = append(c.Moved, x)
			}
		}
	}
	for _, was := range a.places {
		for _, t := range was.Tensors {
			if b.buffers[t] == nil {
				c.Vanished = append(c.Vanished, TensorChange{t, placeOf(was), nil})
			}
		}
	}
	for _, list := range [][]TensorChange{c.Appeared, c.Vanished, c.Resized, c.Moved} {
		slices.SortStableFunc(list, func(x, y TensorChange) int { return cmp.Compare(y.magnitude(), x.magnitude()) })
	}
	return c
}

// Bytes is the change of the tensor's size in bytes.
func (c TensorChange) Bytes() (bytes int64) {
	if c.After != nil {
		bytes = c.After.Bytes
	}
	if c.Before != nil {
		bytes -= c.Before.Bytes
	}
	return bytes
}

// magnitude is the size of the change, or the size of the tensor if it only
// moved.
func (c TensorChange) magnitude() int64 {
	if x := c.Bytes(); x != 0 {
		return max(x, -x)
	}
	if c.After == nil {
		return 0
	}
	return c.After.Bytes
}

func peakChange(a, b *planSide) PeakChange {
	c := PeakChange{Before: peakStep(a.p), After: peakStep(b.p), BeforeBytes: a.p.Summary.PeakBytes, AfterBytes: b.p.Summary.PeakBytes}
	switch {
	case c.Before < 0 || c.After < 0:
	case c.AfterBytes < c.BeforeBytes:
		c.Node = a.keys[c.Before]
	default:
		c.Node = b.keys[c.After]
	}
	if before, ok := a.steps[c.Node]; ok {
		if after, ok := b.steps[c.Node]; ok {
			c.Same, c.Before, c.After = true, before, after
			c.BeforeBytes, c.AfterBytes = a.p.Steps[before].LoadBytes, b.p.Steps[after].LoadBytes
		}
	}
	c.Causes = causes(a, b, a.liveAt(c.Before), b.liveAt(c.After))
	return c
}

func peakStep(p *Plan) int {
	if len(p.Steps) == 0 {
		return -1
	}
	return p.Summary.PeakStep
}

// liveAt lists the buffers that count at a step; without steps, all that count.
func (s *planSide) liveAt(step int) (live []*Buffer) {
	for i := range s.p.Buffers {
		b := &s.p.Buffers[i]
		if b.Pool != Resident && b.Pool != Host && b.Bytes > 0 && (step < 0 || b.First <= step && step <= b.Last) {
			live = append(live, b)
		}
	}
	return live
}

// causes compares two sets of live buffers. A buffer corresponds to the buffer of
// the other plan that holds its earliest common tensor; each is matched once.
func causes(a, b *planSide, was, now []*Buffer) []Cause {
	old := map[string]*Buffer{}
	for _, x := range was {
		for _, name := range a.names(x) {
			old[name] = x
		}
	}
	list := []Cause{}
	add := func(s *planSide, x *Buffer, kind string, bytes int64) {
		list = append(list, s.cause(x, kind, bytes))
	}
	matched := map[*Buffer]*Buffer{} // from buffers of was to buffers of now
	for _, x := range now {
		var other *Buffer
		shares := false
		for _, name := range b.names(x) {
			if y := old[name]; y != nil {
				if matched[y] == nil {
					other = y
					break
				}
				shares = true
			}
		}
		switch {
		case other != nil:
			matched[other] = x
			if other.Bytes != x.Bytes {
				add(b, x, CauseResized, x.Bytes-other.Bytes)
			}
		case shares:
			add(b, x, CauseUnshared, x.Bytes)
		case !a.knows(b, x):
			add(b, x, CauseNew, x.Bytes)
		default:
			add(b, x, CauseLives, x.Bytes)
		}
	}
	live := map[string]bool{}
	for _, x := range now {
		for _, name := range b.names(x) {
			live[name] = true
		}
	}
	for _, x := range was {
		switch {
		case matched[x] != nil:
		case slices.ContainsFunc(a.names(x), func(name string) bool { return live[name] }):
			add(a, x, CauseShares, -x.Bytes)
		case !b.knows(a, x):
			add(a, x, CauseGone, -x.Bytes)
		default:
			add(a, x, CauseLeft, -x.Bytes)
		}
	}
	return largestFirst(list)
}

func (s *planSide) cause(b *Buffer, kind string, bytes int64) Cause {
	c := Cause{Kind: kind, Bytes: bytes}
	if len(b.Tensors) > 0 {
		c.Tensor = b.Tensors[0]
	} else if b.Node != nil {
		c.Node = s.keys[*b.Node]
	} else {
		c.Tensor = s.p.PartOf(b)
	}
	return c
}

// names lists what identifies a buffer in both plans: its tensors, or the node of
// a workspace.
func (s *planSide) names(b *Buffer) []string {
	if len(b.Tensors) == 0 && b.Node != nil {
		return []string{workspaceOf + s.keys[*b.Node]}
	}
	return b.Tensors
}

// workspaceOf is the prefix of the name of a workspace; no tensor's name begins
// with it.
const workspaceOf = "\x00"

// knows reports whether a plan has a buffer with one of the names of a buffer of
// the other plan.
func (s *planSide) knows(other *planSide, b *Buffer) bool {
	return slices.ContainsFunc(other.names(b), func(name string) bool { return s.buffers[name] != nil })
}
