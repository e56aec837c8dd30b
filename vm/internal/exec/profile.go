package exec

import (
	"encoding/json"
	"io"
	"time"

	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/program"
)

// Profile holds the times of the nodes of a run.
type Profile struct {
	pr    *program.Program
	began time.Time
	spans []span
	// within is the step that did the work of each node: its own, or, for a fused
	// activation, that of the node before.
	within  []int
	ways    []string        // the algorithms of the steps
	fastest []time.Duration // of each node, of all runs
}

type span struct{ from, to time.Duration }

// Profile starts to record the times of the main graph's nodes. Each run overwrites
// those of the one before. On a device they are the times of the device's clock between
// events before and after each node, and every run goes through gorgonia's machine.
func (s *Session) Profile() *Profile {
	nodes := len(s.Program.Model.Graph.Nodes)
	p := &Profile{pr: s.Program, spans: make([]span, nodes), fastest: make([]time.Duration, nodes)}
	if s.points != nil {
		s.points.record = p // each point records when it runs
		return p
	}
	p.of(s)
	if s.gpu != nil {
		s.gpu.profile = &deviceProfile{g: s.gpu, p: p}
		s.tape.before = append(s.tape.before, s.gpu.profile.before)
		s.tape.after = append(s.tape.after, s.gpu.profile.after)
		return p
	}
	s.recordInto(p)
	return p
}

// of makes it the profile of a session's runs.
func (p *Profile) of(s *Session) {
	p.pr, p.within, p.ways = s.Program, p.within[:0], p.ways[:0]
	at := map[*lower.Step]int{}
	for i, st := range s.main.Steps {
		at[st] = i
		p.within, p.ways = append(p.within, i), append(p.ways, st.Way)
	}
	for i, st := range s.main.Steps {
		p.within[i] = at[st.DoneAt()]
	}
}

// recordInto records the times of a session without a device.
func (s *Session) recordInto(p *Profile) {
	s.watch.record = p
	s.tape.before = append(s.tape.before, func(_ *lower.Step, at int) {
		if at == 0 {
			if p.pr != s.Program { // another point ran before
				p.of(s)
			}
			p.began = time.Now()
		}
		p.spans[at].from = time.Since(p.began)
	})
	s.tape.after = append(s.tape.after, func(_ *lower.Step, at int) error {
		p.spans[at].to = time.Since(p.began)
		p.measured(at, p.spans[at].to-p.spans[at].from)
		return nil
	})
}

// measured notes how long a node took.
func (p *Profile) measured(at int, took time.Duration) {
	if p.fastest[at] == 0 || took < p.fastest[at] {
		p.fastest[at] = max(took, 1)
	}
}

// Costs returns the nanoseconds of each node's fastest run by node name, as
// passes.Options.Costs takes them. Nodes without a name, and recomputations, are left
// out.
func (p *Profile) Costs() map[string]int64 {
	costs := map[string]int64{}
	for i, took := range p.fastest {
		if st := &p.pr.Plan.Steps[i]; st.Name != "" && st.Again == nil {
			costs[st.Name] = took.Nanoseconds()
		}
	}
	return costs
}

// event is one of Chrome's trace events.
type event struct {
	Name  string         `json:"name"`
	Cat   string         `json:"cat,omitempty"`
	Phase string         `json:"ph"`
	Time  float64        `json:"ts"` // microseconds
	Dur   float64        `json:"dur,omitempty"`
	ID    int            `json:"id,omitempty"`
	Pid   int            `json:"pid"`
	Tid   int            `json:"tid"`
	Args  map[string]any `json:"args,omitempty"`
}

// Write writes the profile as a trace for Perfetto and Chrome, with the nodes, the load
// as a counter, and the lifetimes of the buffers. Times are those of the last run; each
// node's arguments have that of its fastest.
func (p *Profile) Write(w io.Writer) error {
	micro := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	var list []event
	for i, s := range p.spans {
		st := p.pr.Plan.Steps[i]
		name := st.Name
		if name == "" {
			name = st.Op
		}
		args := map[string]any{"op": st.Op, "step": i, "fastest_us": micro(p.fastest[i])}
		if p.within[i] != i {
			args["within_step"] = p.within[i]
		}
		if p.ways[i] != "" {
			args["algorithm"] = p.ways[i]
		}
		list = append(list,
			event{Name: name, Cat: st.Op, Phase: "X", Time: micro(s.from), Dur: micro(s.to - s.from), Pid: 1, Tid: 1, Args: args},
			event{Name: "load", Phase: "C", Time: micro(s.from), Pid: 1, Tid: 1, Args: map[string]any{"bytes": st.LoadBytes}})
	}
	for i := range p.pr.Plan.Buffers {
		b := &p.pr.Plan.Buffers[i]
		if b.Pool == plan.Resident || len(p.spans) == 0 {
			continue
		}
		name := b.Kind
		if len(b.Tensors) > 0 {
			name = b.Tensors[0]
		}
		args := map[string]any{"bytes": b.Bytes, "offset": b.Offset, "kind": b.Kind}
		list = append(list,
			event{Name: name, Cat: "buffer", Phase: "b", Time: micro(p.spans[b.First].from), ID: i + 1, Pid: 1, Tid: 1, Args: args},
			event{Name: name, Cat: "buffer", Phase: "e", Time: micro(p.spans[b.Last].to), ID: i + 1, Pid: 1, Tid: 1})
	}
	return json.NewEncoder(w).Encode(map[string]any{"traceEvents": list, "displayTimeUnit": "ms"})
}
