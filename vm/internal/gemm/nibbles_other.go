//go:build !amd64

package gemm

func nibbleRows(bool) int { return 1 }

func nibbleWidth(int, bool) int { return nibbleStrip }

func (w *nibblePanel) run(_ int, whole bool) { w.plain(whole) }

func nibbleTile(_, _, _, _ *float32, _, _ int) { panic("gemm: no vectors") }

func widenNibbles(*float32, *byte, *byte, int, int) { panic("gemm: no vectors") }
