package wire

import (
	"maps"
	"strings"
	"unsafe"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
)

// blobName is the length of a blob name: "b3:" and the digits of the hash.
const blobName = len("b3:") + 64

// Blobs holds the blobs received in one call: at most maxBlobs with MaxMessage
// bytes. When more arrive, blobs that a payload has already used are evicted
// first. The zero value and nil are empty. It is not safe for concurrent use.
type Blobs struct {
	held    map[string]*heldBlob
	bytes   int
	request bool // belongs to a request, which may name secrets
}

type heldBlob struct {
	body []byte
	text edn.Value // the string, set after the hash was verified
	used bool
}

// Add stores blob for later payloads. It returns :runtime/protocol for an
// invalid name and if the blob does not fit beside the blobs that no payload
// has used yet.
func (b *Blobs) Add(blob *pluginv1.Blob) error {
	hash, size := blob.GetHash(), len(blob.GetBody())
	if !isHash(hash) {
		return contract.Errorf("runtime/protocol",
			"blob: its name has %d bytes and is not \"b3:\" with 64 hexadecimal digits", len(hash))
	}
	if size > MaxString {
		return contract.Errorf("runtime/protocol", "blob %s: %d bytes, the limit is %d", hash, size, MaxString)
	}
	if b.find(hash) != nil {
		return nil
	}
	if len(b.held) == maxBlobs || b.bytes+size > MaxMessage {
		b.dropUsed()
	}
	switch {
	case len(b.held) == maxBlobs:
		return contract.Errorf("runtime/protocol", "blob %s: more than %d blobs wait for a payload", hash, maxBlobs)
	case b.bytes+size > MaxMessage:
		return contract.Errorf("runtime/protocol", "blob %s: more than %d bytes of blobs wait for a payload", hash,
			MaxMessage)
	}
	if b.held == nil {
		b.held = map[string]*heldBlob{}
	}
	b.held[hash] = &heldBlob{body: blob.GetBody()}
	b.bytes += size
	return nil
}

func isHash(name string) bool {
	digits, ok := strings.CutPrefix(name, "b3:")
	return ok && len(name) == blobName && strings.Trim(digits, "0123456789abcdef") == ""
}

func (b *Blobs) dropUsed() {
	maps.DeleteFunc(b.held, func(_ string, h *heldBlob) bool {
		if h.used {
			b.bytes -= len(h.body)
		}
		return h.used
	})
}

func (b *Blobs) find(hash string) *heldBlob {
	if b == nil {
		return nil
	}
	return b.held[hash]
}

// restore replaces references by their blobs.
func (b *Blobs) restore(v edn.Value) (edn.Value, error) {
	if !needsExtraction(v) {
		return v, nil
	}
	restored := 0
	return rebuild(v, func(v edn.Value) (edn.Value, bool, error) {
		tag, inner, ok := v.AsTagged()
		switch {
		case !ok:
			return v, false, nil
		case tag == valueTag:
			text, err := b.text(inner)
			if s, _ := text.AsString(); err == nil {
				restored += len(s)
			}
			if restored > MaxRestored {
				err = contract.Errorf("runtime/protocol",
					"decode payload: the blobs that it references have more than %d bytes", MaxRestored)
			}
			return text, true, err
		case tag == secretTag && b != nil && b.request:
			return v, true, nil
		case tag == secretTag:
			return v, true, contract.Errorf("runtime/invalid-result", "decode payload: the tag #%s is reserved", tag)
		}
		return v, false, nil
	})
}

func (b *Blobs) text(ref edn.Value) (edn.Value, error) {
	hash, ok := ref.AsString()
	if !ok {
		return edn.Nil(), contract.Errorf("runtime/protocol", "decode payload: #%s: expected a string, got a %s",
			valueTag, ref.Kind())
	}
	if !isHash(hash) {
		return edn.Nil(), contract.Errorf("runtime/protocol",
			"decode payload: #%s: expected a blob name, \"b3:\" with 64 hexadecimal digits, got %d bytes",
			valueTag, len(hash))
	}
	h := b.find(hash)
	if h == nil {
		return edn.Nil(), contract.Errorf("runtime/protocol",
			"decode payload: no blob was received for the reference %s", hash)
	}
	if h.text.IsNil() {
		text, err := edn.String(readOnlyString(h.body))
		if err != nil {
			return edn.Nil(), contract.Errorf("runtime/protocol", "blob %s: %w", hash, err)
		}
		if got := edn.Hash(text); got != hash {
			return edn.Nil(), contract.Errorf("runtime/protocol", "blob %s: its content has the hash %s", hash, got)
		}
		h.text = text
	}
	h.used = true
	return h.text, nil
}

// shown cuts text from a peer to a length that fits into a message.
func shown(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + ".."
	}
	return s
}

// readOnlyBytes returns a string as bytes without copying. The encoder that
// receives them only reads them.
func readOnlyBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// readOnlyString returns bytes as a string without copying. They belong to a
// decoded message, which is never modified.
func readOnlyString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
