package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// layer is a recurrent node in float32. The products of the input with W do not depend on
// the states, so those of many steps are computed at once. Each step then adds the
// products of the states with R, for a group of batch elements together, and applies the
// activations to whole rows.
type layer struct {
	*sequence[float32]
	wide   int // gates of all units
	chunk  int // steps whose products with W are computed at once
	apart  int // distance of two states
	inputs []projection
	loose  []*matrix // those of R that are packed at every run
	groups []group

	pool    *work.Pool
	used    int // steps up to the end of the longest sequence
	first   int // the chunk under way: steps [first, first+count) in the order of computation
	count   int
	tiles   int // of each product with W
	scratch int // of a worker, for products

	// The parts, as functions that are made once: a run allocates nothing.
	pack, multiply, step, all, candidates func(part, worker int)

	// together says that all workers compute the products of each step; see divide. at is
	// the step under way.
	together                      bool
	at                            int
	tilesOfAll, tilesOfCandidates int

	// Offsets in the shared scratch. Each direction has the biases of all gates, and, for
	// each of its steps in the chunk and batch elements, the sums of all gates. Each of its
	// batch elements has the state, the cell, and a row for the reset state.
	bias, gated, h, cells, aside int
}

// matrix is the right side of a product: some rows of W or R, as columns.
type matrix struct {
	t      *Tensor
	off    int // of its first element
	depth  int
	dense  gemm.Dense
	packed gemm.Packed
	room   int // the scratch in which it is packed
}

// newMatrix describes rows rows of depth elements of t, beginning at element off. It
// reports whether they are packed for all runs.
func newMatrix(c *Invocation, t *Tensor, off, rows, depth int) (*matrix, bool) {
	m := &matrix{t: t, off: off, depth: depth, dense: gemm.Dense{Len: rows, Step: depth, Deep: 1}}
	ok := c.packWide(&m.packed, &m.dense, t, off, depth)
	return m, ok
}

// at finds the elements, whose address may change from run to run.
func (m *matrix) at() { m.dense.At = element[float32](m.t, m.off) }

// projection is a product of the input with W: of all batch elements, or, in layout 1, of
// one.
type projection struct {
	d, b    int // direction; first batch element
	x       gemm.Dense
	w       *matrix
	product gemm.Product
}

// group is batch elements [b, b+n) of one direction, whose states are multiplied together.
type group struct {
	d, b, n int
	h       gemm.Dense // their states
	reset   gemm.Dense // their reset states
	all     gemm.Product
	// candidates is the product for the last third of GRU's gates; all is that for the
	// other two then.
	candidates gemm.Product
}

// mostRows is the number of batch elements of a group, unless there are too many groups:
// the rows of the largest micro-kernel.
const (
	mostRows   = 12
	mostGroups = 64
)

func makeLayer(c *Invocation, gates int) (Run, error) {
	q, err := sequenceOf[float32](c, gates)
	if err != nil {
		return nil, err
	}
	s := &layer{sequence: q, wide: mul(q.gates, q.hidden)}
	s.chunk = s.stepsAtOnce()
	s.apart = s.hidden + 16 // not a power of two, so that the states do not evict each other from the cache
	all := mul(s.directions, s.batch)
	s.bias, s.gated = c.Shared(mul(4, s.directions, s.wide)), c.Shared(mul(4, all, s.chunk, s.wide))
	s.h = c.Shared(mul(4, all, s.apart))
	switch gates {
	case 3:
		s.aside = c.Shared(mul(4, all, s.apart))
	case 4:
		s.cells = c.Shared(mul(4, all, s.hidden))
	}
	s.scratch = c.Each(gemm.ScratchBytes)
	packedW, packedR := s.project(), s.recur()
	w, r := c.In[1], c.In[2]
	if packedW && (packedR || w != r) {
		c.Packed = append(c.Packed, w)
	}
	if packedR && (packedW || w != r) {
		c.Packed = append(c.Packed, r)
	}
	s.pack, s.multiply, s.step = s.packPart, s.projectPart, s.stepPart
	s.all, s.candidates = s.allPart, s.candidatesPart
	s.divide()
	return s.run, nil
}

// stepsAtOnce is the number of steps in a chunk: enough rows for an efficient product,
// and otherwise few enough for the gates to stay in the cache.
func (s *layer) stepsAtOnce() int {
	const (
		fewest = 64 // rows
		most   = 1 << 20
	)
	batch := max(s.batch, 1)
	return min(s.steps, max(cuts(fewest, batch), most/max(mul(4, batch, s.wide), 1)))
}

// project prepares the products with W, and reports whether all of it is packed.
func (s *layer) project() bool {
	pieces := 1
	if s.batchFirst {
		pieces = s.batch
	}
	s.inputs = tableOf[projection](s.c, mul(s.directions, pieces))
	all := true
	for d := range s.directions {
		m, ok := newMatrix(s.c, s.c.In[1], mul(d, s.wide, s.input), s.wide, s.input)
		all = all && ok
		for b := range pieces {
			v := &s.inputs[d*pieces+b]
			v.d, v.b, v.w = d, b, m
			v.x = gemm.Dense{Step: s.input, Deep: 1}
			v.product = gemm.Product{N: s.wide, K: s.input, A: &v.x, B: &m.dense, Alpha: 1, Stride: s.wide, ColBias: s.c.Has(3), Stop: s.c.Runtime}
			if ok {
				v.product.B = &m.packed
			}
		}
	}
	return all
}

// recur prepares the products with R, and reports whether all of it is packed for all
// runs.
func (s *layer) recur() bool {
	c, n := s.c, s.hidden
	size := max(min(mostRows, s.batch), cuts(s.batch, mostGroups))
	size = cuts(s.batch, cuts(s.batch, size))
	pieces := cuts(s.batch, size)
	s.groups = tableOf[group](c, mul(s.directions, pieces))
	for d := range s.directions {
		first := s.wide
		if s.gates == 3 {
			first = 2 * n
		}
		all := s.right(d, 0, first)
		var candidates gemm.Operand
		if first < s.wide {
			candidates = s.right(d, first, s.wide-first)
		}
		for i := range pieces {
			g := &s.groups[d*pieces+i]
			g.d, g.b = d, i*size
			g.n = min(size, s.batch-g.b)
			g.h = gemm.Dense{Len: g.n, Step: s.apart, Deep: 1}
			g.reset = g.h
			p := gemm.Product{M: g.n, K: n, A: &g.h, Alpha: 1, Beta: 1, Stride: s.rowStep(), Stop: c.Runtime}
			g.all, g.candidates = p, p
			g.all.N, g.all.B = first, all
			g.candidates.N, g.candidates.B = s.wide-first, candidates
			if s.before {
				g.candidates.Beta, g.candidates.Stride, g.candidates.ColBias = 0, s.apart, c.Has(3)
			} else {
				g.candidates.A = &g.reset
			}
		}
	}
	return len(s.loose) == 0
}

// right is the right side of the products for gates [first, first+n) of direction d. A
// step would take longer to pack it than to multiply with it, so it is packed once.
func (s *layer) right(d, first, n int) *gemm.Packed {
	m, ok := newMatrix(s.c, s.c.In[2], mul(d*s.wide+first, s.hidden), n, s.hidden)
	if !ok {
		m.room = s.c.Shared(gemm.PackedBBytes(n, s.hidden))
		s.loose = append(s.loose, m)
	}
	return &m.packed
}

// rowStep is the distance of the gates of two batch elements at the same step.
func (s *layer) rowStep() int {
	if s.batchFirst {
		return s.chunk * s.wide
	}
	return s.wide
}

// gatesOf is the address of the gates of a step, counted from the first in time of the
// chunk, and batch element.
func (s *layer) gatesOf(d, t, b int) unsafe.Pointer {
	row := d * s.chunk * s.batch
	if s.batchFirst {
		row += b*s.chunk + t
	} else {
		row += t*s.batch + b
	}
	return s.pool.Shared(s.gated + 4*row*s.wide)
}

// begin is the first step in time of the chunk.
func (s *layer) begin(d int) int {
	if s.reversed(d) {
		return s.used - s.first - s.count
	}
	return s.first
}

func (s *layer) run(w *work.Pool) error {
	if err := s.checkLengths(); err != nil {
		return err
	}
	s.pool, s.used = w, 0
	for b := range s.batch {
		s.used = max(s.used, s.length(b))
	}
	s.start()
	w.For(len(s.loose), s.pack)
	for s.first = 0; s.first < s.used; s.first += s.chunk {
		s.count = min(s.chunk, s.used-s.first)
		s.aim()
		w.For(len(s.inputs)*s.tiles, s.multiply)
		if s.together {
			s.stepsTogether()
		} else {
			w.For(len(s.groups), s.step)
		}
	}
	s.finish()
	return nil
}

// start adds up the biases, and reads the first states.
func (s *layer) start() {
	m := s.c.Meter()
	for d := range s.directions {
		if s.c.Has(3) {
			from := data[float32](s.c.In[3])[2*d*s.wide:][:2*s.wide]
			to := span[float32](s.pool.Shared(s.bias), s.directions*s.wide)[d*s.wide:][:s.wide]
			n := s.wide
			if s.gates == 3 && s.before { // the candidates' second bias is reset, too
				n = 2 * s.hidden
			}
			m.Add(s.wide)
			simd.Add(to[:n], from[:n], from[s.wide:][:n])
			copy(to[n:], from[n:])
		}
		for b := range s.batch {
			m.Add(s.hidden)
			first(s.stateOf(d, b), s.initial(5, d, b))
			if s.gates == 4 {
				first(s.cellOf(d, b), s.initial(6, d, b))
			}
		}
	}
	for i := range s.groups {
		g := &s.groups[i]
		g.h.At = unsafe.Pointer(unsafe.SliceData(s.stateOf(g.d, g.b)))
		if s.gates == 3 {
			g.reset.At = s.asideOf(g.d, g.b)
		}
	}
}

// first sets a state to its initial value, which is 0 if it is omitted.
func first(to, from []float32) {
	clear(to)
	copy(to, from)
}

func (s *layer) packPart(i, _ int) {
	m := s.loose[i]
	m.at()
	m.packed = gemm.PackB(s.pool.Shared(m.room), &m.dense, m.dense.Len, m.depth, s.c.Runtime)
}

// aim sets the products with W to the chunk's steps.
func (s *layer) aim() {
	for i := range s.inputs {
		v := &s.inputs[i]
		if _, packed := v.product.B.(*gemm.Packed); !packed {
			v.w.at()
		}
		v.product.M = s.count
		if !s.batchFirst {
			v.product.M *= s.batch
		}
		v.x.Len = v.product.M
		v.x.At = element[float32](s.c.In[0], s.place(s.begin(v.d), v.b)*s.input)
	}
	s.tiles = s.inputs[0].product.Tiles()
}

func (s *layer) projectPart(part, worker int) {
	v := &s.inputs[part/s.tiles]
	v.product.Tile(part%s.tiles, s.gatesOf(v.d, 0, v.b), s.pool.Shared(s.bias+4*v.d*s.wide), s.pool.Each(worker, s.scratch))
}

// stepPart computes the steps of a chunk for a group.
func (s *layer) stepPart(part, worker int) {
	g, scratch := &s.groups[part], s.pool.Each(worker, s.scratch)
	for k := range s.count {
		s.c.Poll()
		gates := s.gatesOf(g.d, s.time(g.d, k), g.b)
		g.all.Whole(gates, nil, scratch)
		if s.gates == 3 {
			if s.before {
				g.candidates.Whole(g.reset.At, s.resetBias(g.d), scratch)
			}
			s.reset(g, gates)
			if !s.before {
				g.candidates.Whole(unsafe.Add(gates, 4*2*s.hidden), nil, scratch)
			}
		}
		s.advanceAll(g, k)
	}
}

// time is step k of the computation, counted from the first in time of the chunk.
func (s *layer) time(d, k int) int {
	if s.reversed(d) {
		return s.count - 1 - k
	}
	return k
}

// resetBias is the bias that a GRU adds before it resets a candidate, or nil.
func (s *layer) resetBias(d int) unsafe.Pointer {
	if !s.c.Has(3) {
		return nil
	}
	return element[float32](s.c.In[3], (2*d+1)*s.wide+2*s.hidden)
}

// reset computes the gates of a group in a GRU, and with them its reset states, or what it
// adds to its candidates. What is left to do for the candidates is their product, unless
// that came before, and their activation.
func (s *layer) reset(g *group, gates unsafe.Pointer) {
	n := s.hidden
	for i := range g.n {
		row := span[float32](unsafe.Add(gates, 4*i*s.rowStep()), s.wide)
		s.apply(g.d, 0, row[:2*n])
		r, aside := row[n:2*n], span[float32](s.asideOf(g.d, g.b+i), n)
		if s.before {
			simd.Mul(aside, aside, r)
			simd.Add(row[2*n:], row[2*n:], aside)
		} else {
			simd.Mul(aside, r, s.stateOf(g.d, g.b+i))
		}
	}
}

// advanceAll computes the next states of a group from its gates.
func (s *layer) advanceAll(g *group, k int) {
	m, t := s.c.Meter(), s.time(g.d, k)
	for b := g.b; b < g.b+g.n; b++ {
		m.Add(s.wide)
		s.advance(g.d, b, t, s.begin(g.d)+t)
	}
}

// advance computes the next state of a batch element from its gates. t is the step within
// the chunk, and at that within the sequence.
func (s *layer) advance(d, b, t, at int) {
	y := s.ofY(at, d, b)
	if at >= s.length(b) {
		clear(y)
		return
	}
	row, h, n := span[float32](s.gatesOf(d, t, b), s.wide), s.stateOf(d, b), s.hidden
	switch s.gates {
	case 1:
		s.apply(d, 0, row)
		copy(h, row)
	case 3: // (1 - z)·candidate + z·h
		z, r, candidate := row[:n], row[n:2*n], row[2*n:]
		s.apply(d, 1, candidate)
		simd.SubFrom(r, z, 1)
		simd.Mul(r, r, candidate)
		simd.Mul(z, z, h)
		simd.Add(h, r, z)
	default:
		s.lstmRow(d, row, s.cellOf(d, b), h)
	}
	copy(y, h)
}

// lstmRow computes the next state and cell, with peepholes.
func (s *layer) lstmRow(d int, row, cell, h []float32) {
	n := s.hidden
	in, out, forget, candidate := row[:n], row[n:2*n], row[2*n:3*n], row[3*n:]
	if s.c.Has(7) {
		peep := data[float32](s.c.In[7])[3*d*n:]
		simd.Mul(h, peep[:n], cell) // the state is not needed any more
		simd.Add(in, in, h)
		simd.Mul(h, peep[2*n:3*n], cell)
		simd.Add(forget, forget, h)
		s.apply(d, 0, in)
		s.apply(d, 0, forget)
	} else {
		s.apply(d, 0, row[:3*n])
	}
	if s.couple {
		simd.SubFrom(forget, in, 1)
	}
	s.apply(d, 1, candidate)
	simd.Mul(cell, cell, forget)
	simd.Mul(candidate, candidate, in)
	simd.Add(cell, cell, candidate)
	if s.c.Has(7) {
		peep := data[float32](s.c.In[7])[3*d*n:]
		simd.Mul(h, peep[n:2*n], cell)
		simd.Add(out, out, h)
		s.apply(d, 0, out)
	}
	s.rowsOf(d)[2](h, cell)
	simd.Mul(h, h, out)
}

// apply clips numbers and applies an activation of direction d.
func (s *layer) apply(d, act int, row []float32) {
	if s.clip > 0 {
		simd.Clamp(row, row, float32(-s.clip), float32(s.clip))
	}
	s.rowsOf(d)[act](row, row)
}

// rowsOf lists the activations of a direction.
func (s *layer) rowsOf(d int) []func(d, s []float32) {
	return s.rows[len(s.rows)/s.directions*d:]
}

// finish writes the last states, and 0 where all sequences have ended.
func (s *layer) finish() {
	m := s.c.Meter()
	for d := range s.directions {
		for b := range s.batch {
			m.Add(s.hidden)
			if s.c.HasOut(1) {
				copy(s.ofState(s.c.Out[1], d, b), s.stateOf(d, b))
			}
			if s.c.HasOut(2) {
				copy(s.ofState(s.c.Out[2], d, b), s.cellOf(d, b))
			}
			for t := s.used; t < s.steps; t++ {
				m.Add(s.hidden)
				clear(s.ofY(t, d, b))
			}
		}
	}
}

func (s *layer) stateOf(d, b int) []float32 {
	return span[float32](s.pool.Shared(s.h+4*(d*s.batch+b)*s.apart), s.hidden)
}

func (s *layer) cellOf(d, b int) []float32 {
	return span[float32](s.pool.Shared(s.cells+4*(d*s.batch+b)*s.hidden), s.hidden)
}

func (s *layer) asideOf(d, b int) unsafe.Pointer {
	return s.pool.Shared(s.aside + 4*(d*s.batch+b)*s.apart)
}
