package conformance

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
	"github.com/fermenthq/ferment/sdk/wire"
)

// The error types with which a plugin may refuse a call. Another type is a
// failure: it means that the plugin did not detect the violation.
const (
	protocolError = "runtime/protocol"
	notFound      = "cap/not-found"
	notReady      = "runtime/not-ready"
)

func malformedChecks() []Check {
	check := func(id, text string, requirements []string, spoil func(s *spoiled)) Check {
		return Check{
			ID:           id,
			Requirements: requirements,
			Text:         text + " is answered with an error event of type :" + protocolError,
			run:          func(ctx context.Context, b *bench) error { return b.refuses(ctx, spoil) },
		}
	}
	payload1, payload2, payload3 := []string{"PAYLOAD-001"}, []string{"PAYLOAD-002"}, []string{"PAYLOAD-003"}
	return []Check{
		check("core/malformed/text", "a request whose text ends too early", payload1,
			func(s *spoiled) { s.Request.Body = s.Request.Body[:len(s.Request.Body)-1] }),
		check("core/malformed/two-forms", "a request of two forms", payload1,
			func(s *spoiled) { s.Request.Body = append(s.Request.Body, " {}"...) }),
		check("core/malformed/not-a-map", "a request that is not a map", payload2,
			func(s *spoiled) { s.Request.Body = []byte("[1,2,3]") }), // commas are white space in EDN
		check("core/malformed/deep", "a request nested beyond the limit", payload1, (*spoiled).nest),
		check("core/malformed/bytes", "a request with a text that is not UTF-8", payload1,
			func(s *spoiled) { s.beside("\"\xff\"") }),
		check("core/malformed/number", "a request with a number that is not a value, such as NaN", payload1,
			func(s *spoiled) { s.beside(notNumber[s.encoding]) }),
		check("core/malformed/encoding", "a request in an unknown encoding", []string{"PAYLOAD-006"},
			func(s *spoiled) { s.Request.Encoding = "xml" }),
		check("core/malformed/absent", "a call without a request", payload2,
			func(s *spoiled) { s.Request = nil }),
		check("core/malformed/blob-missing", "a reference without its blob", payload3,
			func(s *spoiled) { s.refer(edn.Text("never sent")) }),
		check("core/malformed/blob-wrong", "a short blob that does not have its hash", payload3,
			func(s *spoiled) { s.forge("something else", "forged") }),
		check("core/malformed/blob-large", "a blob of 1 MiB that does not have its hash", payload3,
			func(s *spoiled) {
				text := strings.Repeat("x", largeBlob-1)
				s.forge(text+"x", text+"y")
			}),
		{ID: "core/malformed/too-large", Requirements: []string{"PAYLOAD-005"},
			Text: "a message above 16 MiB is refused, and the plugin keeps running",
			run:  shared(tooLarge)},
	}
}

const (
	// depth is far beyond the deepest value that a peer may send.
	depth = 100_000
	// largeBlob is the length of a text that is verified in several pieces.
	largeBlob = 1 << 20
)

// spoiled is a valid call that a check makes invalid before it sends it. Its text is
// in the encoding of the plugin's answers.
type spoiled struct {
	*pluginv1.InvokeRequest
	encoding   wire.Encoding
	capability contract.Capability
	input      edn.Value
	err        error // of its construction
}

// nest adds a value that nests too deeply to the envelope.
func (s *spoiled) nest() { s.beside(strings.Repeat("[", depth) + strings.Repeat("]", depth)) }

// beside adds a value, as text, to the envelope.
func (s *spoiled) beside(value string) {
	key := ` "conformance/beside" `
	if s.encoding == wire.JSON {
		key = `,"conformance/beside":`
	}
	text := bytes.TrimSuffix(s.Request.Body, []byte("}"))
	s.Request.Body = slices.Concat(text, []byte(key), []byte(value), []byte("}"))
}

// notNumber is a number, in each encoding, that lenient readers accept.
var notNumber = map[wire.Encoding]string{wire.EDN: "##NaN", wire.JSON: "NaN"}

// refer puts a reference to text into the input, without the blob.
func (s *spoiled) refer(text edn.Value) {
	input := s.input.AssocKey("conformance/text", edn.MustTagged("ferment/value", edn.Text(edn.Hash(text))))
	s.Request.Body, s.err = plainText(s.encoding, request(s.capability, input))
}

// forge puts a reference to one text into the input and sends another text.
func (s *spoiled) forge(named, sent string) {
	s.refer(edn.Text(named))
	s.Blobs = []*pluginv1.Blob{{Hash: edn.Hash(edn.Text(named)), Body: []byte(sent)}}
}

// plainText encodes a value without extracting long texts. It accepts
// references, as no request of a host does.
func plainText(enc wire.Encoding, v edn.Value) ([]byte, error) {
	if enc == wire.JSON {
		return edn.WriteJSON(v)
	}
	return v.Canonical(), nil
}

// refuses sends a call that spoil has changed and expects an error event of
// type :runtime/protocol.
func (b *bench) refuses(ctx context.Context, spoil func(*spoiled)) error {
	in, d, err := b.lent(ctx)
	if err != nil {
		return err
	}
	c := d.Capabilities[0]
	s := &spoiled{encoding: in.Client().Encoding(), capability: c, input: b.input(d, c)}
	if s.InvokeRequest, err = b.invokeRequest(in, c, s.input); err != nil {
		return &fault{err}
	}
	if spoil(s); s.err != nil {
		return &fault{s.err}
	}
	v, err := b.errorEvent(ctx, in, s.InvokeRequest)
	if err != nil {
		return err
	}
	if err := refusedAs(wordOf(v.Key("type")), v.String(), protocolError); err != nil {
		return err
	}
	return b.alive(ctx, in, "a malformed call")
}

// refusedAs fails if the type of a refusal is not the expected one.
func refusedAs(got, refusal, expected string) error {
	if contract.ResolveAlias(strings.TrimPrefix(got, ":")) == expected {
		return nil
	}
	return want("a refusal of type :"+expected, "%s", cut(refusal))
}

// refused fails if a call was answered, or refused with another error type than
// expected.
func refused(response edn.Value, err error, expected string) error {
	switch {
	case err == nil && !failed(response, nil):
		return want("a refusal of type :"+expected, "the answer %s", cut(response.String()))
	case err == nil:
		return refusedAs(wordOf(response.Key("error").Key("type")), response.String(), expected)
	case wire.Transport(err):
		return want("a refusal of type :"+expected, "%v", err)
	}
	return refusedAs(contract.AsError(err).Type, err.Error(), expected)
}

// errorEvent makes a call that must end with an error event and returns the
// error as it was sent.
func (b *bench) errorEvent(ctx context.Context, in Instance, r *pluginv1.InvokeRequest) (edn.Value, error) {
	event, blobs, err := b.lastEvent(ctx, in.Conn(), r)
	if err != nil {
		return edn.Nil(), want("an error event", "%v", err)
	}
	failure := event.GetError()
	if failure == nil {
		return edn.Nil(), want("an error event", "an event without :error")
	}
	v, err := wire.DecodePayload(failure, blobs)
	if err != nil {
		return edn.Nil(), want("an error that can be read", "%v", err)
	}
	return v, nil
}

// lastEvent makes a call and returns its last event, with the blobs before it.
func (b *bench) lastEvent(ctx context.Context, conn grpc.ClientConnInterface,
	r *pluginv1.InvokeRequest,
) (*pluginv1.InvokeEvent, *wire.Blobs, error) {
	ctx, cancel := context.WithTimeout(ctx, b.call)
	defer cancel()
	stream, err := pluginv1.NewCapabilityClient(conn).Invoke(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	var last *pluginv1.InvokeEvent
	blobs := &wire.Blobs{}
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) && last != nil {
			return last, blobs, nil
		}
		if err == nil && event.GetBlob() != nil {
			err = blobs.Add(event.GetBlob())
		}
		if err != nil {
			return nil, nil, err
		}
		last = event
	}
}

func tooLarge(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	c := d.Capabilities[0]
	r, err := b.invokeRequest(in, c, b.input(d, c))
	if err != nil {
		return &fault{err}
	}
	r.Blobs = append(r.Blobs, &pluginv1.Blob{Hash: "b3:0", Body: make([]byte, wire.MaxMessage)})
	stream, err := pluginv1.NewCapabilityClient(in.Conn()).Invoke(ctx, r, grpc.MaxCallSendMsgSize(2*wire.MaxMessage))
	if err == nil {
		var event *pluginv1.InvokeEvent
		if event, err = stream.Recv(); err == nil && event.GetResult() != nil {
			return want("the message is refused", "a result")
		}
	}
	return b.alive(ctx, in, "a message that is too large")
}
