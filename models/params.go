package models

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// Param is a number that a user can choose: a dimension or a setting.
type Param struct {
	Name, Doc string
	Default   float64 // 0 for a dimension: it stays symbolic
	Min, Max  float64 // both inclusive
	Whole     bool    // no fractions
}

// Dimensions of the networks. The largest length, 1<<20, is far above any in use,
// and keeps products of a few lengths within 63 bits.
var (
	batch = []Param{dimension("batch", "images at once")}
	text  = []Param{dimension("batch", "texts at once"), dimension("sequence", "tokens of each")}

	translation = []Param{
		dimension("batch", "sentences at once"),
		dimension("source", "tokens of each sentence"),
		dimension("target", "tokens of each translation"),
	}
)

// The settings that several networks share.
var (
	width = Param{"width", "factor on all channels, rounded to multiples of 8", 1, 0.01, 16, false}
	depth = Param{"depth", "factor on the number of blocks", 1, 0.1, 16, false}
)

// image is the settings of a network that classifies ImageNet.
func image(size float64, more ...Param) []Param {
	return append(small(1000, size), more...)
}

// sounds is the settings of a network that spots keywords in MFCCs.
var sounds = []Param{
	whole("classes", "words to tell apart, with silence and unknown", 12, 1<<20),
	{"frames", "frames of a sound", 49, 2, 4096, true},
	{"coefficients", "MFCCs of a frame", 10, 2, 4096, true},
	width,
}

// spectra is the settings of an autoencoder of mel spectra.
var spectra = []Param{
	whole("features", "mel bands of all frames together", 640, 1<<16),
	whole("hidden", "width of the hidden layers", 128, 1<<16),
	whole("code", "length of the code", 8, 1<<16),
}

// small is the settings of a network that classifies images of few classes.
func small(classes, size float64) []Param {
	return []Param{
		whole("classes", "classes to tell apart", classes, 1<<20),
		whole("size", "height and width of an image in pixels", size, 4096),
		width,
	}
}

// video is the settings of a network that classifies Kinetics-400.
func video(size, frames float64) []Param {
	return []Param{
		whole("classes", "classes to tell apart", 400, 1<<20),
		whole("size", "height and width of a frame in pixels", size, 4096),
		whole("frames", "frames of a video", frames, 4096),
		width,
	}
}

// vision is the settings of a Transformer that classifies ImageNet.
func vision(size float64) []Param {
	return append([]Param{
		whole("classes", "classes to tell apart", 1000, 1<<20),
		whole("size", "height and width of an image in pixels, a multiple of patch", size, 4096),
		whole("patch", "height and width of a patch in pixels", 16, 4096),
	}, layers(12, 768, 12, 3072)...)
}

// encoder returns the settings of BERT and similar networks.
func encoder(vocab, positions float64) []Param {
	return append([]Param{
		whole("vocab", "tokens in the vocabulary", vocab, 1<<22),
		whole("positions", "rows of the table of positions", positions, 1<<20),
	}, layers(12, 768, 12, 3072)...)
}

// encoderDecoder is the settings of the Transformer.
var encoderDecoder = append([]Param{
	whole("vocab", "tokens in the vocabulary that both languages share", 37000, 1<<22),
	whole("positions", "rows of the table of positions", 512, 1<<16),
}, layers(6, 512, 8, 2048)...)

func layers(n, hidden, heads, feedForward float64) []Param {
	return []Param{
		whole("layers", "layers of each stack", n, 1000),
		whole("hidden", "length of a token's vector, a multiple of heads", hidden, 1<<16),
		whole("heads", "attention heads", heads, 1<<10),
		whole("ff", "inner length of the feed-forward part", feedForward, 1<<18),
	}
}

func whole(name, doc string, byDefault, most float64) Param {
	return Param{name, doc, byDefault, 1, most, true}
}

func dimension(name, doc string) Param { return whole(name, doc, 0, 1<<20) }

// expected describes the values that p accepts, for messages.
func (p Param) expected() string {
	kind := "number"
	if p.Whole {
		kind = "whole number"
	}
	return fmt.Sprintf("expected a %s from %s to %s", kind, number(p.Min), number(p.Max))
}

// accepts reports whether v is within p's limits.
func (p Param) accepts(v float64) bool {
	return v >= p.Min && v <= p.Max && (!p.Whole || v == math.Trunc(v))
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// bound is a dimension with the length it got; 0: none, it is symbolic.
type bound struct {
	name   string
	length int64
}

// bindDims returns the dimensions in the order of params.
func bindDims(params []Param, given map[string]int64) ([]bound, error) {
	if err := known("dimension", params, given); err != nil {
		return nil, err
	}
	dims := make([]bound, len(params))
	for i, p := range params {
		n, ok := given[p.Name]
		if ok && !p.accepts(float64(n)) {
			return nil, fmt.Errorf("dimension %q is %d, %s", p.Name, n, p.expected())
		}
		dims[i] = bound{p.Name, n}
	}
	return dims, nil
}

// bindSettings returns the value of every setting.
func bindSettings(params []Param, given map[string]string) (map[string]float64, error) {
	if err := known("setting", params, given); err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for _, p := range params {
		values[p.Name] = p.Default
		s, ok := given[p.Name]
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || !p.accepts(v) {
			return nil, fmt.Errorf("setting %q is %q, %s", p.Name, graph.Short(s), p.expected())
		}
		values[p.Name] = v
	}
	return values, nil
}

// known refuses a name in given that is not in params: the first in order.
func known[V any](kind string, params []Param, given map[string]V) error {
	var names []string
	for _, p := range params {
		names = append(names, p.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%s %q is unknown: expected one of %s", kind, graph.Short(name), strings.Join(names, ", "))
		}
	}
	return nil
}
