package dialect

import (
	"testing"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
)

const chunk = `{"id":"c","object":"chat.completion.chunk","created":1790000000,"model":"bench","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}`

func BenchmarkFrame(b *testing.B) {
	p, _ := PresetNamed("generic")
	d, a := NewDecoder(p), chat.NewAnswer()
	data := []byte(chunk)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Frame(data, a); err != nil {
			b.Fatal(err)
		}
	}
}
