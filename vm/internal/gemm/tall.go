package gemm

import "unsafe"

// A product is tall if its A is Windows, and it has so few columns that a block of depths of
// B fits into the scratch, next to fewer rows of A than otherwise. Its tiles then have many
// rows, and B, which is transposed when it is packed, is packed once for a tile. The gradients
// of the weights of 64 channels of R3D-18 take 0.88 of the time.
const (
	tallColumns = 192                                                                // a multiple of the columns of every micro-kernel
	tallRows    = (tileRows + widest - tallColumns) / 24 * 24                        // of A at a time
	tallTile    = 216 * 256                                                          // the most sums of a tile
	_           = uint(mostDepth*(tileRows+widest-tallColumns) - mostDepth*tallRows) // they fit into the scratch
)

func (p *Product) tall() bool {
	_, windows := p.A.(*Windows)
	return windows && p.N <= tallColumns && !p.Across && !p.Blocked && !p.readsB()
}

// tallStrips is strips for a tall product.
func (p *Product) tallStrips(i0, j0, m, n int, c unsafe.Pointer, stride int, bias unsafe.Pointer, block []float32) {
	kernel := chosen
	height, width := levels[kernel].rows, levels[kernel].columns
	right, left := block[:mostDepth*tallColumns], block[mostDepth*tallColumns:]
	w := panel{cRow: 4 * stride, alpha: p.Alpha, low: p.Low, high: p.High}
	var strips [tallColumns]unsafe.Pointer                // of B
	for k := 0; k == 0 || k < p.K; k += max(w.depth, 1) { // without depths, once
		w.depth, w.rows = p.depth(k), m
		p.epilogue(&w, k == 0, k+w.depth == p.K)
		for j := 0; j < n; j += width {
			w.columns = min(width, n-j)
			p.right(&w, right[j*w.depth:], width, j0+j, k)
			strips[j/width] = w.b
		}
		for i := 0; i < m; i += tallRows {
			if p.Stop != nil && p.Stop.Stopping() {
				return
			}
			w.rows = min(tallRows, m-i)
			p.left(&w, left, height, i0+i, w.rows, k, nil)
			for j := 0; j < n; j += width {
				w.columns, w.b = min(width, n-j), strips[j/width]
				w.c = unsafe.Add(c, 4*(i*stride+j))
				if p.RowBias {
					w.rowBias = unsafe.Add(bias, 4*(i0+i))
				}
				if p.ColBias {
					w.colBias = unsafe.Add(bias, 4*(j0+j))
				}
				p.multiply(&w, kernel, height)
			}
		}
	}
}
