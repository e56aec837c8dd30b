//go:build !amd64

package gemm

// run is never called: Prepare is false.
func (p *quadTiles) run(rows, columns int) { panic("gemm: no quads") }

// run is never called: Prepare is false.
func (p *quadWeighing) run(rows int, twice bool) { panic("gemm: no quads") }
