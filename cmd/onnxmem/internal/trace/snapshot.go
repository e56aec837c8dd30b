package trace

import (
	"bufio"
	"errors"
	"fmt"
)

// cudaAlignment is kMinBlockSize of c10/cuda/CUDACachingAllocator.cpp: kernels of
// PyTorch may expect addresses that are multiples of it.
const cudaAlignment = 512

// readSnapshot reads a memory snapshot of PyTorch (torch.cuda.memory._dump_snapshot),
// a pickle of a dict. Its device_traces has a list of events for each device. A block
// lives from its event alloc to its event free_completed; the time between
// free_requested and free_completed is spent waiting for other streams, which still
// use it. Events about segments and snapshots are skipped: they are what the allocator
// of the recording did with these requests.
func readSnapshot(r *bufio.Reader, opt Options) (*Trace, error) {
	p, root, err := unpickle(r)
	if err != nil {
		return nil, err
	}
	whole := func(format string, args ...any) error {
		return &Error{Offset: -1, Err: fmt.Errorf(format, args...)}
	}
	traces, ok := p.field(root, "device_traces")
	if root.kind() != dict || !ok || traces.kind() != list {
		return nil, whole("expected a memory snapshot of PyTorch, with a list device_traces, found another pickle")
	}
	devices := map[string][]value{}
	var names []string
	seen := 0
	for i, v := range p.lists[traces.n()] {
		if v.kind() != list {
			return nil, whole("device_traces[%d]: expected a list of events", i)
		}
		for _, e := range p.lists[v.n()] {
			if seen++; seen > mostEvents { // one list may occur many times
				return nil, whole("device_traces: %w", tooMany())
			}
			if action, _ := p.field(e, "action"); action.kind() == text && (p.texts[action.n()] == "alloc" || p.texts[action.n()] == "free_completed") {
				name := fmt.Sprintf("cuda:%d", i)
				devices[name], names = p.lists[v.n()], append(names, name)
				break
			}
		}
	}
	device, err := pick(names, opt)
	if err != nil {
		return nil, err
	}
	b := newBuilder[int64](false)
	b.trace.Format, b.trace.Alignment = "memory snapshot of PyTorch, "+device, cudaAlignment
	for i, e := range devices[device] {
		if err := p.add(b, e); err != nil {
			return nil, whole("device_traces: %s: event %d: %w", device, i, err)
		}
	}
	return &b.trace, nil
}

// add adds an event of a snapshot.
func (p *unpickler) add(b *builder[int64], e value) error {
	action, ok := p.field(e, "action")
	if !ok || action.kind() != text {
		return errors.New("expected a dict with an action")
	}
	name := p.texts[action.n()]
	if name != "alloc" && name != "free_completed" {
		return nil
	}
	var n [3]int64
	for k, field := range [3]string{"addr", "size", "stream"} {
		v, ok := p.field(e, field)
		if !ok || v.kind() != number {
			return fmt.Errorf("%s: %s: expected a whole number below 2^60", name, field)
		}
		n[k] = v.n()
	}
	if name == "alloc" {
		return b.alloc(n[0], n[1], n[2])
	}
	return b.free(n[0], n[1], n[2])
}

// field returns the value of a key of a dict of a few keys, the last if it occurs
// twice, as in Python.
func (p *unpickler) field(of value, key string) (value, bool) {
	const most = 64 // keys; one dict may be searched many times
	if of.kind() != dict || len(p.lists[of.n()]) > 2*most {
		return value(0), false
	}
	items := p.lists[of.n()]
	for i := len(items) - 2; i >= 0; i -= 2 {
		if items[i].kind() == text && p.texts[items[i].n()] == key {
			return items[i+1], true
		}
	}
	return value(0), false
}
