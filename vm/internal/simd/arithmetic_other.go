//go:build !amd64

package simd

func (arithmetic) lists(*float32, *float32, *float32, int) { panic("simd: no vectors") }
func (arithmetic) list(*float32, *float32, int)            { panic("simd: no vectors") }
func (arithmetic) scalar(*float32, *float32, int, float32) { panic("simd: no vectors") }
func sumAVX2(*float32, int) float64                        { panic("simd: no vectors") }
func addWideAVX2(*float64, *float32, int)                  { panic("simd: no vectors") }
func squaresAVX2(*float32, int, float64) float64           { panic("simd: no vectors") }
func addEveryOtherAVX2(*float32, *float32, int)            { panic("simd: no vectors") }
func largestAVX2(*float32, int) float32                    { panic("simd: no vectors") }
func smallestAVX2(*float32, int) float32                   { panic("simd: no vectors") }
func highestAVX2(*float32, int) float32                    { panic("simd: no vectors") }
func lowestAVX2(*float32, int) float32                     { panic("simd: no vectors") }
func transposeAVX2(*float32, *float32, int, int, int)      { panic("simd: no vectors") }

func standardizeAVX2(*float32, *float32, int, float64, float64) { panic("simd: no vectors") }
func meetingAVX2(*float32, int, *float32) int                   { panic("simd: no vectors") }
func transpose16AVX2(*uint16, *uint16, int, int, int)           { panic("simd: no vectors") }

func squaresAroundAVX2(*float32, int, float32) float64                 { panic("simd: no vectors") }
func normSumsAVX2(*float64, *float32, *float32, int, float32, float32) { panic("simd: no vectors") }
func normGradientAVX2(*float32, *float32, *float32, int, *float32)     { panic("simd: no vectors") }

func powerAVX2(*float32, *float32, *float32, int, int) int { panic("simd: no vectors") }
func truncateAVX2(*int32, *float32, int)                   { panic("simd: no vectors") }
func fromIntegersAVX2(*float32, *int32, int)               { panic("simd: no vectors") }
func truncateBytesAVX2(*uint8, *float32, int)              { panic("simd: no vectors") }
func interleaveWordsAVX2(*uint32, *uint32, *uint32, int)   { panic("simd: no vectors") }
func nibblesAVX2(*float32, *uint8, int, float32, float32)  { panic("simd: no vectors") }
