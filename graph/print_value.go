package graph

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// attrWords are the words for the kinds of attributes.
var attrWords = [...]string{
	AttrUndefined: "undefined", AttrFloat: "float", AttrInt: "int", AttrString: "string", AttrTensor: "tensor",
	AttrGraph: "graph", AttrFloats: "floats", AttrInts: "ints", AttrStrings: "strings", AttrTensors: "tensors",
	AttrGraphs: "graphs", AttrSparseTensor: "sparse_tensor", AttrSparseTensors: "sparse_tensors",
	AttrTypeProto: "type_proto", AttrTypeProtos: "type_protos",
}

func attrWord(t AttrType) string {
	if t >= 0 && int(t) < len(attrWords) {
		return attrWords[t]
	}
	return strconv.Itoa(int(t))
}

// attribute writes name=value.
func (p *printer) attribute(a *Attr) {
	p.put(quoted(a.Name), "=")
	switch {
	case a.Ref != "":
		p.put("ref(", quoted(a.Ref), ", ", attrWord(a.Type), ")")
	case a.Type == AttrFloat:
		p.put(floatString(a.Float))
	case a.Type == AttrInt:
		p.put(strconv.FormatInt(a.Int, 10))
	case a.Type == AttrString:
		p.put(strconv.Quote(a.String))
	case a.Type == AttrTensor && a.Tensor != nil:
		p.tensor(a.Tensor)
	case a.Type == AttrSparseTensor && a.Sparse != nil && a.Sparse.Values != nil && a.Sparse.Indices != nil:
		p.tensor(&Data{Name: a.Sparse.Values.Name, Type: a.Sparse.Values.Type, Dims: a.Sparse.Dims, Sparse: a.Sparse})
	case a.Type == AttrTypeProto:
		p.put("type(")
		if a.TypeOf != nil {
			p.put(declaredString(a.TypeOf))
		}
		p.put(")")
	case a.Type == AttrGraph && a.Graph != nil:
		p.body(a.Graph)
	default:
		p.list(a)
	}
}

// list writes an attribute that is a list, or says that its value is not known.
func (p *printer) list(a *Attr) {
	each := func(n int, write func(int)) {
		if n == 0 {
			p.put(attrWord(a.Type))
		}
		p.put("[")
		for i := range n {
			if i > 0 {
				p.put(", ")
			}
			write(i)
		}
		p.put("]")
	}
	switch a.Type {
	case AttrFloats:
		each(len(a.Floats), func(i int) { p.put(floatString(a.Floats[i])) })
	case AttrInts:
		each(len(a.Ints), func(i int) { p.put(strconv.FormatInt(a.Ints[i], 10)) })
	case AttrStrings:
		each(len(a.Strings), func(i int) { p.put(strconv.Quote(a.Strings[i])) })
	case AttrTensors:
		each(len(a.Tensors), func(i int) { p.tensor(a.Tensors[i]) })
	case AttrGraphs:
		each(len(a.Graphs), func(i int) { p.body(a.Graphs[i]) })
	default:
		p.put("none(", attrWord(a.Type), ")")
	}
}

// body writes a graph of an attribute as a block.
func (p *printer) body(g *Graph) {
	p.put("graph ")
	if g.Name != "" {
		p.put(quoted(g.Name), " ")
	}
	p.put("{\n")
	p.depth++
	p.scope(g)
	p.depth--
	p.begin("}")
}

// tensor writes a tensor of an attribute: its name, if it has one, and its elements.
func (p *printer) tensor(d *Data) {
	p.put("(")
	if d.Name != "" {
		p.put(quoted(d.Name), " ")
	}
	p.data(d)
	p.put(")")
}

// data writes a type, a shape and elements.
func (p *printer) data(d *Data) {
	p.put(d.Type.String(), "[")
	for i, n := range d.Dims {
		if i > 0 {
			p.put(",")
		}
		p.put(strconv.FormatInt(n, 10))
	}
	p.put("] = ")
	if d.Sparse != nil {
		p.put("sparse ")
		p.tensor(d.Sparse.Values)
		p.put(" ")
		p.tensor(d.Sparse.Indices)
		return
	}
	if x := d.External; x != nil {
		p.put("external ", strconv.Quote(x.Location), " ", strconv.FormatInt(x.Offset, 10), " ", strconv.FormatInt(x.Length, 10))
		return
	}
	if n := d.Elements(); n < 0 || n > p.opt.Elements {
		p.put("...")
	} else if d.Type == String {
		p.texts(d, n)
	} else {
		p.elements(d, n)
	}
}

// texts writes the elements of a tensor of strings.
func (p *printer) texts(d *Data, n int64) {
	list := d.Texts
	if list == nil && p.source != nil {
		for _, s := range d.Payload {
			if s.Off < 0 || s.Len < 0 || s.End() > int64(len(p.source.Bytes)) {
				break
			}
			list = append(list, string(p.source.Bytes[s.Off:s.End()]))
		}
	}
	if int64(len(list)) != n {
		p.put("...")
		return
	}
	p.put("[")
	for i, s := range list {
		if i > 0 {
			p.put(", ")
		}
		p.put(strconv.Quote(s))
	}
	p.put("]")
}

// elements writes numbers: all of them, or one if all have the same bits.
func (p *printer) elements(d *Data, n int64) {
	raw, ok := d.littleEndian()
	if !ok {
		p.put("...")
		return
	}
	width, count := d.Type.Bits(), n
	if d.Type == Complex64 || d.Type == Complex128 {
		width, count = width/2, 2*n
	}
	same := count > 0 && d.Type != Complex64 && d.Type != Complex128
	for i := int64(1); same && i < count; i++ {
		same = bitsAt(raw, i, width) == bitsAt(raw, 0, width)
	}
	if same {
		p.put(numberString(bitsAt(raw, 0, width), d.Type))
		return
	}
	p.put("[")
	for i := range count {
		if i > 0 {
			p.put(", ")
		}
		p.put(numberString(bitsAt(raw, i, width), d.Type))
	}
	p.put("]")
}

// littleEndian returns the elements as raw_data has them; false if they are not at hand.
func (d *Data) littleEndian() ([]byte, bool) {
	raw := d.Raw
	switch {
	case raw != nil:
	case d.Generate != nil:
		var b bytes.Buffer
		if d.Generate(&b) != nil {
			return nil, false
		}
		raw = b.Bytes()
	case d.Type.Bits() >= 8:
		width := d.Type.Bits()
		if d.Type == Complex64 || d.Type == Complex128 {
			width /= 2
		}
		for _, v := range d.Ints {
			raw = appendBits(raw, uint64(v), width)
		}
		for _, v := range d.Floats {
			x := math.Float64bits(v)
			if width == 32 {
				x = uint64(math.Float32bits(float32(v)))
			}
			raw = appendBits(raw, x, width)
		}
	}
	return raw, int64(len(raw)) == d.Bytes
}

func appendBits(b []byte, v uint64, width int64) []byte {
	for k := int64(0); k < width; k += 8 {
		b = append(b, byte(v>>k))
	}
	return b
}

// bitsAt is element i of elements of width bits, the lower ones of a byte first.
func bitsAt(raw []byte, i, width int64) uint64 {
	if width < 8 {
		at := i * width
		return uint64(raw[at/8]>>(at%8)) & (1<<width - 1)
	}
	var v uint64
	for k := range width / 8 {
		v |= uint64(raw[i*width/8+k]) << (8 * k)
	}
	return v
}

// numberString writes one element, of a complex type one of its two parts.
func numberString(v uint64, d DType) string {
	switch d {
	case Float32, Complex64:
		return realString(v, Float32)
	case Float64, Complex128:
		return realString(v, Float64)
	case Float16, BFloat16:
		return realString(v, d)
	case Int8, Int16, Int32, Int64, Int4, Int2:
		shift := 64 - d.Bits()
		return strconv.FormatInt(int64(v)<<shift>>shift, 10)
	case Uint8, Uint16, Uint32, Uint64, Uint4, Uint2, Bool:
		return strconv.FormatUint(v, 10)
	}
	return "0x" + strconv.FormatUint(v, 16)
}

// realString writes the number of type d with these bits in its shortest form, a NaN with
// its bits.
func realString(bits uint64, d DType) string {
	v := realOf(bits, d)
	switch {
	case math.IsNaN(v):
		return "nan:" + strconv.FormatUint(bits, 16)
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	}
	if d.Bits() == 16 {
		return shortReal(bits, d, v)
	}
	return strconv.FormatFloat(v, 'g', -1, int(d.Bits()))
}

// shortReal writes a float16 or bfloat16 with as few digits as give the same bits.
func shortReal(bits uint64, d DType, v float64) string {
	for digits := 1; ; digits++ {
		s := strconv.FormatFloat(v, 'g', digits, 64)
		if b, ok := parseReal(s, d); ok && b == bits {
			return s
		}
	}
}

// floatString writes a float of an attribute, which must not look like an integer.
func floatString(f float32) string {
	s := realString(uint64(math.Float32bits(f)), Float32)
	if !strings.ContainsAny(s, ".en") {
		s += ".0"
	}
	return s
}

// halfFloat is the value of a float16.
func halfFloat(b uint16) float64 {
	sign, exp, frac := 1.0, int(b>>10)&31, float64(b&1023)
	if b>>15 != 0 {
		sign = -1
	}
	switch exp {
	case 0:
		return math.Copysign(math.Ldexp(frac, -24), sign)
	case 31:
		if frac != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

// halfBits is the float16 with the value v, nearest even if there is none.
func halfBits(v float64) uint16 {
	sign := uint16(0)
	if math.Signbit(v) {
		sign, v = 1<<15, -v
	}
	if v >= 65520 {
		return sign | 0x7c00
	}
	_, e := math.Frexp(v)
	scale := max(e-11, -24) // the value of the last bit is 2^scale
	m := int(math.RoundToEven(math.Ldexp(v, -scale)))
	if m < 1024 {
		return sign | uint16(m)
	}
	return sign | uint16((scale+24)<<10+m)
}

// declaredString writes a declared type as float32[batch,3].
func declaredString(d *Declared) string { return typeString(&d.Type, d.Symbols) }

func typeString(t *Type, symbols []string) string {
	var of string
	if t.Of != nil {
		of = typeString(t.Of, nil)
	}
	switch t.Kind {
	case KindTensor, KindSparse:
		elem := t.Elem.String()
		if t.Elem == Undefined {
			elem = "?"
		}
		text := elem + "[...]"
		if t.Ranked {
			text = elem + "[" + strings.Join(dimStrings(t.Shape, symbols), ",") + "]"
		}
		if t.Kind == KindSparse {
			return "sparse(" + text + ")"
		}
		return text
	case KindSequence, KindOptional:
		return t.Kind.String() + "(" + of + ")"
	case KindMap:
		key := "?"
		if t.Key != Undefined {
			key = t.Key.String()
		}
		if t.Of == nil {
			return "map(" + key + ")"
		}
		return "map(" + key + ", " + of + ")"
	}
	return t.Kind.String()
}

func dimStrings(shape []Dim, symbols []string) []string {
	var list []string
	for i, d := range shape {
		s := d.String()
		if d == Unknown && i < len(symbols) && symbols[i] != "" {
			s = quoted(symbols[i])
			if _, err := strconv.ParseInt(s, 10, 64); err == nil || s == "?" {
				s = strconv.Quote(s)
			}
		}
		list = append(list, s)
	}
	return list
}
