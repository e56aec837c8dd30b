package kernel

import (
	"fmt"
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// layerBench is one operator of a network on a square image, with a square kernel of odd
// length that is padded on all sides.
type layerBench struct {
	network                        string
	channels, side, kernel, stride int
}

// bothLayouts times an operator of one thread on planes and on blocks.
func bothLayouts(b *testing.B, l *layerBench, node *graph.Node, in []*Tensor, side int, then *Finish, planes, blocks func(*Invocation) (Run, error)) {
	for _, held := range []string{"planes", "blocks"} {
		c := &Invocation{Call: form.Call{Node: node, Version: 13, In: in, Out: []*Tensor{blank(graph.Float32, []int{1, l.channels, side, side})}, Runtime: alone{pack: true}}, Then: then}
		make := planes
		if held == "blocks" {
			c.In, c.Out[0].Layout = append([]*Tensor{blocksOf(in[0])}, in[1:]...), form.NCHW16c
			make = blocks
		}
		run, err := make(c)
		if err != nil {
			b.Fatal(err)
		}
		pool := work.New(1)
		defer pool.Close()
		pool.SetScratch(blank(graph.Uint8, []int{c.SharedBytes + 1}).At, blank(graph.Uint8, []int{c.EachBytes + 64}).At, (c.EachBytes+63)&^63)
		b.Run(fmt.Sprintf("network=%s/op=%s/c=%d/side=%d/k=%d/s=%d/level=%s/in=%s", l.network, node.Op, l.channels, l.side, l.kernel, l.stride, gemm.Level(), held), func(b *testing.B) {
			for b.Loop() {
				if err := run(pool); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// eachVectorLevel calls f with every set of micro-kernels that has vectors.
func eachVectorLevel(b *testing.B, f func()) {
	before := gemm.Level()
	b.Cleanup(func() { _ = gemm.Use(before) })
	for _, level := range gemm.Levels()[1:] {
		if err := gemm.Use(level); err != nil {
			b.Fatal(err)
		}
		f()
	}
}

// BenchmarkBlocksDepthwise times depthwise convolutions in both layouts.
func BenchmarkBlocksDepthwise(b *testing.B) {
	eachVectorLevel(b, func() {
		for _, l := range []layerBench{
			{"mobilenetv2", 32, 112, 3, 1},
			{"mobilenetv2", 96, 112, 3, 2},
			{"mobilenetv2", 144, 56, 3, 1},
			{"mobilenetv2", 192, 28, 3, 1},
			{"mobilenetv2", 384, 14, 3, 1},
			{"mobilenetv2", 576, 14, 3, 2},
			{"mobilenetv2", 960, 7, 3, 1},
			{"efficientnet-b0", 144, 56, 5, 2},
			{"efficientnet-b0", 240, 28, 5, 1},
			{"efficientnet-b0", 672, 14, 5, 1},
			{"efficientnet-b0", 672, 14, 5, 2},
			{"efficientnet-b0", 1152, 7, 5, 1},
		} {
			pad := int64(l.kernel / 2)
			node := &graph.Node{Op: "Conv", Attrs: attrs(ints("pads", pad, pad, pad, pad), ints("strides", int64(l.stride), int64(l.stride)), whole1("group", int64(l.channels)))}
			weight := store(noise(l.channels, 1, l.kernel, l.kernel), graph.Float32)
			weight.Const = true
			in := []*Tensor{store(noise(1, l.channels, l.side, l.side), graph.Float32), weight, store(noise(l.channels), graph.Float32)}
			bothLayouts(b, &l, node, in, (l.side-1)/l.stride+1, clamps(0, float32(math.Inf(1))), makeConv, makeBlocksDepthwise)
		}
	})
}

// BenchmarkBlocksPool times pools in both layouts.
func BenchmarkBlocksPool(b *testing.B) {
	eachVectorLevel(b, func() {
		for _, l := range []struct {
			op string
			layerBench
		}{
			{"MaxPool", layerBench{"resnet50", 64, 112, 3, 2}},
			{"MaxPool", layerBench{"googlenet", 192, 28, 3, 1}},
			{"MaxPool", layerBench{"yolov3-spp", 512, 19, 5, 1}},
			{"MaxPool", layerBench{"yolov3-spp", 512, 19, 13, 1}},
			{"AveragePool", layerBench{"inception-v3", 192, 35, 3, 1}},
			{"AveragePool", layerBench{"densenet121", 128, 56, 2, 2}},
			{"GlobalAveragePool", layerBench{"efficientnet-b0", 96, 112, 1, 1}},
			{"GlobalAveragePool", layerBench{"efficientnet-b0", 672, 14, 1, 1}},
			{"GlobalAveragePool", layerBench{"resnet50", 2048, 7, 1, 1}},
			{"GlobalMaxPool", layerBench{"resnet50", 2048, 7, 1, 1}},
		} {
			pad, k := int64((l.kernel-1)/2), int64(l.kernel)
			node := &graph.Node{Op: l.op, Attrs: attrs(ints("pads", pad, pad, pad, pad), ints("strides", int64(l.stride), int64(l.stride)), ints("kernel_shape", k, k))}
			side, planes, blocks := (l.side+2*int(pad)-l.kernel)/l.stride+1, makeMaxPool, makeBlocksMaxPool
			switch l.op {
			case "AveragePool":
				planes, blocks = makeAveragePool, makeBlocksAveragePool
			case "GlobalAveragePool":
				side, planes, blocks = 1, makeGlobalAveragePool, makeBlocksGlobalAveragePool
			case "GlobalMaxPool":
				side, planes, blocks = 1, makeGlobalMaxPool, makeBlocksGlobalMaxPool
			}
			in := []*Tensor{store(noise(1, l.channels, l.side, l.side), graph.Float32)}
			bothLayouts(b, &l.layerBench, node, in, side, nil, planes, blocks)
		}
	})
}

// BenchmarkBlocksScaled times the factor of each channel and the doubling of an image.
func BenchmarkBlocksScaled(b *testing.B) {
	for _, l := range []struct {
		op, mode string
		layerBench
	}{
		{"Mul", "", layerBench{"efficientnet-b0", 96, 56, 1, 1}},
		{"Mul", "", layerBench{"efficientnet-b0", 672, 14, 1, 1}},
		{"Mul", "", layerBench{"efficientnet-b0", 1152, 7, 1, 1}},
		{"Resize", "nearest", layerBench{"yolov3", 128, 26, 1, 1}},
		{"Resize", "linear", layerBench{"deeplabv3", 256, 28, 1, 1}},
	} {
		node := &graph.Node{Op: l.op, Attrs: attrs(text("mode", l.mode))}
		in := []*Tensor{store(noise(1, l.channels, l.side, l.side), graph.Float32), store(noise(1, l.channels, 1, 1), graph.Float32)}
		side, planes, blocks := l.side, Lookup("", l.op).Make, makeBlocksScaled
		if l.op == "Resize" {
			side, blocks = 2*l.side, makeBlocksResize
			scales := store(realList(1, 1, 2, 2), graph.Float32)
			scales.Const = true
			in = []*Tensor{in[0], nil, scales}
		}
		bothLayouts(b, &l.layerBench, node, in, side, nil, planes, blocks)
	}
}
