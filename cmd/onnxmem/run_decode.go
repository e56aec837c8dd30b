package main

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm"
)

// decoder makes the inputs of each step of a decoder whose caches stay: the position, and
// with --decode the tokens that the last step chose.
type decoder struct {
	kv       *plan.KV // nil: the model has no positions of its own
	indexed  bool     // the position is given and stays as it is
	from, to string   // of --decode: the output of scores, and the input of tokens
	input    graph.Tensor
	tokens   []int64 // that were chosen, of the first of the batch
	// Of --mask and --positions, with their elements in the first step.
	masks, positions map[string][]int64
}

// decodeValues adds the numbers that fill inputs of a decoder whose caches have a fixed
// capacity, unless they are given: position 0, which each step moves on, and masks that show
// all tokens. It returns their names.
func (c *runCmd) decodeValues(program *vm.Program, given map[string]vm.Value, filled map[string]float64) map[string]bool {
	k, names := program.KV(), map[string]bool{}
	if k == nil {
		return names
	}
	_, read := given[k.Index]
	_, set := c.Input[k.Index]
	c.indexed = read || set
	for _, name := range append([]string{k.Index}, k.Masks...) {
		if _, is := given[name]; is {
			continue
		}
		if names[name] = true; filled[name] == 0 && name != k.Index && c.Input[name] == "" {
			filled[name] = 1
		} else if name == k.Index && !c.indexed {
			filled[name] = 0
		}
	}
	return names
}

// newDecoder checks the flags against the model.
func (c *runCmd) newDecoder(program *vm.Program) (*decoder, error) {
	d := &decoder{kv: program.KV()}
	if k := d.kv; k != nil {
		d.indexed = c.indexed
		if most := k.Capacity / k.New; !d.indexed && int64(c.Steps) > most {
			return nil, usagef("--steps %d: the caches of this model have room for %d tokens: expected at most %d", c.Steps, k.Capacity, most)
		}
	}
	if len(c.Decode) == 0 {
		return d, nil
	}
	if len(c.Decode) > 1 {
		return nil, usagef("--decode: expected one INPUT=OUTPUT, found %d", len(c.Decode))
	}
	for to, from := range c.Decode {
		d.from, d.to = from, to
	}
	at := slices.IndexFunc(program.Inputs(), func(t graph.Tensor) bool { return t.Name == d.to })
	if at < 0 || !program.Inputs()[at].Type.Elem.Integer() {
		return nil, usagef("--decode %s=%s: expected an input of integers, such as input_ids", d.to, d.from)
	}
	d.input = program.Inputs()[at]
	at = slices.IndexFunc(program.Outputs(), func(t graph.Tensor) bool { return t.Name == d.from })
	if at < 0 || !program.Outputs()[at].Type.Elem.Floating() {
		return nil, usagef("--decode %s=%s: expected an output of scores for each token, such as logits", d.to, d.from)
	}
	return d, nil
}

// next returns the inputs of step i. out is what the step before it gave.
func (d *decoder) next(i int, inputs, out map[string]vm.Value) (map[string]vm.Value, error) {
	if d.kv == nil && d.from == "" && len(d.masks)+len(d.positions) == 0 {
		return inputs, nil
	}
	next := maps.Clone(inputs)
	if err := d.move(i, inputs, next); err != nil {
		return nil, err
	}
	if d.kv != nil && !d.indexed {
		next[d.kv.Index] = vm.Int64s([]int64{int64(i) * d.kv.New}, 1)
	}
	if d.from != "" && i > 0 {
		tokens, err := largest(out[d.from], inputs[d.to])
		if err != nil {
			return nil, fmt.Errorf("--decode %s=%s: %w", d.to, d.from, err)
		}
		v, err := integers(tokens, inputs[d.to])
		if err != nil {
			return nil, fmt.Errorf("--decode %s=%s: %w", d.to, d.from, err)
		}
		next[d.to] = v
		d.tokens = append(d.tokens, tokens[len(tokens)/max(1, inputs[d.to].Shape[0])-1])
	}
	return next, nil
}

// begin sets what --mask and --positions begin with. stated has the inputs that the user
// gives.
func (d *decoder) begin(c *runCmd, inputs map[string]vm.Value, stated map[string]bool) error {
	read := func(flag, name string) ([]int64, error) {
		v, is := inputs[name]
		list, ok := wholes(v)
		if !is || !ok || len(v.Shape) == 0 {
			return nil, usagef("%s %s: expected an input of int64 or int32 with a row for each sequence", flag, name)
		}
		return list, nil
	}
	d.masks, d.positions = map[string][]int64{}, map[string][]int64{}
	for _, name := range c.Mask {
		list, err := read("--mask", name)
		if err != nil {
			return err
		}
		width := last(inputs[name].Shape)
		if !stated[name] {
			clear(list)
		}
		d.masks[name] = list
		for row := range slices.Chunk(list, max(width, 1)) {
			if free := count(row, 0); c.Steps*d.fresh(inputs) > free {
				return usagef("--steps %d: %s has room for %d more tokens, and each step takes %d", c.Steps, name, free, d.fresh(inputs))
			}
		}
	}
	for _, name := range c.Positions {
		list, err := read("--positions", name)
		if err != nil {
			return err
		}
		if width := last(inputs[name].Shape); !stated[name] {
			for i := range list {
				list[i] = int64(i % width)
			}
		}
		d.positions[name] = list
	}
	return nil
}

// fresh is the number of tokens of a sequence that go in at each step.
func (d *decoder) fresh(inputs map[string]vm.Value) int {
	if v, is := inputs[d.to]; is && len(v.Shape) > 0 {
		return last(v.Shape)
	}
	return 1
}

// move sets masks and positions for step i.
func (d *decoder) move(i int, inputs, next map[string]vm.Value) (err error) {
	fresh := d.fresh(inputs)
	for name, first := range d.masks {
		list := slices.Clone(first)
		for row := range slices.Chunk(list, max(last(inputs[name].Shape), 1)) {
			show := (i + 1) * fresh
			for k := range row {
				if row[k] == 0 && show > 0 {
					row[k], show = 1, show-1
				}
			}
		}
		if next[name], err = integers(list, inputs[name]); err != nil {
			return fmt.Errorf("--mask %s: %w", name, err)
		}
	}
	for name, first := range d.positions {
		list := slices.Clone(first)
		for k := range list {
			list[k] += int64(i * fresh)
		}
		if next[name], err = integers(list, inputs[name]); err != nil {
			return fmt.Errorf("--positions %s: %w", name, err)
		}
	}
	return nil
}

// wholes returns the elements of a value of int64 or int32.
func wholes(v vm.Value) (list []int64, ok bool) {
	switch v.Type {
	case graph.Int64:
		for b := range slices.Chunk(v.Data, 8) {
			list = append(list, int64(binary.LittleEndian.Uint64(b)))
		}
	case graph.Int32:
		for b := range slices.Chunk(v.Data, 4) {
			list = append(list, int64(int32(binary.LittleEndian.Uint32(b))))
		}
	default:
		return nil, false
	}
	return list, true
}

// last is the last length of a shape.
func last(shape []int) int { return shape[len(shape)-1] }

// count is the number of elements with a value.
func count(list []int64, value int64) (n int) {
	for _, x := range list {
		if x == value {
			n++
		}
	}
	return n
}

// largest returns the index of the largest score of each place, the first of equal ones.
func largest(scores, tokens vm.Value) ([]int64, error) {
	list, ok := scores.Reals()
	places := 1
	for _, n := range tokens.Shape {
		places *= n
	}
	if !ok || places == 0 || len(list) == 0 || len(list)%places != 0 {
		return nil, fmt.Errorf("%v for %v: expected scores for each token", scores, tokens)
	}
	width := len(list) / places
	best := make([]int64, places)
	for p := range best {
		most := math.Inf(-1)
		for i, x := range list[p*width : (p+1)*width] {
			if x > most {
				most, best[p] = x, int64(i)
			}
		}
	}
	return best, nil
}

// integers returns numbers as a value of the type and shape of another.
func integers(list []int64, like vm.Value) (vm.Value, error) {
	switch like.Type {
	case graph.Int64:
		return vm.Int64s(list, like.Shape...), nil
	case graph.Int32:
		v := vm.Value{Type: graph.Int32, Shape: like.Shape}
		for _, x := range list {
			v.Data = binary.LittleEndian.AppendUint32(v.Data, uint32(x))
		}
		return v, nil
	}
	return vm.Value{}, fmt.Errorf("tokens of type %v: expected int64 or int32", like.Type)
}
