package wire

import (
	"unsafe"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire/pluginv1"
)

// Blobs holds the blobs that arrived in one call. It keeps at most MaxMessage
// bytes: when more arrive, those that a payload has already used go first.
// The zero value and nil are empty. It is not safe for concurrent use.
type Blobs struct {
	held    []heldBlob
	bytes   int
	request bool // they come with a request, which may name secrets
}

type heldBlob struct {
	hash string
	body []byte
	text edn.Value // the string, once the hash has been checked
	used bool
}

// Add keeps blob for the payloads that come after it. Blobs that do not fit
// beside those still waiting for their payload are :runtime/protocol.
func (b *Blobs) Add(blob *pluginv1.Blob) error {
	size := len(blob.GetBody())
	if size > MaxString {
		return contract.Errorf("runtime/protocol", "blob %s: %d bytes, the limit is %d", shown(blob.GetHash()), size, MaxString)
	}
	if b.find(blob.GetHash()) != nil {
		return nil
	}
	if b.bytes+size > MaxMessage {
		b.dropUsed()
	}
	if b.bytes+size > MaxMessage {
		return contract.Errorf("runtime/protocol", "blob %s: more than %d bytes of blobs wait for a payload", shown(blob.GetHash()), MaxMessage)
	}
	b.held = append(b.held, heldBlob{hash: blob.GetHash(), body: blob.GetBody()})
	b.bytes += size
	return nil
}

func (b *Blobs) dropUsed() {
	kept := b.held[:0]
	b.bytes = 0
	for _, h := range b.held {
		if !h.used {
			kept = append(kept, h)
			b.bytes += len(h.body)
		}
	}
	clear(b.held[len(kept):])
	b.held = kept
}

func (b *Blobs) find(hash string) *heldBlob {
	if b == nil {
		return nil
	}
	for i := range b.held {
		if b.held[i].hash == hash {
			return &b.held[i]
		}
	}
	return nil
}

// restore puts the blobs in the places of their references.
func (b *Blobs) restore(v edn.Value) (edn.Value, error) {
	if !needsExtraction(v) {
		return v, nil
	}
	return rebuild(v, func(v edn.Value) (edn.Value, bool, error) {
		tag, inner, ok := v.AsTagged()
		switch {
		case !ok:
			return v, false, nil
		case tag == valueTag:
			text, err := b.text(inner)
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
		return edn.Nil(), contract.Errorf("runtime/protocol", "decode payload: #%s wants a string, got %s", valueTag, shown(ref.String()))
	}
	h := b.find(hash)
	if h == nil {
		return edn.Nil(), contract.Errorf("runtime/protocol", "decode payload: no blob came for the reference %s", shown(hash))
	}
	if h.text.IsNil() {
		text, err := edn.String(readOnlyString(h.body))
		if err != nil {
			return edn.Nil(), contract.Errorf("runtime/protocol", "blob %s: %w", shown(hash), err)
		}
		if got := edn.Hash(text); got != hash {
			return edn.Nil(), contract.Errorf("runtime/protocol", "blob %s: its content has the hash %s", shown(hash), got)
		}
		h.text = text
	}
	h.used = true
	return h.text, nil
}

// shown cuts what a peer sent to a length that fits in a message.
func shown(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + ".."
	}
	return s
}

// readOnlyBytes views a string as bytes without a copy. The bytes go to the
// encoder of a message, which only reads them.
func readOnlyBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// readOnlyString views bytes as a string without a copy. They belong to a
// decoded message, which nobody writes to.
func readOnlyString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
