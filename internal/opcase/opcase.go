// Package opcase makes a case of an elementwise operator from the operator's signature, for
// tests: a new operator is compared before anybody writes a case of it.
package opcase

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/ops"
)

// Case is a node of an operator whose inputs and output have one dtype and one shape.
type Case struct {
	Domain, Op string
	Version    int64 // of the domain: 18, or the first that has the operator
	Attrs      []*graph.Attr
	In         []*reference.Tensor // at which the results are finite, if they are so in some interval
}

// Name is the operator with its domain: "com.microsoft.QuickGelu".
func (c Case) Name() string { return strings.TrimPrefix(c.Domain+"."+c.Op, ".") }

// Elementwise returns a case, on tensors of a shape, of each operator of class ops.Elementwise
// whose inputs, of a fixed number, may all be float32, and whose attributes are reals. Their
// order is that of ops/signatures.txt, which is read from the sources around the working
// directory.
func Elementwise(shape ...int) ([]Case, error) {
	text, err := signatures()
	if err != nil {
		return nil, err
	}
	var list []Case
	for section := range strings.SplitSeq(strings.ReplaceAll(text, "\n  ", "\x00"), "\n") {
		lines := strings.Split(section, "\x00")
		domain, op, is := strings.Cut(lines[0], " ")
		if domain == "ai.onnx" {
			domain = ""
		}
		if row := ops.Lookup(domain, op); !is || row == nil || row.Class != ops.Elementwise {
			continue
		}
		c := Case{Domain: domain, Op: op}
		if inputs := c.read(lines[1:]); inputs > 0 {
			c.draw(inputs, shape)
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("ops/signatures.txt: no elementwise operator")
	}
	return list, nil
}

// signatures returns the text of ops/signatures.txt.
func signatures() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "ops", "signatures.txt"))
		above := filepath.Dir(dir)
		if err == nil || above == dir {
			return string(text), err
		}
		dir = above
	}
}

// values are given to the attributes of an operator, in the order of their names.
var values = []float32{0.7, 1.3, 0.45, 1.85}

// legacy are the attributes of broadcasting and of results in place before opset 7.
var legacy = []string{"axis", "broadcast", "consumed_inputs"}

// read fills in what the lines of a signature say, and returns the number of inputs; 0 if there
// is no case.
func (c *Case) read(lines []string) (inputs int) {
	symbol := ""
	for _, line := range lines {
		key, rest, _ := strings.Cut(line, " ")
		since, err := strconv.ParseInt(key, 10, 64)
		switch {
		case err == nil && (c.Version == 0 || since <= 18):
			in, out, _ := strings.Cut(rest, " > ")
			list := strings.Fields(in)
			c.Version, inputs, symbol = since, len(list), out
			if slices.ContainsFunc(list, func(x string) bool { return x != out }) {
				return 0
			}
		case key == symbol && !strings.Contains(rest+" ", "float32 "):
			return 0
		case key == ":":
			for a := range strings.FieldsSeq(rest) {
				name, typ, _ := strings.Cut(a, "=")
				if slices.Contains(legacy, name) {
					continue
				}
				if typ != "float" || len(c.Attrs) == len(values) {
					return 0
				}
				c.Attrs = append(c.Attrs, &graph.Attr{Name: name, Type: graph.AttrFloat, Float: values[len(c.Attrs)]})
			}
		}
	}
	if c.Domain == "" {
		c.Version = max(c.Version, 18)
	}
	return inputs
}

// domains are intervals of which the first has finite results of most functions, the second of
// inverse ones such as Acos, the third of Acosh.
var domains = [][2]float64{{-2, 2}, {0.25, 0.75}, {1.5, 2.5}}

// draw fills in the inputs.
func (c *Case) draw(inputs int, shape []int) {
	n := &graph.Node{Domain: c.Domain, Op: c.Op, Attrs: c.Attrs, Outputs: []graph.TensorID{0}}
	for _, d := range append(domains, domains[0]) {
		c.In = nil
		for k := range inputs {
			c.In = append(c.In, spread(k, shape, d))
		}
		out, err := reference.Node(n, c.Version, c.In)
		if err == nil && !slices.ContainsFunc(out[0].F, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }) {
			return
		}
	}
}

// spread returns a tensor of float32 numbers that are spread over an interval: multiples of an
// irrational number, so that none is a round one. Those of input k begin elsewhere.
func spread(k int, shape []int, domain [2]float64) *reference.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	list := make([]float64, n)
	for i := range list {
		_, part := math.Modf(float64(i+1)*math.Phi + float64(k)*math.Sqrt2)
		list[i] = float64(float32(domain[0] + part*(domain[1]-domain[0])))
	}
	return reference.Reals(shape, list...)
}
