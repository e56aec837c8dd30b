package main

import "math/rand/v2"

// side is the width and height of a picture; classes is the number of digits.
const (
	side    = 28
	classes = 10
)

// font holds the digits of a dot-matrix display: seven rows of five dots.
var font = [classes][7]string{
	{".###.", "#...#", "#..##", "#.#.#", "##..#", "#...#", ".###."},
	{"..#..", ".##..", "..#..", "..#..", "..#..", "..#..", ".###."},
	{".###.", "#...#", "....#", "...#.", "..#..", ".#...", "#####"},
	{"#####", "...#.", "..#..", "...#.", "....#", "#...#", ".###."},
	{"...#.", "..##.", ".#.#.", "#..#.", "#####", "...#.", "...#."},
	{"#####", "#....", "####.", "....#", "....#", "#...#", ".###."},
	{"..##.", ".#...", "#....", "####.", "#...#", "#...#", ".###."},
	{"#####", "....#", "...#.", "..#..", ".#...", ".#...", ".#..."},
	{".###.", "#...#", "#...#", ".###.", "#...#", "#...#", ".###."},
	{".###.", "#...#", "#...#", ".####", "....#", "...#.", ".##.."},
}

// digits draws pictures of digits of random size, slant and position, with noise.
type digits struct{ draw *rand.Rand }

func newDigits(seed uint64) *digits { return &digits{rand.New(rand.NewPCG(seed, 28))} }

// next returns the given number of pictures, row by row, and the digits that they show.
func (d *digits) next(count int) (images []float32, labels []int64) {
	images = make([]float32, 0, count*side*side)
	for range count {
		label := d.draw.IntN(classes)
		labels = append(labels, int64(label))
		images = append(images, d.picture(label)...)
	}
	return images, labels
}

func (d *digits) picture(label int) []float32 {
	p := make([]float32, side*side)
	for i := range p {
		p[i] = 0.2 * float32(d.draw.NormFloat64())
	}
	wide, high := 2+1.5*d.draw.Float64(), 2+1.2*d.draw.Float64() // pixels per dot
	slant := 0.6*d.draw.Float64() - 0.3
	left := 3 + d.draw.Float64()*(side-6-5*wide)
	top := 2 + d.draw.Float64()*(side-4-7*high)
	ink := 0.6 + 0.4*float32(d.draw.Float64())
	for y := range side {
		for x := range side {
			row := (float64(y) - top) / high
			column := (float64(x)-left)/wide + slant*(row-3.5)/2
			if row >= 0 && row < 7 && column >= 0 && column < 5 && font[label][int(row)][int(column)] == '#' {
				p[y*side+x] += ink
			}
		}
	}
	return p
}
