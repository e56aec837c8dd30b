package exec

import (
	"errors"

	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// deviceCopier moves tensors to the host pool and back on two streams of their own while
// the nodes run on another. Events keep the order that hostCopier keeps by waiting: the
// host never waits.
type deviceCopier struct {
	g             *gpuSession
	start, finish [2][][]*deviceTransfer // by direction and step: those that begin, and that have ended, before it runs
	streams       [2]driver.Stream
	all           []*deviceTransfer
}

// deviceTransfer is a copy between the device and the host pool.
type deviceTransfer struct {
	from, to     *values.Tensor
	begun, ended driver.Event
}

// newDeviceCopier prepares the transfers of the main graph. It returns nil if there are
// none. SwapOut and SwapIn of a tensor whose size is unknown, or only bounded, run as
// nodes on the host.
func newDeviceCopier(g *gpuSession, f *lower.Frame, p *plan.Plan) (*deviceCopier, error) {
	list := transfersOf(f, p)
	if len(list) == 0 {
		return nil, nil
	}
	c := &deviceCopier{g: g}
	for d := range c.streams {
		c.start[d], c.finish[d] = make([][]*deviceTransfer, len(f.Steps)), make([][]*deviceTransfer, len(f.Steps))
		var err error
		if c.streams[d], err = driver.NewStream(); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	for _, x := range list {
		t := &deviceTransfer{from: x.from, to: x.to}
		var err error
		if t.begun, err = driver.NewEvent(false); err == nil {
			t.ended, err = driver.NewEvent(false)
		}
		c.all = append(c.all, t)
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		c.start[x.direction][x.begin] = append(c.start[x.direction][x.begin], t)
		c.finish[x.direction][x.end] = append(c.finish[x.direction][x.end], t)
	}
	return c, nil
}

// before puts the transfers that are due before a step on their streams, and makes the
// step wait for those that it needs. Transfers back are awaited first: a transfer out may
// reuse their place in the host pool.
func (c *deviceCopier) before(at int) error {
	for _, do := range []func() error{
		func() error { return c.await(homeward, at) },
		func() error { return c.begin(outward, at) },
		func() error { return c.await(outward, at) },
		func() error { return c.begin(homeward, at) },
	} {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// begin puts transfers behind the work of the nodes so far.
func (c *deviceCopier) begin(direction, at int) error {
	for _, t := range c.start[direction][at] {
		if err := c.put(t, direction); err != nil {
			return err
		}
	}
	return nil
}

func (c *deviceCopier) put(t *deviceTransfer, direction int) error {
	away := t.from // the tensor on the device
	if direction == homeward {
		away = t.to
	} else if err := c.g.Up(t.from); err != nil {
		return err
	}
	p, err := c.g.At(&away.Tensor)
	if err != nil {
		return err
	}
	if err := t.begun.Record(c.g.Queue.Stream); err != nil {
		return err
	}
	s, bytes := c.streams[direction], int64(away.Bytes())
	if err := s.Wait(t.begun); err != nil {
		return err
	}
	if direction == outward {
		t.to.Where = values.OnHost
		err = driver.Download(t.to.At, p, bytes, s)
	} else {
		t.to.Where = values.OnDevice
		err = driver.Upload(p, t.from.At, bytes, s)
	}
	if err != nil {
		return err
	}
	return t.ended.Record(s)
}

// await makes the nodes wait for transfers.
func (c *deviceCopier) await(direction, at int) error {
	for _, t := range c.finish[direction][at] {
		if err := c.g.Queue.Stream.Wait(t.ended); err != nil {
			return err
		}
		c.g.Stale = true // a node on the host that reads what came has to wait, too
	}
	return nil
}

// sync waits for all transfers.
func (c *deviceCopier) sync() error {
	if c == nil {
		return nil
	}
	return errors.Join(c.streams[outward].Synchronize(), c.streams[homeward].Synchronize())
}

// close frees the streams and events.
func (c *deviceCopier) close() error {
	if c == nil {
		return nil
	}
	var list []error
	for _, s := range c.streams {
		if s != 0 {
			list = append(list, s.Synchronize(), s.Destroy())
		}
	}
	for _, t := range c.all {
		for _, e := range []driver.Event{t.begun, t.ended} {
			if e != 0 {
				list = append(list, e.Destroy())
			}
		}
	}
	return errors.Join(list...)
}
