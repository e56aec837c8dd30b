package onnx

import (
	"regexp"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onnxmem/onnxmem/graph"
)

// Metadata in which PyTorch's exporter says what initializers are.
const (
	// of the graph: a line for each input of the exported program
	keySignature = "pkg.torch.export.ExportedProgram.graph_signature"
	// of a value_info: PARAMETER, BUFFER or CONSTANT_TENSOR
	keyKind = "pkg.torch.export.graph_signature.InputSpec.kind"
	// of a value_info: the names of what was computed to make the initializer
	keyFolded = "pkg.onnxscript.optimizer.folded_from"
)

var (
	signatureLine = regexp.MustCompile(`: (PARAMETER|BUFFER|CONSTANT_TENSOR) target=(?:'([^'\n]*)'|"([^"\n]*)")`)
	foldedName    = regexp.MustCompile(`'([^']*)'|"([^"]*)"`)
	origins       = map[string]graph.Origin{"PARAMETER": graph.OriginParameter, "BUFFER": graph.OriginBuffer, "CONSTANT_TENSOR": graph.OriginConstant}
)

// origin is what the metadata of a value_info say; folded are the names from which the
// tensor was computed.
type origin struct {
	kind   graph.Origin
	folded string
}

// origin reads one entry of the metadata of a value_info. It decides nothing but what is
// trained by default, so an entry that is damaged says nothing.
func (r *reader) origin(f field, o *origin) {
	switch key, value := r.entry(f); key {
	case keyKind:
		o.kind = origins[value]
	case keyFolded:
		o.folded = value
	}
}

// entry is an entry of metadata; empty if it is damaged.
func (r *reader) entry(f field) (key, value string) {
	if f.typ != protowire.BytesType {
		return "", ""
	}
	p, err := r.prop(f.payload, "metadata_props")
	if err != nil {
		return "", ""
	}
	return p.Key, p.Value
}

// setOrigins tells for each initializer whether the exporter says that it is a parameter. One
// that was computed from a parameter, such as a transposed weight, is one. Files without
// such metadata say nothing.
func (s *scope) setOrigins(p *graphParts) {
	if p.signature == "" && !slices.ContainsFunc(p.values, func(v valueInfo) bool { return v.origin.kind != graph.OriginUnknown }) {
		return
	}
	said := map[string]graph.Origin{}
	for _, m := range signatureLine.FindAllStringSubmatch(p.signature, -1) {
		said[m[2]+m[3]] = origins[m[1]]
	}
	for _, v := range p.values {
		if v.origin.kind != graph.OriginUnknown {
			said[v.name] = v.origin.kind
		}
	}
	for name, kind := range said {
		if id, ok := s.names[name]; ok && s.g.Tensors[id].Data != nil {
			s.g.Tensors[id].Origin = kind
		}
	}
	for _, v := range p.values {
		id, ok := s.names[v.name]
		if !ok || v.origin.folded == "" || s.g.Tensors[id].Data == nil || s.g.Tensors[id].Origin != graph.OriginUnknown {
			continue
		}
		kind := graph.OriginConstant
		for _, m := range foldedName.FindAllStringSubmatch(v.origin.folded, -1) {
			switch said[m[1]+m[2]] {
			case graph.OriginParameter:
				kind = graph.OriginParameter
			case graph.OriginBuffer:
				if kind == graph.OriginConstant {
					kind = graph.OriginBuffer
				}
			}
		}
		s.g.Tensors[id].Origin = kind
	}
}

// signature is the exported program's signature, if the metadata entry is that.
func (r *reader) signature(f field) string {
	if key, value := r.entry(f); key == keySignature {
		return value
	}
	return ""
}
