package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/printable"
	"github.com/onnxmem/onnxmem/internal/units"
)

// WorkerArg is the argument that makes a program a worker: it must then call
// Serve before anything else.
const WorkerArg = "batch-worker"

// request is the request to a worker: a job, with its paths separate, since JSON
// cannot hold bytes that are not UTF-8.
type request struct {
	Job                           optimize.Job
	In, Out, Plan, Params, Report []byte
}

func requestOf(j optimize.Job) request {
	r := request{Job: j, In: []byte(j.In), Out: []byte(j.Out), Plan: []byte(j.Plan), Params: []byte(j.Params), Report: []byte(j.Report)}
	r.Job.In, r.Job.Out, r.Job.Plan, r.Job.Params, r.Job.Report = "", "", "", "", ""
	return r
}

func (r *request) job() optimize.Job {
	j := r.Job
	j.In, j.Out, j.Plan, j.Params, j.Report = string(r.In), string(r.Out), string(r.Plan), string(r.Params), string(r.Report)
	return j
}

// reply is the answer of a worker.
type reply struct {
	Outcome json.RawMessage `json:"outcome,omitempty"`
	Status  string          `json:"status"`
	Error   string          `json:"error,omitempty"`
}

// Plan carries out a job in a process of its own, so that a model that takes all
// memory or time, or causes a crash, does not affect others. program must call
// Serve if its argument is WorkerArg; most is the time limit, 0: none. The entry
// has neither model nor key, and holds the error if there is one.
func Plan(ctx context.Context, program string, job optimize.Job, most time.Duration) Entry {
	began := time.Now()
	if most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	answer := ask(ctx, program, job)
	e := Entry{Status: answer.Status, Error: answer.Error, MS: optimize.Milliseconds(time.Since(began)), Result: answer.Outcome}
	if e.Status != StatusOK && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.Status, e.Error = StatusTimeout, "it takes longer than it may"
	}
	return e
}

// ask runs a worker.
func ask(ctx context.Context, program string, job optimize.Job) (answer reply) {
	failed := func(err error) reply { return reply{Status: StatusFailed, Error: printable.Escape(err.Error())} }
	text, err := json.Marshal(requestOf(job))
	if err != nil {
		return failed(err)
	}
	var out, messages bytes.Buffer
	cmd := exec.CommandContext(ctx, program, WorkerArg)
	cmd.Args[0] = "onnxmem"
	cmd.Stdout, cmd.Stderr = &out, &messages
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	// The input stays open: its end tells the worker that nobody waits any more.
	in, err := cmd.StdinPipe()
	if err != nil {
		return failed(err)
	}
	if err := cmd.Start(); err != nil {
		return failed(err)
	}
	_, _ = in.Write(append(text, '\n'))
	err = cmd.Wait()
	if json.Unmarshal(out.Bytes(), &answer) == nil && answer.Status != "" {
		return answer
	}
	first, _, _ := strings.Cut(strings.TrimSpace(messages.String()), "\n")
	switch {
	case first != "":
		return failed(errors.New(first))
	case err != nil && strings.Contains(err.Error(), "killed"):
		return failed(errors.New("the process was killed: out of memory? (--jobs, --memory)"))
	case err != nil:
		return failed(err)
	}
	return failed(errors.New("the process ended without a result"))
}

// Serve is the worker: it carries out the job in in, writes the answer to out and
// returns the exit status. Signals and the end of in stop it, without leaving a
// half-written file.
func Serve(in io.Reader, out io.Writer) int {
	atomicfile.Swept()
	stop := func() {
		atomicfile.Stop()
		os.Exit(1)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		stop()
	}()
	var asked request
	d := json.NewDecoder(in)
	if err := d.Decode(&asked); err != nil {
		fmt.Fprintln(os.Stderr, "onnxmem: expected a job on standard input:", err)
		return 1
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		stop()
	}()
	outcome, err := asked.job().Do()
	answer := replyOf(err)
	if outcome != nil {
		if answer.Outcome, err = json.Marshal(outcome); err != nil {
			answer = replyOf(err)
		}
	}
	if err := json.NewEncoder(out).Encode(answer); err != nil {
		return 1
	}
	return 0
}

// replyOf is the answer for an error.
func replyOf(err error) reply {
	var refused *graph.Error
	switch {
	case err == nil:
		return reply{Status: StatusOK}
	case errors.As(err, &refused):
		return reply{Status: StatusRefused, Error: printable.Escape(units.OneLine(err))}
	}
	return reply{Status: StatusFailed, Error: printable.Escape(units.OneLine(err))}
}
