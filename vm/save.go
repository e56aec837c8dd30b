package vm

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/internal/program"
)

// mostInline is the largest number of bytes of elements that a model file holds
// itself; protobuf allows 2 GiB. It is a variable so that tests need no large model.
var mostInline int64 = 256 << 20

// Save writes the current parameters and states to a file: a model without nodes that
// has them as initializers, as optimize --train writes beside a training graph. Load
// reads it back. If they take more than 256 MiB, their elements go to a second file
// (see DataPath). Either both files are written completely, or neither.
func (s *Session) Save(path string) error {
	m := s.p.Model
	params := &graph.Model{IRVersion: max(m.IRVersion, 8), Producer: "onnxmem", Opsets: m.Opsets, Graph: &graph.Graph{Name: m.Graph.Name}}
	var list []*graph.Data
	for _, t := range s.p.States() {
		d, err := s.x.Data(t.Name)
		if err != nil {
			return err
		}
		p := params.Graph.Tensors[params.Graph.NewTensor(t.Name)]
		p.Data, p.Type = d, t.Type
		list = append(list, d)
	}
	return onnx.WriteNew(path, params, list, mostInline)
}

// State returns a parameter or state, whose elements Data.Generate writes from the session's
// memory.
func (s *Session) State(name string) (*graph.Data, error) { return s.x.Data(name) }

// SaveModel writes source, the model that the training graph was made from, with the
// current parameters and running statistics in place of its initializers, or Constant
// nodes, of the same names. Everything else is as in source's file. Its other external data are copied
// along if path lies in another folder. If the parameters take more than 256 MiB,
// their elements go to a second file (see DataPath).
func (s *Session) SaveModel(path string, source *graph.Model) error {
	dir := filepath.Dir(path)
	if onnx.HoldsExternal(source, dir, path) || onnx.HoldsExternal(source, dir, DataPath(path)) {
		return fmt.Errorf("%s: holds external data of the model: expected another name", path)
	}
	m, g := *source, source.Graph.Clone()
	m.Graph = g
	constant.Hoist(g) // as for training
	if err := separate(s.p.Model, source, g); err != nil {
		return err
	}
	named := map[string]graph.TensorID{}
	for id, t := range g.Tensors {
		if t.Data != nil && !t.Capture {
			named[t.Name] = graph.TensorID(id)
		}
	}
	var list []*graph.Data
	for i := range s.p.Plan.Buffers {
		b := &s.p.Plan.Buffers[i]
		if b.Kind != plan.KindParameter && b.Kind != plan.KindState { // caches are no part of the model
			continue
		}
		id, is := named[b.Tensors[0]]
		if !is && b.Kind == plan.KindState {
			continue // a state of the optimizer
		}
		if !is {
			return program.Refuse(source, "has no initializer %q, which was trained: expected the model that the training graph was made of", graph.Short(b.Tensors[0]))
		}
		d, err := s.x.Data(b.Tensors[0])
		if err != nil {
			return err
		}
		t := *g.Tensors[id]
		if t.Data.Type != d.Type || !slices.Equal(t.Data.Dims, d.Dims) {
			return program.Refuse(source, "initializer %q is %v, the trained one %v: expected the model that the training graph was made of",
				graph.Short(t.Name), t.Data.TensorType(), d.TensorType())
		}
		t.Data, g.Tensors[id] = d, &t
		list = append(list, d)
	}
	return onnx.WriteNew(path, &m, list, mostInline)
}

// keyCopies is the list of initializers that training separated from others
// (docs/formats/training.md).
const keyCopies = "onnxmem.copies"

// separate gives g, a clone of the source's graph, the initializers that the training
// graph step has copies of, without values.
func separate(step, source *graph.Model, g *graph.Graph) error {
	text, ok := step.Prop(keyCopies)
	if !ok {
		return nil
	}
	var list []struct {
		Name, Of string
		Reads    []struct {
			Output string
			Input  int
		}
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return program.Refuse(step, "%s: %v: expected a JSON list of copies", keyCopies, err)
	}
	named := map[string]graph.TensorID{}
	for id, t := range g.Tensors {
		named[t.Name] = graph.TensorID(id)
	}
	for _, c := range list {
		of, is := named[c.Of]
		if !is || g.Tensors[of].Data == nil {
			return program.Refuse(source, "has no initializer %q, of which %q is a copy: expected the model that the training graph was made of", graph.Short(c.Of), graph.Short(c.Name))
		}
		id, made := named[c.Name]
		if made != (len(c.Reads) == 0) {
			return program.Refuse(source, "tensor %q: expected it to be new, or to be made of %q by Identity", graph.Short(c.Name), graph.Short(c.Of))
		}
		if made {
			g.Nodes = slices.DeleteFunc(g.Nodes, func(n *graph.Node) bool { return ops.Copies(n) && slices.Contains(n.Outputs, id) })
		} else {
			id = g.NewTensor(c.Name)
			named[c.Name] = id
			g.Tensors[id].Type = g.Tensors[of].Type
		}
		d := *g.Tensors[of].Data
		d.Name = c.Name
		g.Tensors[id].Data = &d
		for _, r := range c.Reads {
			k := slices.IndexFunc(g.Nodes, func(n *graph.Node) bool {
				return r.Input >= 0 && r.Input < len(n.Inputs) && slices.ContainsFunc(n.Outputs, func(t graph.TensorID) bool { return t >= 0 && g.Tensors[t].Name == r.Output })
			})
			if k < 0 {
				return program.Refuse(source, "no node of the main graph makes %q, which reads %q: a model with local functions takes no values of parameters that were untied: expected it with --inline-functions", graph.Short(r.Output), graph.Short(c.Name))
			}
			g.Nodes[k].Inputs[r.Input] = id
		}
	}
	g.Link()
	return nil
}

// DataPath returns the path of the second file of a model at path, in which Save and
// SaveModel put elements that are too large for the first.
func DataPath(path string) string { return onnx.DataPath(path) }
