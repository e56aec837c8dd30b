package solvers

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/onnxmem/onnxmem/ilp"
)

// ProcessArg is the first argument that makes a program serve a solver: it must then call
// [Serve] before anything else.
const ProcessArg = "solver-process"

// Process is [Open], but the solver works in a process of its own: program, which must call
// [Serve] if its first argument is [ProcessArg]. So a crash of a library, or its memory, is
// not ours; what it prints does not mix with our output, and CP-SAT's log, which has its
// bound and its best objective, can be read while it works. A solver that does not end
// within ten seconds of its context is killed. The process ends with ours.
func Process(program, name string) (ilp.Solver, error) {
	if !opensLibraries {
		return Open(name) // says so
	}
	p := &process{program: program, name: name, grace: grace}
	if err := p.start(); err != nil {
		return nil, err
	}
	if p.packs {
		return packingProcess{p}, nil
	}
	return p, nil
}

// toldTo is a question to a process, or, with Stop, the wish that it ends the one of that
// number.
type toldTo struct {
	Number  int
	Stop    bool
	Program *ilp.Program
	Packing *ilp.Packing
	Limit   time.Duration // 0: none
	Threads int
	Start   []int64
	Bound   []int64 // one or none: gob has no pointers to 0
	Tell    bool    // progress is wanted
}

// toldBy is what a process says: who it is, progress, and at the end an answer.
type toldBy struct {
	Name, Version string
	Packs         bool
	Missing       bool // the library is not there: Error says more

	Value, Bound []int64 // progress: one or none
	Answer       *ilp.Answer
	Error        string
}

// process is a solver in a process.
type process struct {
	program, name, version string
	packs                  bool
	grace                  time.Duration

	asking  sync.Mutex // one question at a time
	number  int
	cmd     *exec.Cmd // nil: it ended
	replies *gob.Decoder
	errors  *tail

	sending  sync.Mutex
	requests *gob.Encoder

	telling  sync.Mutex
	progress func(ilp.Progress) // of the question under way; nil: none
}

// packingProcess is a process whose solver has a constraint for rectangles.
type packingProcess struct{ *process }

// grace is how long a solver may take to end.
const grace = 10 * time.Second

// start starts the process and asks who it is.
func (p *process) start() error {
	cmd := exec.Command(p.program, ProcessArg, p.name)
	cmd.Args[0] = "onnxmem"
	in, err := cmd.StdinPipe() // its end tells the process that nobody waits any more
	if err != nil {
		return err
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	p.errors = &tail{}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &lines{do: p.log}, p.errors, []*os.File{theirs}
	cmd.WaitDelay = time.Second
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		out.Close()
		return fmt.Errorf("a process for %s: %w", p.name, err)
	}
	p.cmd, p.requests, p.replies = cmd, gob.NewEncoder(in), gob.NewDecoder(out)
	var hello toldBy
	switch err := p.replies.Decode(&hello); {
	case err != nil:
		return p.ended()
	case hello.Missing:
		p.ended()
		return &missingError{hello.Error}
	case hello.Error != "":
		p.ended()
		return errors.New(hello.Error)
	}
	p.version, p.packs = hello.Version, hello.Packs
	return nil
}

// missingError is the error of a process that does not find its library.
type missingError struct{ text string }

func (m *missingError) Error() string { return m.text }

func (m *missingError) Is(err error) bool { return err == ErrMissing }

// ended waits for the end of the process and returns the error that says how it ended.
func (p *process) ended() error {
	err := p.cmd.Wait()
	p.cmd = nil
	text := p.errors.first()
	switch {
	case err == nil:
		text = "nothing said"
	case text == "":
		text = err.Error()
	default:
		text = err.Error() + ": " + text
	}
	if strings.Contains(text, "signal: killed") {
		text += ": out of memory?"
	}
	return fmt.Errorf("%w (%s)", ilp.ErrLost, text)
}

func (p *process) Identity() (name, version string) { return p.name, p.version }

func (p *process) Solve(ctx context.Context, program *ilp.Program, opt ilp.Options) (ilp.Answer, error) {
	return p.ask(ctx, toldTo{Program: program}, opt)
}

func (p packingProcess) SolvePacking(ctx context.Context, k *ilp.Packing, opt ilp.Options) (ilp.Answer, error) {
	return p.ask(ctx, toldTo{Packing: k}, opt)
}

// ask asks one question.
func (p *process) ask(ctx context.Context, q toldTo, opt ilp.Options) (ilp.Answer, error) {
	p.asking.Lock()
	defer p.asking.Unlock()
	ended := ilp.Answer{Status: ilp.Unknown, Bound: math.Inf(-1), Ended: true}
	if p.cmd == nil { // it was killed
		if err := p.start(); err != nil {
			return ended, err
		}
	}
	p.number++
	q.Number, q.Threads, q.Start, q.Tell = p.number, opt.Threads, opt.Start, opt.Progress != nil
	if opt.Bound != nil {
		q.Bound = []int64{*opt.Bound}
	}
	if d, ok := ctx.Deadline(); ok {
		q.Limit = max(time.Until(d), time.Millisecond)
	}
	p.follow(opt.Progress)
	defer p.follow(nil)
	var kill *time.Timer
	process := p.cmd.Process
	stop := atEnd(ctx, func() {
		p.send(toldTo{Number: q.Number, Stop: true})
		kill = time.AfterFunc(p.grace, func() { process.Kill() })
	})
	p.send(q) // that it fails, the reply tells
	answer, err := p.reply()
	killed := stop() && !kill.Stop()
	lost := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if killed || lost {
		if gone := p.ended(); lost && !killed {
			return ended, gone
		}
	}
	if lost {
		return ended, nil
	}
	return answer, err
}

func (p *process) send(q toldTo) {
	p.sending.Lock()
	defer p.sending.Unlock()
	_ = p.requests.Encode(q)
}

// reply waits for the answer.
func (p *process) reply() (ilp.Answer, error) {
	for {
		var said toldBy
		switch err := p.replies.Decode(&said); {
		case err != nil:
			return ilp.Answer{}, err
		case said.Error != "":
			return ilp.Answer{}, errors.New(said.Error)
		case said.Answer != nil:
			return *said.Answer, nil
		}
		p.tell(ilp.Progress{Value: one(said.Value), Bound: one(said.Bound)})
	}
}

// one is the element of a list of one or none.
func one(list []int64) *int64 {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

// list is the inverse of one.
func list(v *int64) []int64 {
	if v == nil {
		return nil
	}
	return []int64{*v}
}

// follow sets who is told of progress.
func (p *process) follow(progress func(ilp.Progress)) {
	p.telling.Lock()
	defer p.telling.Unlock()
	p.progress = progress
}

func (p *process) tell(x ilp.Progress) {
	p.telling.Lock()
	defer p.telling.Unlock()
	if p.progress != nil && (x.Value != nil || x.Bound != nil) {
		p.progress(x)
	}
}

// log takes a line that the process printed.
func (p *process) log(line string) { p.tell(cpProgress(line)) }

// lines calls a function for each line that is written.
type lines struct {
	do   func(string)
	rest []byte
}

func (l *lines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte{'\n'})
		if !found {
			break
		}
		l.do(string(line))
		l.rest = rest
	}
	if len(l.rest) > 1<<16 { // no log of ours
		l.rest = nil
	}
	return len(b), nil
}

// tail keeps the beginning of what is written.
type tail struct {
	sync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.Lock()
	defer t.Unlock()
	if room := 4096 - len(t.text); room > 0 {
		t.text = append(t.text, b[:min(room, len(b))]...)
	}
	return len(b), nil
}

// first is the first line.
func (t *tail) first() string {
	t.Lock()
	defer t.Unlock()
	line, _, _ := strings.Cut(strings.TrimSpace(string(t.text)), "\n")
	return line
}

// Serve is the process of [Process]: it opens a solver and answers questions from in, until
// in ends. Answers go to the file that the parent opened; what the library prints goes to
// standard output. It returns the exit status.
func Serve(in io.Reader, args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "onnxmem: expected the name of a solver")
		return 1
	}
	// A signal from the terminal reaches this process too: its parent says what it means.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	out := &said{gob: gob.NewEncoder(os.NewFile(3, "answers"))}
	s, err := Open(args[0])
	if err != nil {
		out.send(toldBy{Error: err.Error(), Missing: errors.Is(err, ErrMissing)})
		return 1
	}
	if c, ok := s.(*cpsat); ok {
		c.log = true
	}
	hello := toldBy{}
	hello.Name, hello.Version = s.Identity()
	_, hello.Packs = s.(ilp.PackingSolver)
	out.send(hello)
	serve(s, in, out)
	return 0
}

// said is where answers go.
type said struct {
	sync.Mutex
	gob *gob.Encoder
}

func (s *said) send(x toldBy) {
	s.Lock()
	defer s.Unlock()
	if s.gob.Encode(x) != nil {
		os.Exit(1) // nobody reads it
	}
}

// serve answers questions, one at a time.
func serve(s ilp.Solver, in io.Reader, out *said) {
	questions := make(chan toldTo, 1)
	var now struct {
		sync.Mutex
		number int
		cancel context.CancelFunc
	}
	go func() {
		d := gob.NewDecoder(in)
		for {
			var q toldTo
			if d.Decode(&q) != nil {
				os.Exit(0) // the parent ended: so does the solver
			}
			if !q.Stop {
				questions <- q
				continue
			}
			now.Lock()
			if now.number == q.Number {
				now.cancel()
			} else {
				now.number = -q.Number // it was not begun
			}
			now.Unlock()
		}
	}()
	for q := range questions {
		ctx, cancel := context.WithCancel(context.Background())
		if q.Limit > 0 {
			ctx, cancel = context.WithTimeout(context.Background(), q.Limit)
		}
		now.Lock()
		if now.number == -q.Number {
			cancel()
		}
		now.number, now.cancel = q.Number, cancel
		now.Unlock()
		out.send(q.answer(ctx, s, out))
		cancel()
	}
}

// answer answers a question.
func (q *toldTo) answer(ctx context.Context, s ilp.Solver, out *said) toldBy {
	opt := ilp.Options{Threads: q.Threads, Start: q.Start, Bound: one(q.Bound)}
	if q.Tell {
		opt.Progress = func(x ilp.Progress) { out.send(toldBy{Value: list(x.Value), Bound: list(x.Bound)}) }
	}
	var a ilp.Answer
	var err error
	if q.Packing != nil {
		a, err = s.(ilp.PackingSolver).SolvePacking(ctx, q.Packing, opt)
	} else {
		a, err = s.Solve(ctx, q.Program, opt)
	}
	if err != nil {
		return toldBy{Error: err.Error()}
	}
	return toldBy{Answer: &a}
}
