// Package lora gives a model low-rank adapters (LoRA: Hu et al. 2021, "LoRA: Low-Rank
// Adaptation of Large Language Models"), so that a training step trains them alone: beside a
// product y = W x of the model stands s B A x, where A is r x in, B is out x r, and the rank r
// is small. A is drawn and B is zero, so that the model computes at first what it did.
//
// The parts have the names, shapes and first values of Hugging Face's PEFT, whose files the
// adapters are read from and written to.
//
//	lora.go       Options, Adapter, and Adapt, which adds adapters
//	sites.go      the table of operators beside which adapters can stand
//	weights.go    the initializer behind an operand
//	choose.go     which sites get one
//	names.go      the names of modules, as PyTorch has them
//	draw.go       first values
//	save.go       the files that PEFT loads
//	load.go       the same, read
//	merge.go      adapters added to weights
package lora

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
)

// Options say which adapters a model gets.
type Options struct {
	Rank  int     // r; 1 or more
	Alpha float64 // the scale s is Alpha / Rank; 0: [DefaultAlpha]
	// Targets matches the names of the modules that get an adapter. nil: those of [Adapt].
	Targets *regexp.Regexp
	Dropout float64 // the part of the elements of x that the adapter does not see, 0 <= Dropout < 1
	// RankStabilized: the scale is Alpha / sqrt(Rank) (rsLoRA: Kalajdzievski 2023).
	RankStabilized bool
}

// DefaultAlpha is that of PEFT.
const DefaultAlpha = 8

// mostRank bounds Options.Rank: more is no low rank.
const mostRank = 1 << 16

// Validate checks the options by themselves.
func (o *Options) Validate() error {
	switch {
	case o.Rank < 1 || o.Rank > mostRank:
		return fmt.Errorf("adapters of rank %d: expected 1 to %d", o.Rank, mostRank)
	case o.Alpha < 0 || math.IsNaN(o.Alpha) || math.IsInf(o.Alpha, 0):
		return fmt.Errorf("adapters with alpha %g: expected a number above 0", o.Alpha)
	case !(o.Dropout >= 0 && o.Dropout < 1):
		return fmt.Errorf("adapters with dropout %g: expected at least 0 and less than 1", o.Dropout)
	}
	return nil
}

// Kind says what an adapter stands beside.
type Kind string

// The kinds of adapters, and what PEFT calls their two tensors.
const (
	Linear      Kind = "linear"    // lora_A.weight [r, in], lora_B.weight [out, r]
	Convolution Kind = "conv"      // lora_A.weight [r, in, kernel...], lora_B.weight [out, r, 1...]
	Embedding   Kind = "embedding" // lora_embedding_A [r, rows], lora_embedding_B [width, r]
)

// Turned reports whether the model holds the two tensors transposed: MatMul and Gather take
// A as [in, r] and B as [r, out].
func (k Kind) Turned() bool { return k != Convolution }

// parts are the ends of the names of A and B.
func (k Kind) parts() [2]string {
	if k == Embedding {
		return [2]string{"lora_embedding_A", "lora_embedding_B"}
	}
	return [2]string{"lora_A.weight", "lora_B.weight"}
}

// Adapter is the adapter of one module. Nodes that read one weight share it.
type Adapter struct {
	Module  string   `json:"module"`
	Kind    Kind     `json:"kind"`
	Weight  string   `json:"weight"`  // the initializer that it stands beside
	A       string   `json:"a"`       // names of initializers, parameters of a step
	B       string   `json:"b"`       //
	Outputs []string `json:"outputs"` // the tensors to which it adds
}

// Record is what the metadata say of a model's adapters, as JSON at [Key].
type Record struct {
	Rank           int       `json:"rank"`
	Alpha          float64   `json:"alpha"`
	Dropout        float64   `json:"dropout,omitempty"`
	RankStabilized bool      `json:"rslora,omitempty"`
	Targets        string    `json:"targets,omitempty"`
	Adapters       []Adapter `json:"adapters"`
}

// Key is the key of the Record in the metadata of a model.
const Key = "onnxmem.lora"

// Scale is the factor of B A.
func (r *Record) Scale() float64 {
	if r.RankStabilized {
		return r.Alpha / math.Sqrt(float64(r.Rank))
	}
	return r.Alpha / float64(r.Rank)
}

// Parameters are the names of all A and B.
func (r *Record) Parameters() []string {
	var list []string
	for _, a := range r.Adapters {
		list = append(list, a.A, a.B)
	}
	return list
}

// Write puts the record into the metadata of a model.
func (r *Record) Write(m *graph.Model) error {
	text, err := json.Marshal(r)
	if err == nil {
		m.SetProp(Key, string(text))
	}
	return err
}

// RecordOf reads the record of a model; nil if it has none.
func RecordOf(m *graph.Model) (*Record, error) {
	text, has := m.Prop(Key)
	if !has {
		return nil, nil
	}
	r := &Record{}
	if err := json.Unmarshal([]byte(text), r); err != nil || r.Rank < 1 {
		return nil, graph.Errorf("metadata entry %s: expected what optimize --lora writes there, found %s", Key, graph.Short(text))
	}
	return r, nil
}

// Adapt returns a copy of a model with adapters, and what it has added. Calls of local
// functions are inlined. The copy shares the elements of initializers with m.
//
// Without Options.Targets, a model with attention gets adapters beside all products whose
// weight is a constant matrix, but those of its heads ([chooser.head]), as PEFT's
// "all-linear" does. Any other model gets them beside all such products and all 1 x 1
// convolutions. Products in bodies of nodes get none.
func Adapt(m *graph.Model, opt Options) (*graph.Model, *Record, error) {
	if err := opt.Validate(); err != nil {
		return nil, nil, err
	}
	if opt.Alpha == 0 {
		opt.Alpha = DefaultAlpha
	}
	if _, has := m.Prop(Key); has {
		return nil, nil, graph.Errorf("has adapters already (its metadata have %s): expected a model without", Key)
	}
	m, err := graph.Inline(m)
	if err != nil {
		return nil, nil, err
	}
	c := *m
	c.Graph, c.Props, c.Opsets = m.Graph.Clone(), slices.Clone(m.Props), slices.Clone(m.Opsets)
	constant.Hoist(c.Graph)
	c.Graph.Link()
	sites := findSites(c.Graph)
	chosen, err := choose(c.Graph, sites, opt.Targets)
	if err != nil {
		return nil, nil, err
	}
	b := newBuilder(&c, opt)
	b.add(chosen)
	if opt.Targets != nil {
		b.record.Targets = opt.Targets.String()
	}
	return &c, b.record, b.record.Write(&c)
}

// builder adds adapters to a graph.
type builder struct {
	g      *graph.Graph
	opset  int64
	opt    Options
	record *Record
	taken  map[string]bool // names of tensors
	nodes  []*graph.Node   // the new list
	scale  map[graph.DType]graph.TensorID
}

func newBuilder(m *graph.Model, opt Options) *builder {
	b := &builder{g: m.Graph, opset: m.Opset(""), opt: opt, taken: map[string]bool{}, scale: map[graph.DType]graph.TensorID{}}
	b.record = &Record{Rank: opt.Rank, Alpha: opt.Alpha, Dropout: opt.Dropout, RankStabilized: opt.RankStabilized}
	for _, t := range m.Graph.Tensors {
		b.taken[t.Name] = true
	}
	return b
}

// add adds the adapters of the sites: one for each weight.
func (b *builder) add(sites []*site) {
	at := map[*graph.Node][]*site{}
	adapters := map[key]*Adapter{}
	var list []*Adapter
	ids := map[*Adapter][2]graph.TensorID{}
	for _, s := range sites {
		a := adapters[s.key]
		if a == nil {
			a = &Adapter{Module: s.module, Kind: s.kind, Weight: b.g.Tensors[s.weight].Name}
			ids[a] = b.parameters(a, s)
			adapters[s.key], list = a, append(list, a)
		}
		a.Outputs = append(a.Outputs, b.g.Tensors[s.last.Outputs[0]].Name)
		at[s.last] = append(at[s.last], s)
	}
	for _, n := range b.g.Nodes {
		b.nodes = append(b.nodes, n)
		for _, s := range at[n] {
			a := adapters[s.key]
			b.beside(s, a, ids[a])
		}
	}
	b.g.Nodes = b.nodes
	b.g.Link()
	for _, a := range list {
		b.record.Adapters = append(b.record.Adapters, *a)
	}
}

// parameters adds the initializers of an adapter. They are float32 beside weights of any
// type, as PEFT's are.
func (b *builder) parameters(a *Adapter, s *site) [2]graph.TensorID {
	r := int64(b.opt.Rank)
	parts := a.Kind.parts()
	make := func(part string, dims []int64) *graph.Data {
		t := b.tensor(a.Module + "." + part)
		d := &graph.Data{Name: b.g.Tensors[t].Name, Type: graph.Float32, Dims: dims}
		d.Bytes = 4 * d.Elements()
		b.g.Tensors[t].Data = d
		return d
	}
	dims := [2][]int64{{s.in, r}, {r, s.out}}
	if a.Kind == Convolution {
		dims[0] = append([]int64{r, s.in}, s.kernel...)
		dims[1] = append([]int64{s.out, r}, slices.Repeat([]int64{1}, len(s.kernel))...)
	}
	first := graph.TensorID(len(b.g.Tensors))
	x, y := make(parts[0], dims[0]), make(parts[1], dims[1])
	a.A, a.B = x.Name, y.Name
	if a.Kind == Embedding {
		constant.Zero(x)
		y.Raw = drawNormal(y.Name, y.Elements())
	} else {
		x.Raw = drawUniform(x.Name, x.Elements(), x.Elements()/r)
		constant.Zero(y)
	}
	return [2]graph.TensorID{first, first + 1}
}

// beside adds the nodes of an adapter: the site's result becomes the sum of what it was and
// s B A x.
func (b *builder) beside(s *site, a *Adapter, ab [2]graph.TensorID) {
	name := a.Module + ".lora"
	y := s.last.Outputs[0]
	base := b.tensor(b.g.Tensors[y].Name + ".base")
	s.last.Outputs[0], s.last.Span = base, graph.Span{}
	x := s.x
	if s.transposed {
		x = b.node("Transpose", name+".x", []*graph.Attr{ints("perm", 1, 0)}, x)
	}
	if b.opt.Dropout > 0 && a.Kind != Embedding { // PEFT drops no indices
		x = b.dropout(name+".dropout", x)
	}
	down, up := b.cast(ab[0], s.elem), b.cast(ab[1], s.elem)
	var h, d graph.TensorID
	switch a.Kind {
	case Embedding:
		h = b.scaled(b.node("Gather", name+".down", nil, down, x), name, s.elem)
		d = b.node("MatMul", name+".up", nil, h, up)
	case Convolution:
		h = b.scaled(b.node("Conv", name+".down", s.attrs, x, down), name, s.elem)
		d = b.node("Conv", name+".up", nil, h, up)
	default:
		h = b.scaled(b.node("MatMul", name+".down", nil, x, down), name, s.elem)
		d = b.node("MatMul", name+".up", nil, h, up)
	}
	n := &graph.Node{Op: "Add", Name: name, Inputs: []graph.TensorID{base, d}, Outputs: []graph.TensorID{y}}
	b.nodes = append(b.nodes, n)
}

// scaled multiplies by the scale, where the tensor is small: between A and B.
func (b *builder) scaled(h graph.TensorID, name string, elem graph.DType) graph.TensorID {
	s := b.record.Scale()
	if s == 1 {
		return h
	}
	factor, has := b.scale[elem]
	if !has {
		factor = b.literal("lora.scale", elem, s)
		b.scale[elem] = factor
	}
	return b.node("Mul", name+".scaled", nil, h, factor)
}

func (b *builder) dropout(name string, x graph.TensorID) graph.TensorID {
	if b.opset < 12 {
		return b.node("Dropout", name, []*graph.Attr{{Name: "ratio", Type: graph.AttrFloat, Float: float32(b.opt.Dropout)}}, x)
	}
	return b.node("Dropout", name, nil, x, b.literal(name+".ratio", graph.Float32, b.opt.Dropout))
}

// cast converts a parameter to the type in which the model computes.
func (b *builder) cast(t graph.TensorID, elem graph.DType) graph.TensorID {
	if elem == graph.Float32 {
		return t
	}
	return b.node("Cast", b.g.Tensors[t].Name+".cast", []*graph.Attr{{Name: "to", Type: graph.AttrInt, Int: int64(elem)}}, t)
}

// literal adds a scalar.
func (b *builder) literal(name string, elem graph.DType, v float64) graph.TensorID {
	t := b.tensor(name)
	raw, _ := constant.AppendReal(nil, elem, v)
	b.g.Tensors[t].Data = &graph.Data{Name: b.g.Tensors[t].Name, Type: elem, Dims: []int64{}, Raw: raw, Bytes: int64(len(raw))}
	return t
}

// node adds a node with one output; both have the name.
func (b *builder) node(op, name string, attrs []*graph.Attr, in ...graph.TensorID) graph.TensorID {
	t := b.tensor(name)
	b.nodes = append(b.nodes, &graph.Node{Op: op, Name: b.g.Tensors[t].Name, Attrs: attrs, Inputs: in, Outputs: []graph.TensorID{t}})
	return t
}

// tensor adds a tensor with that name, or the name with a number.
func (b *builder) tensor(name string) graph.TensorID {
	unique := name
	for k := 2; b.taken[unique]; k++ {
		unique = fmt.Sprintf("%s.%d", name, k)
	}
	b.taken[unique] = true
	return b.g.NewTensor(unique)
}

func ints(name string, list ...int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInts, Ints: list}
}
