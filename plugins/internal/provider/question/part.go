package question

import (
	"encoding/base64"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
)

// media are the image types that both vendors with published lists accept
// (anthropic-sdk-python, types/base64_image_source_param.py, 2026-08-07;
// OpenAI, vision guide, 2026-11-25).
var media = [...]string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// image checks an image without decoding it: whether it is valid is checked by
// the provider.
func (q *Question) image(p conversation.Image, at []edn.Value) *contract.Error {
	if q.images++; q.images > maxImages {
		return Beyond("the request has over %d images, which is the limit", maxImages)
	}
	if p.URL != "" {
		if u, err := url.Parse(p.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return invalid(append(at, edn.K("url")), "should be the http or https URL of an image, got %.80q", p.URL)
		}
		return nil
	}
	if !slices.Contains(media[:], p.MediaType) {
		return invalid(append(at, edn.K("media-type")), "should be one of %s, got %s",
			strings.Join(media[:], ", "), p.MediaType)
	}
	if len(p.Data) > maxImage {
		return Beyond("an image has %d bytes in base64, the limit is %d", len(p.Data), maxImage)
	}
	n, err := io.Copy(io.Discard, base64.NewDecoder(base64.StdEncoding.Strict(), strings.NewReader(p.Data)))
	if err != nil || n == 0 || strings.ContainsAny(p.Data, "\r\n") {
		return invalid(append(at, edn.K("data")), "should be the bytes of the image in base64, without line breaks")
	}
	return nil
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
