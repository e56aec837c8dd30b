package kernel

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// keyReader returns a function that reads an element so that equal elements, and all NaN,
// have equal keys.
func keyReader(d graph.DType) (func(at unsafe.Pointer, i int) uint64, bool) {
	if d == graph.String {
		return func(at unsafe.Pointer, i int) uint64 { return *(*uint64)(unsafe.Add(at, 8*i)) }, true
	}
	if get, ok := form.IntReader(d); ok {
		return func(at unsafe.Pointer, i int) uint64 { return uint64(get(at, i)) }, true
	}
	get, ok := form.Reader(d)
	return func(at unsafe.Pointer, i int) uint64 {
		switch x := get(at, i); {
		case x != x:
			return math.Float64bits(math.NaN())
		case x == 0: // -0 is 0
			return 0
		default:
			return math.Float64bits(x)
		}
	}, ok
}

// list returns the elements of the attribute PREFIX_strings, _int64s, _floats or _tensor;
// nil if there is none.
func (c *Invocation) list(prefix string) (*Tensor, error) {
	if a := c.Node.Attr(prefix + "_tensor"); a != nil && a.Tensor != nil {
		return c.Runtime.Constant(a.Tensor)
	}
	if words := c.Strings(prefix + "_strings"); len(words) > 0 {
		return c.wordList(words), nil
	}
	if a := c.Node.Attr(prefix + "_int64s"); a != nil && len(a.Ints) > 0 {
		return &Tensor{Type: graph.Int64, Shape: []int{len(a.Ints)}, At: unsafe.Pointer(&a.Ints[0])}, nil
	}
	if a := c.Node.Attr(prefix + "_floats"); a != nil && len(a.Floats) > 0 {
		return &Tensor{Type: graph.Float32, Shape: []int{len(a.Floats)}, At: unsafe.Pointer(&a.Floats[0])}, nil
	}
	return nil, nil
}

// wordList returns a tensor of strings.
func (c *Invocation) wordList(words []string) *Tensor {
	list := tableOf[uint64](c, len(words))
	for i, w := range words {
		list[i] = c.element(w)
	}
	return &Tensor{Type: graph.String, Shape: []int{len(words)}, At: unsafe.Pointer(unsafe.SliceData(list))}
}

// otherwise returns the element for keys that are not in the list, as bytes of type d.
func (c *Invocation) otherwise(d graph.DType) ([]byte, error) {
	if a := c.Node.Attr("default_tensor"); a != nil && a.Tensor != nil {
		t, err := c.Runtime.Constant(a.Tensor)
		if err != nil {
			return nil, err
		}
		if t.Type != d || t.Len() != 1 {
			return nil, fmt.Errorf("default_tensor is %v%v, expected one %v", t.Type, t.Shape, d)
		}
		return append([]byte(nil), raw(t)...), nil
	}
	b := make([]uint64, 1)
	t := &Tensor{Type: d, Shape: []int{1}, At: unsafe.Pointer(&b[0])}
	switch {
	case d == graph.String:
		b[0] = c.element(c.Str("default_string", "_Unused"))
	case d.Integer():
		set, _ := form.IntWriter(d)
		set(t.At, 0, int64(c.Int("default_int64", -1)))
	default:
		set, ok := form.Writer(d)
		if !ok {
			return nil, unsupported(d)
		}
		set(t.At, 0, float64(c.Float("default_float", float32(math.Copysign(0, -1)))))
	}
	return raw(t), nil
}

// makeLabelEncoder maps each element to the value at the place of the equal key. Since
// version 4 a key that is NaN equals NaN.
func makeLabelEncoder(c *Invocation) (Run, error) {
	var keys, values *Tensor
	if c.Version < 2 {
		classes := c.Strings("classes_strings")
		numbers := tableOf[int64](c, len(classes))
		for i := range numbers {
			numbers[i] = int64(i)
		}
		values = &Tensor{Type: graph.Int64, Shape: []int{len(numbers)}, At: unsafe.Pointer(unsafe.SliceData(numbers))}
		if keys = c.wordList(classes); c.In[0].Type == graph.Int64 {
			keys, values = values, keys
		}
		return c.mapLabels(keys, values)
	}
	keys, err := c.list("keys")
	if err != nil {
		return nil, err
	}
	if values, err = c.list("values"); err != nil {
		return nil, err
	}
	return c.mapLabels(keys, values)
}

// makeCategoryMapper maps strings to integers or integers to strings.
func makeCategoryMapper(c *Invocation) (Run, error) {
	words, err := c.list("cats")
	if err != nil {
		return nil, err
	}
	a := c.Node.Attr("cats_int64s")
	if a == nil || len(a.Ints) == 0 {
		return nil, fmt.Errorf("cats_int64s is missing: expected the integers of the categories")
	}
	numbers := &Tensor{Type: graph.Int64, Shape: []int{len(a.Ints)}, At: unsafe.Pointer(&a.Ints[0])}
	if c.In[0].Type == graph.String {
		return c.mapLabels(words, numbers)
	}
	return c.mapLabels(numbers, words)
}

func (c *Invocation) mapLabels(keys, values *Tensor) (Run, error) {
	in, out := c.In[0], c.Out[0]
	switch {
	case keys == nil || values == nil:
		return nil, fmt.Errorf("keys or values are missing: expected a list of each")
	case keys.Len() != values.Len():
		return nil, fmt.Errorf("%d keys and %d values: expected as many of each", keys.Len(), values.Len())
	case keys.Type != in.Type || values.Type != out.Type:
		return nil, fmt.Errorf("maps %v to %v, expected %v to %v", keys.Type, values.Type, in.Type, out.Type)
	}
	get, ok := keyReader(in.Type)
	width, err := form.WholeBytes(out)
	if !ok || err != nil {
		return nil, unsupported(in.Type)
	}
	n := keys.Len()
	if err := c.Runtime.Heap(int64(mul(n, 32+width))); err != nil { // the map and the copy below
		return nil, err
	}
	places := make(map[uint64]int, n)
	table := append([]byte(nil), raw(values)...)
	m := c.Meter()
	for i := n - 1; i >= 0; i-- {
		m.Add(8)
		places[get(keys.At, i)] = i // of equal keys, the first
	}
	if (in.Type == graph.Float32 || in.Type == graph.Float64) && c.Version < 4 {
		delete(places, math.Float64bits(math.NaN()))
	}
	other, err := c.otherwise(out.Type)
	if err != nil {
		return nil, err
	}
	return func(*work.Pool) error {
		m := c.Meter()
		for i := range in.Len() {
			m.Add(8)
			value := other
			if k, known := places[get(in.At, i)]; known {
				value = table[k*width : (k+1)*width]
			}
			copy(span[byte](elementAt(out, i, width), width), value)
		}
		return nil
	}, nil
}

// makeBinarizer writes 1 for the elements above the threshold, and 0 for the others.
func makeBinarizer(c *Invocation) (Run, error) {
	in := c.In[0]
	get, ok := form.Reader(in.Type)
	set, fits := form.Writer(c.Out[0].Type)
	if !ok || !fits {
		return nil, unsupported(in.Type)
	}
	above := float64(c.Float("threshold", 0))
	n := in.Len()
	part := func(p, _ int) {
		for i := p * grain; i < min((p+1)*grain, n); i++ {
			y := 0.0
			if get(in.At, i) > above {
				y = 1
			}
			set(c.Out[0].At, i, y)
		}
	}
	return func(w *work.Pool) error {
		w.For(cuts(n, grain), part)
		return nil
	}, nil
}

// makeImputer replaces the elements that stand for a missing value, by one value for all
// features or one for each.
func makeImputer(c *Invocation) (Run, error) {
	in, out := c.In[0], c.Out[0]
	if in.Type.Integer() {
		a := c.Node.Attr("imputed_value_int64s")
		get, ok := form.IntReader(in.Type)
		set, fits := form.IntWriter(out.Type)
		if a == nil || !ok || !fits {
			return nil, fmt.Errorf("imputed_value_int64s is missing: expected the values for %v", in.Type)
		}
		missing := int64(c.Int("replaced_value_int64", 0))
		return c.impute(len(a.Ints), func(i, k int) {
			x := get(in.At, i)
			if x == missing {
				x = a.Ints[k]
			}
			set(out.At, i, x)
		})
	}
	values := c.floats("imputed_value_floats")
	get, ok := form.Reader(in.Type)
	set, fits := form.Writer(out.Type)
	if !ok || !fits {
		return nil, unsupported(in.Type)
	}
	missing := float64(c.Float("replaced_value_float", 0))
	return c.impute(len(values), func(i, k int) {
		x := get(in.At, i)
		if x == missing || x != x && missing != missing {
			x = float64(values[k])
		}
		set(out.At, i, x)
	})
}

// impute runs a function for each element and the index of its value in a list of n.
func (c *Invocation) impute(n int, do func(i, k int)) (Run, error) {
	in := c.In[0]
	features := 1
	if in.Rank() > 0 {
		features = in.Shape[in.Rank()-1]
	}
	if n != 1 && n != features {
		return nil, fmt.Errorf("%d imputed values, expected 1 or one for each of %d features", n, features)
	}
	return func(*work.Pool) error {
		m := c.Meter()
		for i := range in.Len() {
			m.Add(2)
			do(i, min(i%features, n-1))
		}
		return nil
	}, nil
}
