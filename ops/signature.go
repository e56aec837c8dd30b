package ops

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/onnxmem/onnxmem/graph"
)

//go:embed signatures.txt
var signatureText string

// ownSignatures are those of operators that no schema file defines: our own, and an
// operator of ONNX Runtime under the domain that some exporters use for it.
const ownSignatures = `
com.microsoft SimplifiedLayerNormalization
  1 T V > V U?
  T bfloat16 float16 float32 float64
  U float32 float64
  V bfloat16 float16 float32 float64
onnxmem ConvWeightGrad
  1 T T > T
  T bfloat16 float16 float32 float64
onnxmem FlashAttention
  1 T T T V bool > T float32
  T bfloat16 float16 float32
  V bfloat16 float16 float32
onnxmem FlashAttentionGrad
  1 T T T V bool float32 T > T T T
  T bfloat16 float16 float32
  V bfloat16 float16 float32
onnxmem PutRows
  1 T T int64 int64 > T
  T bfloat16 bool float16 float32 float64 int16 int32 int64 int8 uint16 uint32 uint64 uint8
onnxmem SwapOut
  1 any > any
onnxmem SwapIn
  1 any > any
`

// sections has the lines of each operator; they are parsed when the operator is first met
// (lookUpSignature), since a model has few of all.
var sections = sync.OnceValue(func() map[key]string { return sectionsOf(signatureText + ownSignatures + trainingSignatures) })

// parsed has the *signature of each operator that was met, by key.
var parsed sync.Map

// lookUpSignature finds the signature of an operator; nil if it is unknown.
func lookUpSignature(k key) *signature {
	if s, is := parsed.Load(k); is {
		return s.(*signature)
	}
	text, is := sections()[k]
	if !is {
		return nil
	}
	s, _ := parsed.LoadOrStore(k, parseSignature(text))
	return s.(*signature)
}

// signature gives the number of inputs and outputs of an operator, which of their
// element types agree, and the types of its attributes.
type signature struct {
	forms      []form // by version, ascending
	symbols    map[string][]typeRange
	attributes map[string][]string // names of attrTypes: several if they differ by version
}

// attrTypes are the types that attributes of operators have, by their names in
// signatures.txt.
var attrTypes = map[string]graph.AttrType{
	"float": graph.AttrFloat, "int": graph.AttrInt, "string": graph.AttrString, "tensor": graph.AttrTensor,
	"graph": graph.AttrGraph, "floats": graph.AttrFloats, "ints": graph.AttrInts, "strings": graph.AttrStrings,
	"sparse_tensor": graph.AttrSparseTensor, "type_proto": graph.AttrTypeProto,
}

// checkAttributes refuses attributes of another type than the operator's: they would be read
// as zero or empty. An attribute that the operator does not have is not read.
func checkAttributes(n *graph.Node) error {
	s := lookUpSignature(key{n.Domain, n.Op})
	if s == nil {
		return nil
	}
	for _, a := range n.Attrs {
		want := s.attributes[a.Name]
		if len(want) == 0 || slices.ContainsFunc(want, func(w string) bool { return attrTypes[w] == a.Type }) {
			continue
		}
		found := fmt.Sprintf("type %d", a.Type)
		for name, t := range attrTypes {
			if t == a.Type {
				found = "type " + name
			}
		}
		return graph.Errorf("attribute %s has %s, expected %s", a.Name, found, strings.Join(want, " or "))
	}
	return nil
}

// typeRange is a type that a symbol stands for in some versions of its domain.
type typeRange struct {
	elem        graph.DType
	since, last int64 // 0: no limit
}

// holds reports whether a symbol that stands for these types may be elem: in a version of
// its domain or, if that is 0, in any.
func holds(list []typeRange, elem graph.DType, version int64) bool {
	return slices.ContainsFunc(list, func(r typeRange) bool {
		return r.elem == elem && (version == 0 || version >= r.since && (r.last == 0 || version <= r.last))
	})
}

// types lists the types of a symbol in a version of its domain or, if that is 0, in any:
// each once.
func types(list []typeRange, version int64) (all []graph.DType) {
	for _, r := range list {
		if holds([]typeRange{r}, r.elem, version) && !slices.Contains(all, r.elem) {
			all = append(all, r.elem)
		}
	}
	return all
}

// form lists the inputs and outputs of an operator from a version on.
type form struct {
	since   int64
	in, out []parameter
}

// parameter is one input or output of a form; the last one may repeat.
type parameter struct {
	symbol  string      // "T"; "" if elem is the type, or if any value is allowed
	elem    graph.DType // Undefined: the type of the symbol
	any     bool        // it need not be a tensor
	missing bool        // it may be left out
	repeats bool        // any number may follow
	mixed   bool        // the repeated ones may differ in type
}

// signatureOf finds the signature of an operator and its form in a version of its
// domain; nil if it is unknown.
func signatureOf(domain, name string, version int64) (*signature, *form) {
	s := lookUpSignature(key{domain, name})
	if s == nil {
		return nil, nil
	}
	var f *form
	for i := range s.forms {
		if f == nil || s.forms[i].since <= version {
			f = &s.forms[i]
		}
	}
	return s, f
}

// sectionsOf cuts the text into the lines of each operator. The first line has its domain and its
// name.
func sectionsOf(text string) map[key]string {
	table := map[key]string{}
	var last key
	begin, at := -1, 0
	end := func() {
		if begin >= 0 {
			table[last] = text[begin:at]
		}
	}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" && line[0] != ' ' {
			end()
			domain := words[0]
			if domain == "ai.onnx" {
				domain = ""
			}
			last, begin = key{domain, words[1]}, at+len(line)
		}
		at += len(line)
	}
	end()
	return table
}

// dtypeNames are the element types by name.
var dtypeNames = sync.OnceValue(func() map[string]graph.DType {
	dtypes := map[string]graph.DType{}
	for d := graph.Undefined + 1; d.Valid(); d++ {
		dtypes[d.String()] = d
	}
	return dtypes
})

// parseSignature parses the lines of an operator, which are part of the program: an error in them
// is a panic.
func parseSignature(text string) *signature {
	last, dtypes := &signature{symbols: map[string][]typeRange{}}, dtypeNames()
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
		case words[0] == ":":
			last.attributes = parseAttributes(words[1:])
		default:
			since, err := strconv.ParseInt(words[0], 10, 64)
			if err != nil {
				for _, w := range words[1:] {
					last.symbols[words[0]] = append(last.symbols[words[0]], parseType(w, dtypes))
				}
				continue
			}
			f := form{since: since}
			side := &f.in
			for _, w := range words[1:] {
				if w == ">" {
					side = &f.out
					continue
				}
				*side = append(*side, parseParameter(w, dtypes))
			}
			last.forms = append(last.forms, f)
		}
	}
	return last
}

// parseAttributes parses the types of attributes: axis=int to=int|string.
func parseAttributes(words []string) map[string][]string {
	table := make(map[string][]string, len(words))
	for _, w := range words {
		name, types, _ := strings.Cut(w, "=")
		table[name] = strings.Split(types, "|")
		for _, t := range table[name] {
			if attrTypes[t] == graph.AttrUndefined {
				panic("ops: signatures: " + w)
			}
		}
	}
	return table
}

// parseType parses a type with its versions: float32, float32@13 or float32@9-12.
func parseType(word string, dtypes map[string]graph.DType) typeRange {
	name, versions, some := strings.Cut(word, "@")
	r := typeRange{elem: dtypes[name]}
	if !some {
		return r
	}
	since, last, ends := strings.Cut(versions, "-")
	for _, v := range []struct {
		text string
		to   *int64
		is   bool
	}{{since, &r.since, true}, {last, &r.last, ends}} {
		if !v.is {
			continue
		}
		n, err := strconv.ParseInt(v.text, 10, 64)
		if err != nil {
			panic("ops: signatures: " + word)
		}
		*v.to = n
	}
	return r
}

func parseParameter(word string, dtypes map[string]graph.DType) parameter {
	name := strings.TrimRight(word, "?*~")
	how := word[len(name):]
	p := parameter{missing: how == "?", repeats: how == "*" || how == "~", mixed: how == "~", any: name == "any"}
	if p.elem = dtypes[name]; p.elem == graph.Undefined && !p.any {
		p.symbol = name
	}
	return p
}

// at is the parameter for input or output i; nil if there is none.
func at(list []parameter, i int) *parameter {
	switch {
	case i < len(list):
		return &list[i]
	case len(list) > 0 && list[len(list)-1].repeats:
		return &list[len(list)-1]
	}
	return nil
}

// check compares the inputs and outputs of a call with the signature.
func (s *signature) check(f *form, c *Call) error {
	for i := range f.in {
		if p := &f.in[i]; !p.missing && !p.repeats && !c.Has(i) {
			return c.Errf("input %d is missing: expected %s", i, inputs(f))
		}
	}
	for i := range f.out {
		if p := &f.out[i]; !p.missing && !p.repeats && (i >= len(c.Out) || !c.Out[i].Present) {
			return c.Errf("output %d is missing: expected %s", i, outputs(f))
		}
	}
	bound := map[string]binding{}
	for i := range c.In {
		p := at(f.in, i)
		if p == nil && c.In[i].Present {
			return c.Errf("input %d%s is one too many: expected %s", i, c.inputName(i), inputs(f))
		}
		if err := s.agree(p, c, &c.In[i], "input", i, c.inputName(i), bound); err != nil {
			return err
		}
	}
	for i := range c.Out {
		p := at(f.out, i)
		if p == nil && c.Out[i].Present {
			return c.Errf("output %d%s is one too many: expected at most %d", i, c.outputName(i), len(f.out))
		}
		if err := s.agree(p, c, &c.Out[i], "output", i, c.outputName(i), bound); err != nil {
			return err
		}
	}
	return nil
}

// binding is the type of a symbol in a call, and the input or output that
// determined it.
type binding struct {
	elem graph.DType
	what string
}

// agree compares the element type of one input or output with the type of its
// symbol.
func (s *signature) agree(p *parameter, c *Call, a *Arg, side string, i int, name string, bound map[string]binding) error {
	if p == nil || !a.Present || p.any || a.Kind == graph.KindUnknown || a.Kind == graph.KindTensor && a.Elem == graph.Undefined {
		return nil
	}
	if a.Kind != graph.KindTensor {
		return c.Errf("%s %d%s is %v, expected a tensor", side, i, name, a.Type)
	}
	switch {
	case p.elem != graph.Undefined:
		if a.Elem != p.elem {
			return c.Errf("%s %d%s has elements of type %v, expected %v", side, i, name, a.Elem, p.elem)
		}
		return nil
	case p.mixed:
		return nil
	}
	if list := s.symbols[p.symbol]; !holds(list, a.Elem, 0) {
		return c.Errf("%s %d%s has elements of type %v, expected one of %v", side, i, name, a.Elem, types(list, 0))
	}
	b, known := bound[p.symbol]
	if known && b.elem != a.Elem {
		return c.Errf("%s %d%s has elements of type %v, expected %v as %s", side, i, name, a.Elem, b.elem, b.what)
	}
	if !known {
		bound[p.symbol] = binding{a.Elem, fmt.Sprintf("%s %d", side, i)}
	}
	return nil
}

// inputs describes the number of inputs of a form.
func inputs(f *form) string { return counted(f.in, "inputs") }

// outputs describes the number of outputs of a form.
func outputs(f *form) string { return counted(f.out, "outputs") }

func counted(list []parameter, what string) string {
	least := 0
	for _, p := range list {
		if !p.missing && !p.repeats {
			least++
		}
	}
	switch most := len(list); {
	case most > 0 && list[most-1].repeats:
		return fmt.Sprintf("at least %d %s", max(least, 1), what)
	case least == most:
		return fmt.Sprintf("%d %s", least, what)
	default:
		return fmt.Sprintf("%d to %d %s", least, most, what)
	}
}
