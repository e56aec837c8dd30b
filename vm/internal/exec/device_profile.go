package exec

import (
	"errors"
	"math"
	"time"

	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
)

// deviceProfile takes the times of nodes by events on the device, which are read when the
// run has ended.
type deviceProfile struct {
	g      *gpuSession
	p      *Profile
	events []driver.Event // before each node, behind the last, and then with nothing between
	err    error
	ran    bool // a run has put all events on the stream
}

// emptySpans is the number of spans between events with nothing between them.
const emptySpans = 16

// before puts an event before a node.
func (d *deviceProfile) before(_ *lower.Step, at int) { d.record(at) }

// after puts events behind the last node.
func (d *deviceProfile) after(_ *lower.Step, at int) error {
	if last := len(d.p.spans) - 1; at == last {
		for i := range emptySpans + 1 {
			d.record(at + 1 + i)
		}
		d.ran = d.err == nil
	}
	return d.err
}

func (d *deviceProfile) record(i int) {
	for len(d.events) <= i && d.err == nil {
		var e driver.Event
		if e, d.err = driver.NewEvent(true); d.err == nil {
			d.events = append(d.events, e)
		}
	}
	if d.err == nil {
		d.err = d.events[i].Record(d.g.Queue.Stream)
	}
}

// read computes the spans of a run that has ended. The device takes a microsecond or so
// for an event, which is no part of a node's time.
func (d *deviceProfile) read() error {
	if d == nil || !d.ran {
		return nil
	}
	d.ran = false
	empty, err := d.empty()
	if err != nil {
		return err
	}
	from := time.Duration(0)
	for at := range d.p.spans {
		ms, err := driver.Elapsed(d.events[0], d.events[at+1])
		if err != nil {
			return err
		}
		to := time.Duration(float64(ms) * float64(time.Millisecond))
		d.p.spans[at] = span{from, to}
		d.p.measured(at, to-from-empty)
		from = to
	}
	return nil
}

// empty is the shortest time between two events with nothing between them.
func (d *deviceProfile) empty() (time.Duration, error) {
	least := time.Duration(math.MaxInt64)
	for i := range emptySpans {
		last := d.events[len(d.p.spans)+i:]
		ms, err := driver.Elapsed(last[0], last[1])
		if err != nil {
			return 0, err
		}
		least = min(least, time.Duration(float64(ms)*float64(time.Millisecond)))
	}
	return least, nil
}

// close frees the events.
func (d *deviceProfile) close() error {
	if d == nil {
		return nil
	}
	var list []error
	for _, e := range d.events {
		list = append(list, e.Destroy())
	}
	return errors.Join(list...)
}
