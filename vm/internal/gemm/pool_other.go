//go:build !amd64

package gemm

import "unsafe"

func joinRows(bool, unsafe.Pointer, unsafe.Pointer, int, *uint16, int, int, int, int, int, int) {
	panic("gemm: no vectors")
}

func joinAlong(bool, int, unsafe.Pointer, unsafe.Pointer, int, int, int, uint64, int, int, int) {
	panic("gemm: no vectors")
}
