package vm

import (
	"errors"
	"time"

	"github.com/onnxmem/onnxmem/vm/cuda/driver"
)

// deviceProfile takes the times of nodes by events on the device, which are read when the
// run has ended.
type deviceProfile struct {
	g      *device
	p      *Profile
	events []driver.Event // before each node, and behind the last
	err    error
	ran    bool // a run has put all events on the stream
}

// before puts an event before a node.
func (d *deviceProfile) before(_ *step, at int) { d.record(at) }

// after puts an event behind the last node.
func (d *deviceProfile) after(_ *step, at int) error {
	if last := len(d.p.spans) - 1; at == last {
		d.record(at + 1)
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
		d.err = d.events[i].Record(d.g.queue.Stream)
	}
}

// read computes the spans of a run that has ended.
func (d *deviceProfile) read() error {
	if d == nil || !d.ran {
		return nil
	}
	d.ran = false
	from := time.Duration(0)
	for at := range d.p.spans {
		ms, err := driver.Elapsed(d.events[0], d.events[at+1])
		if err != nil {
			return err
		}
		to := time.Duration(float64(ms) * float64(time.Millisecond))
		d.p.spans[at] = span{from, to}
		d.p.measured(at)
		from = to
	}
	return nil
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
