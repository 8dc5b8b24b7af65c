package launch

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
)

// SUP-010: the explanation of a failed start follows from the report: different
// reports have different explanations.
func TestLikelyCause(t *testing.T) {
	seen := map[string]string{}
	for name, r := range map[string]Report{
		"library":        {Exited: true, Exit: Exit{Code: 127}, Tail: []string{"./p: error while loading shared libraries: libfoo.so.1: cannot open shared object file"}},
		"python package": {Exited: true, Exit: Exit{Code: 1}, Tail: []string{"Traceback", "ModuleNotFoundError: No module named 'grpc'"}},
		"node package":   {Exited: true, Exit: Exit{Code: 1}, Tail: []string{"Error [ERR_MODULE_NOT_FOUND]: Cannot find package '@grpc/grpc-js' imported from /p.mjs", "Node.js v22"}},
		"script":         {Exited: true, Exit: Exit{Code: 2}, Tail: []string{"python3: can't open file '/x/p.py': [Errno 2] No such file or directory"}},
		"command":        {Exited: true, Exit: Exit{Code: 127}, Tail: []string{"sh: 1: nope: not found"}},
		"refused call":   {Exited: true, Exit: Exit{Code: -1, Signal: syscall.SIGSYS}},
		"killed":         {Exited: true, Exit: Exit{Code: -1, Signal: syscall.SIGKILL}},
		"crashed":        {Exited: true, Exit: Exit{Code: -1, Signal: syscall.SIGSEGV}},
		"not served":     {Exited: true},
		"not executable": {Exited: true, Exit: Exit{Code: 126}},
		"not there":      {Exited: true, Exit: Exit{Code: 127}},
		"silent failure": {Exited: true, Exit: Exit{Code: 3}},
		"hangs":          {PID: 1},
		"prints":         {PID: 1, Output: "hello"},
	} {
		cause := r.likelyCause()
		assert.NotEmpty(t, cause, name)
		assert.Empty(t, seen[cause], "%s and %s are explained alike", name, seen[cause])
		seen[cause] = name
	}
	assert.Contains(t, (Report{Exited: true, Tail: []string{"No module named grpc"}}).likelyCause(), "grpc")
	script := Report{Exited: true, Tail: []string{"python3: can't open file '/x/p.py': [Errno 2] No such file or directory"}}
	assert.Contains(t, script.likelyCause(), "/x/p.py")
	assert.Contains(t, script.likelyCause(), "workdir")
	for name, r := range map[string]Report{
		"it says so": {Exited: true, Exit: Exit{Code: 7}, Tail: []string{"no port is free"}},
		"a panic":    {Exited: true, Exit: Exit{Code: 2}, Panic: []string{"panic: no port"}},
	} {
		assert.Empty(t, r.likelyCause(), name)
	}
}
