package worker

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/fermenthq/ferment/sdk/edn"
)

// maxTask bounds the encoded size of a message.
const maxTask = 64 << 20

// send writes a value preceded by its length: the stream stays open, and its
// end means that the other side has gone.
func send(w io.Writer, v edn.Value) error {
	text := edn.Write(v)
	head := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
	if _, err := w.Write(head); err != nil {
		return err
	}
	_, err := w.Write(text)
	return err
}

func receive(r io.Reader) (edn.Value, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return edn.Nil(), err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxTask {
		return edn.Nil(), fmt.Errorf("a message has %d bytes, the limit is %d", n, maxTask)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return edn.Nil(), err
	}
	return edn.Read(text, edn.WithLimits(edn.Stored))
}
