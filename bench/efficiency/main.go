// Efficiency measures on one core how long small products, convolutions, copies and
// elementwise nodes take in onnxmem run, and fits the constants of the cost model of a CPU
// (passes/internal/costs/device.go, docs/formats/costs.md) to them:
//
//	go build -o /tmp/efficiency ./bench/efficiency && GOMAXPROCS=1 taskset -c 1 /tmp/efficiency
//
// It takes a few seconds. Weights come from memory, as in a network that no cache holds;
// what a node reads else was made a short while before.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/cost"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "efficiency:", err)
		os.Exit(1)
	}
}

// run measures all points, fits the constants, and prints both.
func run() error {
	var list []sample
	for _, p := range points() {
		s, err := measure(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		list = append(list, s)
	}
	gap, err := between()
	if err != nil {
		return err
	}
	c := fit(list)
	fmt.Printf("%-34s %11s %11s %7s %9s\n", "point", "measured us", "fitted us", "off %", "GFLOP/s")
	for _, s := range list {
		fitted := c.time(s.work)
		fmt.Printf("%-34s %11.2f %11.2f %7.0f %9.1f\n", s.name, s.ns/1e3, fitted/1e3, 100*(fitted/s.ns-1), s.work.FLOPs/s.ns)
	}
	fmt.Printf("\nFLOPS     %.4g per second\nBandwidth %.4g bytes per second, of activations\nWeights   %.4g bytes per second\nLanes     %.3g columns\nPlane     %.3g ns\nLaunch    %.4g ns: %.3g in a kernel, %.3g between two\nFunction  %.3g operations for an exp\n",
		1e9/c[0], 1e9/c[2], 1e9/c[3], c[1]/c[0], c[4], c[5]+gap, c[5], gap, c[6]/c[0])
	return nil
}

// sample is the time of a point.
type sample struct {
	name string
	work cost.Work
	ns   float64 // the mean over its copies of the fastest of their runs
}

// Runs of a session: as many as take measuredTime, within limits.
const (
	leastRuns    = 5
	mostRuns     = 100
	measuredTime = 100 * time.Millisecond
)

// measure runs the copies of a point and takes the fastest run of each.
func measure(p point) (sample, error) {
	b := graph.NewBuilder("point", 22)
	for i := range p.copies {
		b.Output(p.add(b, fmt.Sprintf("n%d", i)))
	}
	s, g, in, err := session(b)
	if err != nil {
		return sample{}, err
	}
	defer s.Close()
	profile := s.Profile()
	for i, began := 0, time.Now(); i < leastRuns || i < mostRuns && time.Since(began) < measuredTime; i++ {
		if _, err := s.Run(context.Background(), in); err != nil {
			return sample{}, err
		}
	}
	out := sample{name: p.name, work: cost.Whole(g, g.Nodes[0])}
	for _, ns := range profile.Costs() {
		out.ns += float64(ns) / float64(p.copies)
	}
	return out, nil
}

// between returns the nanoseconds that nodes take besides their kernels: the time from the
// end of one to the beginning of the next, and what a kernel takes longer after another
// than after itself. It runs a chain of short nodes of several kinds, and, for the times of
// their kernels, a chain of each kind.
func between() (float64, error) {
	const nodes = 1000
	kernels := 0.0
	for kind := range kinds {
		s, in, err := chain(nodes, func(int) int { return kind })
		if err != nil {
			return 0, err
		}
		profile := s.Profile()
		if _, err := fastest(s, in); err != nil {
			return 0, errors.Join(err, s.Close())
		}
		for _, ns := range profile.Costs() {
			kernels += float64(ns) / float64(nodes*kinds)
		}
		s.Close()
	}
	s, in, err := chain(nodes, func(i int) int { return i })
	if err != nil {
		return 0, err
	}
	defer s.Close()
	ns, err := fastest(s, in)
	return ns/nodes - kernels, err
}

// kinds is the number of kinds of nodes of a chain.
const kinds = 5

// chain opens a session with a chain of short nodes; kind says which kind a node has.
func chain(nodes int, kind func(i int) int) (*vm.Session, map[string]vm.Value, error) {
	const channels, side = 16, 12
	b := graph.NewBuilder("chain", 17)
	x := b.Input("x", graph.TensorOf(graph.Float32, 1, channels, side, side))
	for i := range nodes {
		n := &graph.Node{Name: fmt.Sprintf("n%d", i), Op: "Conv", Inputs: []graph.TensorID{x}}
		switch kind(i) % kinds {
		case 0:
			n.Inputs = append(n.Inputs, weights(b, channels, channels, 1, 1))
		case 1:
			n.Op = "BatchNormalization"
			n.Inputs = append(n.Inputs, weights(b, channels), weights(b, channels), weights(b, channels), b.Floats("v", []int64{channels}, ones(channels)))
		case 2:
			n.Inputs = append(n.Inputs, weights(b, channels, 1, 3, 3))
			n.Attrs = []*graph.Attr{{Name: "group", Type: graph.AttrInt, Int: channels}, {Name: "pads", Type: graph.AttrInts, Ints: []int64{1, 1, 1, 1}}}
		case 3:
			n.Op = "Add"
			n.Inputs = append(n.Inputs, weights(b, channels, 1, 1))
		case 4:
			n.Op = "Abs"
		}
		x = b.Add(n, n.Name)[0]
	}
	b.Output(x)
	s, _, in, err := session(b)
	return s, in, err
}

// fastest returns the nanoseconds of the fastest of many runs.
func fastest(s *vm.Session, in map[string]vm.Value) (float64, error) {
	least := math.Inf(1)
	for range mostRuns {
		began := time.Now()
		if _, err := s.Run(context.Background(), in); err != nil {
			return 0, err
		}
		least = min(least, float64(time.Since(began).Nanoseconds()))
	}
	return least, nil
}

// session plans a graph and opens a session of one worker, with inputs.
func session(b *graph.Builder) (*vm.Session, *graph.Graph, map[string]vm.Value, error) {
	m, err := b.Model()
	if err != nil {
		return nil, nil, nil, err
	}
	r, err := passes.Optimize(context.Background(), m, passes.Options{Aliases: passes.AliasesOff})
	if err != nil {
		return nil, nil, nil, err
	}
	program, err := vm.New(r.Model, r.Plan)
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := program.NewSession(vm.Options{Workers: 1})
	if err != nil {
		return nil, nil, nil, err
	}
	in := map[string]vm.Value{}
	for _, t := range program.Inputs() {
		v, n := vm.Value{Type: t.Type.Elem}, 1
		for _, d := range t.Type.Shape {
			v.Shape = append(v.Shape, int(d))
			n *= int(d)
		}
		for _, x := range ramp(n) {
			v.Data = binary.LittleEndian.AppendUint32(v.Data, math.Float32bits(x))
		}
		in[t.Name] = v
	}
	return s, r.Model.Graph, in, nil
}

// constants are the nanoseconds of an operation, of one divided by the columns, of a byte
// of activations, of a byte of weights, of a plane, of a kernel, and of an evaluation of exp.
type constants [7]float64

// terms returns what the constants are multiplied with.
func terms(w cost.Work) constants {
	t := constants{w.FLOPs, 0, w.Bytes, w.Weights, w.Planes, 1, w.Functions}
	if w.Columns > 0 {
		t[1] = w.FLOPs / w.Columns
	}
	return t
}

func (c constants) time(w cost.Work) (ns float64) {
	for i, x := range terms(w) {
		ns += c[i] * x
	}
	return ns
}

// fit returns the constants with the least sum of squared relative errors. What would be
// negative is 0: the measurements do not tell that term from the others.
func fit(list []sample) constants {
	var out [len(constants{})]bool
	for {
		c, least := solve(list, out), 0
		for i := range c {
			if c[i] < c[least] {
				least = i
			}
		}
		if c[least] >= 0 {
			return c
		}
		out[least] = true
	}
}

// solve is fit without the terms that are out, whose constants are 0; others may be negative.
func solve(list []sample, out [len(constants{})]bool) (c constants) {
	const n = len(c)
	var a [n][n + 1]float64 // the normal equations
	for i := range n {
		if out[i] {
			a[i][i] = 1
		}
	}
	for _, s := range list {
		t := terms(s.work)
		for i := range n {
			if out[i] {
				continue
			}
			for j := range n {
				if !out[j] {
					a[i][j] += t[i] * t[j] / (s.ns * s.ns)
				}
			}
			a[i][n] += t[i] / s.ns
		}
	}
	for i := range n { // elimination: the matrix is positive definite
		for k := range n {
			if k == i {
				continue
			}
			f := a[k][i] / a[i][i]
			for j := range n + 1 {
				a[k][j] -= f * a[i][j]
			}
		}
	}
	for i := range n {
		c[i] = a[i][n] / a[i][i]
	}
	return c
}
