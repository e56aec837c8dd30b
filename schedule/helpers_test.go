package schedule

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// parse makes a problem from statements separated by ";". It is not the printed form of package
// graph, which has no sizes, pairs and workspaces, and which this package does not know:
//
//	x:4                     a tensor of 4 bytes that no node makes
//	a:8, c:0 = Split(x, y)  node "a" of operator Split makes a and c
//	b:8>a = Relu(a) ws 3    b may be written over a; 3 bytes of workspace
//	out a, b                outputs
//	res x                   resident tensors
//
// Several tensors that b may be written over are listed as b:8>a>x. A tensor may be read
// before the statement that makes it.
func parse(tb testing.TB, text string) *Problem {
	tb.Helper()
	p := &Problem{Name: text}
	id := map[string]int32{}
	tensor := func(name string) int32 {
		name = strings.TrimSpace(name)
		if _, ok := id[name]; !ok {
			id[name] = int32(len(p.Tensors))
			p.Tensors = append(p.Tensors, Tensor{Name: name, Producer: -1})
		}
		return id[name]
	}
	number := func(s string) int64 {
		x, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
		if err != nil {
			tb.Fatalf("parse %q: %v", text, err)
		}
		return x
	}
	declare := func(s string) int32 {
		parts := strings.Split(s, ">")
		name, bytes, ok := strings.Cut(parts[0], ":")
		if !ok {
			tb.Fatalf("parse %q: %q has no size", text, s)
		}
		t := tensor(name)
		p.Tensors[t].Bytes = number(bytes)
		for _, over := range parts[1:] {
			o := tensor(over)
			p.Tensors[t].Reuses = append(p.Tensors[t].Reuses, o)
		}
		return t
	}
	each := func(list string, do func(string)) {
		for _, s := range strings.Split(list, ",") {
			if strings.TrimSpace(s) != "" {
				do(s)
			}
		}
	}
	for _, s := range strings.Split(text, ";") {
		s = strings.TrimSpace(s)
		if list, ok := strings.CutPrefix(s, "out "); ok {
			each(list, func(s string) { p.Tensors[tensor(s)].Output = true })
			continue
		}
		if list, ok := strings.CutPrefix(s, "res "); ok {
			each(list, func(s string) { p.Tensors[tensor(s)].Resident = true })
			continue
		}
		made, call, ok := strings.Cut(s, "=")
		if !ok {
			each(made, func(s string) { declare(s) })
			continue
		}
		v := int32(len(p.Nodes))
		call, ws, _ := strings.Cut(call, " ws ")
		op, read, _ := strings.Cut(strings.TrimSpace(call), "(")
		node := Node{Op: op}
		if ws != "" {
			node.Workspace = number(ws)
		}
		each(made, func(s string) {
			t := declare(s)
			p.Tensors[t].Producer = v
			if node.Name == "" {
				node.Name = p.Tensors[t].Name
			}
		})
		each(strings.TrimSuffix(read, ")"), func(s string) {
			t := tensor(s)
			p.Tensors[t].Consumers = append(p.Tensors[t].Consumers, v)
		})
		p.Nodes = append(p.Nodes, node)
	}
	return p
}

// names returns the names of the nodes of an order.
func names(p *Problem, order []int32) string {
	var s []string
	for _, v := range order {
		s = append(s, p.Nodes[v].Name)
	}
	return strings.Join(s, " ")
}

// takenNames spells pairs as "b>a".
func takenNames(p *Problem, pairs []Pair) string {
	var s []string
	for _, pair := range pairs {
		s = append(s, p.Tensors[pair.Result].Name+">"+p.Tensors[pair.Over].Name)
	}
	return strings.Join(s, " ")
}

// naive evaluates an order by the definition of the load: it looks at every tensor at every
// step and shares no code with the package. If sharing is false, it takes no pairs.
type naive struct {
	p       *Problem
	sharing bool
}

// load returns the load of v if the nodes of ran have run.
func (n naive) load(ran []bool, v int32) int64 {
	first := !slices.Contains(ran, true)
	var load int64
	for t := range n.p.Tensors {
		x := &n.p.Tensors[t]
		exists := x.Producer == -1 || ran[x.Producer] || x.Producer == v
		waiting := false // some reader, possibly v, has not run
		readers := 0
		for _, c := range x.Consumers {
			if c != x.Producer {
				readers++
				waiting = waiting || !ran[c]
			}
		}
		made := x.Producer == v
		idle := x.Producer == -1 && readers == 0 && first
		if !x.Resident && exists && (waiting || x.Output || made || idle) {
			load += x.Bytes
		}
	}
	load += n.p.Nodes[v].Workspace
	if n.sharing {
		load -= n.saved(ran, v, 0, nil)
	}
	return load
}

// saved returns the most bytes that pairs of v can save. It tries, for each result of v from
// tensor o on, every tensor that v is the last to read.
func (n naive) saved(ran []bool, v int32, o int, used []int32) int64 {
	if o == len(n.p.Tensors) {
		return 0
	}
	best := n.saved(ran, v, o+1, used)
	x := &n.p.Tensors[o]
	if x.Producer != v || x.Resident || x.Bytes == 0 {
		return best
	}
	for _, r := range x.Reuses {
		t := &n.p.Tensors[r]
		last := slices.Contains(t.Consumers, v) && t.Producer != v
		for _, c := range t.Consumers {
			last = last && (c == v || c == t.Producer || ran[c])
		}
		if last && !t.Resident && !t.Output && t.Bytes == x.Bytes && !slices.Contains(used, r) {
			best = max(best, x.Bytes+n.saved(ran, v, o+1, append(slices.Clip(used), r)))
		}
	}
	return best
}

func (n naive) loads(order []int32) []int64 {
	ran := make([]bool, len(n.p.Nodes))
	loads := []int64{}
	for _, v := range order {
		loads = append(loads, n.load(ran, v))
		ran[v] = true
	}
	return loads
}

// orders calls do with every topological order.
func (n naive) orders(do func(order []int32)) {
	ran := make([]bool, len(n.p.Nodes))
	var order []int32
	var grow func()
	grow = func() {
		if len(order) == len(ran) {
			do(order)
			return
		}
		for v := range ran {
			if ran[v] || !n.ready(ran, int32(v)) {
				continue
			}
			ran[v] = true
			order = append(order, int32(v))
			grow()
			order = order[:len(order)-1]
			ran[v] = false
		}
	}
	grow()
}

func (n naive) ready(ran []bool, v int32) bool {
	for t := range n.p.Tensors {
		x := &n.p.Tensors[t]
		if x.Producer >= 0 && x.Producer != v && !ran[x.Producer] && slices.Contains(x.Consumers, v) {
			return false
		}
	}
	return true
}

// optimum returns the least peak over all orders. A load depends only on the set of nodes
// that have run, so each is computed once.
func (n naive) optimum() int64 {
	known := map[[2]int]int64{}
	least := int64(-1)
	n.orders(func(order []int32) {
		ran := make([]bool, len(order))
		set, peak := 0, int64(0)
		for _, v := range order {
			key := [2]int{set, int(v)}
			if _, ok := known[key]; !ok {
				known[key] = n.load(ran, v)
			}
			peak = max(peak, known[key])
			ran[v] = true
			set |= 1 << v
		}
		if least < 0 || peak < least {
			least = peak
		}
	})
	return least
}
