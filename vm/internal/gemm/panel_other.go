//go:build !amd64

package gemm

func best() level { return plain }

func (p *panel) run(level) { panelPlain(p) }

const intel = false
