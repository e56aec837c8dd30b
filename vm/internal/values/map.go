package values

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// entryBytes is about what an entry of an index of keys takes.
const entryBytes = 48

// mapping returns the keys and values of input 0, which must be one map, and the place of
// each key. done frees the memory of the index.
func (x *Node) mapping() (keys, values *kernel.Tensor, index map[uint64]int, done func(), err error) {
	t, s := x.In[0], x.Space
	if t.Box == nil || t.Box.Kind != graph.KindMap || len(t.Box.Items[1].Tensor.Shape) != 1 {
		return nil, nil, nil, nil, fmt.Errorf("input 0 %q is no single map", graph.Short(t.Name))
	}
	keys, values = &t.Box.Items[0].Tensor, &t.Box.Items[1].Tensor
	n := keys.Len()
	if form.ElementBits(keys.Type) != 64 || values.Len() != n {
		return nil, nil, nil, nil, fmt.Errorf("input 0 %q has keys %v and values %v, expected integers or strings and as many values", graph.Short(t.Name), TypeOf(&Tensor{Tensor: *keys}), TypeOf(&Tensor{Tensor: *values}))
	}
	if err := s.Mem.Take(entryBytes * int64(n)); err != nil {
		return nil, nil, nil, nil, err
	}
	done = func() { s.Mem.Give(entryBytes * int64(n)) }
	index = make(map[uint64]int, n)
	b := t.Box.Items[0].Data()
	for i := range n {
		if i%4096 == 0 {
			s.Pool.Poll()
		}
		key := binary.LittleEndian.Uint64(b[8*i:])
		if _, twice := index[key]; twice {
			done()
			return nil, nil, nil, nil, fmt.Errorf("input 0 %q has a key twice, at %d", graph.Short(t.Name), i)
		}
		index[key] = i
	}
	return keys, values, index, done, nil
}

// row makes output 0 a row of n elements of a type, all 0 or the empty string.
func (x *Node) row(d graph.DType, n int) ([]byte, error) {
	out := x.Out[0]
	if err := out.Takes(&Tensor{Tensor: kernel.Tensor{Type: d}}); err != nil {
		return nil, err
	}
	if err := x.Resize(out, []int{1, n}); err != nil {
		return nil, err
	}
	b := BytesOf(out)
	clear(b)
	return b, nil
}

// dictVectorizer puts the value of each word of the vocabulary into a row; that of a word
// that the map lacks is 0.
func (x *Node) dictVectorizer() error {
	keys, values, index, done, err := x.mapping()
	if err != nil {
		return err
	}
	defer done()
	s, numbers, words := x.Space, x.Call.Ints("int64_vocabulary"), x.Call.Strings("string_vocabulary")
	of, n := graph.Int64, len(numbers)
	if len(words) > 0 {
		of, n = graph.String, len(words)
	}
	width := form.ElementBits(values.Type) / 8
	if len(words) > 0 && len(numbers) > 0 || keys.Type != of || width == 0 {
		return fmt.Errorf("string_vocabulary and int64_vocabulary have %d and %d words, expected those of keys of %v alone", len(words), len(numbers), keys.Type)
	}
	row, err := x.row(values.Type, n)
	if err != nil {
		return err
	}
	from := x.In[0].Box.Items[1].Data()
	for k := range n {
		if k%4096 == 0 {
			s.Pool.Poll()
		}
		var key uint64
		if of == graph.String {
			if key, err = s.Texts.Element(words[k]); err != nil {
				return err
			}
		} else {
			key = uint64(numbers[k])
		}
		if i, has := index[key]; has {
			copy(row[k*width:(k+1)*width], from[i*width:])
		}
	}
	return nil
}

// castMap makes a row of the values of a map whose keys are integers: in the order of the
// keys or, in the sparse form, each at the place that its key says. A place without a
// value is 0, as a string "0.f", as ONNX Runtime has it.
func (x *Node) castMap() error {
	keys, values, index, done, err := x.mapping()
	if err != nil {
		return err
	}
	defer done()
	if keys.Type != graph.Int64 || values.Type != graph.Float32 && values.Type != graph.String {
		return fmt.Errorf("input 0 %q is a map of %v to %v, expected int64 to float32 or string", graph.Short(x.In[0].Name), keys.Type, values.Type)
	}
	n := keys.Len()
	if err := x.Mem.Take(8 * int64(n)); err != nil { // the list
		return err
	}
	defer x.Mem.Give(8 * int64(n))
	order := make([]int64, 0, n)
	for key := range index {
		order = append(order, int64(key))
	}
	slices.Sort(order)
	sparse, width := false, n
	switch form := x.Call.Str("map_form", "DENSE"); form {
	case "DENSE":
	case "SPARSE":
		sparse, width = true, x.Call.Int("max_map", 1)
		if n > 0 && order[0] < 0 {
			return fmt.Errorf("key %d, expected none below 0 in the sparse form", order[0])
		}
	default:
		return fmt.Errorf("map_form is %q, expected DENSE or SPARSE", graph.Short(form))
	}
	to, known := map[string]graph.DType{"TO_FLOAT": graph.Float32, "TO_STRING": graph.String, "TO_INT64": graph.Int64}[x.Call.Str("cast_to", "TO_FLOAT")]
	if !known || width < 0 {
		return fmt.Errorf("cast_to is %q and max_map %d, expected TO_FLOAT, TO_STRING or TO_INT64, and a length", graph.Short(x.Call.Str("cast_to", "")), width)
	}
	row, err := x.row(to, width)
	if err != nil {
		return err
	}
	if sparse && to == graph.String {
		none, err := x.Texts.Element("0.f")
		if err != nil {
			return err
		}
		for k := range width {
			binary.LittleEndian.PutUint64(row[8*k:], none)
		}
	}
	for k, key := range order {
		if k%4096 == 0 {
			x.Pool.Poll()
		}
		if sparse {
			if key >= int64(width) {
				break
			}
			k = int(key)
		}
		if err := x.castValue(row, k, to, index[uint64(key)]); err != nil {
			return fmt.Errorf("the value of key %d: %w", key, err)
		}
	}
	return nil
}

// castValue writes value i of the map of input 0 as element k of a row.
func (x *Node) castValue(row []byte, k int, to graph.DType, i int) error {
	box := x.In[0].Box.Items[1]
	var text string
	var number float64
	var err error
	if box.Tensor.Type == graph.String {
		if text, err = x.Texts.Text(binary.LittleEndian.Uint64(box.Data()[8*i:])); err != nil {
			return err
		}
	} else {
		number = float64(math.Float32frombits(binary.LittleEndian.Uint32(box.Data()[4*i:])))
		text = strconv.FormatFloat(number, 'f', 6, 64)
	}
	switch to {
	case graph.String:
		e, err := x.Texts.Element(text)
		binary.LittleEndian.PutUint64(row[8*k:], e)
		return err
	case graph.Float32:
		if box.Tensor.Type == graph.String {
			if number, err = strconv.ParseFloat(strings.TrimSpace(text), 32); err != nil {
				return fmt.Errorf("%q, expected a number", graph.Short(text))
			}
		}
		binary.LittleEndian.PutUint32(row[4*k:], math.Float32bits(float32(number)))
	default:
		v := int64(number)
		if box.Tensor.Type == graph.String {
			if v, err = strconv.ParseInt(strings.TrimSpace(text), 10, 64); err != nil {
				return fmt.Errorf("%q, expected an integer", graph.Short(text))
			}
		} else if !(math.Abs(number) < 1<<63) {
			return fmt.Errorf("%v, expected an integer of 64 bits", number)
		}
		binary.LittleEndian.PutUint64(row[8*k:], uint64(v))
	}
	return nil
}
