package suite

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func module(t testing.TB, name string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("testdata", name))
	require.NoError(t, err)
	return dir
}

func environment() []string {
	// As in "make test", so that the standard library is in the build cache.
	env := []string{"GOFLAGS=-trimpath", "CGO_ENABLED=0", "GOTOOLCHAIN=local", "GOWORK=off"}
	for _, name := range []string{"PATH", "HOME", "GOCACHE", "GOMODCACHE", "GOPATH", "GOROOT"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// runGo runs `go test -json` on a module of testdata.
func runGo(t testing.TB, name string, change func(*Spec), args ...string) Result {
	t.Helper()
	path, err := exec.LookPath("go")
	require.NoError(t, err)
	s := Spec{Dir: module(t, name), Path: path, Env: environment(), Format: GoJSON, Timeout: 2 * time.Minute}
	s.Args = GoTest(append([]string{"go", "test", "./..."}, args...), nil)[1:]
	if change != nil {
		change(&s)
	}
	r, err := Run(context.Background(), s)
	require.NoError(t, err)
	return r
}

func statuses(r Result) map[string]Status {
	out := make(map[string]Status)
	for _, test := range r.Tests {
		out[strings.TrimPrefix(test.Package, "example.test/")+" "+test.Name] = test.Status
	}
	return out
}

// plugins.md 7.0, row :code/test: the results of real suites.
func TestGoSuites(t *testing.T) {
	for name, c := range map[string]struct {
		ok                      bool
		reason                  string
		passed, failed, skipped int
		build                   bool
		tests                   map[string]Status
		output                  map[string]string
	}{
		"green": {ok: true, passed: 1, tests: map[string]Status{"green TestGreen": Pass}},
		"mixed": {
			reason: "1 test failed", passed: 4, failed: 1, skipped: 1,
			tests: map[string]Status{
				"mixed TestSum": Pass, "mixed TestSum/small": Pass, "mixed TestSum/zero": Pass,
				"mixed TestWrong": Fail, "mixed TestLater": Skip, "mixed/sub TestFine": Pass,
			},
			output: map[string]string{"TestWrong": "one and one is not three"},
		},
		"broken":     {reason: "the build failed", passed: 1, failed: 1, build: true, tests: map[string]Status{"broken (build)": Fail, "broken/fine TestFine": Pass}},
		"brokentest": {reason: "the build failed", failed: 1, build: true, tests: map[string]Status{"brokentest (build)": Fail}},
		"empty":      {reason: "no test ran", tests: map[string]Status{}},
		"skipped":    {reason: "no test ran: 1 test skipped", skipped: 1, tests: map[string]Status{"skipped TestLater": Skip}},
		"crash": {
			reason: "1 test failed", passed: 1, failed: 1,
			tests:  map[string]Status{"crash TestBefore": Pass, "crash TestCrash": Fail},
			output: map[string]string{"TestCrash": "assignment to entry in nil map"},
		},
		"exits": {
			reason: "1 test failed", passed: 1, failed: 1,
			tests:  map[string]Status{"exits TestFine": Pass, "exits (package)": Fail},
			output: map[string]string{"(package)": "leaving with three"},
		},
		"forged": {reason: "1 test failed", failed: 1, tests: map[string]Status{"forged TestForged": Fail}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := runGo(t, name, nil)
			assert.Equal(t, c.ok, r.OK, "%+v", r)
			assert.Equal(t, c.reason, r.Reason)
			assert.Equal(t, c.tests, statuses(r))
			assert.Equal(t, []int{c.passed, c.failed, c.skipped}, []int{r.Passed, r.Failed, r.Skipped})
			assert.Equal(t, c.build, r.BuildFailed)
			assert.False(t, r.TimedOut)
			assert.Equal(t, c.failed > 0, r.Exit != 0)
			for _, test := range r.Tests {
				assert.Contains(t, test.Output, c.output[test.Name])
				assert.False(t, test.Status != Fail && test.Output != "", "output is kept for failures")
			}
			if c.build {
				assert.Contains(t, r.Output, ".go:", "the compiler's words are kept: %s", r.Output)
			}
		})
	}
}

// A hanging suite is a failed result with the tests that ran and the name of
// the one that hung, and no process is left.
func TestHang(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	r := runGo(t, "hangs", func(s *Spec) {
		s.expired = expiresAfter(t, file)
		s.Env = append(s.Env, "CHILD_PID_FILE="+file)
	})
	assert.False(t, r.OK)
	assert.True(t, r.TimedOut)
	assert.Contains(t, r.Reason, "did not end within")
	assert.Equal(t, map[string]Status{"hangs TestFirst": Pass, "hangs TestHangs": Fail}, statuses(r))
	assert.Contains(t, r.Tests[1].Output, "the test did not end")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	pid, err := strconv.Atoi(string(text))
	require.NoError(t, err)
	assertGone(t, pid)
}

// expiresAfter ends a run some time after there is something in the file: as
// long after as the command needed to come so far, however slow the machine.
func expiresAfter(t *testing.T, file string) <-chan time.Time {
	t.Helper()
	expired := make(chan time.Time)
	go func() {
		began := time.Now()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for now := range tick.C {
			if text, _ := os.ReadFile(file); len(text) > 0 {
				time.AfterFunc(time.Since(began), func() { close(expired) })
				return
			}
			if t.Context().Err() != nil || now.Sub(began) > 2*time.Minute {
				close(expired)
				return
			}
		}
	}()
	return expired
}

// assertGone asserts that no process with this pid runs; a zombie does not run.
func assertGone(t *testing.T, pid int) {
	t.Helper()
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		assert.ErrorIs(t, err, os.ErrNotExist)
		return
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	assert.Equal(t, "Z", state[:1], "process %d is alive: %s", pid, stat)
}

// A suite that exceeds its memory limit is a failed result.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	runGo(t, "hungry", nil, "-run", "xxx") // building needs more memory than the limit
	r := runGo(t, "hungry", func(s *Spec) { s.Memory = 512 << 20 })
	assert.False(t, r.OK)
	assert.Equal(t, 1, r.Failed)
	assert.Contains(t, r.Reason, "out of memory")
}

// Endless output costs bounded memory, and its beginning and end are kept.
func TestFlood(t *testing.T) {
	t.Parallel()
	r := runGo(t, "flood", nil)
	assert.False(t, r.OK)
	require.Len(t, r.Tests, 1)
	out := r.Tests[0].Output
	assert.Less(t, len(out), headSize+2*tailSize)
	assert.Contains(t, out, "the first line")
	assert.Contains(t, out, "the last line")
	assert.Contains(t, out, "bytes left out")
}

func TestNoModule(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a_test.go"), []byte("package a\n"), 0o600))
	r := runGo(t, "green", func(s *Spec) { s.Dir = dir })
	assert.False(t, r.OK)
	assert.True(t, r.BuildFailed)
	assert.Contains(t, r.Output, "main module")
}

func shellSpec(t testing.TB, script string) Spec {
	return Spec{Dir: t.TempDir(), Path: shell, Args: []string{"-c", script}, Env: environment(), Format: ExitCode, Timeout: 30 * time.Second}
}

// The format :exit-code judges by the status alone.
func TestExitCode(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]Result{
		"echo fine":             {OK: true, Passed: 1},
		"echo words >&2; false": {Failed: 1, Exit: 1, Reason: "1 test failed"},
		"kill -9 $$":            {Failed: 1, Exit: -1, Reason: "1 test failed"},
	} {
		r, err := Run(context.Background(), shellSpec(t, script))
		require.NoError(t, err)
		require.Len(t, r.Tests, 1)
		assert.Equal(t, "sh -c "+script, r.Tests[0].Name)
		assert.Equal(t, want, Result{OK: r.OK, Passed: r.Passed, Failed: r.Failed, Exit: r.Exit, Reason: r.Reason}, script)
		assert.NotEmpty(t, r.Ended)
	}
	r, err := Run(context.Background(), shellSpec(t, "echo words >&2; exit 2"))
	require.NoError(t, err)
	assert.Equal(t, "words\n", r.Tests[0].Output)
}

// Processes that the command leaves behind do not delay the end of the run.
func TestLeftoversAreKilled(t *testing.T) {
	t.Parallel()
	began := time.Now()
	r, err := Run(context.Background(), shellSpec(t, "sleep 600 & echo $!"))
	require.NoError(t, err)
	assert.True(t, r.OK)
	assert.Less(t, time.Since(began), 20*time.Second)
	pid, err := strconv.Atoi(strings.TrimSpace(r.Output))
	require.NoError(t, err)
	assertGone(t, pid)
}

func TestTimeoutAndCancel(t *testing.T) {
	t.Parallel()
	s := shellSpec(t, "echo begun; echo begun >begun; sleep 600")
	s.expired = expiresAfter(t, filepath.Join(s.Dir, "begun"))
	r, err := Run(context.Background(), s)
	require.NoError(t, err)
	assert.True(t, r.TimedOut)
	assert.Equal(t, Fail, r.Tests[0].Status)
	assert.Equal(t, "begun\n", r.Output)

	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err = Run(ctx, shellSpec(t, "sleep 600"))
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = Run(ctx, shellSpec(t, "sleep 600"))
	assert.ErrorIs(t, err, context.DeadlineExceeded, "a caller that is gone starts nothing")
}

func TestStartError(t *testing.T) {
	_, err := Run(context.Background(), Spec{Dir: t.TempDir(), Path: "/does/not/exist", Format: ExitCode, Timeout: time.Second})
	var se *StartError
	require.ErrorAs(t, err, &se)
	assert.Contains(t, err.Error(), "start exist")
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestMemoryLimitIsInherited(t *testing.T) {
	s := shellSpec(t, "sh -c 'ulimit -d'; ulimit -c")
	s.Memory = 100 << 20
	r, err := Run(context.Background(), s)
	require.NoError(t, err)
	assert.Equal(t, "102400\n0\n", r.Output)
}

func TestGoTestCommand(t *testing.T) {
	for _, c := range []struct{ command, packages, want string }{
		{"go test", "", "go test -json"},
		{"go test ./...", "", "go test -json ./..."},
		{"go test -json ./...", "", "go test -json ./..."},
		{"go test -json ./...", "./transform/", "go test -json ./transform/"},
		{"go test -run TestA -count 1 ./a ../b .", "./c ./d", "go test -json -run TestA -count 1 ./c ./d"},
		{"go test -v ./... -args ./file", "./c", "go test -json -v ./c -args ./file"},
	} {
		assert.Equal(t, c.want, strings.Join(GoTest(strings.Fields(c.command), strings.Fields(c.packages)), " "))
	}
	assert.True(t, IsGoTest([]string{"/usr/bin/go", "test"}))
	assert.False(t, IsGoTest([]string{"go"}))
	assert.False(t, IsGoTest([]string{"go", "vet"}))
}

func TestHasGoModule(t *testing.T) {
	assert.True(t, HasGoModule(module(t, "mixed")))
	assert.True(t, HasGoModule(module(t, "mixed/sub")))
	assert.False(t, HasGoModule(t.TempDir()))
}

// Above the limit, passed tests are omitted first.
func TestManyTests(t *testing.T) {
	g := newGoEvents()
	for i := range maxTests + 10 {
		name := "T" + strconv.Itoa(i)
		g.line(`{"Action":"run","Package":"p","Test":"` + name + `"}`)
		action := "pass"
		if i == maxTests+9 {
			action = "fail"
		}
		g.line(`{"Action":"` + action + `","Package":"p","Test":"` + name + `","Elapsed":0.5}`)
	}
	var r Result
	g.fill(&r, "")
	r.limit()
	assert.Len(t, r.Tests, maxTests)
	assert.Equal(t, 10, r.Omitted)
	assert.Equal(t, maxTests+9, r.Passed)
	last := r.Tests[maxTests-1]
	assert.Equal(t, Fail, last.Status)
	assert.Equal(t, 500*time.Millisecond, last.Took)
}

// Lines that are not events, and events in an odd order, do no harm.
func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"Action":"run","Package":"p","Test":"T"}` + "\n" + `{"Action":"output","Package":"p","Test":"T","Output":"x\n"}`))
	f.Add([]byte(`{"Action":"fail","Package":"p","FailedBuild":"p"}`))
	f.Add([]byte("plain\n{\n{}\n{\"Action\":\"pass\",\"Test\":\"T\",\"Elapsed\":-1e300}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		g := newGoEvents()
		for line := range strings.SplitSeq(string(text), "\n") {
			g.line(line)
		}
		var r Result
		g.fill(&r, "")
		r.judge(time.Second, false)
		assert.Equal(t, len(r.Tests), r.Passed+r.Failed+r.Skipped)
		assert.Equal(t, r.OK, r.Reason == "")
	})
}
