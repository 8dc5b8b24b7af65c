package conformance

import (
	"context"
	"errors"
	"io"
	"strings"

	"google.golang.org/grpc"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
	"github.com/fermenthq/ferment/sdk/wire/pluginv1"
)

func malformedChecks() []Check {
	check := func(id, text string, requirements []string, make func(c contract.Capability, good *pluginv1.InvokeRequest)) Check {
		return Check{ID: id, Requirements: requirements, Text: text,
			run: func(ctx context.Context, b *bench) error { return b.refuses(ctx, make) }}
	}
	return []Check{
		check("core/malformed/text", "a request that is no EDN is answered with an error event", []string{"PAYLOAD-001"},
			func(_ contract.Capability, r *pluginv1.InvokeRequest) { r.Request.Body = []byte("{:proto 1 :task") }),
		check("core/malformed/two-forms", "a request of two forms is answered with an error event", []string{"PAYLOAD-001"},
			func(_ contract.Capability, r *pluginv1.InvokeRequest) {
				r.Request.Body = append(r.Request.Body, " {}"...)
			}),
		check("core/malformed/not-a-map", "a request that is no map is answered with an error event", []string{"PAYLOAD-002"},
			func(_ contract.Capability, r *pluginv1.InvokeRequest) { r.Request.Body = []byte("[1 2 3]") }),
		check("core/malformed/deep", "a request nested beyond the limit is answered with an error event", []string{"PAYLOAD-001"},
			func(_ contract.Capability, r *pluginv1.InvokeRequest) {
				r.Request.Body = []byte(strings.Repeat("[", 100_000))
			}),
		check("core/malformed/encoding", "a request in an unknown encoding is answered with an error event", []string{"PAYLOAD-006"},
			func(_ contract.Capability, r *pluginv1.InvokeRequest) { r.Request.Encoding = "xml" }),
		check("core/malformed/absent", "a call without a request is answered with an error event", []string{"PAYLOAD-002"},
			func(_ contract.Capability, r *pluginv1.InvokeRequest) { r.Request = nil }),
		check("core/malformed/blob-missing", "a reference without its blob is answered with an error event", []string{"PAYLOAD-003"},
			func(c contract.Capability, r *pluginv1.InvokeRequest) {
				text := request(c, edn.MustMap(edn.K("prompt"), edn.Text("@@"))).String()
				hash := edn.Hash(edn.Text("never sent"))
				r.Request.Body = []byte(strings.Replace(text, `"@@"`, `#ferment/value "`+hash+`"`, 1))
			}),
		check("core/malformed/blob-wrong", "a blob that does not have its hash is answered with an error event", []string{"PAYLOAD-003"},
			func(c contract.Capability, r *pluginv1.InvokeRequest) {
				text := request(c, edn.MustMap(edn.K("prompt"), edn.Text("@@"))).String()
				hash := edn.Hash(edn.Text("something else"))
				r.Request.Body = []byte(strings.Replace(text, `"@@"`, `#ferment/value "`+hash+`"`, 1))
				r.Blobs = []*pluginv1.Blob{{Hash: hash, Body: []byte("forged")}}
			}),
		{ID: "core/malformed/too-large", Requirements: []string{"PAYLOAD-005"},
			Text: "a message above 16 MiB is refused, and the plugin lives on",
			run:  tooLarge},
	}
}

// refuses sends a call that spoil has changed and expects an error event.
func (b *bench) refuses(ctx context.Context, spoil func(contract.Capability, *pluginv1.InvokeRequest)) error {
	in, d, err := b.ready(ctx)
	if err != nil {
		return err
	}
	c := d.Capabilities[0]
	r, err := invokeRequest(in, c, b.input(d, c))
	if err != nil {
		return &fault{err}
	}
	spoil(c, r)
	event, err := b.lastEvent(ctx, in.Conn(), r)
	if err != nil {
		return want("an error event", "%v", err)
	}
	failure := event.GetError()
	if failure == nil {
		return want("an error event", "%T", event.GetEvent())
	}
	v, err := wire.DecodePayload(failure, nil)
	if err != nil {
		return want("an error that can be read", "%v", err)
	}
	if word := v.Key("type"); !word.IsKeyword() && !word.IsString() {
		return want("an error with a type", "%s", cut(v.String()))
	}
	return b.alive(ctx, in, "a malformed call")
}

// lastEvent makes a call and gives its last event.
func (b *bench) lastEvent(ctx context.Context, conn grpc.ClientConnInterface, r *pluginv1.InvokeRequest) (*pluginv1.InvokeEvent, error) {
	ctx, cancel := context.WithTimeout(ctx, b.call)
	defer cancel()
	stream, err := pluginv1.NewCapabilityClient(conn).Invoke(ctx, r)
	if err != nil {
		return nil, err
	}
	var last *pluginv1.InvokeEvent
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) && last != nil {
			return last, nil
		}
		if err != nil {
			return nil, err
		}
		last = event
	}
}

func tooLarge(ctx context.Context, b *bench) error {
	in, d, err := b.ready(ctx)
	if err != nil {
		return err
	}
	c := d.Capabilities[0]
	r, err := invokeRequest(in, c, b.input(d, c))
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
