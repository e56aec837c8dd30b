package attr

import (
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

func TestReadWindow(t *testing.T) {
	for _, c := range []struct {
		name   string
		attrs  []*graph.Attr
		kernel []graph.Dim
		want   Window
		words  string
	}{
		{
			"defaults", nil,
			[]graph.Dim{3, 2},
			Window{Kernel: []graph.Dim{3, 2}, Stride: []int64{1, 1}, Dilation: []int64{1, 1}, Before: []int64{0, 0}, After: []int64{0, 0}, AutoPad: "NOTSET"},
			"",
		},
		{
			"pads are before all axes, then behind them",
			[]*graph.Attr{ints("pads", 1, 2, 3, 4), ints("strides", 2, 1), ints("dilations", 1, 2), text("auto_pad", "")},
			[]graph.Dim{3, 2},
			Window{Kernel: []graph.Dim{3, 2}, Stride: []int64{2, 1}, Dilation: []int64{1, 2}, Before: []int64{1, 2}, After: []int64{3, 4}, AutoPad: "NOTSET"},
			"",
		},
		{
			"auto_pad overrides pads",
			[]*graph.Attr{ints("pads", 1, 2), text("auto_pad", "VALID")},
			[]graph.Dim{3},
			Window{Kernel: []graph.Dim{3}, Stride: []int64{1}, Dilation: []int64{1}, Before: []int64{0}, After: []int64{0}, AutoPad: "VALID"},
			"",
		},
		{
			"kernel_shape tells what the weights do not",
			[]*graph.Attr{ints("kernel_shape", 3, 2)},
			[]graph.Dim{graph.Unknown, 2},
			Window{Kernel: []graph.Dim{3, 2}, Stride: []int64{1, 1}, Dilation: []int64{1, 1}, Before: []int64{0, 0}, After: []int64{0, 0}, AutoPad: "NOTSET"},
			"",
		},
		{"kernel_shape contradicts the weights", []*graph.Attr{ints("kernel_shape", 3, 3)}, []graph.Dim{3, 2}, Window{}, "kernel_shape is [3 3], expected [3,2] to match the weights"},
		{"no kernel", nil, []graph.Dim{0}, Window{}, "the kernel has length 0 along spatial axis 0, expected 1 to 2147483647"},
		{"a kernel that is too long", []*graph.Attr{ints("kernel_shape", 1<<40)}, []graph.Dim{graph.Unknown}, Window{}, "kernel_shape[0] is 1099511627776"},
		{"a stride of 0", []*graph.Attr{ints("strides", 0)}, []graph.Dim{3}, Window{}, "strides[0] is 0, expected 1 to 2147483647"},
		{"negative pads", []*graph.Attr{ints("pads", 0, -1)}, []graph.Dim{3}, Window{}, "pads[1] is -1, expected 0 to 2147483647"},
		{"another auto_pad", []*graph.Attr{text("auto_pad", "SAME")}, []graph.Dim{3}, Window{}, `auto_pad is "SAME", expected one of`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := ReadWindow(node(c.attrs...), c.kernel)
			want(t, err, c.words)
			if err == nil {
				same(t, *w, c.want)
			}
		})
	}
}

// TestPad: the sum of the padding is what the last window lacks. If it is odd,
// SAME_UPPER and SAME_LOWER say which side gets more.
func TestPad(t *testing.T) {
	for _, c := range []struct {
		auto          string
		in, out       int64
		before, after int64
	}{
		{"SAME_UPPER", 5, 3, 0, 1}, // (3-1)·2 + 2 - 5
		{"SAME_LOWER", 5, 3, 1, 0},
		{"SAME_UPPER", 6, 3, 0, 0},
		{"SAME_UPPER", 9, 3, 0, 0}, // windows that leave something over
		{"VALID", 5, 2, 0, 0},
		{"NOTSET", 5, 3, 0, 0},
	} {
		w, err := ReadWindow(node(ints("strides", 2), text("auto_pad", c.auto)), []graph.Dim{2})
		want(t, err, "")
		w.Pad([]int64{c.in}, []int64{c.out})
		same(t, [2]int64{w.Before[0], w.After[0]}, [2]int64{c.before, c.after})
	}
}

// TestPadTransposed: output_shape and auto_pad SAME cut off what the transposed
// convolution makes too much; all other padding stays as stated.
func TestPadTransposed(t *testing.T) {
	pads, strides := ints("pads", 0, 2), ints("strides", 2)
	for _, c := range []struct {
		name          string
		attrs         []*graph.Attr
		in, out       int64
		before, after int64
	}{
		{"stated", []*graph.Attr{strides, pads}, 4, 7, 0, 2},
		{"an empty auto_pad", []*graph.Attr{strides, pads, text("auto_pad", "")}, 4, 7, 0, 2},
		{"an empty output_shape", []*graph.Attr{strides, pads, ints("output_shape")}, 4, 7, 0, 2},
		{"output_shape", []*graph.Attr{strides, pads, ints("output_shape", 6)}, 4, 6, 2, 1}, // (4-1)·2 + 3 - 6
		{"output_shape with batch and channels", []*graph.Attr{strides, ints("output_shape", 1, 3, 6)}, 4, 6, 2, 1},
		{"output_shape, upper", []*graph.Attr{strides, ints("output_shape", 6), text("auto_pad", "SAME_UPPER")}, 4, 6, 1, 2},
		{"a longer output_shape", []*graph.Attr{strides, ints("output_shape", 12)}, 4, 12, 0, 0},
		{"valid", []*graph.Attr{strides, pads, text("auto_pad", "VALID")}, 4, 9, 0, 0},
		{"same upper", []*graph.Attr{strides, text("auto_pad", "SAME_UPPER")}, 4, 8, 0, 1},
		{"same lower", []*graph.Attr{strides, text("auto_pad", "SAME_LOWER")}, 4, 8, 1, 0},
		{"output_padding counts", []*graph.Attr{strides, ints("output_padding", 1), text("auto_pad", "SAME_LOWER")}, 4, 8, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := ReadTransposed(node(c.attrs...), []graph.Dim{3})
			want(t, err, "")
			w.PadTransposed([]int64{c.in}, []int64{c.out})
			same(t, [2]int64{w.Before[0], w.After[0]}, [2]int64{c.before, c.after})
		})
	}
	for _, c := range []struct {
		attr  *graph.Attr
		words string
	}{
		{ints("output_shape", 1, 2), "output_shape has 2 lengths, expected 1, one per spatial axis"},
		{ints("output_shape", -1), "output_shape[0] is -1, expected a length"},
		{ints("output_padding", -1), "output_padding[0] is -1"},
	} {
		_, err := ReadTransposed(node(c.attr), []graph.Dim{3})
		want(t, err, c.words)
	}
}

// TestPlaces counts the places, for padding that is shorter than the kernel.
func TestPlaces(t *testing.T) {
	for kernel := int64(1); kernel <= 4; kernel++ {
		for stride := int64(1); stride <= 4; stride++ {
			for after := range kernel {
				for image := kernel; image <= 9; image++ {
					w, err := ReadPool(node(ints("kernel_shape", kernel), ints("strides", stride), ints("pads", 0, after)))
					want(t, err, "")
					floor, ceil := int64(0), int64(0)
					for at := int64(0); at < image+after; at += stride {
						switch {
						case at+kernel <= image+after:
							floor, ceil = floor+1, ceil+1
						case at < image && at-stride+kernel < image+after:
							ceil++ // the last window begins on the image, and the one before it leaves something over
						}
					}
					got := w.Places(0, image+after, kernel)
					w.Ceil = true
					if up := w.Places(0, image+after, kernel); got != floor || up != ceil {
						t.Errorf("kernel %d, stride %d, image %d, %d behind it: %d places, with ceil_mode %d, expected %d and %d",
							kernel, stride, image, after, got, up, floor, ceil)
					}
				}
			}
		}
	}
	w, _ := ReadPool(node(ints("kernel_shape", 3), ints("strides", 2), text("auto_pad", "SAME_UPPER")))
	same(t, []int64{w.Places(0, 0, 3), w.Places(0, 1, 3), w.Places(0, 4, 3), w.Places(0, 5, 3)}, []int64{0, 1, 2, 3})
}

func TestTransposedLen(t *testing.T) {
	w, err := ReadTransposed(node(ints("strides", 2), ints("pads", 1, 2), ints("output_padding", 1)), []graph.Dim{3})
	want(t, err, "")
	same(t, w.TransposedLen(0, 4*2+3), int64(7)) // (4-1)·2 + 3 + 1 - 1 - 2
	same(t, w.TransposedLen(0, 1*2), int64(-2))
	w, err = ReadTransposed(node(ints("output_padding", Most)), []graph.Dim{3})
	want(t, err, "")
	same(t, w.TransposedLen(0, math.MaxInt64-1), int64(math.MaxInt64))
}
