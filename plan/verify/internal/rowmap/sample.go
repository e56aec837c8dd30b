package rowmap

import "slices"

func init() {
	register(func(n *Node, s *sheet) bool { return resize(n, s, n.Version != 0 && n.Version < 11) }, "Resize")
	register(func(n *Node, s *sheet) bool { return resize(n, s, true) }, "Upsample")
	register(gridSample, "GridSample")
	register(roiAlign, "RoiAlign")
	register(deformConv, "DeformConv")
}

// resize: the axes that keep their elements. A region of the image is of all of its axes, and the
// kernel of tf_half_pixel_for_nn does not map an axis on itself.
func resize(n *Node, s *sheet, upsample bool) bool {
	transform := n.text("coordinate_transformation_mode", "half_pixel")
	if len(s.in[0]) != len(s.out[0]) || !upsample && (transform == "tf_crop_and_resize" || transform == "tf_half_pixel_for_nn" && n.text("mode", "nearest") != "nearest") {
		return false
	}
	axes, ok := n.resized()
	if !ok {
		return false
	}
	if sizes := 3; !upsample && n.has(sizes) && n.length(sizes, 0) > 0 {
		return n.toSizes(s, axes, n.In[sizes])
	}
	scales, known := n.scales(upsample)
	if !known || len(scales) != len(axes) {
		return false
	}
	for k := range s.in[0] {
		if at := slices.Index(axes, k); at < 0 || scales[at] == 1 {
			s.in[0][k], s.out[0][k] = letter(k+1), letter(k+1)
		}
	}
	return true
}

// resized returns the axes that the lists of a Resize are for.
func (n *Node) resized() (axes []int, ok bool) {
	rank := len(n.In[0].Shape)
	a := n.Attr("axes")
	if a == nil {
		for k := range rank {
			axes = append(axes, k)
		}
		return axes, true
	}
	for _, x := range a.Ints {
		k := axisOf(x, rank)
		if k == Whole || slices.Contains(axes, k) {
			return nil, false
		}
		axes = append(axes, k)
	}
	return axes, true
}

// scales returns the scales that a Resize states: input 2, input 1 of Upsample, or attributes of
// its first versions.
func (n *Node) scales(upsample bool) (list []float64, known bool) {
	input := 2
	if upsample {
		input = 1
	}
	if n.has(input) {
		return n.In[input].Reals, n.In[input].KnownReals
	}
	if a := n.Attr("scales"); a != nil && upsample {
		for _, x := range a.Floats {
			list = append(list, float64(x))
		}
		return list, true
	}
	height, width := n.Attr("height_scale"), n.Attr("width_scale")
	if height == nil || width == nil || !upsample {
		return nil, false
	}
	return []float64{1, 1, float64(height.Float), float64(width.Float)}, true
}

// toSizes: the lengths of the result are stated, for each axis by itself.
func (n *Node) toSizes(s *sheet, axes []int, sizes Arg) bool {
	if n.text("keep_aspect_ratio_policy", "stretch") != "stretch" {
		return false
	}
	for k := range s.in[0] {
		if n.length(0, k) != n.Out[0].Shape[k] {
			continue
		}
		l, at := letter(k+1), slices.Index(axes, k)
		if at >= 0 {
			if !sizes.Known || len(sizes.Ints) != len(axes) {
				continue
			}
			s.changes[l] = func(_ int, lo, hi int64) Change {
				own := slices.Clone(sizes.Ints)
				own[at] = hi - lo
				return Change{Inputs: map[int][]int64{3: own}}
			}
		}
		s.in[0][k], s.out[0][k] = l, l
	}
	return true
}

// gridSample: images and channels of the image, and the places of the grid, whose last axis has
// the coordinates of each.
func gridSample(n *Node, s *sheet) bool {
	rank := len(s.out[0])
	if len(n.In) != 2 || len(s.in[0]) != rank || len(s.in[1]) != rank {
		return false
	}
	each(s.out[0], 1)
	copy(s.in[0][:2], s.out[0])
	s.in[1][0] = s.out[0][0]
	copy(s.in[1][1:], s.out[0][2:])
	return true
}

// roiAlign: regions, each with its image, and channels.
func roiAlign(n *Node, s *sheet) bool {
	if len(n.In) != 3 || len(s.in[0]) != 4 || len(s.in[1]) != 2 || len(s.in[2]) != 1 {
		return false
	}
	const regions letter = 1
	s.out[0][0], s.in[1][0], s.in[2][0] = regions, regions, regions
	s.out[0][1], s.in[0][1] = channels, channels
	return true
}

// deformConv: the images, each with its offsets and its mask.
func deformConv(n *Node, s *sheet) bool {
	s.out[0][0] = images
	for _, i := range []int{0, 2, 4} {
		if n.has(i) {
			s.in[i][0] = images
		}
	}
	return true
}
