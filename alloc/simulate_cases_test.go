package alloc

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/internal/replay"
	"github.com/onnxmem/onnxmem/internal/replay/cases"
)

const casesFile = "../testdata/replay/cases.txt"

// caseSchemes are the schemes of the file, by the name that they have there.
var caseSchemes = []Replayer{
	{Name: "number", By: ByNumber, Patience: 1, Larger: true, Merge: true},
	{Name: "size", By: BySize, Patience: 2, Larger: true},
	{Name: "inside", By: BySize, Outputs: true, Patience: 2, Larger: true},
	{Name: "smaller", By: BySize, Smaller: true, Patience: 2, Larger: true},
	{Name: "name", By: ByName, Outputs: true, Patience: 1, Larger: true, Merge: true},
}

// caseRun replays one run of a case. It returns the answers, by allocation, and the plan if
// one was made.
func caseRun(t *testing.T, s *replaying, number int, r cases.Run) (answers []string, made *replayPlan) {
	t.Helper()
	s.decided = func(answer string, block int) {
		if answer == "" {
			answer = strconv.Itoa(block)
		}
		answers = append(answers, answer)
	}
	var requests []Request
	for _, e := range r.Events {
		requests = append(requests, Request{Block: e.Block, Size: e.Size, Name: e.Key(), Free: e.Free})
	}
	plans := s.result.Plans
	if err := s.run(number, requests); err != nil {
		t.Fatal(err)
	}
	if s.result.Plans > plans {
		made = s.plans[""]
	}
	return answers, made
}

// TestReplayCases: the schemes answer what testdata/replay/cases.txt says, and make a plan
// when it says so.
func TestReplayCases(t *testing.T) {
	for _, whole := range cases.Read(t, casesFile, "alloc") {
		for _, c := range whole.Streams() {
			for _, r := range caseSchemes {
				followCase(t, c, r)
			}
		}
	}
}

func followCase(t *testing.T, c cases.Case, r Replayer) {
	t.Helper()
	s := newReplaying(context.Background(), r, 64)
	s.after = func() { s.check(t) }
	for number, run := range c.Runs {
		answers, made := caseRun(t, s, number, run)
		i := 0
		for _, e := range run.Events {
			if e.Free {
				continue
			}
			if want := e.Answer(r.Name); answers[i] != want {
				t.Errorf("%s, run %d: %s: %s of %d bytes: %s, expected %s", c.Name, number+1, r.Name, e.Name, e.Size, answers[i], want)
			}
			i++
		}
		plan := run.Plan(r.Name)
		if plan == nil && made == nil {
			continue
		}
		if plan == nil || made == nil || len(plan.Offsets) != len(made.Blocks) {
			t.Errorf("%s, run %d: %s: a plan %v, expected %v", c.Name, number+1, r.Name, made, plan)
			return
		}
		made.arena = plan.Arena
		for i, offset := range plan.Offsets {
			if outside := made.Blocks[i].Stays && !r.Outputs; outside != (offset == cases.Outside) && offset == cases.Outside {
				t.Errorf("%s, run %d: %s: block %d outside: %t", c.Name, number+1, r.Name, i, outside)
			}
			made.Blocks[i].Offset = max(offset, 0)
		}
	}
}

var updateCases = flag.Bool("update-cases", false, "draw the cases at the end of "+casesFile+" again")

const drawnHead = "# Drawn by go test ./alloc -run TestDrawnCases -update-cases.\n"

// TestDrawnCases: the end of the file is what the model draws and answers.
func TestDrawnCases(t *testing.T) {
	text, err := os.ReadFile(casesFile)
	if err != nil {
		t.Fatal(err)
	}
	written, old, _ := strings.Cut(string(text), drawnHead)
	var drawn strings.Builder
	random := rand.New(rand.NewPCG(47, 8))
	for number := range 12 {
		fmt.Fprintf(&drawn, "\ncase drawn %d\n", number+1)
		answerDrawn(t, &drawn, drawCase(random, number%3 == 2))
	}
	if *updateCases {
		if err := os.WriteFile(casesFile, []byte(written+drawnHead+drawn.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if old != drawn.String() {
		t.Errorf("%s does not end with what is drawn: run with -update-cases", casesFile)
	}
}

// drawCase draws a program and runs of it that leave its plan, each between two that do not.
// With outputs, some blocks are freed when the next run begins.
func drawCase(random *rand.Rand, outputs bool) (runs []cases.Run) {
	type block struct {
		name string
		size int64
		life int // allocations until it is freed; it is an output: -1
	}
	var base []block
	for i := range 5 + random.IntN(9) {
		b := block{fmt.Sprintf("n%d", i), 64 * (1 + random.Int64N(15)), 1 + random.IntN(4)}
		if outputs && random.IntN(4) == 0 {
			b.life = -1
		}
		base = append(base, b)
	}
	number, extra := 0, 0
	var left []cases.Event // freed when the next run begins
	for k := range 10 {
		run := append([]block(nil), base...)
		for faults := 1 + random.IntN(3); k%2 == 0 && k > 0 && faults > 0; faults-- {
			i := random.IntN(len(run))
			switch random.IntN(6) {
			case 0:
				run = append(run[:i:i], run[i+1:]...)
			case 1:
				run[i].size += 64 * (1 + random.Int64N(4))
				run[i].size = min(run[i].size, 15*64)
			case 2:
				run[i].size = max(64, run[i].size-64*(1+random.Int64N(4)))
			case 3:
				x := block{fmt.Sprintf("x%d", extra), 64 * (1 + random.Int64N(15)), 1 + random.IntN(4)}
				extra++
				run = append(run[:i:i], append([]block{x}, run[i:]...)...)
			case 4:
				j := random.IntN(len(run))
				run[i], run[j] = run[j], run[i]
			case 5:
				if run[i].life > 0 {
					run[i].life += 3
				}
			}
		}
		events, of := left, map[int][]cases.Event{} // by the allocation before which they are freed
		left = nil
		for i, b := range run {
			events = append(events, of[i]...)
			e := cases.Event{Stream: 1, Block: number, Name: b.name, Size: b.size, Answers: map[string]string{}}
			number++
			free := e
			free.Free = true
			events = append(events, e)
			if b.life < 0 {
				left = append(left, free)
			} else {
				end := min(len(run), i+b.life)
				of[end] = append(of[end], free)
			}
		}
		runs = append(runs, cases.Run{Events: append(events, of[len(run)]...)})
	}
	return runs
}

// answerDrawn writes runs with what the schemes answer.
func answerDrawn(t *testing.T, w *strings.Builder, runs []cases.Run) {
	t.Helper()
	var schemes []*replaying
	for _, r := range caseSchemes {
		schemes = append(schemes, newReplaying(context.Background(), r, 64))
	}
	for number, run := range runs {
		fmt.Fprintln(w, "run")
		var answers [][]string
		var plans strings.Builder
		for _, s := range schemes {
			list, made := caseRun(t, s, number, run)
			answers = append(answers, list)
			if made == nil {
				continue
			}
			fmt.Fprintf(&plans, "plan %s %d", s.Name, made.arena)
			for _, b := range made.Blocks {
				if b.Stays && !s.Outputs {
					plans.WriteString(" -")
				} else {
					plans.WriteString(" " + strconv.FormatInt(b.Offset, 10))
				}
			}
			plans.WriteString("\n")
		}
		i := 0
		for _, e := range run.Events {
			if e.Free {
				fmt.Fprintf(w, "free %s\n", e.Name)
				continue
			}
			fmt.Fprintf(w, "alloc %s %d %s", e.Name, e.Size, answers[1][i])
			for k, s := range schemes {
				if answers[k][i] != answers[1][i] {
					fmt.Fprintf(w, " %s=%s", s.Name, answers[k][i])
				}
			}
			fmt.Fprintln(w)
			i++
		}
		w.WriteString(plans.String())
	}
}

// The window is that of the C core.
func TestNearby(t *testing.T) {
	text, err := os.ReadFile("../ort/src/plan.h")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("#define NEARBY %d\n", replay.Nearby); !strings.Contains(string(text), want) {
		t.Errorf("ort/src/plan.h: expected %q", want)
	}
}
