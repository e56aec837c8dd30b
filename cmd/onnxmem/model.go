package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/onnx"
)

// modelCmd lists the built-in networks or writes one.
type modelCmd struct {
	Name string `arg:"" optional:"" help:"The network (default: list them all)."`
	Out  string `arg:"" optional:"" out:"the network" help:"The file to write; - is standard output. Default: describe the network."`

	Dim  map[string]int64  `group:"dimensions" placeholder:"NAME=N" help:"Fix the length of a dimension. The others stay symbolic. May be repeated."`
	Set  map[string]string `group:"model" placeholder:"NAME=VALUE" help:"Change a setting, such as width=0.5. May be repeated."`
	Seed uint64            `group:"model" default:"0" placeholder:"N" help:"Seed of the weights."`
	JSON bool              `group:"output" name:"json" help:"Print one JSON object, and nothing else. It goes to standard output, messages to standard error."`
}

// Help is the text below the flags.
func (modelCmd) Help() string {
	return `Examples:
  onnxmem model
  onnxmem model resnet50 resnet50.onnx --dim batch=32
  onnxmem model mobilenet_v2 small.onnx --set width=0.5 --set classes=10`
}

// Run lists, describes or writes.
func (c *modelCmd) Run(e *env) error {
	if c.Name == "" {
		return c.list(e.stdout)
	}
	if c.Out == "" {
		return c.describe(e.stdout)
	}
	m, err := models.Build(c.Name, models.Options{Dims: c.Dim, Set: c.Set, Seed: c.Seed})
	if err != nil {
		return usagef("%v", err)
	}
	im, err := onnx.Encode(m)
	if err != nil {
		return err
	}
	var out io.Writer = e.stdout
	if c.Out == "-" {
		out = e.messages()
		_, err = im.WriteTo(e.data)
	} else {
		err = onnx.Write(c.Out, m, im, onnx.WriteOptions{})
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(out, struct {
			Name  string `json:"name"`
			File  string `json:"file"`
			Bytes int64  `json:"bytes"`
			Nodes int    `json:"nodes"`
		}{c.Name, c.Out, im.Size, len(m.Graph.Nodes)})
	}
	fmt.Fprintf(out, "wrote %s: %s, %d nodes, %s\n", units.Name(c.Out), c.Name, len(m.Graph.Nodes), units.Bytes(im.Size))
	return nil
}

func (c *modelCmd) list(w io.Writer) error {
	if c.JSON {
		type entry struct {
			Name       string `json:"name"`
			Doc        string `json:"doc"`
			Parameters int64  `json:"parameters"`
		}
		list := []entry{}
		for _, n := range models.Networks() {
			list = append(list, entry{n.Name, n.Doc, n.Parameters()})
		}
		return writeJSON(w, struct {
			Networks []entry `json:"networks"`
		}{list})
	}
	for _, n := range models.Networks() {
		fmt.Fprintf(w, "%-16s %14s  %s\n", n.Name, units.Group(n.Parameters()), n.Doc)
	}
	fmt.Fprintln(w, "\nThe number is that of trainable parameters. onnxmem model NAME describes a network.")
	return nil
}

func (c *modelCmd) describe(w io.Writer) error {
	for _, n := range models.Networks() {
		if n.Name != c.Name {
			continue
		}
		fmt.Fprintf(w, "%s: %s, %s parameters\n", n.Name, n.Doc, units.Group(n.Parameters()))
		for _, p := range n.Dims {
			fmt.Fprintf(w, "  --dim %-12s %s\n", p.Name, p.Doc)
		}
		for _, p := range n.Settings {
			fmt.Fprintf(w, "  --set %-12s %s (default %s)\n", p.Name, p.Doc, strconv.FormatFloat(p.Default, 'g', -1, 64))
		}
		return nil
	}
	_, err := models.Build(c.Name, models.Options{})
	return usagef("%v", err)
}
