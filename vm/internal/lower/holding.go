package lower

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// holding finds the images that a frame can hold in another layout than its operators see.
type holding struct {
	f *Frame
	// images lists, for each step, images that must be held alike, all in the other layout or
	// none; graph.None stands for one that cannot be held.
	images [][]graph.TensorID
	// ends lists, for each step, images of which each may be held by itself.
	ends [][]graph.TensorID
	// needs lists, for each step, an image and one that is held only if the former is; or none.
	needs [][]graph.TensorID

	volumes bool // images may be volumes
}

// isImage reports whether a shape is that of images, or of volumes if these count.
func isImage(shape []int, volumes bool) bool {
	return len(shape) == 4 || volumes && len(shape) == 5
}

func newHolding(f *Frame) *holding {
	return &holding{f: f, images: make([][]graph.TensorID, len(f.Steps)), ends: make([][]graph.TensorID, len(f.Steps)), needs: make([][]graph.TensorID, len(f.Steps))}
}

// find reports for each tensor whether it is held. Such a tensor is an image, a step of the
// frame makes it, only steps that list it read it, or its shape, and no caller does.
func (h *holding) find() []bool {
	f := h.f
	held := make([]bool, len(f.Tensors))
	for i, st := range f.Steps {
		for _, id := range st.Node().Outputs {
			if id >= 0 && h.lists(i, id) {
				t := placeOf(f.Tensors[id]) // which has one layout
				held[id] = isImage(t.Of.Shape, h.volumes) && t.Layout == form.Plain && !f.Graph.Tensors[id].Output
			}
		}
	}
	for i, st := range f.Steps {
		for _, id := range st.Node().Inputs {
			if id >= 0 && !h.lists(i, id) && !ops.OfShape(st.Node()) {
				held[id] = false
			}
		}
	}
	for id, t := range f.Graph.Tensors {
		for _, r := range t.Readers { // a body may read it, too
			held[id] = held[id] && slices.Contains(f.Steps[r].Node().Inputs, graph.TensorID(id))
		}
	}
	for again := true; again; {
		again = false
		for _, list := range h.needs {
			if len(list) == 2 && !held[list[0]] && held[list[1]] {
				again, held[list[1]] = true, false
			}
		}
		for _, images := range h.images {
			if slices.ContainsFunc(images, func(t graph.TensorID) bool { return t < 0 || !held[t] }) {
				for _, t := range images {
					if t >= 0 && held[t] {
						again, held[t] = true, false
					}
				}
			}
		}
	}
	return held
}

// lists reports whether a step can read or make an image in the other layout.
func (h *holding) lists(step int, id graph.TensorID) bool {
	return slices.Contains(h.ends[step], id) || slices.Contains(h.images[step], id)
}
