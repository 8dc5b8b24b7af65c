package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"
)

// patience is the time that a line may take to write before others are lost.
const patience = time.Second

// steady is a writer of JSON lines that does not stop with its reader. A full pipe and a paused
// terminal block a write; while one takes longer than patience, further lines are lost. The first
// line after it follows one with their number, and waits for a hundredth of patience only.
type steady struct {
	out io.Writer

	mu   sync.Mutex
	late chan error // receives the result of a write that took longer; nil: there is none
	slow bool       // the last write took longer
	lost int
}

// Write implements io.Writer. A line that is lost has no error, that of a late one is returned for the
// next line.
func (s *steady) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed error
	if s.late != nil {
		select {
		case failed = <-s.late:
			s.late = nil
		default:
			s.lost++
			return len(line), nil
		}
	}
	lines := [][]byte{bytes.Clone(line)} // a late line is written after the caller has gone on
	if s.lost > 0 {
		lines, s.lost = [][]byte{lossOf(s.lost), lines[0]}, 0
	}
	written := make(chan error, 1)
	go func() {
		var failed error
		for _, line := range lines {
			_, err := s.out.Write(line)
			failed = errors.Join(failed, err)
		}
		written <- failed
	}()
	wait := patience
	if s.slow {
		wait = patience / 100
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case err := <-written:
		s.slow = false
		return len(line), errors.Join(failed, err)
	case <-timer.C:
		s.late, s.slow = written, true
		return len(line), failed
	}
}

// lossOf returns the line about lost lines.
func lossOf(lines int) []byte {
	fields := map[string]any{
		keyTime: time.Now().Format(timeFormat), keyLevel: "warn", keyModule: "ferment.telemetry",
		keyMessage: "lines of the log are lost, since its reader did not keep up", "lines": lines,
	}
	line, _ := json.Marshal(fields) // strings and a number
	return append(line, '\n')
}
