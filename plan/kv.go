package plan

import (
	"encoding/json"

	"github.com/onnxmem/onnxmem/graph"
)

// KeyKV is the metadata key of a decoder whose caches have a fixed capacity: the text of a
// [KV] as JSON.
const KeyKV = "onnxmem.kv"

// KV describes a decoder that was rewritten: its caches of keys and values, which grew with
// every token, have room for a fixed number of tokens and are written in place.
type KV struct {
	Capacity  int64     `json:"capacity"`        // tokens
	New       int64     `json:"new"`             // tokens of a run; with a range of them, the most
	Dimension string    `json:"dimension"`       // of the source: tokens that its caches held
	Index     string    `json:"index"`           // graph input, int64[1]: the position of the first new token
	Masks     []string  `json:"masks,omitempty"` // other graph inputs with an element for each position
	Caches    []KVCache `json:"caches"`
}

// KVCache is a cache: a graph input and the graph output that is written over it.
type KVCache struct {
	Past    string `json:"past"`
	Present string `json:"present"`
	Axis    int    `json:"axis"` // of the tokens
}

// KVOf reads the description of a rewritten decoder from its metadata; nil if it is none.
func KVOf(m *graph.Model) (*KV, error) {
	text, ok := m.Prop(KeyKV)
	if !ok {
		return nil, nil
	}
	k := &KV{}
	if err := json.Unmarshal([]byte(text), k); err != nil {
		return nil, graph.Errorf("metadata of the model: %s: expected the description of caches as JSON, found %q", KeyKV, graph.Short(text))
	}
	return k, nil
}
