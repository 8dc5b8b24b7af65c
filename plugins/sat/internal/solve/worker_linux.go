package solve

import (
	"os/exec"
	"runtime"
	"syscall"
)

// workerAttributes makes the kernel kill the worker with its parent.
func workerAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// startWorker starts the command. The death signal is bound to the forking
// thread, so the thread is locked while the process is created; Go keeps
// threads of the pool alive afterwards, and the worker also watches its input.
func startWorker(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.Start()
}
