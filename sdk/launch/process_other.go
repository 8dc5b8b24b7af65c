//go:build !unix

package launch

import (
	"os"
	"syscall"
)

func sysProcAttr() *syscall.SysProcAttr { return nil }

// killGroup ends one process whatever the signal: there are neither groups nor
// signals to choose from.
func killGroup(pid int, _ syscall.Signal) error {
	proc, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return proc.Kill()
}

func signalName(sig syscall.Signal) string { return sig.String() }

func maxRSS(*os.ProcessState) int64 { return 0 }
