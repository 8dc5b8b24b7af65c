package solve

import (
	"os/exec"
	"runtime"
	"syscall"
)

// workerAttributes lets the kernel kill the worker with its parent.
func workerAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// startWorker starts the command. The death signal is tied to the thread that
// forks, so the thread is held while the process is made; Go keeps threads of
// the pool alive afterwards, and the worker watches its input besides.
func startWorker(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.Start()
}
