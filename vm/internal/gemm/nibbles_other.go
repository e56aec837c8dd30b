//go:build !amd64

package gemm

func nibbleRows(bool) int { return 1 }

func nibbleWidth(int, bool) int { return nibbleStrip }

func (w *nibblePanel) run(_ int, whole bool) { w.plain(whole) }
