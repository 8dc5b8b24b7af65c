package proof

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Size returns the number of repetitions of a test: usual, a quarter of it under the
// race detector, or full with the build tag long. unit names what is counted, such as
// "generated plans".
func Size(t testing.TB, unit string, usual, full int) int {
	t.Helper()
	n := Of(usual, full)
	if detector && !long {
		n = max(n/4, 1)
	}
	began := time.Now()
	t.Cleanup(func() {
		verdict := "holds"
		if t.Failed() {
			verdict = "FAILS"
		}
		dir, _ := os.Getwd()
		took := time.Since(began).Seconds()
		record(t, fmt.Sprintf("%-5s %7d %-28s %8.1fs  %s %s\n", verdict, n, unit, took, filepath.Base(dir), t.Name()))
	})
	return n
}

// Of returns usual, or full with the build tag long.
func Of[T any](usual, full T) T {
	if long {
		return full
	}
	return usual
}

// record appends a line to the file of proofs in one write.
func record(t testing.TB, line string) {
	path := os.Getenv("FERMENT_PROOFS")
	if path == "" {
		t.Log(line)
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(line)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Errorf("record the proof: %v", err)
	}
}
