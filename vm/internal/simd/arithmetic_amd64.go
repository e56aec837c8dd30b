package simd

//go:noescape
func addAVX2(dst, a, b *float32, n int)

//go:noescape
func subAVX2(dst, a, b *float32, n int)

//go:noescape
func mulAVX2(dst, a, b *float32, n int)

//go:noescape
func divAVX2(dst, a, b *float32, n int)

//go:noescape
func maxAVX2(dst, a, b *float32, n int)

//go:noescape
func minAVX2(dst, a, b *float32, n int)

//go:noescape
func maxScalarAVX2(dst, a *float32, n int, b float32)

//go:noescape
func minScalarAVX2(dst, a *float32, n int, b float32)

//go:noescape
func negAVX2(dst, a *float32, n int)

//go:noescape
func signAVX2(dst, a *float32, n int)

//go:noescape
func addScalarAVX2(dst, a *float32, n int, b float32)

//go:noescape
func subFromAVX2(dst, a *float32, n int, b float32)

//go:noescape
func mulScalarAVX2(dst, a *float32, n int, b float32)

//go:noescape
func divScalarAVX2(dst, a *float32, n int, b float32)

//go:noescape
func divByAVX2(dst, a *float32, n int, b float32)

//go:noescape
func sqrtAVX2(dst, a *float32, n int)

//go:noescape
func absAVX2(dst, a *float32, n int)

//go:noescape
func roundAVX2(dst, a *float32, n int)

//go:noescape
func floorAVX2(dst, a *float32, n int)

//go:noescape
func ceilAVX2(dst, a *float32, n int)

//go:noescape
func sumAVX2(src *float32, n int) float64

//go:noescape
func squaresAVX2(src *float32, n int, mean float64) float64

//go:noescape
func squaresAroundAVX2(src *float32, n int, mean float32) float64

//go:noescape
func normSumsAVX2(sums *float64, d, x *float32, n int, mean, inverse float32)

//go:noescape
func normGradientAVX2(dst, d, x *float32, n int, by *float32)

//go:noescape
func standardizeAVX2(dst, src *float32, n int, mean, inverse float64)

//go:noescape
func largestAVX2(src *float32, n int) float32

//go:noescape
func smallestAVX2(src *float32, n int) float32

//go:noescape
func highestAVX2(src *float32, n int) float32

//go:noescape
func lowestAVX2(src *float32, n int) float32

//go:noescape
func affineAVX2(dst, src *float32, n int, scale, shift float32)

//go:noescape
func addEveryOtherAVX2(dst, src *float32, n int)

//go:noescape
func addWideAVX2(sums *float64, src *float32, n int)

//go:noescape
func meetingAVX2(blocks *float32, n int, box *float32) int

//go:noescape
func transposeAVX2(dst, src *float32, dstStep, srcStep, blocks int)

//go:noescape
func transpose16AVX2(dst, src *uint16, dstStep, srcStep, blocks int)

//go:noescape
func powerAVX2(dst, a, b *float32, n, bStep int) int

//go:noescape
func truncateAVX2(dst *int32, src *float32, n int)

//go:noescape
func fromIntegersAVX2(dst *float32, src *int32, n int)

//go:noescape
func truncateBytesAVX2(dst *uint8, src *float32, n int)

//go:noescape
func nibblesAVX2(dst *float32, src *uint8, n int, zero, scale float32)

//go:noescape
func interleaveWordsAVX2(dst, a, b *uint32, n int)

func (op arithmetic) lists(dst, a, b *float32, n int) {
	switch op {
	case vectorAdd:
		addAVX2(dst, a, b, n)
	case vectorSub:
		subAVX2(dst, a, b, n)
	case vectorMul:
		mulAVX2(dst, a, b, n)
	case vectorDiv:
		divAVX2(dst, a, b, n)
	case vectorMax:
		maxAVX2(dst, a, b, n)
	case vectorMin:
		minAVX2(dst, a, b, n)
	}
}

func (op arithmetic) list(dst, a *float32, n int) {
	switch op {
	case vectorSqrt:
		sqrtAVX2(dst, a, n)
	case vectorNeg:
		negAVX2(dst, a, n)
	case vectorSign:
		signAVX2(dst, a, n)
	case vectorAbs:
		absAVX2(dst, a, n)
	case vectorRound:
		roundAVX2(dst, a, n)
	case vectorFloor:
		floorAVX2(dst, a, n)
	case vectorCeil:
		ceilAVX2(dst, a, n)
	}
}

func (op arithmetic) scalar(dst, a *float32, n int, b float32) {
	switch op {
	case vectorAdd:
		addScalarAVX2(dst, a, n, b)
	case vectorSubFrom:
		subFromAVX2(dst, a, n, b)
	case vectorMul:
		mulScalarAVX2(dst, a, n, b)
	case vectorDiv:
		divScalarAVX2(dst, a, n, b)
	case vectorDivBy:
		divByAVX2(dst, a, n, b)
	case vectorMax:
		maxScalarAVX2(dst, a, n, b)
	case vectorMin:
		minScalarAVX2(dst, a, n, b)
	}
}
