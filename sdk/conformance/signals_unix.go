//go:build unix

package conformance

import "syscall"

func pauseSignal() (syscall.Signal, bool) { return syscall.SIGSTOP, true }

func resumeSignal() syscall.Signal { return syscall.SIGCONT }
