package frame

import (
	"bytes"
	"encoding/json"
	"regexp"
)

var bom = []byte("\xef\xbb\xbf")

// Events splits a text/event-stream: lines end with LF, CR or both, an empty
// line ends an event, several data lines of one event are joined by LF. An
// event named error has failed, one named ping is quiet unless its data is that
// of another event; other names and ids are dropped, since the data of all
// dialects identifies itself. A line that is not a field is a frame of its own.
type Events struct {
	line    []byte // unfinished line
	data    []byte // of the event so far
	hasData bool
	failed  bool // the event is an error
	ping    bool // the event keeps the connection alive
	afterCR bool // a following LF belongs to the previous line end
	begun   bool // past the position of a byte order mark
}

// Push implements Splitter.
func (s *Events) Push(piece []byte, each func(Frame) error) error {
	for len(piece) > 0 {
		if s.afterCR {
			s.afterCR = false
			if piece[0] == '\n' {
				piece = piece[1:]
				continue
			}
		}
		i := bytes.IndexByte(piece, '\n')
		if cr := bytes.IndexByte(piece[:end(i, len(piece))], '\r'); cr >= 0 {
			i = cr
		}
		if i < 0 {
			if len(s.line)+len(piece)+len(s.data) > MaxFrame {
				return ErrTooLarge
			}
			s.line = append(s.line, piece...)
			return nil
		}
		line := piece[:i]
		s.afterCR = piece[i] == '\r'
		piece = piece[i+1:]
		if len(s.line) > 0 {
			s.line = append(s.line, line...)
			line = s.line
		}
		err := s.take(line, each)
		s.line = s.line[:0]
		if err != nil {
			return err
		}
	}
	return nil
}

func end(i, n int) int {
	if i < 0 {
		return n
	}
	return i
}

// take handles one line.
func (s *Events) take(line []byte, each func(Frame) error) error {
	if !s.begun {
		line, s.begun = bytes.TrimPrefix(line, bom), true
	}
	if len(line) == 0 {
		return s.give(each)
	}
	if line[0] == ':' {
		return each(Frame{Quiet: true})
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "data":
	case "error":
		s.failed = true
	case "event":
		s.failed = s.failed || string(value) == "error"
		s.ping = string(value) == "ping"
		return nil
	default:
		if fieldName(field) {
			return nil
		}
		return each(Frame{Data: line, Quiet: len(bytes.TrimSpace(line)) == 0})
	}
	if len(s.data)+len(value) > MaxFrame {
		return ErrTooLarge
	}
	if s.hasData {
		s.data = append(s.data, '\n')
	}
	s.data, s.hasData = append(s.data, value...), true
	return nil
}

// fieldName reports whether a name may be that of a field. A line with another
// name is not a part of a stream, but for example the text of an error.
func fieldName(name []byte) bool {
	return !bytes.ContainsFunc(name, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

func (s *Events) give(each func(Frame) error) error {
	data, given, failed, ping := s.data, s.hasData, s.failed, s.ping
	s.data, s.hasData, s.failed, s.ping = s.data[:0], false, false, false
	if !given {
		return nil
	}
	quiet := ping && !failed && !holdsEvent(data)
	return each(Frame{Data: data, Quiet: quiet || len(bytes.TrimSpace(data)) == 0, Failed: failed})
}

var answerEvent = regexp.MustCompile(`^(message|content_block|response)[_.]`)

// holdsEvent reports whether the data of an event named ping is that of an answer of a dialect.
func holdsEvent(data []byte) bool {
	var event struct {
		Type    string
		Choices json.RawMessage
	}
	return json.Unmarshal(data, &event) == nil && (event.Choices != nil || answerEvent.MatchString(event.Type))
}

// End implements Splitter. A last event without an empty line is returned too;
// its reader detects whether it is complete.
func (s *Events) End(each func(Frame) error) error {
	if len(s.line) > 0 {
		line := s.line
		s.line = nil
		if err := s.take(line, each); err != nil {
			return err
		}
	}
	return s.give(each)
}
