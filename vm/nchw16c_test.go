package vm_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
	"golang.org/x/sys/cpu"
)

// filter adds a convolution by random weights, with a bias.
func (n *net) filter(out, in string, attrs []*graph.Attr, dims ...int64) {
	n.weight(out+".w", dims...)
	n.weight(out+".b", dims[0])
	n.node("Conv", out, in, out+".w", out+".b")
	n.g.Nodes[len(n.g.Nodes)-1].Attrs = attrs
}

// normalize adds a BatchNormalization by random statistics.
func (n *net) normalize(out, in string, channels int64) {
	for _, name := range []string{".scale", ".shift", ".mean", ".variance"} {
		n.weight(out+name, channels)
	}
	raw := n.g.Tensors[n.tensor(out+".variance")].Data.Raw
	for i := 3; i < len(raw); i += 4 {
		raw[i] &^= 0x80 // the sign
	}
	n.node("BatchNormalization", out, in, out+".scale", out+".shift", out+".mean", out+".variance")
}

func (n *net) with(op, out string, attrs []*graph.Attr, in ...string) {
	n.node(op, out, in...)
	n.g.Nodes[len(n.g.Nodes)-1].Attrs = attrs
}

// blockNet writes a network of convolutions whose images can be held in NCHW16c, but for those
// that the caller or a Transpose sees, or that have other channels than whole blocks.
func blockNet(t *testing.T, reals graph.DType) string {
	n := newNet()
	n.dtype = reals
	same, stride := integers("pads", 1, 1, 1, 1), integers("strides", 2, 2)
	n.input("x", 2, 3, 18, 15)
	n.filter("a", "x", attrs(same), 32, 3, 3, 3) // planes in, blocks out
	n.node("Relu", "ar", "a")
	n.filter("b", "ar", attrs(same), 32, 32, 3, 3)
	n.normalize("bn", "b", 32)
	n.node("Relu", "br", "bn")
	n.filter("c", "br", nil, 32, 32, 1, 1)
	n.node("Add", "s", "c", "ar") // c adds ar
	n.node("Relu", "sr", "s")
	n.filter("d", "sr", attrs(same, stride, attr("group", 32)), 32, 1, 3, 3)
	n.with("MaxPool", "pr", attrs(integers("kernel_shape", 3, 3), same, stride), "sr")
	n.filter("e", "pr", nil, 32, 32, 1, 1)
	n.node("Add", "p", "e", "pr") // overwrites pr, which e reads: e does not compute it
	n.with("Concat", "j", attrs(attr("axis", 1)), "d", "p")
	n.node("GlobalAveragePool", "m", "j")
	n.filter("g", "m", nil, 64, 64, 1, 1)
	n.node("Sigmoid", "gate", "g")
	n.node("Mul", "k", "j", "gate")
	n.weight("u.w", 64, 32, 2, 2)
	n.weight("u.b", 32)
	n.with("ConvTranspose", "u", attrs(stride), "k", "u.w", "u.b")
	n.filter("v", "u", attrs(integers("strides", 2, 2)), 48, 32, 1, 1) // picks pixels
	n.output("v", 2, 48, 9, 8)
	n.filter("l", "k", attrs(attr("group", 2)), 96, 32, 1, 1)
	n.node("Tanh", "lt", "l")
	n.filter("o", "lt", attrs(same), 48, 96, 3, 3) // blocks in, planes out
	n.filter("q", "lt", nil, 16, 96, 1, 1)         // read by a Transpose
	n.with("Transpose", "z", attrs(integers("perm", 0, 2, 3, 1)), "q")
	n.output("o", 2, 48, 9, 8)
	n.output("z", 2, 9, 8, 16)
	path := filepath.Join(t.TempDir(), "blocks.onnx")
	n.write(t, path)
	return path
}

// needBlocks skips a test on a machine that holds no images in NCHW16c.
func needBlocks(t *testing.T) {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		t.Skip("no micro-kernels for blocks")
	}
}

// Images are held in NCHW16c between convolutions, pools and what goes through their elements
// alike, with the same bits: not where another operator or the caller sees them.
func TestImagesHeldInNCHW16c(t *testing.T) {
	needBlocks(t)
	for _, reals := range blockTypes {
		imagesHeldInNCHW16c(t, reals)
	}
}

// blockTypes are the types of images that are held in NCHW16c.
var blockTypes = []graph.DType{graph.Float32, graph.Float16, graph.BFloat16}

func imagesHeldInNCHW16c(t *testing.T, reals graph.DType) {
	path := blockNet(t, reals)
	inputs := map[string]vm.Value{"x": converted(ramp([]graph.Dim{2, 3, 18, 15}), reals)}
	inBothLayouts(t, path, inputs, "nchw16c", func(s *vm.Session, hold bool, opt vm.Options) {
		var held, sums []string
		if hold {
			held = []string{"a", "ar", "b", "bn", "br", "c", "d", "e", "j", "k", "l", "lt", "p", "pr", "s", "sr", "u"}
			if !opt.Separate && opt.Guard == 0 {
				sums = []string{"s"}
			}
		}
		if got := s.HeldInNCHW16c(); !slices.Equal(got, held) {
			t.Errorf("%v, %+v: held in NCHW16c: %v, want %v", reals, opt, got, held)
		}
		if got := s.Residuals(); !slices.Equal(got, sums) {
			t.Errorf("%v, %+v: sums of convolutions: %v, want %v", reals, opt, got, sums)
		}
	})
}

// Volumes are held in NCHW16c between convolutions of volumes, what goes through their elements
// alike, and their means, with the same bits.
func TestVolumesHeldInNCHW16c(t *testing.T) {
	needBlocks(t)
	n := newNet()
	same, stride := integers("pads", 1, 1, 1, 1, 1, 1), integers("strides", 2, 2, 2)
	n.input("x", 2, 3, 5, 13, 10)
	n.filter("a", "x", attrs(same), 32, 3, 3, 3, 3) // planes in, blocks out
	n.node("Relu", "ar", "a")
	n.filter("b", "ar", attrs(same), 32, 32, 3, 3, 3)
	n.filter("c", "b", nil, 32, 32, 1, 1, 1)
	n.node("Add", "s", "c", "ar") // c adds ar
	n.node("Relu", "sr", "s")
	n.filter("d", "sr", attrs(same, stride, attr("group", 2)), 64, 16, 3, 3, 3)
	n.node("Tanh", "dt", "d")
	n.filter("e", "dt", nil, 48, 64, 1, 1, 1)
	n.node("GlobalAveragePool", "m", "e")
	n.filter("f", "dt", attrs(same), 32, 64, 3, 3, 3) // blocks in, planes out
	n.filter("g", "dt", nil, 32, 64, 1, 3, 1)         // read by a pool of volumes
	n.with("MaxPool", "z", attrs(integers("kernel_shape", 2, 2, 2)), "g")
	n.output("m", 2, 48, 1, 1, 1)
	n.output("f", 2, 32, 3, 7, 5)
	n.output("z", 2, 32, 2, 4, 4)
	path := filepath.Join(t.TempDir(), "volumes.onnx")
	n.write(t, path)
	inputs := map[string]vm.Value{"x": ramp([]graph.Dim{2, 3, 5, 13, 10})}
	inBothLayouts(t, path, inputs, "nchw16c", func(s *vm.Session, hold bool, opt vm.Options) {
		var held, sums []string
		if hold {
			held = []string{"a", "ar", "b", "c", "d", "dt", "e", "s", "sr"}
			if !opt.Separate && opt.Guard == 0 {
				sums = []string{"s"}
			}
		}
		if got := s.HeldInNCHW16c(); !slices.Equal(got, held) {
			t.Errorf("%+v: held in NCHW16c: %v, want %v", opt, got, held)
		}
		if got := s.Residuals(); !slices.Equal(got, sums) {
			t.Errorf("%+v: sums of convolutions: %v, want %v", opt, got, sums)
		}
	})
}

// An image whose shape is read is held, too.
func TestShapeOfImageHeldInNCHW16c(t *testing.T) {
	needBlocks(t)
	n := newNet()
	n.input("x", 1, 16, 8, 8)
	n.filter("a", "x", nil, 16, 16, 1, 1)
	n.node("Relu", "r", "a")
	n.node("Shape", "lengths", "r")
	n.node("ConstantOfShape", "zeros", "lengths")
	n.filter("b", "r", nil, 16, 16, 1, 1)
	n.output("b", 1, 16, 8, 8)
	n.output("zeros", 1, 16, 8, 8)
	path := filepath.Join(t.TempDir(), "shape.onnx")
	n.write(t, path)
	inputs := map[string]vm.Value{"x": ramp([]graph.Dim{1, 16, 8, 8})}
	inBothLayouts(t, path, inputs, "nchw16c", func(s *vm.Session, hold bool, _ vm.Options) {
		if got := s.HeldInNCHW16c(); hold && !slices.Equal(got, []string{"a", "r"}) {
			t.Errorf("held in NCHW16c: %v, want a and r", got)
		}
	})
}

// randomBlockNet writes a network of random operators, most of which can have images in
// blocks.
func randomBlockNet(t *testing.T, r *rand.Rand, reals graph.DType) string {
	type image struct {
		name           string
		channels, rows int64
	}
	n := newNet()
	n.draw, n.dtype = r, reals
	n.other = append(n.other, graph.Opset{Domain: "com.microsoft", Version: 1})
	n.input("x", 1, 3, 16, 16)
	list := []image{{"x", 3, 16}}
	same := integers("pads", 1, 1, 1, 1)
	last := image{}
	for i := range 4 + r.IntN(14) {
		in := list[len(list)-1]
		if r.IntN(3) == 0 {
			in = list[r.IntN(len(list))]
		}
		var like []image // of the same shape
		for _, l := range list {
			if l.channels == in.channels && l.rows == in.rows && l.name != in.name {
				like = append(like, l)
			}
		}
		last = image{fmt.Sprint("t", i), in.channels, in.rows}
		switch k := r.IntN(14); {
		case k < 4 || in.channels < 16:
			last.channels = []int64{16, 32, 64, 64, 96, 24, 40, 8}[r.IntN(8)]
			if taps := int64(1 + 2*r.IntN(2)); taps == 3 {
				n.filter(last.name, in.name, attrs(same), last.channels, in.channels, 3, 3)
			} else {
				n.filter(last.name, in.name, nil, last.channels, in.channels, 1, 1)
			}
		case k == 4:
			n.filter(last.name, in.name, attrs(same, attr("group", int(in.channels))), in.channels, 1, 3, 3)
		case k == 5 && in.rows >= 8:
			last.rows /= 2
			n.with("MaxPool", last.name, attrs(integers("kernel_shape", 2, 2), integers("strides", 2, 2)), in.name)
		case k == 6 && in.rows <= 8:
			last.rows *= 2
			n.weight(last.name+".w", in.channels, in.channels, 2, 2)
			n.with("ConvTranspose", last.name, attrs(integers("strides", 2, 2)), in.name, last.name+".w")
		case k == 7:
			n.weight(last.name+".f", in.channels, 1, 1)
			n.node("Mul", last.name, in.name, last.name+".f")
		case k == 8 && len(like) > 0:
			last.channels *= 2
			n.with("Concat", last.name, attrs(attr("axis", 1)), in.name, like[r.IntN(len(like))].name)
		case k == 9:
			n.filter(last.name+".c", in.name, nil, in.channels, in.channels, 1, 1)
			other := in // which the convolution reads, too
			if len(like) > 0 && r.IntN(2) == 0 {
				other = like[r.IntN(len(like))]
			}
			n.node("Add", last.name, last.name+".c", other.name)
		case k == 10 && reals != graph.BFloat16:
			inputs := []string{in.name, last.name + ".w", last.name + ".b"}
			n.weight(inputs[1], in.channels, in.channels, 1, 1)
			n.weight(inputs[2], in.channels)
			if len(like) > 0 {
				inputs = append(inputs, like[r.IntN(len(like))].name)
			}
			n.with("FusedConv", last.name, attrs(attr("activation", []string{"Relu", "Sigmoid"}[r.IntN(2)])), inputs...)
			n.g.Nodes[len(n.g.Nodes)-1].Domain = "com.microsoft"
		case k < 12 && len(like) > 0:
			n.node("Add", last.name, in.name, like[r.IntN(len(like))].name)
		case k == 12:
			n.normalize(last.name, in.name, in.channels)
		default:
			n.node([]string{"Relu", "Sigmoid", "Neg"}[r.IntN(3)], last.name, in.name)
		}
		list = append(list, last)
	}
	n.output(last.name, 1, graph.Dim(last.channels), graph.Dim(last.rows), graph.Dim(last.rows))
	path := filepath.Join(t.TempDir(), "random.onnx")
	n.write(t, path)
	return path
}

// Random networks have the same bits with images in NCHW16c and without, planned and apart,
// and poisoned; nodes are those that the plain evaluator computes.
func TestRandomImagesInBlocks(t *testing.T) {
	needBlocks(t)
	r := rand.New(rand.NewPCG(61, 62))
	held, sums := 0, 0
	for i := range 80 {
		reals := blockTypes[[]int{0, 0, 1, 2}[i%4]]
		path := randomBlockNet(t, r, reals)
		inputs := map[string]vm.Value{"x": converted(ramp([]graph.Dim{1, 3, 16, 16}), reals)}
		var want []byte
		for _, hold := range []bool{false, true} {
			for _, opt := range []vm.Options{{Workers: 1}, {Workers: 2, Poison: true}, {Separate: true}} {
				opt.Without = leftOut("nchw16c", hold)
				p, s := session(t, path, passes.Options{}, opt)
				held, sums = held+len(s.HeldInNCHW16c()), sums+len(s.Residuals())
				got, err := s.Run(t.Context(), inputs)
				if err != nil {
					t.Fatal(err)
				}
				for name, v := range got {
					if want == nil {
						want = bytes.Clone(v.Data)
					}
					if !bytes.Equal(v.Data, want) {
						t.Errorf("network %d of %v, %s: in blocks %v, %+v: other bits", i, reals, name, hold, opt)
					}
				}
				if hold && opt.Poison {
					if found, err := p.CheckRun(t.Context(), []map[string]vm.Value{inputs}, opt); err != nil || !found.Identical() {
						t.Errorf("network %d: %+v, %v", i, found, err)
					}
				}
			}
		}
	}
	if held < 500 || sums < 10 {
		t.Errorf("%d images are held and %d sums joined: these networks show little", held, sums)
	}
}
