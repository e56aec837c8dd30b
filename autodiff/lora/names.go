package lora

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// nameSites gives each site the name of the module that it was in PyTorch, which PEFT uses:
// the initializer's name without ".weight" and what follows; if an exporter has not kept that
// name, the scope of the node; else the initializer's name as it is. A weight of two kinds of
// readers, such as the embedding of a language model that is its head, has one name for each.
func nameSites(g *graph.Graph, list []*site) {
	names := map[key]string{}
	taken := map[string]key{}
	for _, s := range list {
		if name, known := names[s.key]; known {
			s.module = name
			continue
		}
		name := moduleOf(g, s)
		for k, unique := 2, name; ; k++ {
			if _, other := taken[name]; !other {
				break
			}
			name = fmt.Sprintf("%s_%d", unique, k)
		}
		taken[name], names[s.key] = s.key, name
		s.module = name
	}
}

// lost matches names that exporters and optimizers make up.
var lost = regexp.MustCompile(`^(onnx::|val_|const_|_to_|/|\d)`)

// moduleOf is the name of the module of a site.
func moduleOf(g *graph.Graph, s *site) string {
	weight := g.Tensors[s.weight].Name
	if !lost.MatchString(weight) {
		if k := strings.LastIndex(weight, ".weight"); k > 0 {
			return strings.TrimSuffix(weight[:k], ".MatMul")
		}
	}
	if scope := scopeOf(s.node); scope != "" {
		return scope
	}
	return strings.Trim(strings.TrimSuffix(weight, "weight"), "./_")
}

// scopeOf is the module of a node by its name, /encoder/layer.0/query/MatMul, or by what the
// exporter noted; "" if there is neither.
func scopeOf(n *graph.Node) string {
	if list, has := n.Prop("pkg.torch.onnx.name_scopes"); has {
		names := strings.Split(strings.Trim(list, "[]"), ",")
		if len(names) > 1 { // the last one is that of the operation
			if name := strings.Trim(names[len(names)-2], ` '"`); name != "" {
				return name
			}
		}
	}
	if k := strings.LastIndexByte(n.Name, '/'); k > 0 {
		return strings.ReplaceAll(strings.Trim(n.Name[:k], "/"), "/", ".")
	}
	return ""
}
