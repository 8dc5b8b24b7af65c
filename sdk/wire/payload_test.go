package wire

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
)

func large(letter string) string { return strings.Repeat(letter, BlobThreshold+1) }

// across encodes v and decodes it with its blobs.
func across(t require.TestingT, enc Encoding, v edn.Value) (edn.Value, []*pluginv1.Blob) {
	payload, blobs, err := EncodePayload(enc, v)
	require.NoError(t, err)
	var held Blobs
	for _, b := range blobs {
		require.NoError(t, held.Add(b))
	}
	back, err := DecodePayload(payload, &held)
	require.NoError(t, err)
	return back, blobs
}

// WIRE-003: strings above 64 KiB are sent as blobs, equal ones once; the
// decoded value contains no reference.
func TestPayloadTakesLargeStringsOut(t *testing.T) {
	a, b := large("a"), large("\"\n\u017c")
	v := edn.MustMap(
		edn.K("a"), edn.Text(a),
		edn.K("again"), edn.Vector(edn.Text(a), edn.List(edn.Text(b)), edn.SetOf(edn.Text(b), edn.Int(1))),
		edn.Text(b), edn.MustTagged("my/tag", edn.Text(a)),
		edn.K("exact"), edn.Text(strings.Repeat("x", BlobThreshold)),
	)
	back, blobs := across(t, EDN, v)
	assert.True(t, edn.Equal(v, back))
	require.Len(t, blobs, 2)
	for _, blob := range blobs {
		assert.Equal(t, edn.Hash(edn.Text(string(blob.Body))), blob.Hash, "a blob is named by the hash of the string's canonical text")
	}
	payload, _, err := EncodePayload(EDN, v)
	require.NoError(t, err)
	assert.Less(t, len(payload.Body), BlobThreshold+2000, "only the string at the threshold stays inside")
	assert.Contains(t, string(payload.Body), `#ferment/value "b3:`)
}

// WIRE-003: JSON is the other encoding, with the same blobs.
func TestPayloadJSON(t *testing.T) {
	v := edn.MustMap(edn.K("input"), edn.MustMap(edn.K("prompt"), edn.Text(large("j")), edn.K("n"), edn.Int(7)))
	back, blobs := across(t, JSON, v)
	assert.True(t, edn.Equal(v, back), "%s", back)
	assert.Len(t, blobs, 1)

	// A reference may be spelled with escapes.
	held := &Blobs{}
	require.NoError(t, held.Add(blobs[0]))
	spelled := `{"prompt":{"\u0023tag":"ferment/value","#value":"` + blobs[0].Hash + `"}}`
	got, err := DecodePayload(&pluginv1.Payload{Encoding: "json", Body: []byte(spelled)}, held)
	require.NoError(t, err)
	assert.True(t, got.Key("prompt").IsString())
}

// WIRE-003, VAL-004: encoding and decoding returns the same value, at any
// position of large strings.
func TestPayloadRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := genValue(3).Draw(t, "value")
		back, _ := across(t, EDN, v)
		if !edn.Equal(v, back) {
			t.Fatalf("%s came back as %s", cut(v), cut(back))
		}
	})
}

func cut(v edn.Value) string { s := v.String(); return s[:min(len(s), 300)] }

func genValue(depth int) *rapid.Generator[edn.Value] {
	return rapid.Custom(func(t *rapid.T) edn.Value {
		kinds := 5
		if depth > 0 {
			kinds = 9
		}
		parts := func() []edn.Value {
			return rapid.SliceOfN(genValue(depth-1), 0, 3).Draw(t, "parts")
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return edn.Nil()
		case 1:
			return edn.Int(rapid.Int64().Draw(t, "int"))
		case 2:
			return edn.K(rapid.StringMatching(`[a-z]{1,5}(/[a-z]{1,5})?`).Draw(t, "keyword"))
		case 3:
			return edn.Text(rapid.String().Draw(t, "string"))
		case 4:
			return edn.Text(large(rapid.SampledFrom([]string{"a", "\"", "\u017c", "\x00"}).Draw(t, "letter")))
		case 5:
			return edn.Vector(parts()...)
		case 6:
			return edn.SetOf(parts()...)
		case 7:
			var m edn.MapBuilder
			for _, p := range parts() {
				m.Set(p, p)
			}
			return m.Map()
		}
		return edn.MustTagged("a/b", edn.List(parts()...))
	})
}

// VAL-013, VAL-018, WIRE-003: unreadable and forbidden payloads return a typed
// error.
func TestDecodePayloadRefuses(t *testing.T) {
	good := edn.Text(large("g"))
	hash := edn.Hash(good)
	body, _ := good.AsString()
	for _, tt := range []struct {
		name    string
		payload *pluginv1.Payload
		blobs   []*pluginv1.Blob
		want    string
		says    string
	}{
		{"no payload", nil, nil, "runtime/protocol", "the payload is missing"},
		{"unknown encoding", &pluginv1.Payload{Encoding: "xml"}, nil, "runtime/protocol", `"xml"`},
		{"empty", edntext(""), nil, "runtime/protocol", ""},
		{"truncated", edntext("{:a"), nil, "runtime/protocol", ""},
		{"two forms", edntext("1 2"), nil, "runtime/protocol", ""},
		{"bad JSON", &pluginv1.Payload{Encoding: "json", Body: []byte(`{"a":`)}, nil, "runtime/protocol", ""},
		{"deep", edntext(strings.Repeat("[", 100_000)), nil, "runtime/protocol", ""},
		{"too large", edntext(`"` + strings.Repeat("x", MaxMessage) + `"`), nil, "runtime/protocol", "limit"},
		{"reference without blob", edntext(`{:a #ferment/value "` + hash + `"}`), nil, "runtime/protocol", hash},
		{"reference to a number", edntext(`#ferment/value 7`), nil, "runtime/protocol", ""},
		{"another blob", edntext(`#ferment/value "` + hash + `"`), []*pluginv1.Blob{{Hash: edn.Hash(edn.Int(7)), Body: []byte(body)}}, "runtime/protocol", hash},
		{"forged blob", edntext(`#ferment/value "` + hash + `"`), []*pluginv1.Blob{{Hash: hash, Body: []byte("forged")}}, "runtime/protocol", "has the hash"},
		{"blob of bad text", edntext(`#ferment/value "` + hash + `"`), []*pluginv1.Blob{{Hash: hash, Body: []byte("\xff")}}, "runtime/protocol", "blob"},
		{"secret", edntext(`{:a [#ferment/secret "x"]}`), nil, "runtime/invalid-result", "reserved"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var held Blobs
			for _, b := range tt.blobs {
				require.NoError(t, held.Add(b))
			}
			_, err := DecodePayload(tt.payload, &held)
			require.Error(t, err)
			assert.ErrorIs(t, err, contract.OfType(tt.want))
			assert.Contains(t, err.Error(), tt.says)
		})
	}
}

func edntext(s string) *pluginv1.Payload {
	return &pluginv1.Payload{Encoding: "edn", Body: []byte(s)}
}

// A text that mentions a tag is not a reference.
func TestDecodePayloadKeepsTextThatMentionsTags(t *testing.T) {
	for _, p := range []*pluginv1.Payload{
		edntext(`{:a "#ferment/value \"b3:00\""}`),
		{Encoding: "json", Body: []byte(`{"a": "#tag \u0023"}`)},
	} {
		v, err := DecodePayload(p, nil)
		require.NoError(t, err)
		assert.True(t, v.Key("a").IsString())
	}
}

// WIRE-003, VAL-013: reserved tags and oversized values are rejected before
// they are sent.
func TestEncodePayloadRefuses(t *testing.T) {
	huge := edn.Text(strings.Repeat("x", 6<<20))
	for _, tt := range []struct {
		name string
		v    edn.Value
		enc  Encoding
		want string
	}{
		{"value tag", edn.Vector(edn.MustTagged("ferment/value", edn.Text(edn.Hash(edn.Nil())))), EDN, "runtime/invalid-result"},
		{"secret tag", edn.MustTagged("ferment/secret", edn.Text("x")), EDN, "runtime/invalid-result"},
		{"long string", edn.Text(strings.Repeat("x", MaxString+1)), EDN, "runtime/protocol"},
		{"large in all", edn.Vector(huge, edn.Vector(edn.Text("y"+str(huge)), edn.Text("z"+str(huge)))), EDN, "runtime/protocol"},
		{"unknown encoding", edn.Nil(), "xml", "runtime/protocol"},
		{"JSON collision", edn.MustMap(edn.K("a"), edn.Int(1), edn.Text("a"), edn.Int(2)), JSON, "runtime/protocol"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := EncodePayload(tt.enc, tt.v)
			require.Error(t, err)
			assert.ErrorIs(t, err, contract.OfType(tt.want))
		})
	}
}

// VAL-013, FX-011: a request may name a secret, in either encoding and beside a
// blob; it arrives unchanged. An answer may not.
func TestRequestsNameSecrets(t *testing.T) {
	request := edn.MustMap(edn.K("input"), edn.MustRead(`{:headers {"authorization" ["Bearer " #ferment/secret :hub] "x" #ferment/secret "k"}}`), edn.K("body"), edn.Text(strings.Repeat("x", BlobThreshold+1)))
	for _, enc := range []Encoding{EDN, JSON} {
		p, blobs, err := encodeRequest(enc, request)
		require.NoError(t, err)
		require.Len(t, blobs, 1)
		arrived := Blobs{request: true}
		require.NoError(t, arrived.Add(blobs[0]))
		got, err := DecodePayload(p, &arrived)
		require.NoError(t, err)
		if enc == EDN {
			assert.Equal(t, request.String(), got.String())
		} else {
			assert.Contains(t, got.Key("input").String(), "#ferment/secret")
		}
		var answer Blobs
		require.NoError(t, answer.Add(blobs[0]))
		_, err = DecodePayload(p, &answer)
		assert.ErrorIs(t, err, contract.OfType("runtime/invalid-result"))
	}
}

func str(v edn.Value) string { s, _ := v.AsString(); return s }

// A call may stream more large strings than fit in a message if each is used;
// unused blobs end the call.
func TestBlobsAreBounded(t *testing.T) {
	var held Blobs
	for i := range 10 {
		v := edn.Text(strings.Repeat(string(rune('a'+i)), 4<<20))
		payload, blobs, err := EncodePayload(EDN, v)
		require.NoError(t, err)
		require.NoError(t, held.Add(blobs[0]))
		back, err := DecodePayload(payload, &held)
		require.NoError(t, err)
		require.True(t, edn.Equal(v, back))
	}
	assert.LessOrEqual(t, held.bytes, MaxMessage)

	var unused Blobs
	var err error
	for i := range 5 {
		if err = unused.Add(&pluginv1.Blob{Hash: string(rune('a' + i)), Body: make([]byte, 4<<20)}); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, contract.OfType("runtime/protocol"))
	require.ErrorIs(t, unused.Add(&pluginv1.Blob{Hash: "x", Body: make([]byte, MaxString+1)}), contract.OfType("runtime/protocol"))
}

// WIRE-003: any bytes decode to a value or a typed error.
func FuzzDecodePayload(f *testing.F) {
	hash := edn.Hash(edn.Text("blob"))
	for _, seed := range []string{"{:a 1}", `{:a #ferment/value "` + hash + `"}`, `#ferment/value [`, `{"#tag": "ferment/value", "#value": "` + hash + `"}`, "", "\xff", "#ferment/secret :x"} {
		for _, json := range []bool{false, true} {
			f.Add([]byte(seed), json, []byte("blob"))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, json bool, blob []byte) {
		enc := EDN
		if json {
			enc = JSON
		}
		var held Blobs
		require.NoError(t, held.Add(&pluginv1.Blob{Hash: hash, Body: slices.Clone(blob)}))
		v, err := DecodePayload(&pluginv1.Payload{Encoding: string(enc), Body: body}, &held)
		if err != nil {
			require.True(t, contract.AsError(err).Type == "runtime/protocol" || contract.AsError(err).Type == "runtime/invalid-result", "%v", err)
			return
		}
		back, _ := across(t, EDN, v)
		require.True(t, edn.Equal(v, back))
	})
}
