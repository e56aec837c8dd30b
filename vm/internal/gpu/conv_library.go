package gpu

import (
	"errors"
	"fmt"
	"maps"
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// What cuDNN computes of a convolution.
const (
	forward        = driver.DNNForward
	backwardData   = driver.DNNBackwardData
	backwardFilter = driver.DNNBackwardFilter
)

// dnnTypes are the dtypes of convolutions that cuDNN computes.
var dnnTypes = map[graph.DType]driver.DNNType{
	graph.Float32: driver.DNNFloat32, graph.Float16: driver.DNNFloat16, graph.BFloat16: driver.DNNBFloat16,
}

// dnn returns cuDNN; nil if the convolutions stay in kernels of this package.
func (k *Kernels) dnn() *cuda.DNN {
	if k.OwnConvolutions {
		return nil
	}
	d, err := k.Queue.DNN()
	if err != nil {
		k.noDNN = err
		return nil
	}
	return d
}

// ConvolutionLibrary says which library computes convolutions, and of how many nodes; "" if
// none does. missing is why it is not there, if it was looked for.
func (k *Kernels) ConvolutionLibrary() (name, path string, nodes int, missing error) {
	if k.convolved == 0 {
		return "", "", 0, k.noDNN
	}
	d, err := k.Queue.DNN()
	if err != nil {
		return "", "", 0, err
	}
	return "cuDNN " + d.Version(), d.Path(), k.convolved, nil
}

// RefusedConvolutions counts the convolutions that the library was asked for and does not
// compute, by the reason.
func (k *Kernels) RefusedConvolutions() map[string]int { return maps.Clone(k.refused) }

// byLibrary appends a convolution by cuDNN, or a gradient of one, if it can compute it. g is
// the geometry of the convolution of image with weights; of these and its result, the pass
// computes one, which is r.y, from the others. It reports whether it did so.
//
// cuDNN writes the sums alone: whether it adds them to what is there depends on the
// algorithm. Bias, added input and clamp follow in one launch.
func (r *result) byLibrary(n *Node, pass driver.DNNPass, g *form.Window, groups int, image, weights, out *form.Tensor) (bool, error) {
	t, known := dnnTypes[r.y.Type]
	if !known || t == driver.DNNFloat32 && !n.k.LibraryFloat32 || min(image.Len(), weights.Len(), out.Len()) == 0 {
		return false, nil
	}
	dnn := n.k.dnn()
	if dnn == nil {
		return false, nil
	}
	at, err := n.addresses(image, weights, out)
	if err != nil {
		return false, err
	}
	if reason := r.unfit(g, at, image, weights, out); reason != "" {
		return false, n.k.refuse(reason)
	}
	s := &driver.DNNShape{
		Pass: pass, Type: t, TF32: n.k.tf32(r.y.Type), Groups: int32(groups),
		Image:   append(dims(image.Shape[:2]...), dims(g.In[:]...)...),
		Weights: append(dims(weights.Shape[:2]...), dims(g.Kernel[:]...)...),
		Result:  append(dims(out.Shape[:2]...), dims(g.Out[:]...)...),
		Pad:     dims(g.Pad[:]...), Stride: dims(g.Stride[:]...), Dilation: dims(g.Dilation[:]...),
	}
	if g.In[0] == 1 && g.Kernel[0] == 1 && g.Out[0] == 1 && g.Pad[0] == 0 { // it is faster with two axes
		s.Image, s.Weights, s.Result = withoutAxis(s.Image, 2), withoutAxis(s.Weights, 2), withoutAxis(s.Result, 2)
		s.Pad, s.Stride, s.Dilation = s.Pad[1:], s.Stride[1:], s.Dilation[1:]
	}
	first, second, y := at[0], at[1], at[2]
	switch pass {
	case backwardData:
		first, second, y = at[1], at[2], at[0]
	case backwardFilter:
		first, second, y = at[0], at[2], at[1]
	}
	conv, err := dnn.Convolution(s, first, second, y)
	if err != nil {
		var refused *driver.DNNError
		if errors.As(err, &refused) {
			return false, n.k.refuse(refused.Short())
		}
		return false, n.k.refuse(err.Error())
	}
	conv.Use(n.scratch(conv.WorkspaceBytes()))
	n.work = append(n.work, func() error {
		if err := conv.Run(); err != nil {
			return fmt.Errorf("%w: --cudnn off convolves without it", err)
		}
		return nil
	})
	switch {
	case r.bias == nil && r.added == nil && r.finish.Clamps == 0:
	case t == driver.DNNFloat32:
		err = n.addParts(r, y, 1) // the sums are one part of themselves
	default:
		var bias driver.Ptr
		if bias, err = n.at(r.bias); err == nil {
			err = n.finish(r, bias, y, r.finish)
		}
	}
	if err != nil {
		return false, err
	}
	n.k.convolved++
	n.computes("cuDNN", r.y.Type, s.TF32)
	n.Way = "cuDNN"
	return true, n.activate(r)
}

// refuse counts a convolution that stays in kernels of this package.
func (k *Kernels) refuse(reason string) error {
	if k.refused == nil {
		k.refused = map[string]int{}
	}
	k.refused[reason]++
	return nil
}

// unfit says why cuDNN cannot compute a convolution; "" if it may.
func (r *result) unfit(g *form.Window, at []driver.Ptr, list ...*form.Tensor) string {
	for i, t := range list {
		if t.Len() > math.MaxInt32 {
			return "a tensor has more than 2³¹ elements"
		}
		if at[i]%16 != 0 {
			return "a tensor does not begin at a multiple of 16 bytes"
		}
	}
	for a := range 3 {
		room := g.In[a] + 2*g.Pad[a] - (g.Kernel[a]-1)*g.Dilation[a] - 1
		if g.Pad[a] < 0 || room < 0 || room/g.Stride[a]+1 != g.Out[a] {
			return "the padding differs at the ends of an axis"
		}
	}
	if r.added != nil && r.y.Type != graph.Float32 {
		return "an input of 16 bits is added"
	}
	return ""
}

// withoutAxis returns dims without axis a.
func withoutAxis(dims []int32, a int) []int32 { return append(dims[:a:a], dims[a+1:]...) }

func dims(list ...int) []int32 {
	out := make([]int32, len(list))
	for i, v := range list {
		out[i] = int32(v)
	}
	return out
}
