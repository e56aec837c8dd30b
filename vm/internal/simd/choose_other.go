//go:build !amd64

package simd

func (Relation) lists(*uint8, *float32, *float32, int, int, int) { panic("simd: no vectors") }
func andAVX2(*uint8, *uint8, *uint8, int)                        { panic("simd: no vectors") }
func orAVX2(*uint8, *uint8, *uint8, int)                         { panic("simd: no vectors") }
func xorAVX2(*uint8, *uint8, *uint8, int)                        { panic("simd: no vectors") }
func notAVX2(*uint8, *uint8, *uint8, int)                        { panic("simd: no vectors") }

func chooseAVX2(*uint32, *uint8, *uint32, *uint32, int, int, int) { panic("simd: no vectors") }

func choose16AVX2(*uint16, *uint8, *uint16, *uint16, int, int, int) { panic("simd: no vectors") }
