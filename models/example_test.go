package models_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/onnx"
)

// Writes ResNet-50 for 32 images at once, at half width.
func Example() {
	m, err := models.Build("resnet50", models.Options{
		Dims: map[string]int64{"batch": 32},
		Set:  map[string]string{"width": "0.5"},
		Seed: 1,
	})
	if err != nil {
		log.Fatal(err)
	}
	image, err := onnx.Encode(m)
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "models")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "resnet50.onnx")
	if err := onnx.Write(path, m, image, onnx.WriteOptions{}); err != nil {
		log.Fatal(err)
	}
	in := m.Graph.Tensors[m.Graph.Inputs[0]]
	fmt.Println(in.Name, in.Declared.Type)
	fmt.Println(len(m.Graph.Nodes), "nodes,", image.Size, "bytes")
	// Output:
	// image float32[32,3,224,224]
	// 175 nodes, 27808397 bytes
}

func ExampleNetworks() {
	for _, n := range models.Networks()[:3] {
		fmt.Printf("%-16s %11d  %s\n", n.Name, n.Parameters(), n.Doc)
	}
	// Output:
	// alexnet             61100840  AlexNet, on one GPU (Krizhevsky 2014, One weird trick)
	// bert               109482240  BERT-base encoder with pooler (Devlin et al. 2019)
	// efficientnet_b0      5288548  EfficientNet-B0; width and depth give B1 to B7 (Tan & Le 2019)
}
