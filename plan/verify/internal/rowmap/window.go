package rowmap

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

func init() {
	register(conv, "Conv")
	register(func(n *Node, s *sheet) bool { return n.convolves(s, 1, 3) }, "ConvInteger")
	register(quantizedConv, "QLinearConv", "com.microsoft.QLinearConv")
	register(convTranspose, "ConvTranspose")
	register(weightGrad, "onnxmem.ConvWeightGrad")
	register(pool, "AveragePool", "LpPool", "com.microsoft.QLinearAveragePool")
	register(maxPool, "MaxPool")
	register(globalPool, "GlobalLpPool", "com.microsoft.QLinearGlobalAveragePool")
	register(globalMaximum, "GlobalMaxPool")
	register(globalMean, "GlobalAveragePool")
}

// The letters of images.
const (
	images   letter = 1
	channels letter = 2
	inner    letter = 3 // channels that are added up
	places   letter = 4 // the first spatial axis
)

// window is how a kernel moves over the spatial axes of an image.
type window struct {
	kernel, stride, dilation []int64
	before, after            []int64 // padding
	follows                  bool    // the padding follows from the lengths, or windows overhang it
}

// windowOf reads the attributes of a window with a kernel of these lengths.
func (n *Node) windowOf(kernel []int64) (window, bool) {
	spatial := len(kernel)
	list := func(name string, length int, otherwise int64) ([]int64, bool) {
		if a := n.Attr(name); a != nil && len(a.Ints) > 0 {
			return a.Ints, len(a.Ints) == length
		}
		return slices.Repeat([]int64{otherwise}, length), true
	}
	w := window{kernel: kernel}
	stride, ok1 := list("strides", spatial, 1)
	dilation, ok2 := list("dilations", spatial, 1)
	pads, ok3 := list("pads", 2*spatial, 0)
	if !ok1 || !ok2 || !ok3 {
		return w, false
	}
	switch n.text("auto_pad", "NOTSET") {
	case "NOTSET", "":
	case "VALID":
		pads = make([]int64, 2*spatial)
	default:
		w.follows = true
	}
	w.follows = w.follows || n.integer("ceil_mode", 0) != 0
	w.stride, w.dilation, w.before, w.after = stride, dilation, pads[:spatial], pads[spatial:]
	return w, true
}

// reach is the number of rows from the first to the last that the kernel covers.
func (w window) reach(i int) int64 { return (w.kernel[i]-1)*w.dilation[i] + 1 }

// slides gives the spatial axes of input 0 and output 0 their letters: row p of the
// output reads rows p*stride - before to that + reach. Each copy has the padding that its
// own windows reach.
func (n *Node) slides(s *sheet, w window) {
	if w.follows {
		return
	}
	_, first := n.layout()
	for i := range w.kernel {
		axis, l := i+first, places+letter(i)
		s.in[0][axis], s.out[0][axis] = l, l
		stride, before, reach, length := w.stride[i], w.before[i], w.reach(i), n.length(0, axis)
		s.rows[place{0, axis}] = Rows{Mul: stride, Div: 1, Before: before, After: reach - stride - before}
		if before == 0 && w.after[i] == 0 {
			continue
		}
		s.changes[l] = func(_ int, lo, hi int64) Change {
			pads := slices.Concat(w.before, w.after)
			pads[i] = max(0, before-lo*stride)
			pads[len(w.before)+i] = max(0, (hi-1)*stride-before+reach-length)
			return Change{Attrs: []*graph.Attr{ints("pads", pads)}}
		}
	}
}

// layout returns the axis of the channels of an image and the first spatial one. Some
// operators of ONNX Runtime have the channels last.
func (n *Node) layout() (ofChannels, spatial int) {
	if n.Domain != "" && n.integer("channels_last", 0) != 0 {
		return len(n.In[0].Shape) - 1, 1
	}
	return 1, 2
}

// imageLetters gives batches and channels of input 0 and output 0 their letters.
func (n *Node) imageLetters(s *sheet) bool {
	if len(s.in[0]) < 2 || len(s.out[0]) != len(s.in[0]) {
		return false
	}
	c, _ := n.layout()
	s.in[0][0], s.out[0][0] = images, images
	s.in[0][c], s.out[0][c] = channels, channels
	return true
}

// conv has weights, input 1, of [channels, channels of the image / groups, kernel].
func conv(n *Node, s *sheet) bool {
	if !n.convolves(s, 1, 2) {
		return false
	}
	if s.in[1][1] == inner && !n.has(2) {
		s.sum = &adder{Sum{By: "Add"}, map[letter]bool{inner: true}}
	}
	return true
}

// quantizedConv: each of image, weights and result is followed by its scale and its zero
// point, of which the weights may have one for each channel.
func quantizedConv(n *Node, s *sheet) bool { return n.convolves(s, 3, 4, 5, 8) }

// convolves gives a convolution its letters. Inputs in each have one element for each
// channel, or one for all.
func (n *Node) convolves(s *sheet, weights int, each ...int) bool {
	if len(n.In) <= weights || !n.imageLetters(s) || len(s.in[weights]) != len(s.in[0]) {
		return false
	}
	w, ok := n.windowOf(n.In[weights].Shape[2:])
	if !ok {
		return false
	}
	n.slides(s, w)
	groups, m := n.integer("group", 1), n.length(weights, 0)
	s.in[weights][0] = channels
	for _, i := range each {
		if n.has(i) && !n.single(i) {
			if len(s.in[i]) != 1 {
				return false
			}
			s.in[i][0] = channels
		}
	}
	if groups == m && n.length(weights, 1) == 1 && n.In[0].Elem.Floating() && !(n.In[0].Elem == graph.Float32 && n.In[weights].Fixed) {
		n.keepsWhole(s, weights)
	}
	c, _ := n.layout()
	if groups == 1 {
		s.in[0][c], s.in[weights][1] = inner, inner
		if n.length(weights, 1) == 1 && n.In[0].Elem.Floating() {
			// One channel of one would be a depthwise convolution, with other bits.
			s.out[0][c], s.in[weights][0] = 0, 0
			for _, i := range each {
				if n.has(i) && len(s.in[i]) == 1 {
					s.in[i][0] = 0
				}
			}
		}
		return true
	}
	if groups < 1 || m%groups != 0 {
		return false
	}
	n.groups(s, "group", m/groups, place{0, c}, n.length(weights, 1))
	return true
}

// keepsWhole leaves out the spatial axes along which a slice of a convolution of single
// channels may have a quarter as many elements as its kernel, or less. With weights that
// change from run to run, kernels take it for the gradient of weights and add in another order.
func (n *Node) keepsWhole(s *sheet, weights int) {
	c, spatial := n.layout()
	taps, outputs := int64(1), int64(1)
	for _, d := range n.In[weights].Shape[2:] {
		taps *= d
	}
	for a, d := range n.Out[0].Shape {
		if a != 0 && a != c {
			outputs *= d
		}
	}
	for i := range n.In[weights].Shape[2:] {
		if a := spatial + i; taps >= 4*(outputs/max(n.Out[0].Shape[a], 1)) {
			s.in[0][a], s.out[0][a] = 0, 0
		}
	}
}

// groups says that channels are cut by whole groups of so many output channels each, and
// that an axis has so many rows for each group.
func (n *Node) groups(s *sheet, attribute string, width int64, at place, rows int64) {
	s.rows[at] = Rows{Mul: rows, Div: width}
	s.changes[channels] = func(_ int, lo, hi int64) Change {
		return Change{Attrs: []*graph.Attr{number(attribute, (hi-lo)/width)}}
	}
}

// convTranspose: weights are [channels of the image, channels / groups, kernel]. Spatial
// axes have copies where windows neither overlap nor leave gaps.
func convTranspose(n *Node, s *sheet) bool {
	if len(n.In) < 2 || !n.imageLetters(s) || len(s.in[1]) != len(s.in[0]) {
		return false
	}
	w, ok := n.windowOf(n.In[1].Shape[2:])
	if !ok {
		return false
	}
	padding := n.Attr("output_padding")
	stated := n.Attr("output_shape")
	for i := range w.kernel {
		more := padding != nil && i < len(padding.Ints) && padding.Ints[i] != 0
		if w.follows || more || stated != nil && len(stated.Ints) > 0 || w.before[i] != 0 || w.after[i] != 0 || w.reach(i) != w.stride[i] {
			continue
		}
		s.in[0][i+2], s.out[0][i+2] = places+letter(i), places+letter(i)
		s.rows[place{0, i + 2}] = Rows{Mul: 1, Div: w.stride[i]}
	}
	groups, from := n.integer("group", 1), n.length(1, 0)
	if n.has(2) {
		s.in[2] = []letter{channels}
	}
	if groups == 1 && from == 1 && n.In[0].Elem.Floating() { // as in convolves
		s.in[0][1], s.out[0][1] = 0, 0
		if n.has(2) {
			s.in[2][0] = 0
		}
		return true
	}
	if groups == 1 {
		s.in[0][1], s.in[1][1] = 0, channels
		return true
	}
	if groups < 1 || from%groups != 0 {
		return false
	}
	s.in[1][0] = channels
	n.groups(s, "group", n.length(1, 1), place{0, 1}, from/groups)
	s.rows[place{1, 0}] = s.rows[place{0, 1}]
	return true
}

// pool: the places of maxima, output 1, count from the beginning of the whole.
func pool(n *Node, s *sheet) bool {
	kernel := n.Attr("kernel_shape")
	if !n.imageLetters(s) || kernel == nil || len(kernel.Ints) != len(s.in[0])-2 {
		return false
	}
	w, ok := n.windowOf(kernel.Ints)
	if !ok {
		return false
	}
	n.slides(s, w)
	return true
}

// maxPool is pool, perhaps with the indices of the largest elements.
func maxPool(n *Node, s *sheet) bool {
	if !pool(n, s) {
		return false
	}
	if n.made(1) {
		// An index is ((image * channels + channel) * height + y) * width + x.
		s.out[1][0], s.out[1][1] = images, channels
		area := int64(1)
		for k := 2; k < len(s.in[0]); k++ {
			area *= n.length(0, k)
		}
		s.modulo = map[int]int64{1: area}
	}
	return true
}

// globalPool: places are combined.
func globalPool(n *Node, s *sheet) bool {
	_, _, _, fits := n.combinesPlaces(s)
	return fits
}

// globalMaximum is globalPool, whose parts have maxima.
func globalMaximum(n *Node, s *sheet) bool {
	over, _, _, fits := n.combinesPlaces(s)
	if fits {
		s.sum = &adder{Sum{By: "Max"}, over}
	}
	return fits
}

// globalMean is globalPool, whose parts have sums.
func globalMean(n *Node, s *sheet) bool {
	over, axes, count, fits := n.combinesPlaces(s)
	if fits && divides(n.In[0].Elem) {
		s.sum = &adder{Sum{By: "Add", Mean: true, Count: count, Change: n.toReduceSum(axes)}, over}
	}
	return fits
}

// combinesPlaces gives the places of an image letters, and returns these, their axes and how
// many places there are.
func (n *Node) combinesPlaces(s *sheet) (over map[letter]bool, axes []int64, count int64, fits bool) {
	if !n.imageLetters(s) {
		return nil, nil, 0, false
	}
	over, count = map[letter]bool{}, 1
	for k := 2; n.Domain == "" && k < len(s.in[0]); k++ {
		l := places + letter(k-2)
		s.in[0][k], over[l] = l, true
		axes, count = append(axes, int64(k)), count*n.length(0, k)
	}
	return over, axes, count, true
}

// weightGrad: [n c …] [n m …] -> [m c …], and it adds over the images. Channels in groups
// are made as a whole.
func weightGrad(n *Node, s *sheet) bool {
	if len(n.In) != 2 || len(s.in[0]) < 3 || len(s.in[1]) != len(s.in[0]) || len(s.out[0]) != len(s.in[0]) {
		return false
	}
	s.in[0][0], s.in[1][0] = images, images
	if n.integer("group", 1) == 1 {
		s.in[0][1], s.out[0][1] = inner, inner
		s.in[1][1], s.out[0][0] = channels, channels
	}
	s.sum = &adder{Sum{By: "Add"}, map[letter]bool{images: true}}
	return true
}
