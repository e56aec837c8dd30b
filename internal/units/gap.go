package units

// GapPercent is the distance from a bound to a peak, in per cent of the peak.
func GapPercent(bound, peak int64) float64 {
	if peak == 0 {
		return 0
	}
	return 100 * float64(peak-bound) / float64(peak)
}
