package exec

import (
	"runtime/debug"

	"github.com/onnxmem/onnxmem/internal/bug"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// hostCopier copies tensors to the host pool and back while other nodes run, with
// one goroutine for each direction of the link. A step waits for the tensors that it
// reads, and SwapOut waits for the end of its own transfer. Which bytes are copied,
// and where, does not depend on the speed of the link.
type hostCopier struct {
	start, finish [2][][]*transfer // by direction and step: those that begin, and that have ended, before it runs
	queue         [2]chan *transfer
}

// The directions of transfers.
const (
	outward = iota
	homeward
)

// transfer is a copy in the background.
type transfer struct {
	from, to *values.Tensor
	pool     *work.Pool // says when the run is stopping
	started  bool       // it has begun, and no step has waited for it yet
	done     chan error // has one slot, so that the copying goroutine never blocks
}

// plannedTransfer is a copy that begins before one step runs and has ended before another
// does.
type plannedTransfer struct {
	from, to              *values.Tensor
	direction, begin, end int
}

// transfersOf finds the transfers of the main graph, whose tensors have their places.
// Their nodes then do nothing. It leaves out those of a tensor whose size is unknown, or
// only bounded.
func transfersOf(f *lower.Frame, p *plan.Plan) (list []plannedTransfer) {
	hosted := map[string]int{} // tensors on the host, and their first step there
	for i := range p.Buffers {
		if b := &p.Buffers[i]; b.Pool == plan.Host {
			for _, name := range b.Tensors {
				hosted[name] = b.First
			}
		}
	}
	for at, st := range f.Steps {
		n := st.Node()
		if !n.IsSwap() || !st.Exact() {
			continue
		}
		direction, begin, end := outward, hosted[st.Out[0].Name], at
		if n.IsSwapIn() {
			readers := f.Graph.Tensors[n.Outputs[0]].Readers
			if _, is := hosted[st.In[0].Name]; !is || len(readers) == 0 {
				continue
			}
			direction, begin, end = homeward, at, int(readers[0])
		} else if _, is := hosted[st.Out[0].Name]; !is {
			continue // it copies to another pool
		}
		st.Run = nil
		list = append(list, plannedTransfer{st.In[0], st.Out[0], direction, begin, end})
	}
	return list
}

// newHostCopier prepares the transfers of the main graph. It returns nil if there are
// none. SwapOut and SwapIn that have no transfer copy in the foreground, as other nodes
// run.
func newHostCopier(f *lower.Frame, p *plan.Plan) *hostCopier {
	list := transfersOf(f, p)
	if len(list) == 0 {
		return nil
	}
	h := &hostCopier{}
	for d := range h.start {
		h.start[d], h.finish[d] = make([][]*transfer, len(f.Steps)), make([][]*transfer, len(f.Steps))
	}
	for _, x := range list {
		t := &transfer{from: x.from, to: x.to, pool: f.Site.Pool, done: make(chan error, 1)}
		h.start[x.direction][x.begin] = append(h.start[x.direction][x.begin], t)
		h.finish[x.direction][x.end] = append(h.finish[x.direction][x.end], t)
	}
	for d := range h.queue {
		h.queue[d] = make(chan *transfer, len(list))
		go transferAll(h.queue[d], f.Site.Mem.Host)
	}
	return h
}

// close ends the goroutines.
func (h *hostCopier) close() {
	if h != nil {
		close(h.queue[outward])
		close(h.queue[homeward])
	}
}

// before starts and awaits the transfers that are due before a step runs. It waits
// for transfers back first: a transfer out may reuse their place on the host.
func (h *hostCopier) before(at int) error {
	var first error
	wait := func(list []*transfer) {
		for _, t := range list {
			if err := t.wait(); err != nil && first == nil {
				first = err
			}
		}
	}
	wait(h.finish[homeward][at])
	h.begin(outward, at)
	wait(h.finish[outward][at])
	h.begin(homeward, at)
	return first
}

func (h *hostCopier) begin(direction, at int) {
	for _, t := range h.start[direction][at] {
		t.started = true
		h.queue[direction] <- t
	}
}

// waitAll waits for all transfers in progress: none is left after a run, even a
// failed one.
func (h *hostCopier) waitAll() {
	if h == nil {
		return
	}
	for d := range h.start {
		for _, list := range h.start[d] {
			for _, t := range list {
				_ = t.wait() // the run has its own error
			}
		}
	}
}

// wait waits for a transfer that has begun.
func (t *transfer) wait() error {
	if !t.started {
		return nil
	}
	t.started = false
	return <-t.done
}

// transferAll runs the transfers of a queue in order.
func transferAll(queue chan *transfer, host *store.Block) {
	// An access to a mapped file that cannot grow or be read faults.
	debug.SetPanicOnFault(true)
	for t := range queue {
		t.done <- t.copy(host)
	}
}

// copyBytes is the size of the parts of a transfer: Go's garbage collector has to wait
// for the end of each copy.
const copyBytes = 1 << 20

func (t *transfer) copy(host *store.Block) (err error) {
	defer func() {
		r := recover()
		if f, ok := r.(memoryFault); ok {
			err = host.Fault(f.Addr())
		}
		if r != nil && err == nil {
			err = bug.Recovered("a transfer", r)
		}
	}()
	to, from := values.BytesOf(t.to), values.BytesOf(t.from)
	for len(from) > 0 && !t.pool.Stopping() {
		n := min(len(from), copyBytes)
		copy(to[:n], from[:n])
		to, from = to[n:], from[n:]
	}
	return nil
}
