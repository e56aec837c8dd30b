// Package models builds the networks of the papers as ONNX models: small, from
// a name, a few numbers and a seed, for demonstrations, tests and figures that
// anyone can repeat.
//
//	models.go       Networks, the table; Build
//	params.go       Param: a dimension or a setting, its limits, its parsing
//	builder.go      names, nodes, weights, inputs and outputs of one model
//	shape.go        reshapes and lengths that are symbolic in the file
//	layers.go       the layers of vision networks
//	attention.go    the layers of Transformers
//	init.go         how weights are drawn
//	alexnet.go …    one network or family, one file
//
// Weights are never held in memory. When the model is written, each weight comes from its own
// generator, which depends only on the seed and the weight's name. The distributions are
// those of the paper, with one exception. Where the paper uses a constant (a bias of 0, a
// BatchNorm scale of 1), every element is off by up to 0.001, so that no two initializers of
// a file are equal. Runtimes merge equal initializers; the plan would then have more resident
// bytes than the runtime.
//
// All tensors are float32; the opset is 17. The models omit Dropout, which has no effect
// in inference, and heads that serve only training.
package models

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// Network is a network that Build can build.
type Network struct {
	Name     string
	Doc      string  // description in one line, with the paper
	Dims     []Param // symbolic in the file unless Options.Dims gives a length
	Settings []Param // settings that Options.Set can change

	build func(b *builder)
}

// Networks lists the networks by name. Networks of torchvision have its names.
func Networks() []Network {
	return []Network{
		{"alexnet", "AlexNet, on one GPU (Krizhevsky 2014, One weird trick)", batch, image(224), alexNet},
		{"bert", "BERT-base encoder with pooler (Devlin et al. 2019)", text, encoder(30522, 512), bert},
		{"efficientnet_b0", "EfficientNet-B0; width and depth give B1 to B7 (Tan & Le 2019)", batch, image(224, depth), efficientNet},
		{"googlenet", "GoogLeNet, Inception v1 with BatchNorm (Szegedy et al. 2015)", batch, image(224), googLeNet},
		{"mnasnet", "MNASNet-B1 (Tan et al. 2019)", batch, image(224), mnasNet},
		{"mobilenet_v1", "MobileNet: depthwise separable convolutions (Howard et al. 2017)", batch, image(224), mobileNetV1},
		{"mobilenet_v2", "MobileNetV2: inverted residuals (Sandler et al. 2018)", batch, image(224), mobileNetV2},
		{"r3d_18", "ResNet3D-18 on video (Tran et al. 2018)", batch, video(112, 16), resNet3D},
		{"resnet18", "ResNet-18, basic blocks (He et al. 2016)", batch, image(224), resNet18},
		{"resnet50", "ResNet-50, bottleneck blocks, v1.5 (He et al. 2016)", batch, image(224), resNet50},
		{"tiny_autoencoder", "MLPerf Tiny, anomaly detection: a dense autoencoder of sounds (Banbury et al. 2021)", batch, spectra, tinyAutoencoder},
		{"tiny_ds_cnn", "MLPerf Tiny, keyword spotting: DS-CNN (Zhang et al. 2017; Banbury et al. 2021)", batch, sounds, tinyDSCNN},
		{"tiny_mobilenet", "MLPerf Tiny, visual wake words: MobileNet, a quarter as wide, on 96x96 (Banbury et al. 2021)", batch, small(2, 96), tinyMobileNet},
		{"tiny_resnet8", "MLPerf Tiny, image classification: ResNet-8 on CIFAR-10 (Banbury et al. 2021)", batch, small(10, 32), tinyResNet8},
		{"transformer", "the Transformer, base: encoder and decoder (Vaswani et al. 2017)", translation, encoderDecoder, transformer},
		{"vgg16", "VGG-16, configuration D (Simonyan & Zisserman 2015)", batch, image(224), vgg16},
		{"vit_b_16", "Vision Transformer ViT-B/16 (Dosovitskiy et al. 2021)", batch, vision(224), visionTransformer},
		{"xlmr", "XLM-R base encoder with pooler (Conneau et al. 2020)", text, encoder(250002, 514), xlmr},
	}
}

// Options says which form of a network Build builds.
type Options struct {
	Dims map[string]int64  // lengths of symbolic dimensions; the others stay symbolic
	Set  map[string]string // values of settings; the others keep their defaults
	Seed uint64            // of the weights
}

// Build makes a network as a model in memory, for onnx.Encode to write. The
// same arguments give the same bytes; another seed gives other weights and
// nothing else. Unknown names, dimensions and settings are errors, and so are values
// with which the network cannot be built.
func Build(name string, opt Options) (*graph.Model, error) {
	n, err := find(name)
	if err != nil {
		return nil, err
	}
	b, err := n.run(opt)
	if err != nil {
		return nil, fmt.Errorf("network %q: %w", name, err)
	}
	return b.model(), nil
}

// Parameters returns the number of trainable parameters with default settings: all
// weights except the running statistics of BatchNorm and computed tables.
func (n Network) Parameters() int64 {
	b, err := n.run(Options{})
	if err != nil {
		panic(err) // the defaults are ours
	}
	return b.parameters
}

func find(name string) (Network, error) {
	all := Networks()
	if i := slices.IndexFunc(all, func(n Network) bool { return n.Name == name }); i >= 0 {
		return all[i], nil
	}
	names := make([]string, len(all))
	for i, n := range all {
		names[i] = n.Name
	}
	return Network{}, fmt.Errorf("network %q is unknown: expected one of %s", graph.Short(name), strings.Join(names, ", "))
}

// run builds the network's graph.
func (n Network) run(opt Options) (*builder, error) {
	b := newBuilder(n.Name, opt.Seed)
	var err error
	if b.dims, err = bindDims(n.Dims, opt.Dims); err != nil {
		return nil, err
	}
	if b.settings, err = bindSettings(n.Settings, opt.Set); err != nil {
		return nil, err
	}
	n.build(b)
	return b, b.err
}
