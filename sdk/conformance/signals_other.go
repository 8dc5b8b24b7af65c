//go:build !unix

package conformance

import "syscall"

func pauseSignal() (syscall.Signal, bool) { return 0, false }

func resumeSignal() syscall.Signal { return 0 }
