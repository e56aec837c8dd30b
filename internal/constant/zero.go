package constant

import (
	"io"

	"github.com/onnxmem/onnxmem/graph"
)

// Zero makes all elements of a tensor 0. They take no memory: they are written when the tensor is.
func Zero(d *graph.Data) {
	d.Generate = func(w io.Writer) error {
		block := make([]byte, min(d.Bytes, 1<<16))
		for n := d.Bytes; n > 0; {
			k, err := w.Write(block[:min(n, int64(len(block)))])
			if err != nil {
				return err
			}
			n -= int64(k)
		}
		return nil
	}
}
