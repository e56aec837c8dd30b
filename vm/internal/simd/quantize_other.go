//go:build !amd64

package simd

func quantizeAVX2(*uint8, *float32, int, float32, float32, float32, int32) { panic("simd: no vectors") }

func requantizeAVX2(*uint8, *int32, int, float32, float32, float32, int32, int32) {
	panic("simd: no vectors")
}

func requantizeColumnsAVX2(*uint8, *int32, *int32, *float32, int, int, int, int, float32, float32, int32) {
	panic("simd: no vectors")
}

func dequantizeAVX2(*float32, *uint8, int, float32, int32, uint8) { panic("simd: no vectors") }

const wide = 8

func quantizeAVX512(*uint8, *float32, int, float32, float32, float32, int32) {
	panic("simd: no vectors")
}

func requantizeAVX512(*uint8, *int32, int, float32, float32, float32, int32, int32) {
	panic("simd: no vectors")
}

func extentAVX2(*float32, *float32, int) { panic("simd: no vectors") }

func lookUpAVX2(*uint8, *uint8, int, *uint8) { panic("simd: no vectors") }
