//go:build unix

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/container/tools"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"
)

// Environment variables of the test on Flink: the Java libraries (make beam-flink sets
// them), and those that make the test binary a worker.
const (
	flinkClasspath = "ONNXMEM_FLINK_CLASSPATH"
	workerBinary   = "ONNXMEM_BEAM_WORKER"     // what the worker runs
	workerList     = "ONNXMEM_BEAM_WORKER_IDS" // the file to which it adds its process id
)

// Flink starts the test binary as a worker.
func init() {
	if os.Getenv(asCommand) == "worker" {
		os.Exit(startWorker())
	}
}

// startWorker does for a process what Beam's container does: it asks Flink for the
// addresses of its services and becomes the program in worker mode.
func startWorker() int {
	flags := flag.NewFlagSet("worker", flag.ExitOnError)
	id := flags.String("id", "", "")
	provision := flags.String("provision_endpoint", "", "")
	for _, name := range []string{"logging_endpoint", "artifact_endpoint", "control_endpoint"} {
		flags.String(name, "", "")
	}
	_ = flags.Parse(os.Args[1:])
	info, err := tools.ProvisionInfo(grpcx.WriteWorkerID(context.Background(), *id), *provision)
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return 1
	}
	list, err := os.OpenFile(os.Getenv(workerList), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return 1
	}
	fmt.Fprintln(list, os.Getpid())
	list.Close()
	program := os.Getenv(workerBinary)
	env := append(os.Environ(), "RUNNER_CAPABILITIES="+strings.Join(info.GetRunnerCapabilities(), " "))
	args := []string{
		program, "--worker", "--id=" + *id,
		"--logging_endpoint=" + info.GetLoggingEndpoint().GetUrl(), "--control_endpoint=" + info.GetControlEndpoint().GetUrl(),
	}
	fmt.Fprintln(os.Stderr, "worker:", syscall.Exec(program, args, env))
	return 1
}

// A cluster of Flink with two task managers, each with one worker, plans a zoo. One
// worker is killed when a part of the models is done. Flink starts the stage again on
// new workers, and the results are byte for byte those of batch.
func TestFlink(t *testing.T) {
	classpath := os.Getenv(flinkClasspath)
	if classpath == "" {
		t.Skip("needs Java and Flink: make beam-flink")
	}
	dir := t.TempDir()
	onnxmem, pipeline := buildCommand(t, dir, "onnxmem", "../cmd/onnxmem"), buildCommand(t, dir, "onnxmem-beam", ".")
	zoo := filepath.Join(dir, "zoo")
	if err := os.Mkdir(zoo, 0o777); err != nil {
		t.Fatal(err)
	}
	const models = 24
	for i := range models {
		output(t, dir, onnxmem, "model", "mobilenet_v2", filepath.Join(zoo, fmt.Sprintf("m%02d.onnx", i)), fmt.Sprintf("--set=width=%.2f", 0.2+0.05*float64(i)))
	}
	options := []string{"--dim=batch=4", "--train", "--optimizer=adam"}
	output(t, dir, onnxmem, append([]string{"batch", "zoo", "expected", "--jobs=1"}, options...)...)

	cluster := startFlink(t, dir, classpath)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	workers := filepath.Join(dir, "workers")
	environment := fmt.Sprintf(`{"command": %q, "env": {%q: "worker", %q: %q, %q: %q}}`, self, asCommand, workerBinary, pipeline, workerList, workers)
	run := exec.Command(pipeline, append([]string{
		"--runner=flink", "--endpoint=" + cluster, "--parallelism=2", "--worker_binary=" + pipeline,
		"--environment_type=PROCESS", "--environment_config=" + environment, filepath.Join(zoo, "*.onnx"), filepath.Join(dir, "planned"),
	}, options...)...)
	var said bytes.Buffer
	run.Stdout, run.Stderr = &said, &said
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	done := func() int {
		found, _ := filepath.Glob(filepath.Join(dir, "planned", ".journal", "*.json"))
		return len(found)
	}
	await(t, ended, &said, func() bool { return done() >= models/4 })
	ids := strings.Fields(read(t, workers))
	if len(ids) != 2 || done() == models {
		t.Fatalf("%d workers, %d of %d models done: expected 2 workers and a part of the models", len(ids), done(), models)
	}
	victim, err := strconv.Atoi(ids[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	t.Logf("killed worker %d of %v after %d of %d models", victim, ids, done(), models)
	if err := <-ended; err != nil {
		t.Fatalf("%v:\n%s", err, &said)
	}
	if ids := strings.Fields(read(t, workers)); len(ids) < 3 {
		t.Errorf("workers %v: expected a new one after the kill", ids)
	}
	same := 0
	for _, pattern := range []string{"*.onnx", "*.plan.json", "*.report.html", "*.csv"} {
		found, _ := filepath.Glob(filepath.Join(dir, "expected", pattern))
		for _, path := range found {
			name := filepath.Base(path)
			want, got := read(t, path), read(t, filepath.Join(dir, "planned", name))
			if name == "results.csv" {
				want, got = withoutTimes(want), withoutTimes(got)
			}
			if want != got {
				t.Errorf("%s: expected the bytes of batch", name)
				continue
			}
			same++
		}
	}
	if want := 3*models + 1 + models; same != want { // with the parameters of each training step
		t.Errorf("%d files are those of batch, expected %d", same, want)
	}
	t.Logf("%d files are those of batch", same)
}

// buildCommand builds a program with a fixed version, which plans record.
func buildCommand(t *testing.T, dir, name, from string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	build := exec.Command("go", "build", "-ldflags=-X main.version=test", "-o", path, ".")
	build.Dir = from
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return path
}

func output(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	c := exec.Command(program, args...)
	c.Dir = dir
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v:\n%s", program, args, err, text)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// await returns as soon as a condition holds. It fails if the pipeline ends before.
func await(t *testing.T, ended <-chan error, said *bytes.Buffer, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case err := <-ended:
			t.Fatalf("the pipeline ended too early: %v\n%s", err, said)
		case <-tick.C:
		}
	}
}

// withoutTimes removes the column of milliseconds from results.csv.
func withoutTimes(table string) string {
	lines := strings.Split(table, "\n")
	column := -1
	for i, name := range strings.Split(lines[0], ",") {
		if name == "ms" {
			column = i
		}
	}
	for i, line := range lines {
		if cells := strings.Split(line, ","); column >= 0 && column < len(cells) {
			cells[column] = ""
			lines[i] = strings.Join(cells, ",")
		}
	}
	return strings.Join(lines, "\n")
}

// flinkOptions open those parts of Java 17 that Flink 1.16 reaches into.
var flinkOptions = []string{
	"--add-exports=java.base/sun.net.util=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.util=ALL-UNNAMED",
	"--add-opens=java.base/java.net=ALL-UNNAMED", "--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
}

// startFlink starts a job manager, two task managers and Beam's job server on this
// machine, and returns the address of the latter.
func startFlink(t *testing.T, dir, classpath string) string {
	t.Helper()
	ports := freePorts(t, 5)
	conf := filepath.Join(dir, "conf")
	if err := os.Mkdir(conf, 0o777); err != nil {
		t.Fatal(err)
	}
	settings := fmt.Sprintf(`
jobmanager.rpc.address: localhost
jobmanager.rpc.port: %d
jobmanager.bind-host: localhost
blob.server.port: %d
rest.address: localhost
rest.bind-address: localhost
rest.port: %d
taskmanager.host: localhost
taskmanager.bind-host: localhost
taskmanager.numberOfTaskSlots: 1
taskmanager.cpu.cores: 1.0
taskmanager.memory.framework.heap.size: 64m
taskmanager.memory.framework.off-heap.size: 64m
taskmanager.memory.task.heap.size: 256m
taskmanager.memory.task.off-heap.size: 0m
taskmanager.memory.network.min: 64m
taskmanager.memory.network.max: 64m
taskmanager.memory.managed.size: 128m
taskmanager.memory.jvm-metaspace.size: 128m
taskmanager.memory.jvm-overhead.min: 64m
taskmanager.memory.jvm-overhead.max: 64m
restart-strategy: fixed-delay
restart-strategy.fixed-delay.attempts: 5
restart-strategy.fixed-delay.delay: 1 s
io.tmp.dirs: %s
`, ports[0], ports[1], ports[2], dir)
	if err := os.WriteFile(filepath.Join(conf, "flink-conf.yaml"), []byte(settings), 0o666); err != nil {
		t.Fatal(err)
	}
	java := func(name, class string, args ...string) {
		log, err := os.Create(filepath.Join(dir, name+".log"))
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command("java", append(append(append([]string{"-Xmx512m"}, flinkOptions...), "-cp", classpath, class), args...)...)
		c.Stdout, c.Stderr = log, log
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
			log.Close()
			if t.Failed() {
				text := read(t, log.Name())
				t.Logf("%s:\n%s", name, text[max(0, len(text)-4000):])
			}
		})
	}
	rest := fmt.Sprintf("localhost:%d", ports[2])
	java("jobmanager", "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint", "--configDir", conf)
	for _, name := range []string{"taskmanager-1", "taskmanager-2"} {
		java(name, "org.apache.flink.runtime.taskexecutor.TaskManagerRunner", "--configDir", conf)
	}
	java("jobserver", "org.apache.beam.runners.flink.FlinkJobServerDriver", "--job-host=localhost", fmt.Sprintf("--job-port=%d", ports[3]),
		fmt.Sprintf("--artifact-port=%d", ports[4]), "--expansion-port=-1", "--flink-master="+rest, "--flink-conf-dir="+conf, "--artifacts-dir="+filepath.Join(dir, "staged"))
	server := fmt.Sprintf("localhost:%d", ports[3])
	deadline := time.Now().Add(5 * time.Minute)
	for ready := false; !ready; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the cluster is not ready after five minutes")
		}
		ready = answers(server) && strings.Contains(get("http://"+rest+"/overview"), `"taskmanagers":2`)
	}
	return server
}

func answers(address string) bool {
	c, err := net.Dial("tcp", address)
	if err == nil {
		c.Close()
	}
	return err == nil
}

func get(url string) string {
	r, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	var text bytes.Buffer
	_, _ = text.ReadFrom(r.Body)
	return text.String()
}

// freePorts returns ports on which nothing listens at the moment.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "localhost:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}
