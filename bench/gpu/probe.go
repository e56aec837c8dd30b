package main

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
)

// probe describes a GPU and measures its link. It runs in a process of its own: a driver
// that crashes takes nothing else down, and nothing of it is in the memory figures.
func probe(name string, bytes int64) (d *device, err error) {
	g, err := cuda.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if err := g.Enter(); err != nil {
		return nil, err
	}
	defer g.Leave()
	d = &device{Name: g.Name(), ContextBytes: g.ContextBytes()}
	if _, d.MemoryBytes, err = g.Memory(); err != nil {
		return nil, err
	}
	if v, err := driver.Version(); err == nil {
		d.Driver = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	}
	if major, minor, err := driver.CompilerVersion(); err == nil {
		d.Compiler = fmt.Sprintf("%d.%d", major, minor)
	}
	if dev, err := driver.CurrentDevice(); err == nil {
		d.Multiprocessors, _ = dev.Attribute(driver.Multiprocessors)
		major, _ := dev.Attribute(driver.ComputeMajor)
		minor, _ := dev.Attribute(driver.ComputeMinor)
		d.Compute = fmt.Sprintf("%d.%d", major, minor)
	}
	d.Link, err = measureLink(g, bytes)
	return d, err
}

// linkTries is the number of copies of which the fastest counts.
const linkTries = 5

// measureLink copies both ways, alone and at the same time.
func measureLink(g *cuda.Device, bytes int64) (l link, err error) {
	l.Bytes = bytes
	ends := [2]*linkEnd{{up: true}, {}}
	for _, e := range ends {
		defer func() { err = errors.Join(err, e.close()) }()
		if err := e.open(g, bytes); err != nil {
			return l, err
		}
	}
	if l.Up, err = rate(bytes, ends[0]); err != nil {
		return l, err
	}
	if l.Down, err = rate(bytes, ends[1]); err != nil {
		return l, err
	}
	l.Both, err = rate(bytes, ends[:]...)
	return l, err
}

// rate returns the bytes a second of each of some copies that run at the same time.
func rate(bytes int64, ends ...*linkEnd) (float64, error) {
	var best time.Duration
	for i := range linkTries {
		began := time.Now()
		for _, e := range ends {
			if err := e.copy(bytes); err != nil {
				return 0, err
			}
		}
		for _, e := range ends {
			if err := e.stream.Synchronize(); err != nil {
				return 0, err
			}
		}
		if took := time.Since(began); i == 0 || took < best {
			best = took
		}
	}
	return float64(bytes) / max(best.Seconds(), 1e-9), nil
}

// linkEnd is one way of the link: memory at both of its ends, and a stream.
type linkEnd struct {
	up     bool
	host   *cuda.Pinned
	there  *cuda.Block
	stream driver.Stream
}

func (e *linkEnd) open(g *cuda.Device, bytes int64) (err error) {
	if e.host, err = g.Pin(bytes, "a copy's source or target"); err != nil {
		return err
	}
	if e.there, err = g.Take(bytes, "a copy's source or target"); err != nil {
		return err
	}
	e.stream, err = driver.NewStream()
	return err
}

func (e *linkEnd) copy(bytes int64) error {
	at := unsafe.Pointer(unsafe.SliceData(e.host.Data))
	if e.up {
		return driver.Upload(e.there.At, at, bytes, e.stream)
	}
	return driver.Download(at, e.there.At, bytes, e.stream)
}

func (e *linkEnd) close() (err error) {
	if e.stream != 0 {
		err = errors.Join(e.stream.Synchronize(), e.stream.Destroy())
	}
	return errors.Join(err, e.there.Free(), e.host.Free())
}
