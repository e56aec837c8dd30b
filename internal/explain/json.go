package explain

import (
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// The JSON form of an explanation.
type (
	explanation struct {
		File     string           `json:"file"`
		Nodes    int              `json:"nodes"`
		Peak     int64            `json:"peak_bytes"`
		Bound    int64            `json:"lower_bound_bytes"`
		Optimal  bool             `json:"optimal"`
		PeakStep int              `json:"peak_step"`
		PeakNode string           `json:"peak_node"`
		Live     []holding        `json:"live"`
		Proofs   []explainProof   `json:"proofs"`
		Relief   []relief         `json:"relief"`
		Float32  *explainWide     `json:"float32,omitempty"`
		Slices   *explainSlices   `json:"slices,omitempty"`
		Limit    *explainLimit    `json:"limit,omitempty"`
		FoldAny  *passes.FoldHint `json:"fold_any,omitempty"`
	}
	holding struct {
		Tensors []string `json:"tensors"`
		Kind    string   `json:"kind,omitempty"`
		Bytes   int64    `json:"bytes"`
		Maker   *place   `json:"maker"` // null: live from the start
		Keepers []place  `json:"keepers"`
		Output  bool     `json:"output"`
		Forced  bool     `json:"forced"`
	}
	place struct {
		Node string `json:"node"`
		Step int    `json:"step"`
	}
	explainProof struct {
		Kind   string    `json:"kind"`
		Value  int64     `json:"value_bytes"`
		Nodes  []place   `json:"nodes"`
		Node   *place    `json:"node"` // null: none
		Before int       `json:"nodes_before"`
		After  int       `json:"nodes_after"`
		Ran    int       `json:"nodes_run"`
		Live   []holding `json:"live"`
	}
	relief struct {
		Tensors []string `json:"tensors"`
		Bytes   int64    `json:"bytes"`
		Absent  outlook  `json:"absent"`
		Half    outlook  `json:"half"`
	}
	outlook struct {
		Bound int64  `json:"lower_bound_bytes"`
		Peak  int64  `json:"peak_bytes"`
		Kind  string `json:"certificate,omitempty"`
	}
)

// JSON returns the explanation as an object for encoding/json.
func (w *Explanation) JSON() any {
	x := explanation{
		File: w.file, Nodes: len(w.order), Peak: w.Peak, Bound: w.Bound, Optimal: w.Peak == w.Bound, PeakStep: w.PeakStep,
		Live: w.holdingsJSON(w.Live), Proofs: []explainProof{}, Relief: []relief{}, Float32: w.wide, Slices: w.slices, Limit: w.limit, FoldAny: w.hint,
	}
	if w.PeakNode >= 0 {
		x.PeakNode = w.p.Nodes[w.PeakNode].Name
	}
	for _, f := range w.Proofs {
		x.Proofs = append(x.Proofs, explainProof{
			f.Kind, f.Value, w.places(f.Nodes), w.placeOf(f.Node), f.Before, f.After, f.Ran, w.holdingsJSON(f.Live),
		})
	}
	for _, r := range w.Relief {
		x.Relief = append(x.Relief, relief{
			w.tensorNames(r.Tensors), r.Bytes,
			outlook{r.Absent.Bound, r.Absent.Peak, r.Absent.Kind},
			outlook{r.Half.Bound, r.Half.Peak, r.Half.Kind},
		})
	}
	return x
}

func (w *Explanation) holdingsJSON(live []schedule.Holding) []holding {
	list := []holding{}
	for _, h := range live {
		kind := plan.KindWorkspace
		if len(h.Tensors) > 0 {
			kind = w.p.Tensors[h.Tensors[0]].Kind
		}
		list = append(list, holding{w.tensorNames(h.Tensors), kind, h.Bytes, w.placeOf(h.Maker), w.places(h.Keepers), h.Output, h.Forced})
	}
	return list
}

func (w *Explanation) tensorNames(list []int32) []string {
	names := []string{}
	for _, t := range list {
		names = append(names, w.p.Tensors[t].Name)
	}
	return names
}

func (w *Explanation) places(list []int32) []place {
	places := []place{}
	for _, v := range list {
		places = append(places, *w.placeOf(v))
	}
	return places
}

func (w *Explanation) placeOf(v int32) *place {
	if v < 0 {
		return nil
	}
	return &place{w.p.Nodes[v].Name, w.step[v]}
}
