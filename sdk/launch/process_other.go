//go:build !unix

package launch

import (
	"os"
	"syscall"
)

func sysProcAttr() *syscall.SysProcAttr { return nil }

// killGroup kills one process whatever the signal: this system has neither
// groups nor signals.
func killGroup(pid int, _ syscall.Signal) error {
	proc, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return proc.Kill()
}

func signalName(sig syscall.Signal) string { return sig.String() }

func maxRSS(*os.ProcessState) int64 { return 0 }
