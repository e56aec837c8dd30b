package exec

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/values"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// loop runs a Loop node. The body's inputs are the iteration number, the condition
// and the carried tensors. Its outputs are the next condition, the carried tensors of
// the next iteration, and one row of each scan output.
type loop struct {
	in      *Session
	st      *lower.Step
	body    *lower.Frame
	carried int
	rows    []scanOutput // the outputs that follow the carried ones
}

// scanOutput is an output to which each iteration appends a row.
type scanOutput struct {
	out   *values.Tensor
	block []byte // of the side pool, if the output has no planned place
	used  int
	count int   // of rows
	shape []int // of one row

	onDevice bool // the rows are on the device, and not on the host
}

func newLoop(in *Session, st *lower.Step, body *lower.Frame) (kernel.Run, error) {
	l := &loop{in: in, st: st, body: body, carried: len(body.Graph.Inputs) - 2}
	if l.carried < 0 || len(st.In) < 2+l.carried || len(body.Graph.Outputs) != 1+len(st.Out) || l.carried > len(st.Out) {
		return nil, fmt.Errorf("its body has %d inputs and %d outputs, and does not fit", len(body.Graph.Inputs), len(body.Graph.Outputs))
	}
	if err := body.MakesAll(); err != nil {
		return nil, err
	}
	return l.run, nil
}

func (l *loop) run(*work.Pool) error {
	st, s, carried := l.st, l.st.Frame.Site, l.carried
	most := int64(math.MaxInt64)
	s.ToHost(st.In[:2]...)
	if m := st.In[0]; m != nil {
		if m.Type != graph.Int64 || m.Shape == nil || m.Len() != 1 {
			return fmt.Errorf("tensor %q turns out to be %v, expected one int64", graph.Short(m.Name), values.TypeOf(m))
		}
		most = *(*int64)(m.At)
	}
	again := true
	if st.In[1] != nil {
		var err error
		if again, err = st.In[1].Truth(); err != nil {
			return err
		}
	}
	for i := range carried {
		if err := s.Assign(l.body.Input(2+i), st.In[2+i]); err != nil {
			return err
		}
	}
	l.rows = l.rows[:0]
	for _, out := range st.Out[carried:] {
		l.rows = append(l.rows, scanOutput{out: out})
	}
	l.body.Begin()
	for i := int64(0); i < most && again; i++ {
		s.Pool.Poll()
		if err := l.setIteration(i, again); err != nil {
			return err
		}
		if err := l.in.runAll(l.body); err != nil {
			return err
		}
		var err error
		s.ToHost(l.body.Output(0))
		if again, err = l.body.Output(0).Truth(); err != nil {
			return err
		}
		for k := range l.rows {
			if err := l.rows[k].add(s, l.body.Output(1+carried+k)); err != nil {
				return err
			}
		}
		if err := updateCarried(l.body, 2, 1, carried); err != nil {
			return err
		}
		l.body.Release()
	}
	for i := range carried {
		if st.Out[i] == nil {
			continue
		}
		if err := s.Assign(st.Out[i], l.body.Input(2+i)); err != nil {
			return err
		}
	}
	for k := range l.rows {
		if err := l.rows[k].end(s, st.Frame.Graph.Tensor(st.Node().Outputs[carried+k])); err != nil {
			return err
		}
	}
	return nil
}

// setIteration sets the body's iteration number and condition.
func (l *loop) setIteration(i int64, again bool) error {
	s := l.st.Frame.Site
	for k, t := range []*values.Tensor{l.body.Input(0), l.body.Input(1)} {
		if d := []graph.DType{graph.Int64, graph.Bool}[k]; t.Type == graph.Undefined {
			t.Type = d
		} else if t.Type != d {
			return fmt.Errorf("input %d %q of its body is of %v, expected %v", k, graph.Short(t.Name), t.Type, d)
		}
		s.ToHost(t) // its copy of the last iteration must have been done
		if err := s.Resize(t, nil); err != nil {
			return err
		}
		s.WroteOnHost(t)
	}
	*(*int64)(l.body.Input(0).At) = i
	*(*bool)(l.body.Input(1).At) = again
	return nil
}

// updateCarried copies n outputs of a body, beginning with output out, to its inputs,
// beginning with input in. An output that overlaps the place of another input is
// first copied to the side pool.
func updateCarried(f *lower.Frame, in, out, n int) error {
	if err := carryBoxes(f, in, out, n); err != nil {
		return err
	}
	var kept [][]byte
	for i := range n {
		from := f.Output(out + i)
		var b []byte
		for k := range n {
			if to := f.Input(in + k); k != i && values.Overlap(from, to) {
				var err error
				if b, err = f.Site.Mem.Side.Take(values.NameOf(from.Name)+", carried on", int64(from.Bytes())); err != nil {
					return values.About(from.Name, err)
				}
				f.Site.ToHost(from)
				f.Site.CopyBytes(b, values.BytesOf(from))
				break
			}
		}
		if b != nil && kept == nil {
			kept = make([][]byte, n)
		}
		if b != nil {
			kept[i] = b
		}
	}
	for i := range n {
		from, to := f.Output(out+i), f.Input(in+i)
		if from.Box != nil {
			continue // carryBoxes has done it
		}
		if kept == nil || kept[i] == nil {
			if err := f.Site.Assign(to, from); err != nil {
				return err
			}
			continue
		}
		aside := *from
		aside.At, aside.Where = unsafe.Pointer(unsafe.SliceData(kept[i])), values.OnHost
		if err := f.Site.Assign(to, &aside); err != nil {
			return err
		}
		f.Site.Mem.Side.Give(kept[i])
	}
	return nil
}

// carryBoxes is updateCarried for outputs that are no tensors. Since an output may be an
// input of the body, all of them are read before the first input changes.
func carryBoxes(f *lower.Frame, in, out, n int) error {
	var boxes []*values.Box
	for i := range n {
		if b := f.Output(out + i).Box; b != nil {
			if boxes == nil {
				boxes = make([]*values.Box, n)
			}
			boxes[i] = b.Shared()
		}
	}
	var first error
	for i, b := range boxes {
		if b == nil {
			continue
		}
		if err := f.Site.Put(f.Input(in+i), b); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// add appends a row.
func (r *scanOutput) add(s *lower.Site, row *values.Tensor) error {
	if r.out == nil {
		return nil
	}
	if row.Box != nil || row.Shape == nil {
		return fmt.Errorf("tensor %q turns out to be no tensor in iteration %d: expected one, as a row", graph.Short(row.Name), r.count)
	}
	if r.out.Type == graph.Undefined {
		r.out.Type = row.Type
	}
	if row.Type != r.out.Type || r.count > 0 && !slices.Equal(row.Shape, r.shape) {
		was := values.TypeOf(&values.Tensor{Tensor: kernel.Tensor{Type: r.out.Type, Shape: r.shape}})
		return fmt.Errorf("tensor %q turns out to be %v in iteration %d, expected %v as before", graph.Short(row.Name), values.TypeOf(row), r.count, was)
	}
	r.shape = append(r.shape[:0], row.Shape...)
	r.count++
	b := values.BytesOf(row)
	if bits := values.PackedBits(row); bits != 0 {
		return r.addPacked(s, row, bits)
	}
	if r.out.Room > 0 {
		if int64(r.used+len(b)) > r.out.Room {
			return fmt.Errorf("tensor %q turns out to have more than the %d bytes it was planned for", graph.Short(r.out.Name), r.out.Room)
		}
		done, err := s.GPU.AppendRow(r.out, row, r.used, r.count == 1)
		if err != nil {
			return err
		}
		if done {
			r.onDevice = true
			r.used += len(b)
			return nil
		}
		s.ToHost(row)
		if r.onDevice { // the other rows come to the host
			rows := &values.Tensor{Where: values.OnDevice}
			rows.Type, rows.Shape, rows.At = graph.Uint8, []int{r.used}, r.out.At
			s.ToHost(rows)
			r.onDevice = false
		}
		s.WroteOnHost(r.out)
		s.CopyBytes(unsafe.Slice((*byte)(unsafe.Add(r.out.At, r.used)), len(b)), b)
		r.used += len(b)
		return nil
	}
	s.ToHost(row)
	if err := r.hold(s, r.used+len(b)); err != nil {
		return err
	}
	s.CopyBytes(r.block[r.used:], b)
	r.used += len(b)
	return nil
}

// hold makes the block of the rows larger if it has fewer than n bytes.
func (r *scanOutput) hold(s *lower.Site, n int) error {
	if n <= len(r.block) {
		return nil
	}
	larger, err := s.Mem.Side.Take("the rows of "+values.NameOf(r.out.Name), 2*int64(n))
	if err != nil {
		return values.About(r.out.Name, err)
	}
	s.CopyBytes(larger, r.block[:r.used])
	s.Mem.Side.Give(r.block)
	r.block = larger
	return nil
}

// addPacked is add for elements of 2 or 4 bits: a row may begin within a byte.
func (r *scanOutput) addPacked(s *lower.Site, row *values.Tensor, bits int) error {
	n := row.Len()
	at := (r.count - 1) * n
	used := (r.count*n*bits + 7) / 8
	s.ToHost(row)
	var to []byte
	if r.out.Room > 0 {
		if int64(used) > r.out.Room {
			return fmt.Errorf("tensor %q turns out to have more than the %d bytes it was planned for", graph.Short(r.out.Name), r.out.Room)
		}
		s.WroteOnHost(r.out)
		to = unsafe.Slice((*byte)(r.out.At), used)
	} else {
		if err := r.hold(s, used); err != nil {
			return err
		}
		to = r.block[:used]
	}
	clear(to[r.used:]) // the bits behind the last element, too
	values.CopyPacked(to, at, values.BytesOf(row), 0, n, bits)
	r.used = used
	return nil
}

// end sets the shape of the output, and copies its elements from the side pool if
// they lie there. Without rows, the shape of a row comes from t, the output's
// inferred type.
func (r *scanOutput) end(s *lower.Site, t *graph.Tensor) error {
	if r.out == nil {
		return nil
	}
	shape := []int{r.count}
	if r.count > 0 {
		shape = append(shape, r.shape...)
	} else if t.Type.Ranked && len(t.Type.Shape) > 0 {
		for _, d := range t.Type.Shape[1:] {
			n := 0
			if d.Exact() {
				n = int(d)
			}
			shape = append(shape, n)
		}
	}
	if err := s.Resize(r.out, shape); err != nil {
		return err
	}
	if r.onDevice {
		return nil
	}
	s.WroteOnHost(r.out)
	if r.block != nil {
		s.CopyBytes(values.BytesOf(r.out), r.block[:r.used])
		s.Mem.Side.Give(r.block)
	}
	return nil
}
