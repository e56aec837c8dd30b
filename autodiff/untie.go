package autodiff

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
	"github.com/onnxmem/onnxmem/ops"
)

// A site is an input of a node that reads an initializer, directly or through Identity
// nodes.
type site struct {
	node  *graph.Node
	input int
}

// Copy is an initializer that was separated from another one (Step.Copies).
type Copy struct {
	Name string `json:"name"` // of the copy
	Of   string `json:"of"`   // the initializer of the source
	// Reads are the inputs of the source's nodes that read the copy. Empty: in the source,
	// Name is the output of an Identity node.
	Reads []Read `json:"reads,omitempty"`
}

// Read is an input of a node, which is called by its first output.
type Read struct {
	Output string `json:"output"`
	Input  int    `json:"input"`
}

// Tie is a parameter that several nodes read.
type Tie struct {
	Name  string   `json:"name"`
	Nodes []string `json:"nodes"` // their names, or else their operators
	// Equal: all of its elements are equal, so an exporter may have merged several
	// parameters.
	Equal bool `json:"equal,omitempty"`
}

// String describes a tie in one line.
func (t Tie) String() string {
	const most = 3
	nodes := strings.Join(t.Nodes[:min(len(t.Nodes), most)], ", ")
	if len(t.Nodes) > most {
		nodes += fmt.Sprintf(" and %d more", len(t.Nodes)-most)
	}
	text := fmt.Sprintf("%s is one parameter for %d nodes: %s", graph.Short(t.Name), len(t.Nodes), nodes)
	if t.Equal {
		text += "; all its elements are equal, so an exporter may have merged several (--untie)"
	}
	return text
}

// untie separates initializers that exporters merged because their first values are
// equal. PyTorch's exporter merges all equal initializers, so a fresh network has one
// tensor of ones that is a scale here and a running variance there.
//
// A tensor that is running statistics and something else is always separated: one is
// trained, the other follows the data. Other merged tensors could be meant to be one
// parameter (the embedding and the head of a language model), and nothing in the file
// says so; they are listed (selectParameters), and separated if Options.Untie says so.
func (s *trainer) untie() (err error) {
	s.g.Link()
	files := constant.NewFiles(s.source)
	defer func() { err = errors.Join(err, files.Close()) }()
	s.ties = map[ID]*Tie{}
	for id, root := range slices.Clone(s.g.Tensors) {
		if root.Data != nil && root.Type.Elem.Floating() && len(root.Type.Shape) > 0 && root.Data.Sparse == nil {
			s.separateStatistics(ID(id))
			s.separateFills(files, ID(id))
			s.separate(files, ID(id))
		}
	}
	s.g.Link()
	return s.err
}

// sites lists the inputs that read an initializer, in the order of the graph.
func (s *trainer) sites(root ID) (list []site) {
	for _, k := range s.g.Tensors[root].Readers {
		n := s.g.Nodes[k]
		if ops.Copies(n) {
			list = append(list, s.sites(n.Outputs[0])...)
			continue
		}
		for i, t := range n.Inputs {
			if t == root && !slices.Contains(list, site{n, i}) {
				list = append(list, site{n, i})
			}
		}
	}
	return list
}

// statistics reports whether the site reads running statistics.
func (r site) statistics() bool {
	return r.node.Op == "BatchNormalization" && r.node.Domain == "" && r.input >= 3
}

// quantization reports whether the reader converts to or from quantized elements.
func (r site) quantization() bool {
	quantizes, dequantizes := ops.Converts(r.node)
	return quantizes || dequantizes
}

// separateStatistics gives running statistics a tensor of their own if the same
// initializer is something else, too, or, if they are updated, those of another node.
func (s *trainer) separateStatistics(root ID) {
	statistics, others := []site(nil), s.g.Tensors[root].Output
	for _, r := range s.sites(root) {
		if r.statistics() {
			statistics = append(statistics, r)
		} else {
			others = true
		}
	}
	name, kept := s.name(root), false
	for _, r := range statistics {
		switch {
		case others:
			c := s.own(root, []site{r})
			s.step.Warnings = append(s.step.Warnings, fmt.Sprintf("%s is running statistics and a parameter, since an exporter merged equal initializers: %s is a copy for the statistics", name, s.name(c)))
		case s.opt.FreezeStatistics:
		case r.reads() == root && !kept:
			kept = true
		case len(statistics) == 1:
			s.own(root, []site{r}) // the name before the exporter put an Identity there
		default:
			c := s.own(root, []site{r})
			s.step.Warnings = append(s.step.Warnings, fmt.Sprintf("running statistics %s belong to several nodes: %s is a copy that is trained separately", name, s.name(c)))
		}
	}
}

// separateFills gives a tensor of their own to scales of ones and biases of zeros that an
// exporter merged with a parameter whose first elements are the same. Exporters write
// GroupNormalization with them, as an InstanceNormalization between Reshapes.
func (s *trainer) separateFills(files *constant.Files, root ID) {
	var fills []site
	list := s.sites(root)
	for _, r := range list {
		if s.fills(r) {
			fills = append(fills, r)
		}
	}
	if len(fills) == 0 || len(fills) == len(list) || !s.equal(files, root) {
		return
	}
	name := s.name(root)
	c := s.own(root, fills)
	s.g.Tensors[c].Origin = graph.OriginConstant
	s.step.Warnings = append(s.step.Warnings, fmt.Sprintf("%s is a parameter, and the scale or bias by which an exporter writes GroupNormalization: %s is a copy for the latter, and constant", name, s.name(c)))
}

// fills reports whether a site is the scale or bias of an InstanceNormalization between
// Reshapes.
func (s *trainer) fills(r site) bool {
	if r.node.Op != "InstanceNormalization" || r.node.Domain != "" || r.input == 0 {
		return false
	}
	reshapes := func(k graph.NodeID) bool { return k >= 0 && s.g.Nodes[k].Op == "Reshape" }
	return reshapes(s.g.Tensors[r.node.Inputs[0]].Maker) && len(s.g.Tensors[r.node.Outputs[0]].Readers) == 1 && reshapes(s.g.Tensors[r.node.Outputs[0]].Readers[0])
}

// name is the name of a tensor, for messages.
func (s *trainer) name(t ID) string { return graph.Short(s.g.Tensors[t].Name) }

// separate gives each node that reads an initializer a copy of its own, if
// Options.Untie names it, and otherwise records that it is tied.
func (s *trainer) separate(files *constant.Files, root ID) {
	var groups [][]site // by tensor and node
	for _, r := range s.sites(root) {
		if r.statistics() {
			continue
		}
		k := slices.IndexFunc(groups, func(g []site) bool { return g[0].node == r.node && g[0].reads() == r.reads() })
		if k < 0 {
			groups = append(groups, []site{r})
		} else {
			groups[k] = append(groups[k], r)
		}
	}
	if len(groups) < 2 {
		return
	}
	places := map[*graph.Node]int{}
	for i, n := range s.g.Nodes {
		places[n] = i
	}
	slices.SortStableFunc(groups, func(a, b []site) int { // those that read it directly keep it
		if x, y := a[0].reads() == root, b[0].reads() == root; x != y {
			if x {
				return -1
			}
			return 1
		}
		return places[a[0].node] - places[b[0].node]
	})
	name := s.g.Tensors[root].Name
	equal := s.equal(files, root)
	if s.opt.Untie != nil && s.opt.Untie.MatchString(name) || s.opt.UntieEqual && equal {
		for _, g := range groups[1:] {
			s.own(root, g)
		}
		s.step.Separated = append(s.step.Separated, name)
		return
	}
	t := &Tie{Name: name, Equal: equal}
	for _, g := range groups {
		n := g[0].node
		t.Nodes = append(t.Nodes, cmp.Or(n.Name, n.OpName()))
	}
	s.ties[root] = t
}

func (r site) reads() ID { return r.node.Inputs[r.input] }

// own makes a copy of an initializer, which those sites read from now on. If an Identity
// node already made one for them, that has the name of the parameter before the exporter
// merged it.
func (s *trainer) own(root ID, sites []site) ID {
	through := sites[0].reads()
	id := through
	c := Copy{Of: s.g.Tensors[root].Name}
	if through == root || s.g.Tensors[through].Output || s.readElsewhere(through, sites) {
		id = s.newTensor(s.unique(s.g.Tensors[through].Name), s.g.Tensors[root].Type, nil)
		for _, r := range sites {
			r.node.Inputs[r.input] = id
			r.node.Span = graph.Span{}
			c.Reads = append(c.Reads, Read{s.g.Tensors[firstOutput(r.node)].Name, r.input})
		}
	} else {
		s.g.Nodes = slices.DeleteFunc(s.g.Nodes, func(n *graph.Node) bool { return slices.Contains(n.Outputs, id) })
		s.g.Link()
	}
	c.Name = s.g.Tensors[id].Name
	d := *s.g.Tensors[root].Data
	d.Name = c.Name
	s.g.Tensors[id].Data = &d
	s.step.Copies = append(s.step.Copies, c)
	return id
}

// readElsewhere reports whether a node reads a tensor at another place than those sites.
func (s *trainer) readElsewhere(t ID, sites []site) bool {
	for _, k := range s.g.Tensors[t].Readers {
		n := s.g.Nodes[k]
		for i, x := range n.Inputs {
			if x == t && !slices.Contains(sites, site{n, i}) {
				return true
			}
		}
		if slices.Contains(n.Captures, t) {
			return true
		}
	}
	return slices.ContainsFunc(sites, func(r site) bool { return r.reads() != t })
}

// equal reports whether all elements of an initializer have the same bytes, which those
// of a trained tensor have not.
func (s *trainer) equal(files *constant.Files, id ID) bool {
	d, err := files.Read(s.g.Tensors[id].Data)
	if err != nil || len(d.Raw) == 0 || d.Type.Bits() < 8 || d.Type.Bits()%8 != 0 { // its values are not there
		return false
	}
	size := int(d.Type.Bits() / 8)
	for i := size; i < len(d.Raw); i += size {
		if !bytes.Equal(d.Raw[i:i+size], d.Raw[:size]) {
			return false
		}
	}
	return len(d.Raw) > size
}
