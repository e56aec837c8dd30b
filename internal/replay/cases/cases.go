// Package cases reads testdata/replay/cases.txt, recorded runs with what each allocator that
// replays a plan has to answer. The tests of package alloc, of vm's sessions and of the C core
// of onnxmem-ort read it. The head of the file has the form.
package cases

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Case is a program whose runs are replayed.
type Case struct {
	Name    string
	Without []string // the allocators that it is not for
	Runs    []Run
}

// Run is one run, and the plans that are made when it ends.
type Run struct {
	Events []Event
	Plans  []Plan
}

// Event is an allocation or a free.
type Event struct {
	Stream  int
	Block   int // its number in the case; each allocation has another one
	Name    string
	Size    int64 // bytes; of an allocation
	Free    bool
	Answers map[string]string // by scheme; "" for all others
}

// Plan has the place of each block, for some schemes.
type Plan struct {
	Stream  int
	Schemes []string
	Arena   int64   // bytes
	Offsets []int64 // -1: outside
}

// Outside stands for the offset of a block that is not in the arena.
const Outside = -1

// Answer returns what a scheme answers: the number of a planned block whose place it gives,
// "miss", "out" (the plan has the block outside) or "new" (there is no plan).
func (e *Event) Answer(scheme string) string {
	if a, own := e.Answers[scheme]; own {
		return a
	}
	return e.Answers[""]
}

// Key is what a block is known by among those of its run: its name without what follows #.
func (e *Event) Key() string {
	key, _, _ := strings.Cut(e.Name, "#")
	return key
}

// Plan returns the plan that a scheme makes after a run, or nil.
func (r *Run) Plan(scheme string) *Plan {
	for i := range r.Plans {
		if p := &r.Plans[i]; slices.Contains(p.Schemes, scheme) || slices.Contains(p.Schemes, "all") {
			return p
		}
	}
	return nil
}

// Streams returns a case for each stream: each is followed by itself.
func (c Case) Streams() (list []Case) {
	streams := map[int]bool{}
	for _, r := range c.Runs {
		for _, e := range r.Events {
			streams[e.Stream] = true
		}
	}
	for _, stream := range slices.Sorted(maps.Keys(streams)) {
		one := Case{Name: fmt.Sprintf("%s, stream %d", c.Name, stream), Without: c.Without}
		for _, r := range c.Runs {
			one.Runs = append(one.Runs, Run{
				slices.DeleteFunc(slices.Clone(r.Events), func(e Event) bool { return e.Stream != stream }),
				slices.DeleteFunc(slices.Clone(r.Plans), func(p Plan) bool { return p.Stream != stream }),
			})
		}
		list = append(list, one)
	}
	return list
}

// Read returns the cases of a file that are for an allocator.
func Read(t testing.TB, file, allocator string) (list []Case) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := parser{}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line, _, _ = strings.Cut(line, "# ")
		if err := p.line(strings.Fields(line)); err != nil {
			t.Fatalf("%s:%d: %v", file, number, err)
		}
	}
	list = slices.DeleteFunc(p.cases, func(c Case) bool { return slices.Contains(c.Without, allocator) })
	if len(list) < 25 {
		t.Fatalf("%s has %d cases for %s", file, len(list), allocator)
	}
	return list
}

// parser is the state of Read.
type parser struct {
	cases  []Case
	stream int
	blocks int
	live   map[string]int
}

func (p *parser) line(words []string) (err error) {
	if len(words) == 0 || words[0] == "#" {
		return nil
	}
	if words[0] == "case" {
		p.cases = append(p.cases, Case{Name: strings.Join(words[1:], " ")})
		p.blocks, p.live = 0, map[string]int{}
		return nil
	}
	if len(p.cases) == 0 {
		return fmt.Errorf("expected a case, found %q", words)
	}
	c := &p.cases[len(p.cases)-1]
	switch words[0] {
	case "without":
		c.Without = words[1:]
		return nil
	case "run":
		c.Runs = append(c.Runs, Run{})
		p.stream = 1
		return nil
	case "stream":
		p.stream, err = strconv.Atoi(words[1])
		return err
	}
	if len(c.Runs) == 0 {
		return fmt.Errorf("expected a run, found %q", words)
	}
	r := &c.Runs[len(c.Runs)-1]
	switch {
	case words[0] == "alloc" && len(words) >= 4:
		e := Event{Stream: p.stream, Block: p.blocks, Name: words[1], Answers: map[string]string{}}
		e.Size, err = strconv.ParseInt(words[2], 10, 64)
		for _, w := range words[3:] {
			scheme, answer, own := strings.Cut(w, "=")
			if !own {
				scheme, answer = "", w
			}
			e.Answers[scheme] = answer
		}
		p.live[e.Name] = p.blocks
		p.blocks++
		r.Events = append(r.Events, e)
	case words[0] == "free" && len(words) == 2:
		block, is := p.live[words[1]]
		if !is {
			return fmt.Errorf("%s is not live", words[1])
		}
		delete(p.live, words[1])
		r.Events = append(r.Events, Event{Stream: p.stream, Block: block, Name: words[1], Free: true})
	case words[0] == "plan" && len(words) >= 3:
		plan := Plan{Stream: p.stream, Schemes: strings.Split(words[1], ",")}
		plan.Arena, err = strconv.ParseInt(words[2], 10, 64)
		for _, w := range words[3:] {
			offset := int64(Outside)
			if w != "-" && err == nil {
				offset, err = strconv.ParseInt(w, 10, 64)
			}
			plan.Offsets = append(plan.Offsets, offset)
		}
		r.Plans = append(r.Plans, plan)
	default:
		return fmt.Errorf("expected alloc NAME SIZE ANSWER, free NAME or plan SCHEMES ARENA OFFSETS, found %q", words)
	}
	return err
}
