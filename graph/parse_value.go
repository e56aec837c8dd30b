package graph

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// value reads "=" and an attribute's value, and the bodies in it.
func (p *parser) value(name string, depth int) (a *Attr, bodies []bodyText, err error) {
	a = &Attr{Name: name}
	if err := p.advance(); err != nil {
		return a, nil, err
	}
	switch p.tok.kind {
	case 's':
		a.Type, a.String = AttrString, p.tok.text
		return a, nil, p.advance()
	case '(':
		d, err := p.enclosed(false)
		if a.Type, a.Tensor = AttrTensor, d; err == nil && d.Sparse != nil {
			a.Type, a.Tensor, a.Sparse = AttrSparseTensor, nil, d.Sparse
		}
		return a, nil, err
	case '[':
		bodies, err = p.list(a, depth)
		return a, bodies, err
	case 'w':
		return p.word(a, depth)
	}
	return a, nil, p.fault("the value of an attribute")
}

// word reads a value that begins with a word: a number, a graph, a type, an empty list, a
// reference, or none.
func (p *parser) word(a *Attr, depth int) (*Attr, []bodyText, error) {
	first := p.tok
	if err := p.advance(); err != nil {
		return a, nil, err
	}
	switch {
	case first.text == "graph" && p.tok.kind != '[':
		a.Type = AttrGraph
		s, err := p.body(depth)
		return a, []bodyText{{a, s}}, err
	case p.tok.kind == '(':
		return a, nil, p.call(a, first)
	case p.tok.kind == '[':
		kind := AttrType(slices.Index(attrWords[:], first.text))
		if !slices.Contains([]AttrType{AttrFloats, AttrInts, AttrStrings, AttrTensors, AttrGraphs}, kind) {
			return a, nil, p.fail(first.at, "found %v: expected floats, ints, strings, tensors or graphs before an empty list", first)
		}
		a.Type = kind
		if err := p.advance(); err != nil {
			return a, nil, err
		}
		return a, nil, p.take(']')
	}
	if v, err := strconv.ParseInt(first.text, 10, 64); err == nil {
		a.Type, a.Int = AttrInt, v
		return a, nil, nil
	}
	bits, ok := parseReal(first.text, Float32)
	if !ok {
		return a, nil, p.fail(first.at, "found %v: expected the value of an attribute", first)
	}
	a.Type, a.Float = AttrFloat, math.Float32frombits(uint32(bits))
	return a, nil, nil
}

// call reads ref(NAME, KIND), none(KIND) or type(TYPE).
func (p *parser) call(a *Attr, first token) (err error) {
	if err := p.advance(); err != nil {
		return err
	}
	switch first.text {
	case "type":
		if a.Type = AttrTypeProto; p.tok.kind != ')' {
			if a.TypeOf, err = p.declared(); err != nil {
				return err
			}
		}
	case "ref", "none":
		if first.text == "ref" {
			if a.Ref, err = p.name("the name of a function's attribute"); err != nil {
				return err
			}
			if err := p.take(','); err != nil {
				return err
			}
		}
		a.Type = AttrType(slices.Index(attrWords[:], p.tok.text))
		if p.tok.kind != 'w' || a.Type < 0 {
			number, err := strconv.ParseInt(p.tok.text, 10, 32)
			if p.tok.kind != 'w' || err != nil {
				return p.fault("a kind of attributes")
			}
			a.Type = AttrType(number)
		}
		if err := p.advance(); err != nil {
			return err
		}
	default:
		return p.fail(first.at, "found %v: expected ref, none or type", first)
	}
	return p.take(')')
}

// body reads a graph in braces.
func (p *parser) body(depth int) (*scopeText, error) {
	s := &scopeText{g: &Graph{}}
	if p.tok.kind != '{' {
		var err error
		if s.g.Name, err = p.name(`a name or "{"`); err != nil {
			return nil, err
		}
	}
	if err := p.take('{'); err != nil {
		return nil, err
	}
	return s, p.statements(s, nil, depth+1)
}

// list reads a list in brackets, which is not empty. Numbers are floats if the first one is.
func (p *parser) list(a *Attr, depth int) (bodies []bodyText, err error) {
	at := p.tok.at
	for p.tok.kind == '[' || p.tok.kind == ',' {
		if err := p.advance(); err != nil {
			return nil, err
		}
		before := a.Type
		switch {
		case p.tok.kind == 's':
			a.Type, a.Strings = AttrStrings, append(a.Strings, p.tok.text)
			err = p.advance()
		case p.tok.kind == '(':
			var d *Data
			d, err = p.enclosed(false)
			a.Type, a.Tensors = AttrTensors, append(a.Tensors, d)
		case p.is("graph"):
			var s *scopeText
			if err = p.advance(); err == nil {
				s, err = p.body(depth)
			}
			a.Type, bodies = AttrGraphs, append(bodies, bodyText{a, s})
		case p.tok.kind == 'w':
			err = p.number(a)
		default:
			err = p.fault("an element of a list")
		}
		if err != nil {
			return nil, err
		}
		if before != AttrUndefined && before != a.Type {
			return nil, p.fail(at, "a list of %s and %s: expected elements of one kind", attrWord(before), attrWord(a.Type))
		}
		if p.tok.kind != ',' && p.tok.kind != ']' {
			return nil, p.fault(`"," or "]"`)
		}
	}
	return bodies, p.take(']')
}

// number adds a number to a list of integers or floats.
func (p *parser) number(a *Attr) error {
	v, err := strconv.ParseInt(p.tok.text, 10, 64)
	switch {
	case err == nil && a.Type != AttrFloats:
		a.Type, a.Ints = AttrInts, append(a.Ints, v)
	default:
		bits, ok := parseReal(p.tok.text, Float32)
		if !ok {
			return p.fault("an element of a list")
		}
		a.Type, a.Floats = AttrFloats, append(a.Floats, math.Float32frombits(uint32(bits)))
	}
	return p.advance()
}

// enclosed reads a tensor in parentheses, possibly with a name.
func (p *parser) enclosed(inSparse bool) (*Data, error) {
	if err := p.take('('); err != nil {
		return nil, err
	}
	first, name := p.tok, ""
	if first.kind != 's' && first.kind != 'w' {
		return nil, p.fault("a name or a type")
	}
	before := p.at
	if err := p.advance(); err != nil {
		return nil, err
	}
	if first.kind == 'w' && p.tok.kind == '[' { // that was the type
		p.at, p.tok = before, first
	} else {
		name = first.text
	}
	d, err := p.data(name, inSparse)
	if err != nil {
		return nil, err
	}
	return d, p.take(')')
}

// data reads TYPE[LENGTHS] = ELEMENTS.
func (p *parser) data(name string, inSparse bool) (*Data, error) {
	at := p.tok.at
	d := &Data{Name: name}
	var err error
	if d.Type, err = p.dtype(); err != nil {
		return nil, err
	}
	if err := p.take('['); err != nil {
		return nil, err
	}
	for p.tok.kind != ']' {
		if len(d.Dims) > 0 {
			if err := p.take(','); err != nil {
				return nil, err
			}
		}
		n, err := p.integer("a length")
		if err != nil {
			return nil, err
		}
		d.Dims = append(d.Dims, n)
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	n, ok := d.TensorType().Elements()
	if ok {
		if d.Bytes, err = d.Type.SizeBytes(n); err != nil {
			ok = false
		}
	}
	if !ok {
		return nil, p.fail(at, "%v%s: expected lengths of 0 or more and a size that fits 63 bits", d.Type, ShapeString(d.TensorType().Shape))
	}
	if err := p.take('='); err != nil {
		return nil, err
	}
	switch {
	case p.is("..."):
		if n == 0 { // no element is left out
			d.Raw = []byte{}
			if d.Type == String {
				d.Raw, d.Texts = nil, []string{}
			}
		}
		return d, p.advance()
	case p.is("external"):
		return d, p.external(d)
	case p.is("sparse") && !inSparse:
		return d, p.sparse(d)
	case p.tok.kind == '[':
		return d, p.elements(d, n)
	}
	return d, p.filled(d, n)
}

func (p *parser) dtype() (DType, error) {
	if p.tok.kind == 'w' {
		for d := DType(1); d.Valid(); d++ {
			if d.String() == p.tok.text {
				return d, p.advance()
			}
		}
	}
	return Undefined, p.fault("an element type, such as float32")
}

func (p *parser) external(d *Data) (err error) {
	x := &External{}
	if err := p.advance(); err != nil {
		return err
	}
	if x.Location, err = p.str("the name of a file in quotes"); err != nil {
		return err
	}
	if x.Offset, err = p.integer("an offset in bytes"); err != nil {
		return err
	}
	x.Length, err = p.integer("a length in bytes")
	d.External = x
	return err
}

func (p *parser) sparse(d *Data) (err error) {
	at := p.tok.at
	s := &Sparse{Dims: d.Dims}
	if err := p.advance(); err != nil {
		return err
	}
	if s.Values, err = p.enclosed(true); err != nil {
		return err
	}
	if s.Indices, err = p.enclosed(true); err != nil {
		return err
	}
	if s.Values.Type != d.Type {
		return p.fail(at, "values of %v: expected %v", s.Values.Type, d.Type)
	}
	if d.Bytes = s.Values.Bytes + s.Indices.Bytes; d.Bytes < 0 {
		return p.fail(at, "values and indices: %v", ErrTooLarge)
	}
	d.Sparse = s
	return nil
}

// elements reads all elements of a tensor, row by row.
func (p *parser) elements(d *Data, n int64) error {
	at := p.tok.at
	width, count := d.Type.Bits(), n
	if d.Type == Complex64 || d.Type == Complex128 {
		width, count = width/2, 2*n
	}
	found := int64(0)
	if d.Raw = []byte{}; d.Type == String {
		d.Raw, d.Texts = nil, []string{}
	}
	for p.tok.kind == '[' || p.tok.kind == ',' {
		first := p.tok.kind == '['
		if err := p.advance(); err != nil {
			return err
		}
		if first && p.tok.kind == ']' {
			break
		}
		if d.Type == String {
			text, err := p.str("a string")
			if err != nil {
				return err
			}
			d.Texts, d.Bytes = append(d.Texts, text), d.Bytes+int64(len(text))
		} else {
			v, err := p.element(d.Type)
			if err != nil {
				return err
			}
			d.Raw = putBits(d.Raw, v, found, width)
		}
		found++
	}
	if found != count {
		return p.fail(at, "%d elements: expected %d for %v%s", found, count, d.Type, ShapeString(d.TensorType().Shape))
	}
	return p.take(']')
}

// filled reads one element, which all elements are.
func (p *parser) filled(d *Data, n int64) error {
	at := p.tok.at
	if d.Type == String || d.Type == Complex64 || d.Type == Complex128 {
		return p.fault(`"[" and elements`)
	}
	v, err := p.element(d.Type)
	if err != nil {
		return err
	}
	if p.fill -= d.Bytes; p.fill < 0 {
		return p.fail(at, "one number gives more than %d bytes of elements: expected ... for elements that do not matter", mostFilled)
	}
	d.Raw = make([]byte, 0, d.Bytes)
	for i := range n {
		d.Raw = putBits(d.Raw, v, i, d.Type.Bits())
	}
	return nil
}

// putBits adds element i, of width bits, to the elements before it.
func putBits(raw []byte, v uint64, i, width int64) []byte {
	if width >= 8 {
		return appendBits(raw, v, width)
	}
	if i*width%8 == 0 {
		return append(raw, byte(v))
	}
	raw[len(raw)-1] |= byte(v << (i * width % 8))
	return raw
}

// element reads one number as the bits of an element; of a complex type, one of its parts.
func (p *parser) element(d DType) (uint64, error) {
	text := p.tok.text
	v, ok := uint64(0), p.tok.kind == 'w'
	switch bits := int(d.Bits()); {
	case !ok:
	case d == Bool || d.Integer() && d.String()[0] == 'u':
		var err error
		v, err = strconv.ParseUint(text, 10, bits)
		ok = err == nil
	case d.Integer():
		x, err := strconv.ParseInt(text, 10, bits)
		v, ok = uint64(x)&(math.MaxUint64>>(64-bits)), err == nil
	case d == Float32 || d == Complex64:
		v, ok = parseReal(text, Float32)
	case d == Float64 || d == Complex128:
		v, ok = parseReal(text, Float64)
	case d == Float16 || d == BFloat16:
		v, ok = parseReal(text, d)
	default:
		hex, found := strings.CutPrefix(text, "0x")
		x, err := strconv.ParseUint(hex, 16, bits)
		v, ok = x, found && err == nil
	}
	if !ok {
		return 0, p.fault("an element of " + d.String())
	}
	return v, p.advance()
}

// parseReal reads a floating-point number as the bits of type d.
func parseReal(text string, d DType) (uint64, bool) {
	width := int(d.Bits())
	if hex, ok := strings.CutPrefix(text, "nan:"); ok {
		v, err := strconv.ParseUint(hex, 16, width)
		return v, err == nil && math.IsNaN(realOf(v, d))
	}
	if strings.ContainsAny(text, "xX_pP") {
		return 0, false
	}
	x, err := strconv.ParseFloat(text, max(width, 32))
	if err != nil || math.IsNaN(x) {
		return 0, false
	}
	switch d {
	case Float32:
		return uint64(math.Float32bits(float32(x))), true
	case Float64:
		return math.Float64bits(x), true
	case BFloat16:
		b := math.Float32bits(float32(x)) // to nearest, ties to even; an infinity stays one
		return uint64((b + 0x7fff + b>>16&1) >> 16), true
	}
	return uint64(halfBits(x)), true
}

// realOf is the value of a floating-point number with these bits.
func realOf(v uint64, d DType) float64 {
	switch d {
	case Float64:
		return math.Float64frombits(v)
	case Float16:
		return halfFloat(uint16(v))
	case BFloat16:
		v <<= 16
	}
	return float64(math.Float32frombits(uint32(v)))
}

// declared reads a declared type with its symbols.
func (p *parser) declared() (*Declared, error) {
	d := &Declared{}
	err := p.typ(&d.Type, &d.Symbols, 0)
	return d, err
}

// typ reads a type; symbols takes the names of the axes of a tensor, nil within other types.
func (p *parser) typ(t *Type, symbols *[]string, depth int) error {
	if depth > mostNested {
		return p.fail(p.tok.at, "more than %d types within each other", mostNested)
	}
	word := p.tok.text
	if p.tok.kind != 'w' {
		return p.fault("a type, such as float32[2,3]")
	}
	within := func(kind Kind, read func() error) error {
		t.Kind = kind
		if err := p.advance(); err != nil {
			return err
		}
		if err := p.take('('); err != nil {
			return err
		}
		if p.tok.kind != ')' {
			if err := read(); err != nil {
				return err
			}
		}
		return p.take(')')
	}
	of := func() error {
		t.Of = &Type{}
		return p.typ(t.Of, nil, depth+1)
	}
	switch word {
	case "unknown":
		return p.advance()
	case "opaque":
		t.Kind = KindOpaque
		return p.advance()
	case "sequence":
		return within(KindSequence, of)
	case "optional":
		return within(KindOptional, of)
	case "sparse":
		return within(KindSparse, func() error { return p.shaped(t, symbols) })
	case "map":
		return within(KindMap, func() (err error) {
			if t.Key, err = p.elem(); err != nil || p.tok.kind != ',' {
				return err
			}
			if err := p.advance(); err != nil {
				return err
			}
			return of()
		})
	}
	t.Kind = KindTensor
	return p.shaped(t, symbols)
}

// elem reads an element type, ? if it is not known.
func (p *parser) elem() (DType, error) {
	if p.is("?") {
		return Undefined, p.advance()
	}
	return p.dtype()
}

// shaped reads float32[batch,3], or float32[...] if the rank is not known.
func (p *parser) shaped(t *Type, symbols *[]string) (err error) {
	if t.Elem, err = p.elem(); err != nil {
		return err
	}
	if err := p.take('['); err != nil {
		return err
	}
	if p.is("...") {
		if err := p.advance(); err != nil {
			return err
		}
		return p.take(']')
	}
	t.Ranked, t.Shape = true, []Dim{}
	names := []string{}
	for p.tok.kind != ']' {
		if len(t.Shape) > 0 {
			if err := p.take(','); err != nil {
				return err
			}
		}
		n, symbol, err := p.dim()
		if err != nil {
			return err
		}
		t.Shape, names = append(t.Shape, n), append(names, symbol)
	}
	if symbols != nil {
		*symbols = names
	}
	return p.advance()
}

// dim reads a length: 3, batch, ? or <=3.
func (p *parser) dim() (Dim, string, error) {
	const what = "a length, a name, ? or <= and a length"
	if p.tok.kind == '<' {
		if err := p.advance(); err != nil {
			return 0, "", err
		}
		if err := p.take('='); err != nil {
			return 0, "", err
		}
		n, err := p.integer("a length")
		if n < 0 && err == nil {
			err = p.fault("a length of 0 or more")
		}
		return AtMost(max(n, 0)), "", err
	}
	if p.tok.kind == 'w' {
		if n, err := strconv.ParseInt(p.tok.text, 10, 64); err == nil {
			if n < 0 {
				return 0, "", p.fault(what)
			}
			return Dim(n), "", p.advance()
		}
		if p.is("?") {
			return Unknown, "", p.advance()
		}
	}
	symbol, err := p.name(what)
	return Unknown, symbol, err
}
