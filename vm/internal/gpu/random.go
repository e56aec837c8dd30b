package gpu

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// seeds are the seeds of the nodes that draw random numbers, in a block on the device, so
// that a recorded step draws again.
type seeds struct {
	block *cuda.Block
	nodes []*form.Call
	words []uint64                    // of the last step
	at    map[*form.Tensor]driver.Ptr // where each is
}

// mostSeeds bounds the nodes with seeds: a block is small.
const mostSeeds = 512

// seed returns a tensor of one element, on the device, which is the node's seed in each
// step.
func (n *Node) seed() (*form.Tensor, error) {
	s := &n.k.seeds
	if len(s.nodes) == mostSeeds {
		return nil, unsupportedf("more than %d nodes that draw random numbers", mostSeeds)
	}
	if s.block == nil {
		var err error
		if s.block, err = n.k.Queue.Device.Take(8*mostSeeds, "seeds"); err != nil {
			return nil, err
		}
		s.at = map[*form.Tensor]driver.Ptr{}
	}
	t := &form.Tensor{Type: graph.Uint64, Shape: []int{}}
	s.at[t] = s.block.At + driver.Ptr(8*len(s.nodes))
	s.nodes = append(s.nodes, n.Call)
	return t, nil
}

// Reseed puts the seeds of the next step on the queue, whose work must have been done. It
// needs the context.
func (k *Kernels) Reseed() error {
	s := &k.seeds
	if len(s.nodes) == 0 {
		return nil
	}
	s.words = s.words[:0]
	for _, n := range s.nodes {
		s.words = append(s.words, n.Runtime.Seed())
	}
	return driver.Upload(s.block.At, unsafe.Pointer(unsafe.SliceData(s.words)), int64(8*len(s.words)), k.Queue.Stream)
}

// ownSeed returns the seed that is an attribute of a node, a float but for Dropout.
func ownSeed(n *Node) (seed uint64, has bool) {
	a := n.Node.Attr("seed")
	switch {
	case a == nil:
		return 0, false
	case a.Type == graph.AttrInt:
		return uint64(a.Int), true
	}
	return uint64(math.Float32bits(a.Float)), true
}

// seedOf returns the C expression of a node's seed: its attribute, or one that differs
// from step to step.
func seedOf(n *Node, e *expression) (string, error) {
	if seed, has := ownSeed(n); has {
		return fmt.Sprintf("0x%xull", seed), nil
	}
	t, err := n.seed()
	if err != nil {
		return "", err
	}
	return e.valueAs(t, []int{})
}

// randoms lists the operators that draw numbers: those that the host draws.
var randoms = []Row{
	{Name: "Bernoulli", Element: bernoulli},
	{Name: "RandomNormal", Element: randomNormal},
	{Name: "RandomNormalLike", Element: randomNormal},
	{Name: "RandomUniform", Element: randomUniform},
	{Name: "RandomUniformLike", Element: randomUniform},
	{Name: "Multinomial", Make: makeMultinomial},
}

// placeOf returns the C expressions of the seed and of the number of an element.
func placeOf(n *Node, e *expression) (seed, i string, err error) {
	if err := drawsOnce(n); err != nil {
		return "", "", err
	}
	if seed, err = seedOf(n, e); err != nil {
		return "", "", err
	}
	i, err = e.index()
	return seed, i, err
}

// drawsOnce refuses nodes in bodies, which draw again in each iteration: there is one seed
// for a step.
func drawsOnce(n *Node) error {
	if _, has := ownSeed(n); !has && n.Runtime.Repeats() {
		return unsupportedf("numbers that each iteration draws anew")
	}
	return nil
}

// bernoulli draws 1 with the probability that the input gives, else 0.
func bernoulli(n *Node, e *expression) error {
	x, y := n.In[0], n.Out[0]
	name, err := typeOf(y)
	if err != nil {
		return err
	}
	if !isReal(x.Type) {
		return unsupportedf("dtype %v", x.Type)
	}
	p, err := e.value(x)
	if err != nil {
		return err
	}
	seed, i, err := placeOf(n, e)
	if err != nil {
		return err
	}
	return e.set(y, fmt.Sprintf("(Compute<%s>)(%s < (double)%s)", name, call("Uniform", seed, i), p))
}

// randomUniform draws numbers from [low, high).
func randomUniform(n *Node, e *expression) error {
	low, high := float64(n.Float("low", 0)), float64(n.Float("high", 1))
	return drawReals(n, e, func(seed, i string) string {
		return fmt.Sprintf("%s + %s * %s", literal(low, graph.Float64), literal(high-low, graph.Float64), call("Uniform", seed, i))
	})
}

// randomNormal draws numbers of a normal distribution.
func randomNormal(n *Node, e *expression) error {
	mean, scale := float64(n.Float("mean", 0)), float64(n.Float("scale", 1))
	return drawReals(n, e, func(seed, i string) string {
		return call("Normal", seed, i, literal(mean, graph.Float64), literal(scale, graph.Float64))
	})
}

// drawReals sets output 0 to a number that depends on the seed and the number of the
// element.
func drawReals(n *Node, e *expression, number func(seed, i string) string) error {
	y := n.Out[0]
	if !isReal(y.Type) {
		return unsupportedf("dtype %v", y.Type)
	}
	seed, i, err := placeOf(n, e)
	if err != nil {
		return err
	}
	v := number(seed, i)
	if y.Type != graph.Float64 {
		v = "(float)(" + v + ")"
	}
	return e.set(y, v)
}

// makeMultinomial draws classes; input 0 holds the logarithms of their weights, a row for
// each batch.
func makeMultinomial(n *Node) error {
	x, y := n.In[0], n.Out[0]
	if !isReal(x.Type) {
		return unsupportedf("dtype %v", x.Type)
	}
	if err := errors.Join(drawsOnce(n), tooLarge(x, y)); err != nil {
		return err
	}
	name, err := indexType(y)
	if err != nil {
		return err
	}
	batches, classes := x.Shape[0], x.Shape[1]
	if y.Len() == 0 {
		return nil
	}
	if classes == 0 {
		return unsupportedf("no classes")
	}
	fixed, has := ownSeed(n)
	var from driver.Ptr
	if !has {
		t, err := n.seed()
		if err != nil {
			return err
		}
		if from, err = n.at(t); err != nil {
			return err
		}
	}
	at, err := n.addresses(y, x)
	if err != nil {
		return err
	}
	sums := n.scratch(int64(8 * x.Len()))
	return n.launch(n.kernel("draw.cu", "multinomial", "ELEMENT="+cType[x.Type], "INDEX="+name), batches, threadsPerBlock,
		at[0], at[1], sums, from, fixed, int32(classes), int32(y.Shape[1]))
}
