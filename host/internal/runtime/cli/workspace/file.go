package workspace

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// export writes the bytes of an export to a file or to standard output. The output of the intent is
// written to standard output or, if the bytes are there, to standard error.
func export(in *invocation) error {
	if in.out == "" && display.Terminal(in.Stdout) {
		return in.usagef("an export is not text: expected --out FILE, or a file or pipe as standard output")
	}
	c, err := in.open()
	if err != nil {
		return err
	}
	defer c.close()
	var content bytes.Buffer
	c.delta = func(v edn.Value) error {
		if plain(v.Key("kind")) != "chunk" {
			return nil
		}
		return decode(&content, v)
	}
	out, err := c.call(in.input)
	if err != nil {
		return in.failed(err)
	}
	if err := decode(&content, out); err != nil {
		return err
	}
	sum := blake3.Sum256(content.Bytes())
	if got := "b3:" + hex.EncodeToString(sum[:]); got != plain(out.Key("blob")) {
		return in.failed(contract.Errorf("store/corrupt", "the export arrived with hash %s, expected %s", got, plain(out.Key("blob"))).
			WithHint("run the command again"))
	}
	c.progress.end()
	if err := in.write(content.Bytes()); err != nil {
		return err
	}
	text, err := in.rendered(out.Dissoc(edn.K("content/b64")))
	if err != nil || in.quiet {
		return err
	}
	if in.out != "" {
		_, err = fmt.Fprint(in.Stdout, text)
		return err
	}
	in.note("%s", strings.TrimRight(text, "\n"))
	return nil
}

// decode appends the bytes in :content/b64.
func decode(into *bytes.Buffer, v edn.Value) error {
	text, ok := v.Key("content/b64").AsString()
	if !ok {
		return nil
	}
	for _, form := range []*base64.Encoding{base64.RawURLEncoding, base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
		if b, err := form.DecodeString(text); err == nil {
			into.Write(b)
			return nil
		}
	}
	return errors.New("the capability :workspace/export returned data that is not base64")
}

// graph writes the page of the graph.
func graph(in *invocation) error {
	c, err := in.open()
	if err != nil {
		return err
	}
	defer c.close()
	out, err := c.call(in.input)
	if err != nil {
		return in.failed(err)
	}
	c.progress.end()
	if in.Format() != "text" {
		return in.print(out)
	}
	html, ok := out.Key("html").AsString()
	if !ok {
		return errors.New("the capability :workspace/graph returned no text under :html")
	}
	to := in.out
	if to == "" && !display.Terminal(in.Stdout) {
		return in.write([]byte(html))
	}
	if to == "" {
		to = "graph.html"
	}
	if err := in.WriteFile(to, []byte(html)); err != nil {
		return err
	}
	if !in.quiet {
		in.note("wrote %s (%s)", name(filepath.Clean(to)), size(len(html)))
	}
	return nil
}

func graphText(p *page, out edn.Value) {
	html, _ := out.Key("html").AsString()
	p.WriteString(html)
}

// getNode prints a node, or with --combine the texts of its frames.
func getNode(in *invocation) error {
	if !in.set("combine") || in.Format() != "text" {
		return in.once()
	}
	c, err := in.open()
	if err != nil {
		return err
	}
	defer c.close()
	out, err := c.call(in.input)
	if err != nil {
		return in.failed(err)
	}
	separator := "\n"
	if in.set("separator") {
		separator = in.first("separator")
	}
	var parts []string
	for f := range out.Key("frames").Elems() {
		if text, ok := f.Key("content").AsString(); ok {
			parts = append(parts, strings.TrimRight(text, "\n")+"\n")
		}
	}
	return in.write([]byte(strings.Join(parts, separator)))
}

// generate prints the result; with --stream it prints the text while it arrives.
func generate(in *invocation) error {
	if !in.set("stream") {
		return in.once()
	}
	c, err := in.open()
	if err != nil {
		return err
	}
	defer c.close()
	ended := true
	c.delta = func(v edn.Value) error {
		if in.Format() != "text" {
			return in.print(v)
		}
		text, ok := v.Key("text").AsString()
		if !ok || text == "" || in.out != "" {
			return nil
		}
		ended = strings.HasSuffix(text, "\n")
		_, err := fmt.Fprint(in.Stdout, display.Shown(in.Stdout, text))
		return err
	}
	return in.conclude(c, func() (edn.Value, error) {
		out, err := c.call(in.input)
		if !ended {
			_, _ = fmt.Fprintln(in.Stdout)
		}
		return out, err
	})
}
