//go:build !linux

package solve

import (
	"os/exec"
	"syscall"
)

// workerAttributes is empty where the kernel has no death signal: the worker
// watches its input.
func workerAttributes() *syscall.SysProcAttr { return nil }

func startWorker(cmd *exec.Cmd) error { return cmd.Start() }
