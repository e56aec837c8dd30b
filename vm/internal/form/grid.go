package form

// GridSampling reads the attributes of GridSample. They are the number of elements along an
// axis that a coordinate reads (1, 2 or 4), and what lies outside (zeros, border or
// reflection). The last says whether -1 and 1 are the centres of the first and the last
// element.
func (c *Call) GridSampling() (taps int, padding string, corners bool) {
	taps = 2
	switch c.Str("mode", "linear") {
	case "nearest":
		taps = 1
	case "cubic", "bicubic":
		taps = 4
	}
	return taps, c.Str("padding_mode", "zeros"), c.Int("align_corners", 0) != 0
}
