package question

import (
	"encoding/base64"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// media are the image types that both vendors with published lists accept
// (anthropic-sdk-python, types/base64_image_source_param.py, 2026-08-07;
// OpenAI, vision guide, 2026-11-25).
var media = [...]string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// content parses the content of a message: a text, or parts.
func (q *Question) content(m *chat.Message, v edn.Value, at []edn.Value) *contract.Error {
	switch {
	case v.IsNil() || v.IsString():
		m.Content, _ = v.AsString()
		return nil
	case !v.IsVector() && !v.IsList():
		return invalid(at, "should be a text or parts")
	}
	m.Parts = []chat.Part{}
	i := int64(0)
	for part := range v.Elems() {
		p, err := q.part(m.Role, part, append(at, edn.Int(i)))
		if err != nil {
			return err
		}
		i++
		if p.Kind == chat.TextPart && p.Text == "" {
			continue // empty; providers reject it
		}
		m.Parts = append(m.Parts, p)
	}
	return nil
}

func (q *Question) part(role chat.Role, v edn.Value, at []edn.Value) (chat.Part, *contract.Error) {
	p := chat.Part{Kind: chat.PartKind(Word(v.Key("type")))}
	cache, err := marked(v, at)
	if err != nil {
		return p, err
	}
	var isText bool
	p.Text, isText = v.Key("text").AsString()
	switch p.Kind {
	case chat.TextPart:
		if !isText {
			return p, invalid(append(at, edn.K("text")), "should be a text")
		}
		p.Cache = cache
		if p.Field, isText = v.Key("field").AsString(); !isText && v.HasKey("field") {
			return p, invalid(append(at, edn.K("field")), "should be a text")
		}
		return p, nil
	case chat.ImagePart:
		if role != chat.User && role != chat.ToolRole {
			return p, invalid(at, "an image belongs in a :user or :tool message, not in one of :%s", role)
		}
		p, err = q.image(v, at)
		p.Cache = cache
		return p, err
	case chat.ThinkingPart, chat.RedactedPart, chat.CallPart:
		if role != chat.Assistant {
			return p, invalid(at, "a :%s part belongs in an :assistant message, not in one of :%s", p.Kind, role)
		}
		return givenBack(p, v, at)
	}
	return p, invalid(append(at, edn.K("type")),
		"should be :text, :image, :thinking, :redacted-thinking or :tool-call, got %s", v.Key("type"))
}

// marked parses the cache mark of a message or a part.
func marked(v edn.Value, at []edn.Value) (bool, *contract.Error) {
	mark := v.Key("cache?")
	is, ok := mark.AsBool()
	if !ok && !mark.IsNil() {
		return false, invalid(append(at, edn.K("cache?")), "should be true or false")
	}
	return is, nil
}

// givenBack parses a part from the :parts of an earlier answer.
func givenBack(p chat.Part, v edn.Value, at []edn.Value) (chat.Part, *contract.Error) {
	for key, to := range map[string]*string{
		"data": &p.Data, "signature": &p.Signature, "field": &p.Field, "model": &p.Model, "id": &p.Call,
	} {
		var ok bool
		if *to, ok = v.Key(key).AsString(); !ok && v.HasKey(key) {
			return p, invalid(append(at, edn.K(key)), "should be a text")
		}
	}
	needs := map[chat.PartKind]string{
		chat.ThinkingPart: p.Text + p.Signature, chat.RedactedPart: p.Data, chat.CallPart: p.Call,
	}
	if needs[p.Kind] == "" {
		return p, invalid(at, "a :%s part should be as it was in the :parts of the answer", p.Kind)
	}
	return p, nil
}

// image parses an image without decoding it: whether it is valid is checked by
// the provider.
func (q *Question) image(v edn.Value, at []edn.Value) (chat.Part, *contract.Error) {
	p := chat.Part{Kind: chat.ImagePart, Media: Word(v.Key("media-type"))}
	var hasData, hasURL bool
	p.Data, hasData = v.Key("data").AsString()
	p.URL, hasURL = v.Key("url").AsString()
	if q.images++; q.images > maxImages {
		return p, Beyond("the request has over %d images, which is the limit", maxImages)
	}
	if hasData == hasURL {
		return p, invalid(at, "an image should have :data or a :url, one of them")
	}
	if hasURL {
		if u, err := url.Parse(p.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return p, invalid(append(at, edn.K("url")), "should be the http or https address of an image")
		}
		return p, nil
	}
	if !slices.Contains(media[:], p.Media) {
		return p, invalid(append(at, edn.K("media-type")), "should be one of %s, got %s",
			strings.Join(media[:], ", "), v.Key("media-type"))
	}
	if len(p.Data) > maxImage {
		return p, Beyond("an image has %d bytes in base64, the limit is %d", len(p.Data), maxImage)
	}
	n, err := io.Copy(io.Discard, base64.NewDecoder(base64.StdEncoding.Strict(), strings.NewReader(p.Data)))
	if err != nil || n == 0 || strings.ContainsAny(p.Data, "\r\n") {
		return p, invalid(append(at, edn.K("data")), "should be the bytes of the image in base64, without line breaks")
	}
	return p, nil
}

// partsHash represents parts in the hash of a question.
func partsHash(parts []chat.Part) edn.Value {
	var all []edn.Value
	for _, p := range parts {
		var fields []edn.Value
		for _, s := range []string{string(p.Kind), p.Text, p.Media, p.Data, p.URL, p.Signature, p.Field, p.Call} {
			fields = append(fields, edn.Text(s))
		}
		all = append(all, edn.Vector(fields...))
	}
	return edn.Vector(all...)
}
