package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// MemoryViz writes a plan as a snapshot of PyTorch's allocator, a pickle that
// pytorch.org/memory_viz and torch.cuda._memory_viz read. Each pool is a segment, and
// each buffer of the arena is an allocation whose stack frame is the node that makes
// it. The time is the step; addresses in the arena are offsets. Buffers that live to
// the last step are allocated at the time of the snapshot; resident buffers were
// allocated before the trace begins. It takes O(n log n) time. It fails if the pools
// together exceed the address space.
func MemoryViz(w io.Writer, p *plan.Plan) error {
	segments, err := segmentsOf(p)
	if err != nil {
		return err
	}
	out := newPickler(w)
	out.dict(func() {
		out.entry("segments")
		out.list(len(segments), func(i int) { segments[i].write(out, p) })
		out.entry("device_traces")
		events := eventsOf(p, segments)
		out.list(1, func(int) {
			out.list(len(events), func(i int) { events[i].write(out, p) })
		})
		out.entry("allocator_settings")
		out.dict(func() {})
	})
	return out.end()
}

// segment is a pool with its address.
type segment struct {
	plan.Pool
	address int64
}

// segmentsOf places the pools one after the other, the arena first, at multiples of
// 2 MiB, as PyTorch does.
func segmentsOf(p *plan.Plan) (list []segment, err error) {
	const grain = 2 << 20
	at := int64(0)
	for _, pool := range p.Pools {
		if pool.Bytes == 0 {
			continue
		}
		if pool.Bytes > math.MaxInt64-at-grain {
			return nil, fmt.Errorf("pool %q: %d bytes: the pools exceed the address space", graph.Short(pool.Name), pool.Bytes)
		}
		list = append(list, segment{pool, at})
		at += (pool.Bytes + grain - 1) / grain * grain
	}
	return list, nil
}

// atEnd returns the buffers of a pool that are live at the end of the last step,
// sorted by offset. In an invalid plan they may overlap; then the later one is left
// out.
func (s *segment) atEnd(p *plan.Plan) (list []*plan.Buffer) {
	for i := range p.Buffers {
		if b := &p.Buffers[i]; b.Pool == s.Name && b.Bytes > 0 && b.Last >= len(p.Steps)-1 {
			list = append(list, b)
		}
	}
	slices.SortStableFunc(list, func(a, b *plan.Buffer) int { return cmp.Compare(a.Offset, b.Offset) })
	end := int64(0)
	return slices.DeleteFunc(list, func(b *plan.Buffer) bool {
		if b.Offset < end {
			return true
		}
		end = b.Offset + b.Bytes
		return false
	})
}

func (s *segment) write(out *pickler, p *plan.Plan) {
	live := s.atEnd(p)
	used := int64(0)
	type block struct {
		address, bytes int64
		b              *plan.Buffer
	}
	var blocks []block
	at := int64(0)
	for _, b := range live {
		if b.Offset > at {
			blocks = append(blocks, block{s.address + at, b.Offset - at, nil})
		}
		blocks = append(blocks, block{s.address + b.Offset, b.Bytes, b})
		at = b.Offset + b.Bytes
		used += b.Bytes
	}
	if at < s.Bytes {
		blocks = append(blocks, block{s.address + at, s.Bytes - at, nil})
	}
	out.dict(func() {
		out.numberEntry("device", 0)
		out.numberEntry("address", s.address)
		out.numberEntry("total_size", s.Bytes)
		out.numberEntry("allocated_size", used)
		out.numberEntry("active_size", used)
		out.numberEntry("requested_size", used)
		out.numberEntry("stream", 0)
		out.textEntry("segment_type", "large")
		out.entry("is_expandable")
		out.no()
		out.entry("frames")
		out.list(1, func(int) { frame(out, "pool "+s.Name, 0, "onnxmem") })
		out.entry("blocks")
		out.list(len(blocks), func(i int) {
			x := blocks[i]
			out.dict(func() {
				out.numberEntry("address", x.address)
				out.numberEntry("size", x.bytes)
				if x.b == nil {
					out.numberEntry("requested_size", 0)
					out.textEntry("state", "inactive")
				} else {
					out.numberEntry("requested_size", x.bytes)
					out.textEntry("state", "active_allocated")
				}
				frames(out, p, x.b)
			})
		})
	})
}

// allocEvent is an allocation, or one of the two events that PyTorch records of a
// free.
type allocEvent struct {
	action  string
	step    int
	address int64
	b       *plan.Buffer
}

// eventsOf lists the events of the arena and the host pool by step. Each step first
// frees the buffers whose last step was the previous one and then allocates those
// whose first step it is.
func eventsOf(p *plan.Plan, segments []segment) (list []allocEvent) {
	births, deaths := make([][]allocEvent, len(p.Steps)+1), make([][]allocEvent, len(p.Steps)+1)
	for _, s := range segments {
		if s.Name == plan.Resident {
			continue
		}
		for i := range p.Buffers {
			b := &p.Buffers[i]
			if b.Pool != s.Name || b.Bytes == 0 {
				continue
			}
			births[b.First] = append(births[b.First], allocEvent{"alloc", b.First, s.address + b.Offset, b})
			if b.Last < len(p.Steps)-1 {
				deaths[b.Last+1] = append(deaths[b.Last+1], allocEvent{"", b.Last + 1, s.address + b.Offset, b})
			}
		}
	}
	for i := range births {
		for _, e := range deaths[i] {
			for _, e.action = range []string{"free_requested", "free_completed"} {
				list = append(list, e)
			}
		}
		list = append(list, births[i]...)
	}
	return list
}

func (e *allocEvent) write(out *pickler, p *plan.Plan) {
	out.dict(func() {
		out.textEntry("action", e.action)
		out.numberEntry("addr", e.address)
		out.numberEntry("size", e.b.Bytes)
		out.numberEntry("stream", 0)
		out.numberEntry("time_us", int64(e.step))
		frames(out, p, e.b)
	})
}

// frames writes a stack of one frame for a buffer: its tensors, its first step, and
// the node that runs there.
func frames(out *pickler, p *plan.Plan, b *plan.Buffer) {
	out.entry("frames")
	if b == nil {
		out.list(0, nil)
		return
	}
	out.list(1, func(int) {
		made := b.Kind
		if b.First < len(p.Steps) && b.Kind != plan.KindInput && b.Pool != plan.Resident {
			made = fmt.Sprintf("%s (%s)", stepLabel(p, b.First), p.Steps[b.First].Op)
		}
		name := bufferLabel(p, b)
		if len(b.Tensors) > 1 {
			name = strings.Join(b.Tensors[:min(len(b.Tensors), 8)], ", ")
		}
		frame(out, made, b.First, b.Kind+" "+name)
	})
}

func frame(out *pickler, file string, line int, name string) {
	out.dict(func() {
		out.textEntry("filename", file)
		out.numberEntry("line", int64(line))
		out.textEntry("name", name)
	})
}
