package answer

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

// media are the types of images that both vendors take that name theirs
// (anthropic-sdk-python, types/base64_image_source_param.py, 2026-08-07; OpenAI,
// vision guide, 2026-11-25).
var media = [...]string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// content reads what a message says: a text, or parts.
func (q *question) content(m *chat.Message, v edn.Value, at []edn.Value) *contract.Error {
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
			continue // providers refuse it, and it says nothing
		}
		m.Parts = append(m.Parts, p)
	}
	return nil
}

func (q *question) part(role chat.Role, v edn.Value, at []edn.Value) (chat.Part, *contract.Error) {
	p := chat.Part{Kind: chat.PartKind(word(v.Key("type")))}
	var isText bool
	p.Text, isText = v.Key("text").AsString()
	switch p.Kind {
	case chat.TextPart:
		if !isText {
			return p, invalid(append(at, edn.K("text")), "should be a text")
		}
		return p, nil
	case chat.ImagePart:
		if role != chat.User && role != chat.ToolRole {
			return p, invalid(at, "an image stands in a :user or :tool message, not in one of :%s", role)
		}
		return q.image(v, at)
	}
	return p, invalid(append(at, edn.K("type")), "should be :text or :image, got %s", v.Key("type"))
}

// image reads an image, which is not decoded: whether it can be read is for the
// model to say.
func (q *question) image(v edn.Value, at []edn.Value) (chat.Part, *contract.Error) {
	p := chat.Part{Kind: chat.ImagePart, Media: word(v.Key("media-type"))}
	var hasData, hasURL bool
	p.Data, hasData = v.Key("data").AsString()
	p.URL, hasURL = v.Key("url").AsString()
	if q.images++; q.images > MaxImages {
		return p, beyond("the request has over %d images, which is the limit", MaxImages)
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
		return p, invalid(append(at, edn.K("media-type")), "should be one of %s, got %s", strings.Join(media[:], ", "), v.Key("media-type"))
	}
	if len(p.Data) > MaxImage {
		return p, beyond("an image has %d bytes in base64, the limit is %d", len(p.Data), MaxImage)
	}
	n, err := io.Copy(io.Discard, base64.NewDecoder(base64.StdEncoding.Strict(), strings.NewReader(p.Data)))
	if err != nil || n == 0 || strings.ContainsAny(p.Data, "\r\n") {
		return p, invalid(append(at, edn.K("data")), "should be the bytes of the image in base64, without line breaks")
	}
	return p, nil
}

// partsHash stands for parts in the hash of a question.
func partsHash(parts []chat.Part) edn.Value {
	var all []edn.Value
	for _, p := range parts {
		all = append(all, edn.Vector(edn.Text(string(p.Kind)), edn.Text(p.Text), edn.Text(p.Media), edn.Text(p.Data), edn.Text(p.URL)))
	}
	return edn.Vector(all...)
}
